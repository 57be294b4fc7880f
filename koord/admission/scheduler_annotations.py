"""Annotations that say what a pod was given: its CPUs, its devices, its reservation. Only schedulers write them.

Schedulers, agents and the device plugins of vendors count by these annotations, so that a hand-written one would take
CPUs or devices from others, or give away those that a pod has. Those for vendors are held on pods that request devices
in koord's words, or in Huawei's, which koord's scheduler gives; other schedulers write the same keys on their pods.

On a new pod they are dropped: what a copied pod had elsewhere it does not have here. On an existing pod, only a
scheduler changes them. Administrators (`system:masters`) may do anything, except the controllers of a cluster that have
this group: they make pods from templates, which tenants write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from koord.admission.plain import annotations_of, part, with_part
from koord.admission.request import Json, Request
from koord.api.kubernetes.access import CONTROLLERS, MASTERS
from koord.api.machinery.faults import Fault
from koord.api.protocol import names
from koord.api.protocol.names import AnnotationKey
from koord.api.protocol.old_names import with_current_names

GIVEN: Final = (
    names.ANNOTATION_RESOURCE_STATUS,
    names.ANNOTATION_DEVICE_ALLOCATED,
    names.ANNOTATION_RESERVATION_ALLOCATED,
)
FOR_VENDORS: Final = (
    names.ANNOTATION_GPU_MINORS,
    names.ANNOTATION_BIND_TIMESTAMP,
    names.ANNOTATION_PREDICATE_TIME,
    names.ANNOTATION_HUAWEI_NPU_CORE,
    names.ANNOTATION_HUAWEI_ASCEND_310P,
    names.ANNOTATION_CAMBRICON_DSMLU_ASSIGNED,
    names.ANNOTATION_CAMBRICON_DSMLU_PROFILE,
    names.ANNOTATION_METAX_GPU_DEVICES_ALLOCATED,
)
"""Which cards a pod got, for the device plugins on nodes."""
_DEVICES: Final = frozenset(
    {
        names.RESOURCE_GPU,
        names.RESOURCE_GPU_SHARED,
        names.RESOURCE_GPU_CORE,
        names.RESOURCE_GPU_MEMORY,
        names.RESOURCE_GPU_MEMORY_RATIO,
        names.RESOURCE_HUAWEI_NPU_CORE,
        names.RESOURCE_HUAWEI_NPU_CPU,
        names.RESOURCE_HUAWEI_NPU_DVPP,
    }
)
_SERVICE_ACCOUNT: Final = "koord-scheduler"
"""Of koord's scheduler and of Koordinator's."""
_NAMESPACES: Final = (names.NAMESPACE_KOORDINATOR, names.NAMESPACE_BESIDE_KOORDINATOR)


@dataclass(frozen=True, slots=True)
class Schedulers:
    """`identities`: users and groups that may write these annotations, beside those of koord and Koordinator."""

    identities: frozenset[str] = frozenset()
    namespace: str = names.NAMESPACE_KOORDINATOR
    "Where this installation of koord runs."

    @property
    def everyone(self) -> frozenset[str]:
        accounts = {
            f"system:serviceaccount:{namespace}:{_SERVICE_ACCOUNT}" for namespace in (*_NAMESPACES, self.namespace)
        }
        return self.identities | accounts | {"system:kube-scheduler", MASTERS}

    def sent(self, request: Request) -> bool:
        """Whether a request is a scheduler's. Manifests in files have no user."""
        makes_pods_for_tenants = request.user == CONTROLLERS
        groups = () if makes_pods_for_tenants else request.groups
        return not request.user or not self.everyone.isdisjoint((request.user, *groups))


def dropped(pod: Json, request: Request, schedulers: Schedulers, warnings: list[str]) -> Json:
    """A new pod without what only schedulers write."""
    annotations = annotations_of(pod)
    hand_written = [key for key in held(pod) if key in annotations]
    if not hand_written or schedulers.sent(request):
        return pod
    warnings += [f"metadata.annotations[{key}]: dropped: only a scheduler writes it" for key in hand_written]
    return with_part(pod, {k: v for k, v in annotations.items() if k not in hand_written}, "metadata", "annotations")


def held(pod: Json) -> Sequence[AnnotationKey]:
    """What only schedulers write on this pod. Once it is on a node, the device plugin there changes its own part."""
    spec = part(pod, "spec")
    if spec.get("nodeName") or not any(map(_asks_for_devices, spec.get("containers") or ())):
        return GIVEN
    return (*GIVEN, *FOR_VENDORS)


def _asks_for_devices(container: Json) -> bool:
    amounts = (part(container, "resources", field) for field in ("requests", "limits"))
    return any(not _DEVICES.isdisjoint(with_current_names(listed)) for listed in amounts)


def faults(request: Request, schedulers: Schedulers) -> Iterator[Fault]:
    """Changes of a pod by a user that is not a scheduler."""
    old_pod = request.old if request.operation == "UPDATE" else None
    new, old = annotations_of(request.object or {}), annotations_of(old_pod or {})
    changed = [key for key in held(old_pod or request.object or {}) if new.get(key) != old.get(key)]
    if changed and not schedulers.sent(request):
        for key in changed:
            must = f"must stay {'unchanged' if key in old else 'absent'}"
            why = f"only a scheduler writes it, and {request.user} is not one"
            way_out = "the manager's option --scheduler-identities names further ones"
            yield Fault(f"metadata.annotations[{key}]", f"{must}: {why}; {way_out}")
