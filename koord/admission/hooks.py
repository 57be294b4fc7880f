"""How an API server is told about admission: the webhooks, by path, and what happens when nobody answers.

Failure policies are the protocol's, but for configuration. Pods and reservations are refused while no manager answers:
a batch pod that slipped through would run on resources meant for services. Nodes and bindings go on: machines must be
able to report and pods to start. Configuration goes on too: `koord colocation off` must work without a manager, and a
manager that finds an invalid section keeps the last valid one. The namespaces of the cluster itself and of koord are
never asked about pods, so that nothing there waits for koord, least of all koord.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from koord.admission.request import Gates, Operation
from koord.api.configuration.features import ManagerGate
from koord.api.protocol import names

_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
NEVER_ASKED: Final = (names.NAMESPACE_KUBE_SYSTEM, names.NAMESPACE_KOORDINATOR)
REVIEW_VERSIONS: Final = ("v1", "v1beta1")


@dataclass(frozen=True, slots=True)
class Hook:
    """One entry of a webhook configuration."""

    name: str
    path: str
    mutating: bool
    gate: ManagerGate
    operations: tuple[Operation, ...]
    resource: str
    "With its subresource, as in `pods/binding`."
    object_type: str
    "What metrics call it."
    fails_closed: bool
    timeout_s: int
    group: str = ""
    version: str = "v1"
    asked_with: ManagerGate | None = None
    "A further gate: without it the answer is always yes, and API servers need not ask."
    namespace_selector: tuple[dict[str, Any], ...] = ()
    object_selector: tuple[dict[str, Any], ...] = ()


def _only(*namespaces: str) -> tuple[dict[str, Any], ...]:
    return ({"key": _NAMESPACE_NAME, "operator": "In", "values": sorted({*namespaces})},)


def _elsewhere(own: str) -> tuple[dict[str, Any], ...]:
    """Namespaces other than the cluster's own and koord's."""
    return (
        {"key": str(names.LABEL_CONTROL_PLANE_NAMESPACE), "operator": "DoesNotExist"},
        {"key": _NAMESPACE_NAME, "operator": "NotIn", "values": sorted({*NEVER_ASKED, own})},
    )


def is_asked_about(namespace: str, labels: Mapping[str, str]) -> bool:
    """Whether pods of a namespace with these labels come to admission at all."""
    return namespace not in NEVER_ASKED and names.LABEL_CONTROL_PLANE_NAMESPACE not in labels


def hooks(gates: Gates, namespace: str = names.NAMESPACE_KOORDINATOR) -> Iterator[Hook]:
    """The webhooks that are on. `namespace` is the one that koord runs in."""
    if gates[ManagerGate.WEBHOOK_FRAMEWORK]:
        yield from (hook for hook in _all(namespace) if gates[hook.gate])


def registered(gates: Gates, namespace: str = names.NAMESPACE_KOORDINATOR) -> Iterator[Hook]:
    """Those of them that API servers are told about."""
    return (hook for hook in hooks(gates, namespace) if hook.asked_with is None or gates[hook.asked_with])


def _all(namespace: str) -> Iterator[Hook]:
    pods = _elsewhere(namespace)
    yield Hook(
        name="mpod-create.koordinator.sh",
        path=names.WEBHOOK_MUTATE_POD,
        mutating=True,
        gate=ManagerGate.POD_MUTATING_WEBHOOK,
        operations=("CREATE",),
        resource="pods",
        object_type="pod",
        fails_closed=True,
        timeout_s=5,
        namespace_selector=pods,
    )
    yield Hook(
        name="mpod-update.koordinator.sh",
        path=names.WEBHOOK_MUTATE_POD,
        mutating=True,
        gate=ManagerGate.POD_MUTATING_WEBHOOK,
        operations=("UPDATE",),
        resource="pods",
        object_type="pod",
        fails_closed=True,
        timeout_s=5,
        namespace_selector=pods,
        object_selector=({"key": str(names.LABEL_MUTATING_UPDATE), "operator": "In", "values": ["true"]},),
    )
    yield Hook(
        name="mnode-status.koordinator.sh",
        path=names.WEBHOOK_MUTATE_NODE_STATUS,
        mutating=True,
        gate=ManagerGate.NODE_MUTATING_WEBHOOK,
        operations=("CREATE", "UPDATE"),
        resource="nodes/status",
        object_type="node",
        fails_closed=False,
        timeout_s=2,
    )
    yield Hook(
        name="mreservation-create.koordinator.sh",
        path=names.WEBHOOK_MUTATE_RESERVATION,
        mutating=True,
        gate=ManagerGate.RESERVATION_MUTATING_WEBHOOK,
        operations=("CREATE",),
        resource="reservations",
        object_type="reservation",
        fails_closed=True,
        timeout_s=5,
        group="scheduling.koordinator.sh",
        version="v1alpha1",
    )
    yield Hook(
        name="melasticquota.koordinator.sh",
        path=names.WEBHOOK_MUTATE_ELASTIC_QUOTA,
        mutating=True,
        gate=ManagerGate.ELASTIC_MUTATING_WEBHOOK,
        operations=("CREATE",),
        resource="elasticquotas",
        object_type="elasticquota",
        fails_closed=True,
        timeout_s=5,
        group="scheduling.sigs.k8s.io",
        version="v1alpha1",
    )
    yield Hook(
        name="velasticquota.koordinator.sh",
        path=names.WEBHOOK_VALIDATE_ELASTIC_QUOTA,
        mutating=False,
        gate=ManagerGate.ELASTIC_VALIDATING_WEBHOOK,
        operations=("CREATE", "UPDATE", "DELETE"),
        resource="elasticquotas",
        object_type="elasticquota",
        fails_closed=True,
        timeout_s=5,
        group="scheduling.sigs.k8s.io",
        version="v1alpha1",
    )
    yield Hook(
        name="vconfigmap.koordinator.sh",
        path=names.WEBHOOK_VALIDATE_CONFIGMAP,
        mutating=False,
        gate=ManagerGate.CONFIG_MAP_VALIDATING_WEBHOOK,
        operations=("CREATE", "UPDATE", "DELETE"),
        resource="configmaps",
        object_type="configmap",
        fails_closed=False,
        timeout_s=2,
        namespace_selector=_only(namespace, names.NAMESPACE_KOORDINATOR),
    )
    yield Hook(
        name="vnode.koordinator.sh",
        path=names.WEBHOOK_VALIDATE_NODE,
        mutating=False,
        gate=ManagerGate.NODE_VALIDATING_WEBHOOK,
        operations=("CREATE", "UPDATE"),
        resource="nodes",
        object_type="node",
        fails_closed=False,
        timeout_s=2,
    )
    yield Hook(
        name="vpod.koordinator.sh",
        path=names.WEBHOOK_VALIDATE_POD,
        mutating=False,
        gate=ManagerGate.POD_VALIDATING_WEBHOOK,
        operations=("CREATE", "UPDATE"),
        resource="pods",
        object_type="pod",
        fails_closed=True,
        timeout_s=5,
        namespace_selector=pods,
    )
    yield Hook(
        name="vpodbinding.koordinator.sh",
        path=names.WEBHOOK_VALIDATE_POD_BINDING,
        mutating=False,
        gate=ManagerGate.POD_VALIDATING_WEBHOOK,
        operations=("CREATE",),
        resource="pods/binding",
        object_type="pod",
        fails_closed=False,
        timeout_s=2,
        asked_with=ManagerGate.BINDING_ADMISSION_WEBHOOK,
        namespace_selector=pods,
    )
