"""Devices for one class of pods: which nodes have enough of them, by columns; and which ones, on the node that won.

Columns count the devices that have enough left. What they cannot say (selectors, links, switches, virtual functions,
NUMA nodes) is checked on the winner alone, and the pod gets what the check finds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from koord.api.configuration.scheduler_args import DeviceShareArgs
from koord.api.protocol import names
from koord.api.text.quantity import render
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells, Many, Numbers, OfRow, One
from koord.scheduler.framework.change import Change, listed
from koord.scheduler.framework.explains import Explains
from koord.scheduler.framework.judge import FastForms, Judge, Shortcuts
from koord.scheduler.plugins.devices.allocate import insufficient
from koord.scheduler.plugins.devices.changes import changes
from koord.scheduler.plugins.devices.check import DeviceCheck, ShareCheck
from koord.scheduler.plugins.devices.inventory import UNTOLD, Machine
from koord.scheduler.plugins.devices.ledger import COUNTED, MOST_LEFT, WHOLE_LEFT, Devices, left, number
from koord.scheduler.plugins.devices.partitions import NO_FREE_SET, NO_SUCH_SET, table_of
from koord.scheduler.plugins.devices.requests import CORE, DEVICE_NAMES, GPU, RATIO, WHOLE, Request, Wanted
from koord.scheduler.plugins.devices.scoring import Policy, RowScores
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Array, Reason, Row
from koord.scheduler.state.view import View

_ISOLATION: Final = 1
_UNSUPPORTED: Final = 2
_FIRST: Final = 4
"""The bits of a request: missing, then short; those of the next one are two further."""
_SHORT: Final = _FIRST << 1


class Least(NamedTuple):
    """What must be left of GPUs, where that says all: of one, in percent; and how many whole ones."""

    part: int
    whole: int


class _Counting(NamedTuple):
    """A request, in columns."""

    number: Hashable
    needed: int
    "Devices."
    slots: tuple[tuple[tuple[Hashable, ...], int], ...]
    "By resource, the columns of all slots, and what must be left."
    of_slot: tuple[tuple[tuple[Hashable, int], ...], ...]
    "The same by slot."
    at_once: Least | None
    "Where columns that sum devices up say all."


class DeviceJudge(Judge, Explains):
    """See the module's text."""

    filters_on = Reason.NODE | Reason.LABELS | Reason.EXACT
    eased = True
    exact: DeviceCheck | None

    def __init__(
        self,
        wanted: Wanted,
        policy: Policy,
        args: DeviceShareArgs,
        cluster: Cluster,
        view: View | None = None,
        *,
        adapts: bool = False,
    ) -> None:
        """`adapts`: whether vendors' device plugins are told what pods get."""
        self.wanted, self._policy, self._cluster = wanted, policy, cluster
        self._devices = cluster.notes(Devices)
        aligns = not args.disable_device_numa_topology_alignment
        self.exact = self._check = DeviceCheck(wanted, policy, cluster, view, adapts=adapts, aligns=aligns)
        self._counting = [_counting(request, self._devices.slots[request.type], view) for request in wanted.requests]
        self.facets, self._rows = policy.facets, policy.rows
        self.scores_on = Reason(0) if policy.rows is None else policy.rows.scores_on
        self.view = view
        self._unsupported = args.gpu_share_unsupported_models if wanted.shares_gpu else ()
        self._isolation = wanted.isolation if wanted.shares_gpu else ""
        for label in (names.LABEL_GPU_ISOLATION_PROVIDER, names.LABEL_GPU_VENDOR, names.LABEL_GPU_MODEL):
            if self._isolation or self._unsupported:
                cluster.labels.keep(label)

    def quickest(self) -> Judge:
        """The judge that says the same in the least time."""
        at_once = self._counting[0].at_once
        if len(self._counting) > 1 or at_once is None or self._isolation or self._unsupported:
            return self
        return ShareJudge(self, at_once)

    def feasible(self, cells: Cells) -> Numbers:
        mask: Numbers = 0
        if self._isolation:
            isolation_value = self._cluster.labels.values(names.LABEL_GPU_ISOLATION_PROVIDER).get(self._isolation)
            mask = mask | (cells["label", names.LABEL_GPU_ISOLATION_PROVIDER] != isolation_value) * _ISOLATION
        for unsupported in self._unsupported:
            vendor = self._cluster.labels.values(names.LABEL_GPU_VENDOR).get(unsupported.vendor)
            model = self._cluster.labels.values(names.LABEL_GPU_MODEL).get(unsupported.model)
            listed = (cells["label", names.LABEL_GPU_VENDOR] == vendor) & (
                cells["label", names.LABEL_GPU_MODEL] == model
            )
            mask = mask | (listed if vendor is not None and model is not None else 0) * _UNSUPPORTED
        bit = _FIRST
        for counting in self._counting:
            there = cells[counting.number]
            if counting.at_once is not None:
                short = (there > 0) & (_short(cells, *counting.at_once) > 0)
            else:
                short = (there > 0) & (_fitting(cells, counting) < counting.needed)
            mask = mask | (there == 0) * bit | short * (bit << 1)
            bit <<= 2
        return mask

    def score(self, cells: Cells) -> Numbers:
        return 0 if self._rows is None else self._rows.score(cells)

    def remarks(self) -> Sequence[str]:
        return self._policy.remarks()

    def reasons(self, mask: int) -> list[str]:
        reasons = []
        if mask & _ISOLATION:
            reasons.append(f"node(s) do not isolate pods on shared GPUs by {self._isolation}")
        if mask & _UNSUPPORTED:
            reasons.append("node(s) have GPUs of a model that cannot be shared")
        bits = mask // _FIRST
        reasons += [
            f"Insufficient {request.type} devices"
            for i, request in enumerate(self.wanted.requests)
            if bits >> 2 * i & 3
        ]
        return reasons

    def unresolvable(self, masks: Array, rows: Array) -> Array:
        lasting: Array = (masks & (_ISOLATION | _UNSUPPORTED)).astype(np.bool_)
        for i in range(len(self.wanted.requests)):
            lasting |= (masks // _FIRST >> 2 * i & 1).astype(np.bool_)
        return lasting

    def fixes(self, ask: Ask, row: Row) -> Sequence[Change]:
        room = self._check.room(ask, row)
        if room is None:
            return ()
        asked = tuple([quantity for quantity in ask.requests if quantity[0] in DEVICE_NAMES])
        return list(changes(room, self.wanted, ask.pod, asked))

    def detail(self, reason: str, rows: Sequence[Row]) -> str:
        """How much is left, and how much it takes."""
        columns = self._cluster.table.columns if self.view is None else self.view.columns
        cells = Many(columns, np.array(rows, np.intp))
        for request, counting in zip(self.wanted.requests, self._counting, strict=True):
            if reason == insufficient(request).reason:
                return self._shortage(request, counting, cells, rows)
        gpu = self.wanted.of(GPU)
        if gpu is not None and reason in (NO_SUCH_SET, NO_FREE_SET):
            tables = [table_of(*figures_on_row)[0] for row in rows if (figures_on_row := self._told(row)) is not None]
            sizes = listed(map(str, sorted({size for table in tables for size in table or ()})))
            return f"sets are of {sizes} GPUs, {gpu.count} needed" if reason == NO_SUCH_SET else _no_set(gpu.count)
        return ""

    def _shortage(self, request: Request, counting: _Counting, cells: Many, rows: Sequence[Row]) -> str:
        machines = [machine for row in rows if (machine := self._devices.machine(row)) is not None]
        if all(machine is UNTOLD for machine in machines):
            return "no Device object tells of them yet"
        units = [unit for machine in machines for unit in machine.units.get(request.type, ())]
        if units and not any(unit.total for unit in units):
            return f"none of {len(units)} is healthy"
        if units and not any(request.selector.matches(unit.labels) for unit in units):
            return "the selector of device-allocate-hint matches none"
        if not counting.of_slot:
            return ""
        number = int(np.max(_fitting(cells, counting)))
        if number >= counting.needed and request.vf_selector is not None:
            return "no virtual function is free that the vfSelector of device-allocate-hint matches"
        if number >= counting.needed:
            return "not where they must lie"
        if counting.needed > 1:
            return f"{number} on one node with enough left, {counting.needed} needed"
        return _most_left(cells, counting, [name for name, _ in request.per_device if name in COUNTED[request.type]])

    def _told(self, row: Row) -> tuple[Machine, Mapping[str, str]] | None:
        """The devices of a row, and the labels of its node."""
        machine = self._devices.machine(row)
        return None if machine is None else (machine, self._cluster.nodes[row].metadata.labels)

    def lack(self, cells: Cells) -> Numbers:
        missing: Numbers = 0.0
        for counting in self._counting:
            short = counting.needed - _fitting(cells, counting)
            missing = missing + short * (short > 0) / counting.needed
        return missing


class ShareJudge(DeviceJudge):
    """The same for GPU requests that two columns decide: judges of many classes are asked together."""

    def __init__(self, of: DeviceJudge, least: Least) -> None:
        self.__dict__.update(of.__dict__)
        self._least = least
        rows = self._rows
        key, numbers = ((GPU, None), (least, None)) if rows is None else ((GPU, rows.joins), (least, rows.numbers))
        forms = FastForms(key, numbers, partial(_forms_of_row, rows), partial(_together, rows))
        self.shortcuts = Shortcuts(forms)
        self.exact = self._check = ShareCheck(of._check)

    def feasible(self, cells: Cells) -> Numbers:
        return _short(cells, *self._least)

    def unresolvable(self, masks: Array, rows: Array) -> Array:
        without: Array = self._cluster.table.columns[self._counting[0].number][rows] == 0
        without &= masks != 0
        return without


def _forms_of_row(rows: RowScores | None, columns: dict[Hashable, Array]) -> tuple[OfRow, OfRow]:
    most, whole = columns[MOST_LEFT].data, columns[WHOLE_LEFT].data

    def feasible(row: Row, numbers: tuple[Least, Hashable]) -> int:
        least = numbers[0]
        return _SHORT if most[row] < least.part or whole[row] < least.whole else 0

    if rows is None:
        return feasible, _no_score
    scored = rows.of_row
    return feasible, lambda row, numbers: scored(row, numbers[1])


def _together(rows: RowScores | None, numbers: Sequence[tuple[Least, Any]]) -> Judge:
    scores = None if rows is None else rows.together([amounts for _, amounts in numbers])
    return _Together([least for least, _ in numbers], scores)


class _Together(Judge):
    def __init__(self, least: Sequence[Least], scores: Callable[[Many], Array] | None) -> None:
        self._part, self._whole = (np.array(least_of_type, np.int64) for least_of_type in zip(*least, strict=True))
        self._scores = scores

    def feasible(self, cells: Cells) -> Numbers:
        return _short(cells, self._part, self._whole)

    def score(self, cells: Cells) -> Numbers:
        assert self._scores is not None
        return self._scores(cells)


def _short(cells: Cells, part: Numbers, whole: Numbers) -> Numbers:
    return ((cells[MOST_LEFT] < part) | (cells[WHOLE_LEFT] < whole)) * _SHORT


def _no_score(row: Row, numbers: object) -> int:
    return 0


def _counting(request: Request, slots: int, view: View | None) -> _Counting:
    asked = [(name, amount) for name, amount in request.per_device if name in COUNTED[request.type]]
    by_resource = tuple(
        (tuple(left(request.type, name, slot) for slot in range(slots)), amount) for name, amount in asked
    )
    by_slot = tuple(tuple((left(request.type, name, slot), amount) for name, amount in asked) for slot in range(slots))
    at_once = _at_once(request) if view is None else None
    return _Counting(number(request.type), max(1, request.count), by_resource, by_slot, at_once)


def _at_once(request: Request) -> Least | None:
    """For as much of the cores as of the memory of GPUs: one of them, or whole ones."""
    asked = request.amounts
    if request.type != GPU or asked.keys() != {CORE, RATIO} or asked[CORE] != asked[RATIO]:
        return None
    if request.count == 1:
        return Least(asked[CORE], 0)
    return Least(0, request.count) if asked[CORE] == WHOLE else None


def _fitting(cells: Cells, counting: _Counting) -> Numbers:
    """Of how many devices enough is left."""
    if type(cells) is One:
        columns, row = cells.columns, cells.rows
        count = 0
        for slot in counting.of_slot:
            for column, amount in slot:
                if columns[column].item(row) < amount:
                    break
            else:
                count += 1
        return count
    enough = None
    for names_, amount in counting.slots:
        if not names_:
            return 0
        of_resource = cells.block(names_) >= amount
        enough = of_resource if enough is None else enough & of_resource
    return 0 if enough is None else np.count_nonzero(enough, axis=0)


def _most_left(cells: Many, counting: _Counting, resources: Sequence[str]) -> str:
    left, needed = [], []
    for (columns, amount), name in zip(counting.slots, resources, strict=True):
        most = max(0, int(np.max(cells.block(columns))))
        if most < amount:
            left.append(f"{render(name, most)} {name.partition('/')[2]}")
            needed.append(render(name, amount))
    return f"at most {listed(left)} free on one device, {listed(needed)} needed" if left else "no device has all of it"


def _no_set(gpus: int) -> str:
    return f"no linked set of {gpus} is free"
