"""What a pod's load is estimated from: its requests, limits, priority class, and what its annotations wish.

LoadAwareScheduling notes it of every pod on a node. Pods of one template share one, so half a million pods cost little.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import ClassVar, Final, Protocol

import msgspec
from msgspec.structs import replace

from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import pod_limits, pod_requests
from koord.api.protocol import names
from koord.api.protocol.priority import PriorityClass, priority_class
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.insiders import Insiders, StandsFor, room_note
from koord.scheduler.state.notes import Notes
from koord.scheduler.state.pods import Amounts, PodRecord, Template, counted, scheduled_spec, template_of
from koord.scheduler.state.stand_ins import is_stand_in
from koord.scheduler.state.table import Row

KEPT: Final = 1 << 15
_ANNOTATIONS: Final = (
    names.ANNOTATION_LOAD_ESTIMATED_SCALING_FACTORS,
    names.ANNOTATION_LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED,
    names.ANNOTATION_LOAD_ESTIMATED_SECONDS_AFTER_POD_SCHEDULED,
)


class LoadBasis(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Pods alike in this share one, so that it is compared by identity."""

    requests: Amounts
    limits: Amounts
    "Both by the spec alone, whatever the node has granted."
    priority_class: PriorityClass
    factors: str = ""
    seconds_after_initialized: str = ""
    seconds_after_scheduled: str = ""
    "The pod's own wishes, as its annotations have them."
    whole: LoadBasis | None = None
    inside: tuple[LoadBasis, ...] = ()
    "Of a reservation with owners: all that it stands for, and the owners, whose load is a part of that."


_bases: dict[tuple[object, ...], LoadBasis] = {}
_bases_of_templates: dict[tuple[object, ...], LoadBasis] = {}


def load_basis_of(pod: Pod, template: Template) -> LoadBasis:
    """What a pod's load is estimated from."""
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    said = tuple([annotations.get(key, "") for key in _ANNOTATIONS]) if annotations else ("", "", "")
    qos = labels.get(names.LABEL_PRIORITY_CLASS), labels.get(names.LABEL_QOS_CLASS), pod.status.qos_class
    key = (template, *qos, said)
    basis = _bases_of_templates.get(key)
    if basis is None:
        if len(_bases_of_templates) >= KEPT:
            _bases_of_templates.clear()
        basis = _bases_of_templates[key] = _new_basis(pod, said)
    return basis


def _new_basis(pod: Pod, said: tuple[str, ...]) -> LoadBasis:
    requests = counted(pod_requests(pod, use_status=False))
    limits = counted(pod_limits(pod, use_status=False))
    key = (requests, limits, priority_class(pod), said)
    basis = _bases.get(key)
    if basis is None:
        if len(_bases) >= KEPT:
            _bases.clear()
        basis = _bases[key] = LoadBasis(requests, limits, priority_class(pod), said[0], said[1], said[2])
    return basis


class Counting(Protocol):
    """Counts the load of pods: the plugin of each profile does, by its own arguments."""

    def load_moved(self, basis: LoadBasis, record: PodRecord, row: Row, sign: int) -> None:
        """A pod came to a row (+1), or left it (-1)."""
        ...

    def load_cells(self, basis: LoadBasis, row: Row) -> Iterable[tuple[Hashable, int]]:
        """What a pod that is missing from its node's report adds to columns."""
        ...


class Loads(Notes):
    """Notes what the load of each pod is estimated from, for the plugins of all profiles."""

    name: ClassVar[str] = "LoadAwareScheduling"
    shared: ClassVar[bool] = True
    changes_views: ClassVar[bool] = False

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.counting: list[Counting] = []
        self._last: tuple[Pod, LoadBasis] | None = None
        self._insiders = Insiders[LoadBasis](_rest_of)

    def of(self, pod: Pod) -> LoadBasis:
        return self.of_alike(pod, template_of(pod, scheduled_spec(pod.spec)))

    def by_name(self, pod: Pod) -> bool:
        return False

    def of_alike(self, pod: Pod, template: Template) -> LoadBasis:
        last = self._last
        if last is not None and last[0] is pod:
            return last[1]
        basis = load_basis_of(pod, template)
        self._last = (pod, basis)
        return basis

    def cells(self, note: object, row: Row) -> Iterable[tuple[Hashable, int]]:
        assert isinstance(note, LoadBasis)
        return [cell for counting in self.counting for cell in counting.load_cells(note, row)]

    def counts_as(self, record: PodRecord, row: Row) -> LoadBasis | None:
        note = record.note(self.name)
        assert note is None or isinstance(note, LoadBasis)
        # A pod that holds its own room runs in it, whichever pod takes its place later.
        return self._insiders.counted(note, record, row) if note is not None and is_stand_in(record.key) else note

    def moved(self, note: object, record: PodRecord, row: Row, sign: int) -> None:
        assert isinstance(note, LoadBasis)
        if len(record.notes) == 1 or _runs_in_its_room(record):
            self._count(note, record, row, sign)
            return
        for pod, basis, by in self._insiders.moved(note, record, row, sign):
            self._count(basis, pod, row, by)

    def _count(self, note: LoadBasis, record: PodRecord, row: Row, sign: int) -> None:
        heard = 0
        try:
            for counting in self.counting:
                counting.load_moved(note, record, row, sign)
                heard += 1
        except BaseException:
            for counting in self.counting[:heard]:
                counting.load_moved(note, record, row, -sign)
            raise


def _rest_of(held: LoadBasis, inside: Collection[LoadBasis], row: Row) -> LoadBasis:
    return replace(held, whole=held, inside=tuple(inside)) if inside else held


def _runs_in_its_room(record: PodRecord) -> bool:
    return not is_stand_in(record.key) and isinstance(room_note(record), StandsFor)
