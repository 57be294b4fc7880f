"""Objects that an installation has once, whichever components run: namespaces, kinds, priorities, configuration, and
empty objects that the manager fills.

Webhook configurations and the Secret of their certificates are made empty. The manager fills them when it serves; so
no pod waits for a webhook without a server, and the manager needs no right to create these objects.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from koord.api.configuration.lending_policies import ADAPTIVE
from koord.api.configuration.slo_config import SloConfig
from koord.api.configuration.slo_config_types import ColocationConfig
from koord.api.protocol import names
from koord.api.protocol.crd.definitions import DEFINITIONS, manifest
from koord.api.protocol.priority import BANDS, PriorityClass
from koord.operate.install.manifest import KOORD, PART_OF, Json, made
from koord.operate.install.settings import AGENT, MANAGER, Settings

POD_SECURITY: Final = "pod-security.kubernetes.io"

_DESCRIPTIONS: Final = {
    PriorityClass.PROD: "Services for which resources are guaranteed.",
    PriorityClass.MID: "Work that runs on what prod pods are predicted to leave for long.",
    PriorityClass.BATCH: "Work that runs on what prod pods leave at the time.",
    PriorityClass.FREE: "Work that runs only where nothing else needs the resources.",
}


def namespaces(settings: Settings) -> list[Json]:
    """The agent sees the host, which only the privileged profile allows; without it, the restricted one holds."""
    level = "privileged" if settings.has(AGENT) else "restricted"
    manifests = []
    for name in dict.fromkeys((names.NAMESPACE_KOORDINATOR, settings.namespace)):
        labels = {f"{POD_SECURITY}/enforce": level if name == settings.namespace else "restricted"}
        manifests.append(made("v1", "Namespace", name, labels=labels))
    return manifests


@cache
def definitions() -> tuple[Json, ...]:
    """The same objects each time: callers must not change them."""
    manifests = []
    for definition in DEFINITIONS:
        made_of: dict[str, Any] = manifest(definition)
        meta = made_of["metadata"]
        manifests.append({**made_of, "metadata": {**meta, "labels": {**meta.get("labels", {}), PART_OF: KOORD}}})
    return tuple(manifests)


def priority_classes() -> list[Json]:
    """One for each band, with the lowest number in it."""
    return [
        made(
            "scheduling.k8s.io/v1",
            "PriorityClass",
            band.value,
            value=numbers.start,
            globalDefault=False,
            description=_DESCRIPTIONS[band],
        )
        for band, numbers in BANDS.items()
    ]


def configuration(settings: Settings) -> Json:
    """The configuration with the protocol's defaults, where all features are off, except co-location if requested. What
    is lent is lent by koord's own policy: a cluster that has a configuration already keeps that."""
    lending = ColocationConfig(
        enable=settings.colocation, cpu_calculate_policy=ADAPTIVE, memory_calculate_policy=ADAPTIVE
    )
    data = SloConfig(colocation=lending).manifest_data()
    return made("v1", "ConfigMap", names.CONFIGMAP_SLO_CONTROLLER, names.NAMESPACE_KOORDINATOR, data=data)


def webhooks(settings: Settings) -> list[Json]:
    group = "admissionregistration.k8s.io/v1"
    name = MANAGER.name
    return [
        made("v1", "Secret", names.SECRET_WEBHOOK_CERTIFICATES, settings.namespace, component=name, type="Opaque"),
        made(group, "MutatingWebhookConfiguration", names.WEBHOOK_MUTATING_CONFIGURATION, component=name),
        made(group, "ValidatingWebhookConfiguration", names.WEBHOOK_VALIDATING_CONFIGURATION, component=name),
    ]
