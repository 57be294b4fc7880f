"""Pre-allocation: a reservation that takes over running pods, so that it fits where their room is taken already.

Only reservations of policy Restricted may. Which pods: those that its owners' label selectors match, or, in mode
Cluster, those that are marked anywhere; never one that is in a reservation. A pod must fit into the reservation, and
with it the reservation on the node:   reserved <= free + what the pods taken over ask for.

    one pod         the one that fills the reservation best (mode Cluster: the first by priority); so are nodes scored
    several         in their order, until the reservation fits; the fewer a node has to give, the better it scores

Even if the node has room without a takeover and none is required, pods are taken over, unless `spares` is set.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.protocol.annotations.reservation import PRE_ALLOCATION_REQUIRED
from koord.api.protocol.crd.reservation import Reservation
from koord.scheduler.framework.cells import Cells, Many, Numbers
from koord.scheduler.framework.exact_check import Door
from koord.scheduler.plugins.devices.ledger import Devices
from koord.scheduler.plugins.numa.allocations import Allocations
from koord.scheduler.plugins.reservation.judges import BESIDE, Filling, HolderJudge
from koord.scheduler.plugins.reservation.owners import Entry
from koord.scheduler.plugins.reservation.room import RESTRICTED
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.insiders import NAME
from koord.scheduler.state.pods import Amounts, PodRecord
from koord.scheduler.state.table import Reason, Row
from koord.scheduler.state.view import View

UNSUPPORTED: Final = "node(s) reservation pre allocation is unsupported with current attributes"
NOBODY: Final = "node(s) had no pods that the reservation may take over"
_NOBODY, _FIRST = 4, 3


class Takeover(NamedTuple):
    """Pods that are taken over; or why none can be, as a mask of resources: by node, and by reservation."""

    pods: tuple[PodRecord, ...] = ()
    by_node: int = 0
    by_room: int = 0
    nobody: bool = False

    @property
    def is_none(self) -> bool:
        return bool(self.by_node or self.by_room or self.nobody)


class PreAllocation:
    """What one reservation may take over, and on which rows."""

    def __init__(
        self,
        reservation: Reservation,
        requests: Amounts,
        cluster: Cluster,
        marked: Mapping[str, int] | None,
        is_free: Callable[[PodRecord], bool],
        *,
        spares: bool = False,
    ) -> None:
        """`marked`: pods that may be taken over in the whole cluster, with their priorities; None: those of owners.
        `spares`: whether no pod is taken over if there is room without."""
        policy = reservation.spec.pre_allocation_policy
        self._spares, self._by_priority = spares, marked is not None
        self.requests, self._cluster = requests, cluster
        self.many = policy is not None and policy.enable_multiple
        self.required = PRE_ALLOCATION_REQUIRED.read(reservation.metadata, "Reservation")
        self.candidates: dict[Row, list[PodRecord]] = {}
        for row, record in self._found(reservation, marked):
            if is_free(record):
                self.candidates.setdefault(row, []).append(record)
        for records in self.candidates.values():
            records.sort(key=lambda record: (-(marked or {}).get(record.key, 0), record.uid))
        self.view = View(cluster)
        for row, records in self.candidates.items():
            for column, amount in self._lent(records).items():
                self.view.add(column, row, -amount)
            for column, amount in self._noted(records, row):
                self.view.add(column, row, -amount)

    def _found(self, reservation: Reservation, marked: Mapping[str, int] | None) -> Iterable[tuple[Row, PodRecord]]:
        pods = self._cluster.pods
        if marked is not None:
            return [(pods[key][1], pods[key][0]) for key in marked if key in pods]
        by_labels = [owner for owner in reservation.spec.owners if owner.label_selector is not None]
        entries = [Entry(owner) for owner in by_labels if owner.object is None and owner.controller is None]
        return [
            (row, record)
            for record, row in pods.values()
            if any(entry.owns(ObjectMeta(namespace=record.namespace, labels=record.labels)) for entry in entries)
        ]

    def _lent(self, records: Sequence[PodRecord]) -> dict[Hashable, int]:
        """What the room of pods could add to a row: of all together, or of one at most."""
        lent: dict[Hashable, int] = {}
        for record in records:
            for column, amount in record.shape.gains:
                if column != "pod count":
                    before = lent.get(column, 0)
                    lent[column] = before + amount if self.many else max(before, amount)
        return lent

    def _noted(self, records: Sequence[PodRecord], row: Row) -> Iterator[tuple[Hashable, int]]:
        """Devices, CPUs and NUMA amounts of pods: of all together, since exact checks look at each."""
        noting = self._cluster.noting
        for record in records:
            for name, note in record.notes:
                if name in (Devices.name, Allocations.name):
                    yield from noting[name].cells(note, row)

    def _free(self, row: Row) -> dict[str, int]:
        columns = self._cluster.table.columns
        return {
            name: columns["allocatable", name].item(row) - columns["requested", name].item(row)
            for name, _ in self.requests
        }

    def doors(self, row: Row) -> list[Door]:
        """The pods whose room the reservation may take, the best first; also none, if there is room without."""
        free, records = self._free(row), self.candidates.get(row, ())
        doors: list[Door] = []
        if self.many:
            several = self._several(records, free).pods if records else ()
            doors += [Door(NAME, several)] if several else []
        else:
            doors += [Door(NAME, (record,)) for record in self._able(records, free)]
        if not self.required and not self._short(free):
            doors.insert(0 if self._spares else len(doors), BESIDE)
        return doors

    def taken(self, row: Row) -> Takeover:
        """The pods that the reservation takes over on a row, where nothing but amounts matters."""
        free = self._free(row)
        short = self._short(free)
        does_without = not short and not self.required
        records = self.candidates.get(row, ())
        if not records or (does_without and self._spares):
            return Takeover(by_node=short, nobody=not short and self.required)
        takeover = self._several(records, free) if self.many else self._one(records, free)
        return Takeover() if takeover.is_none and does_without else takeover

    def _able(self, records: Sequence[PodRecord], free: Mapping[str, int]) -> list[PodRecord]:
        """The pods that are each enough alone, the best first."""
        able = [record for record in records if not any(self._lacks(record, free))]
        return able if self._by_priority else sorted(able, key=self._filled, reverse=True)

    def _lacks(self, record: PodRecord, free: Mapping[str, int]) -> tuple[int, int]:
        """With a pod taken over: what the node lacks, and of what the pod has more than is reserved."""
        asked = dict(record.requests)
        short = self._short({name: amount + asked.get(name, 0) for name, amount in free.items()})
        return short, self._too_large(asked)

    def _one(self, records: Sequence[PodRecord], free: Mapping[str, int]) -> Takeover:
        able = self._able(records, free)
        if able:
            return Takeover((able[0],))
        if not self.required:
            # It could do without them: what keeps it from the node is that this is full.
            return Takeover(by_node=self._short(free))
        by_node = by_room = 0
        for record in records:
            short, too_large = self._lacks(record, free)
            by_node |= short
            by_room |= too_large
        return Takeover(by_node=0 if by_room else by_node, by_room=by_room)

    def _filled(self, record: PodRecord) -> int:
        """How full a pod makes the reservation."""
        asked = dict(record.requests)
        return sum(100 * asked.get(name, 0) // amount for name, amount in self.requests) // max(1, len(self.requests))

    def score(self, row: Row) -> int:
        taken = self.taken(row).pods
        if not taken:
            return 0
        return 100 // (1 + len(taken)) if self.many else self._filled(taken[0])

    def _several(self, records: Sequence[PodRecord], free: Mapping[str, int]) -> Takeover:
        left, inside, chosen = dict(free), dict[str, int](), list[PodRecord]()
        for record in records:
            if chosen and not self._short(left):
                break
            asked = {name: inside.get(name, 0) + amount for name, amount in record.requests}
            if self._too_large(asked):
                continue
            chosen.append(record)
            inside |= asked
            for name, amount in record.requests:
                if name in left:
                    left[name] += amount
        short = self._short(left)
        return Takeover(tuple(chosen)) if chosen and not short else Takeover(by_node=short, nobody=not short)

    def _short(self, free: Mapping[str, int]) -> int:
        return sum(1 << i for i, (name, amount) in enumerate(self.requests) if amount > free[name])

    def _too_large(self, asked: Mapping[str, int]) -> int:
        return sum(1 << i for i, (name, amount) in enumerate(self.requests) if asked.get(name, 0) > amount)


class PreAllocationJudge(HolderJudge):
    """For reservations that may take over pods."""

    filters_on = Reason.NODE | Reason.ALLOCATABLE | Reason.REQUESTED | Reason.EXACT

    def __init__(self, wanted: PreAllocation, policy: str, node: str, cluster: Cluster) -> None:
        super().__init__(policy, node, cluster)
        self._wanted, self._table = wanted, cluster.table
        self.facets = (Filling(wanted.score, wanted.candidates, cluster),)
        self.doors = wanted.doors

    def feasible(self, cells: Cells) -> Numbers:
        before = super().feasible(cells)
        if type(cells) is not Many:
            return before or self._mask(cells.rows)
        rows = np.arange(self._table.capacity)[cells.rows]
        concerned = self._wanted.candidates
        everywhere = self._wanted.required
        alive = self._table.alive
        verdicts = [self._mask(row) if alive[row] and (everywhere or row in concerned) else 0 for row in rows.tolist()]
        return np.where(before, before, np.array(verdicts, np.int64))

    def _mask(self, row: Row) -> int:
        taken = self._wanted.taken(row)
        mask = _NOBODY if taken.nobody else 0
        for i in range(len(self._wanted.requests)):
            mask |= (taken.by_node >> i & 1) << (_FIRST + 2 * i) | (taken.by_room >> i & 1) << (_FIRST + 2 * i + 1)
        return mask

    def reasons(self, mask: int) -> list[str]:
        if mask & 3:
            return super().reasons(mask)
        reasons = [NOBODY] if mask & _NOBODY else []
        for i, (name, _) in enumerate(self._wanted.requests):
            if mask >> (_FIRST + 2 * i) & 1:
                reasons.append(f"Insufficient {name} by node")
            if mask >> (_FIRST + 2 * i + 1) & 1:
                reasons.append(f"Reservation(s) Insufficient {name}")
        return reasons


def why_not(reservation: Reservation) -> str:
    """Why a reservation cannot take over pods at all; empty where it can."""
    return "" if reservation.spec.allocate_policy == RESTRICTED else UNSUPPORTED
