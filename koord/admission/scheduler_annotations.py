"""Annotations that say what a pod was given: its CPUs, its devices, its reservation. Only schedulers write them.

Schedulers and agents count by these annotations, so that a hand-written one would take CPUs or devices from others, or
give away those that a pod has. On a new pod they are dropped: what a copied pod had elsewhere it does not have here. On
an existing pod, only a scheduler changes them. Administrators (`system:masters`) may do anything, except the
controllers of a cluster that have this group: they make pods from templates, which tenants write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from koord.admission.plain import annotations_of, with_part
from koord.admission.request import Json, Request
from koord.api.kubernetes.access import CONTROLLERS, MASTERS
from koord.api.machinery.faults import Fault
from koord.api.protocol import names

GIVEN: Final = (
    names.ANNOTATION_RESOURCE_STATUS,
    names.ANNOTATION_DEVICE_ALLOCATED,
    names.ANNOTATION_RESERVATION_ALLOCATED,
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
    hand_written = [key for key in GIVEN if key in annotations]
    if not hand_written or schedulers.sent(request):
        return pod
    warnings += [f"metadata.annotations[{key}]: dropped: only a scheduler writes it" for key in hand_written]
    return with_part(pod, {k: v for k, v in annotations.items() if k not in GIVEN}, "metadata", "annotations")


def faults(new: Mapping[str, str], old: Mapping[str, str], request: Request, schedulers: Schedulers) -> Iterator[Fault]:
    """Changes by a user that is not a scheduler. `new`, `old`: annotations."""
    changed = [key for key in GIVEN if new.get(key) != old.get(key)]
    if changed and not schedulers.sent(request):
        for key in changed:
            must = f"must stay {'unchanged' if key in old else 'absent'}"
            why = f"only a scheduler writes it, and {request.user} is not one"
            way_out = "the manager's option --scheduler-identities names further ones"
            yield Fault(f"metadata.annotations[{key}]", f"{must}: {why}; {way_out}")
