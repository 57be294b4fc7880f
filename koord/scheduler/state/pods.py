"""Pods as the scheduler keeps them: who, what they ask for, what others may ask about them.

A `PodRecord` is made once from a decoded Pod. Everything that many pods have in common (requests, terms) is
interned, so that half a million bound pods cost little more than their names.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from koord.api.kubernetes.meta import OwnerReference
from koord.api.kubernetes.pod import Pod, PodSpec, Volume
from koord.api.kubernetes.resources import NON_ZERO_REQUESTS, pod_requests
from koord.api.kubernetes.words import PodConditionType
from koord.api.kubernetes.workloads import POD_NAME_LABEL
from koord.api.machinery.struct import EMPTY
from koord.api.text.stored import stored_amount
from koord.api.text.timestamp import parse_timestamp
from koord.scheduler.state.terms import HeldTerm

Amounts = tuple[tuple[str, int], ...]
"""Resource amounts, sorted by name."""
NotesOf: TypeAlias = tuple[tuple[str, object], ...]
"""What plugins note of a pod, by the name of who made it, sorted. Notes are values: equal ones mean the same."""


class Shape(msgspec.Struct, frozen=True, eq=False, gc=False):
    """What a pod takes from a node. Pods of one template share one, so that it is computed once for all of them."""

    requests: Amounts
    non_zero: tuple[int, int]
    "Requested cpu (milli) and memory (bytes), with the usual amounts where a container names none."
    gains: tuple[tuple[Hashable, int], ...] = ()
    "What the columns of a node gain from a pod of this shape."
    of_spec: bool = False
    "Whether pods that share it have equal specs: then it stands for all of the spec."


class Template(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Stands for everything that pods made alike have in common: their specs but for the node, and what is granted."""

    shape: Shape


class PodRecord(msgspec.Struct, frozen=True, gc=False):
    """What the state keeps of a pod that is on a node."""

    key: str
    uid: str
    namespace: str
    labels: Mapping[str, str]
    shape: Shape
    priority: int = 0
    terminating: bool = False
    owner: OwnerReference | None = None
    held: tuple[HeldTerm, ...] = ()
    "Its terms that attract or repel other pods."
    placed_s: float | None = None
    "When it got its node. Where the pod does not say, the time at which it is placed."
    initialized_s: float | None = None
    start_s: float | None = None
    "When its node began with it: of equally important pods, the older one is worth more."
    preempted: bool = False
    "Whether it is going because a more important one needs its room."
    notes: NotesOf = ()
    "What plugins must know of it (`koord.scheduler.state.notes`)."

    @property
    def requests(self) -> Amounts:
        return self.shape.requests

    @property
    def non_zero(self) -> tuple[int, int]:
        return self.shape.non_zero

    def note(self, name: str) -> object | None:
        """What a plugin noted of it."""
        for whose, note in self.notes:
            if whose == name:
                return note
        return None


PREEMPTED: Final = "PreemptionByScheduler"
"Why a pod is a DisruptionTarget: the scheduler makes room."
_KEPT: Final = 1 << 15
_COUNTED: Final = ("non-zero cpu", "non-zero memory", "pod count")
_encode: Final = msgspec.msgpack.Encoder(enc_hook=dict).encode
_templates: dict[tuple[bytes, bytes, bool], Template] = {}
_shapes: dict[tuple[object, ...], Shape] = {}


def scheduled_spec(spec: PodSpec) -> PodSpec:
    """A spec without volumes that say nothing about where the pod may run.

    The API server gives every pod a volume with a name of its own, for its token: no two specs would be equal.
    """
    if not spec.volumes:
        return spec
    kept = tuple([volume for volume in spec.volumes if _matters(volume)])
    return spec if len(kept) == len(spec.volumes) else replace(spec, volumes=kept)


def _matters(volume: Volume) -> bool:
    return bool(
        volume.persistent_volume_claim
        or volume.ephemeral
        or volume.csi
        or volume.gce_persistent_disk
        or volume.aws_elastic_block_store
        or volume.azure_disk
        or volume.cinder
        or volume.iscsi
        or volume.rbd
    )


def template_of(pod: Pod, spec: PodSpec) -> Template:
    """What a pod has in common with the others that were made like it; `spec` is its `scheduled_spec`.

    Encoding a spec is far cheaper than looking through it. The node's name in it would make every pod another one.
    """
    granted = _granted(pod)
    is_bound = bool(spec.node_name)
    text = _encode(replace(spec, node_name="") if is_bound else spec)
    name = (text, granted, is_bound)
    template = _templates.get(name)
    if template is None:
        if len(_templates) >= _KEPT:
            _templates.clear()
        template = _templates[name] = Template(_new_shape(pod, of_spec=not (is_bound or granted)))
    return template


def _granted(pod: Pod) -> bytes:
    """What the node says of resources that it has granted, and that count instead of those of the spec."""
    status = pod.status
    if not status.container_statuses and not status.init_container_statuses:
        return b""
    granted = [
        (status_of.name, status_of.resources, status_of.allocated_resources)
        for status_of in (*status.container_statuses, *status.init_container_statuses)
        if status_of.resources is not None
    ]
    return _encode((granted, status.condition(PodConditionType.RESIZE_PENDING))) if granted else b""


def _new_shape(pod: Pod, *, of_spec: bool) -> Shape:
    shape = _shape(pod, of_spec=of_spec)
    if of_spec:
        return shape
    if len(_shapes) >= _KEPT:
        _shapes.clear()
    return _shapes.setdefault((shape.requests, shape.non_zero), shape)


def _shape(pod: Pod, *, of_spec: bool) -> Shape:
    requests, non_zero = requests_of(pod), non_zero_of(pod)
    gains: list[tuple[Hashable, int]] = [(("requested", name), amount) for name, amount in requests]
    gains += [(column, amount) for column, amount in zip(_COUNTED, (*non_zero, 1), strict=True) if amount]
    return Shape(requests, non_zero, tuple(gains), of_spec)


def is_gained(column: Hashable) -> bool:
    """Whether pods add to a column by their shapes, and by nothing else."""
    return column in _COUNTED or (isinstance(column, tuple) and column[0] == "requested")


_amounts: dict[Amounts, Amounts] = {}


def requests_of(pod: Pod) -> Amounts:
    """What a pod takes from a node."""
    amounts = counted(pod_requests(pod))
    if len(_amounts) >= _KEPT:
        _amounts.clear()
    return _amounts.setdefault(amounts, amounts)


def counted(amounts: Mapping[str, int]) -> Amounts:
    """Amounts as cells of the table can hold them."""
    return tuple(sorted((name, stored_amount(n)) for name, n in amounts.items() if n))


def non_zero_of(pod: Pod) -> tuple[int, int]:
    """Requested cpu and memory, with the usual amounts where a container names none.

    Where a pod states amounts for itself as a whole, only what is stated nowhere in it is made up.
    """
    missing = NON_ZERO_REQUESTS
    if pod.spec.resources is not None and pod.spec.resources.requests:
        stated = pod_requests(pod)
        missing = {name: amount for name, amount in missing.items() if name not in stated}
    requests = pod_requests(pod, missing=missing)
    return stored_amount(requests.get("cpu", 0)), stored_amount(requests.get("memory", 0))


_labels: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}
_owners: dict[OwnerReference, OwnerReference] = {}
_words: dict[str, str] = {}


def shared_labels(labels: Mapping[str, str]) -> Mapping[str, str]:
    """The first labels that were equal to these. Where they name the pod itself, there is nothing to share."""
    if POD_NAME_LABEL in labels:
        return labels
    if len(_labels) >= _KEPT:
        _labels.clear()
    return _labels.setdefault(tuple(labels.items()), labels) if labels else EMPTY


def shared_owner(owner: OwnerReference | None) -> OwnerReference | None:
    if owner is None:
        return None
    if len(_owners) >= _KEPT:
        _owners.clear()
    return _owners.setdefault(owner, owner)


def shared_word(word: str) -> str:
    """The first string that was equal to this one, which many pods say: a namespace."""
    if len(_words) >= _KEPT:
        _words.clear()
    return _words.setdefault(word, word)


def since_s(pod: Pod, condition: str) -> float | None:
    """Since when a condition of a pod has been true."""
    reported = pod.status.condition(condition) if pod.status.conditions else None
    if reported is None or reported.status != "True" or not reported.last_transition_time:
        return None
    return parse_timestamp(reported.last_transition_time)


def is_preempted(pod: Pod) -> bool:
    """Whether a pod is being deleted because the scheduler made room for a more important one."""
    if pod.metadata.deletion_timestamp is None or not pod.status.conditions:
        return False
    condition = pod.status.condition(PodConditionType.DISRUPTION_TARGET)
    return condition is not None and condition.status == "True" and condition.reason == PREEMPTED


def brings_claims(pod: Pod) -> bool:
    """Whether a pod has volumes behind claims, its own or others'."""
    return any(volume.persistent_volume_claim or volume.ephemeral for volume in pod.spec.volumes)


def named_claims_of(pod: Pod) -> tuple[str, ...]:
    volumes = pod.spec.volumes
    return tuple(volume.persistent_volume_claim.claim_name for volume in volumes if volume.persistent_volume_claim)


def own_claims_of(pod: Pod) -> tuple[str, ...]:
    return tuple(f"{pod.metadata.name}-{volume.name}" for volume in pod.spec.volumes if volume.ephemeral)
