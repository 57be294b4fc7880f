"""All objects of an installation, in the order in which they are made: what others need comes first."""

from __future__ import annotations

from koord.operate.install.access import access
from koord.operate.install.cluster_objects import configuration, definitions, namespaces, priority_classes, webhooks
from koord.operate.install.extras import EXTRAS
from koord.operate.install.manifest import Json
from koord.operate.install.node_agent import daemon_set
from koord.operate.install.settings import AGENT, COMPONENTS, MANAGER, Settings
from koord.operate.install.workloads import budget, config, deployment, service


def desired(settings: Settings) -> list[Json]:
    """What should be there."""
    settings.checked(frozenset(EXTRAS))
    chosen = [each for each in COMPONENTS if settings.has(each)]
    found = [*namespaces(settings), *definitions(), *priority_classes(), configuration(settings)]
    for component in chosen:
        found += access(component, settings)
    if settings.has(MANAGER):
        found += [*webhooks(settings), service(settings)]
    found += [config(each, settings) for each in chosen if each.name in settings.configurations]
    for component in chosen:
        if component is AGENT:
            found.append(daemon_set(settings))
        else:
            found += [budget(component, settings), deployment(component, settings)]
    for name in settings.extras:
        found += EXTRAS[name].objects(settings)
    return found
