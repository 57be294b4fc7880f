"""All objects of an installation, in the order of creation: objects that others need come first."""

from __future__ import annotations

from koord.operate.install.access import access
from koord.operate.install.cluster_objects import configuration, definitions, namespaces, priority_classes, webhooks
from koord.operate.install.extras import EXTRAS
from koord.operate.install.manifest import Json
from koord.operate.install.node_agent import daemon_set
from koord.operate.install.settings import AGENT, COMPONENTS, MANAGER, Settings
from koord.operate.install.workloads import budget, config, deployment, service


def desired(settings: Settings) -> list[Json]:
    """The objects of an installation with these settings."""
    settings.checked(frozenset(EXTRAS))
    chosen = [component for component in COMPONENTS if settings.has(component)]
    manifests = [*namespaces(settings), *definitions(), *priority_classes(), configuration(settings)]
    for component in chosen:
        manifests += access(component, settings)
    if settings.has(MANAGER):
        manifests += [*webhooks(settings), service(settings)]
    manifests += [config(component, settings) for component in chosen if component.name in settings.configurations]
    for component in chosen:
        if component is AGENT:
            manifests.append(daemon_set(settings))
        else:
            manifests += [budget(component, settings), deployment(component, settings)]
    for name in settings.extras:
        manifests += EXTRAS[name].objects(settings)
    return manifests
