"""The rows of a cluster as packing policies see them, kept up to date with the table; and the prices in force.

Tables of prices are made when they are first needed, and made again between decisions (`renew`) when nodes or the mix
of pods have changed: then a new epoch begins, and every class of pods scores all rows again. Until enough pods are
known for prices, rows are scored by FGD; until any is known, by how little GPU they have left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from koord.api.protocol import names
from koord.scheduler.framework.cells import Many
from koord.scheduler.plugins.devices.ledger import Devices, left, number
from koord.scheduler.plugins.devices.requests import CORE, GPU, MEMORY, RATIO
from koord.scheduler.plugins.packing.batch import Batch
from koord.scheduler.plugins.packing.demand import Demand
from koord.scheduler.plugins.packing.fragmentation import Fragmentation, typical
from koord.scheduler.plugins.packing.pod_shapes import MIB
from koord.scheduler.plugins.packing.shadow_prices import ROWS_AT_ONCE, Valuation, work_out
from koord.scheduler.plugins.packing.shapes import WHOLE, Fleet, Mix, NodeGroup, PodShape, Scores
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Array, Changes, Reason, Row

PolicyName: TypeAlias = Literal["FGD", "ShadowPrices"]
FEWEST_PODS: Final = 300
"""Pods with GPUs that must be known before prices are made of them: of 100, the mix is too coarse to gain by."""
RENEW_S: Final = 300.0
FEW_ROWS: Final = 4
SCORES_KEPT: Final = 1 << 12
"""Scores kept of single rows that have not changed since: the winner is asked for its device next."""
TOLD: Final = 20
"""How many of the most frequent shapes are shown."""
DRIFT: Final = 0.1
"""Prices are made again when this part of the mix has changed."""
_CPU, _CPU_TAKEN = ("allocatable", "cpu"), ("requested", "cpu")
_MEMORY, _MEMORY_TAKEN = ("allocatable", "memory"), ("requested", "memory")
_MILLI: Final = WHOLE // 100
_KIND: Final = int(Reason.NODE | Reason.ALLOCATABLE | Reason.LABELS)
SCORED_ON: Final = Reason.NODE | Reason.ALLOCATABLE | Reason.LABELS | Reason.REQUESTED | Reason.EXACT
TOP: Final = 1 << 19
"""The score of a loss of nothing. One milli of loss is `shadow_prices.TIES` points: prices decide before plugins that
have scores of 0 to 100, and these among nodes that lose about the same."""


class _Kind(NamedTuple):
    """What makes nodes equal to prices. CPU in whole cores: nodes reserve a little more or less of it."""

    model: str
    gpus: int
    cores: int


class Tightest:
    """Until anything is known of pods: the row with the least GPU left."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def refresh(self, rows: Array) -> None:
        """Nothing is kept."""

    def refresh_one(self, row: Row) -> None:
        """Likewise."""

    def over(self, fleet: Fleet) -> Tightest:
        return Tightest(fleet)

    def score(self, shape: PodShape, rows: Array) -> Scores:
        devices = self._fleet.devices[rows]
        left_milli = devices.sum(axis=1)
        device = np.where(devices >= max(shape.gpu_milli, 1), devices, 2 * WHOLE).argmin(axis=1)
        most = WHOLE * devices.shape[1]
        return Scores(100 - left_milli * 100 // max(most, 1), device if shape.is_share else np.full(len(rows), -1))


class PackingRows:
    """One cluster under one policy."""

    def __init__(self, cluster: Cluster, policy: PolicyName) -> None:
        self._cluster, self._policy = cluster, policy
        self.demand = cluster.notes(Demand)
        self.epoch = 0
        "Grows whenever all rows must be scored again."
        self.in_force = ""
        "What scores rows now."
        self._version = self._capacity = self._slots = -1
        self._kinds: list[_Kind | None] = []
        self._fleet = _no_fleet(0, 0)
        self._scorer: Tightest | Fragmentation | Valuation = Tightest(self._fleet)
        self._known: Mix = {}
        "What the tables in force were made of."
        self._made_s = 0.0
        self._nodes: Counter[_Kind] = Counter()
        "Of which kinds there were how many nodes when the tables were made."
        self._scored: dict[Row, dict[PodShape, tuple[int, int]]] = {}
        self._scores = 0
        "How many scores were kept since that was empty."
        self._cells: tuple[Array, list[memoryview], list[tuple[memoryview, memoryview]]] | None = None
        "Columns, cell by cell, for as long as the first of them is this array."

    def follow(self) -> None:
        """Catch up with the table."""
        table = self._cluster.table
        if self._version == table.version:
            return
        if self._capacity != table.capacity:
            self._start()
        else:
            if self._slots != self._devices().slots[GPU]:
                self._widen()
            changed = table.changes(self._version)
            if changed is None:
                self._read_again(np.flatnonzero(table.alive))
            elif changed.reasons & int(SCORED_ON):
                self._read_changed(changed)
        self._version = table.read()

    def _read_changed(self, changed: Changes) -> None:
        if len(changed) > FEW_ROWS:
            self._read_again(changed.index, regroup=bool(changed.reasons & _KIND))
            return
        self._read_few(changed.rows)
        if changed.reasons & _KIND:
            self._regroup(changed.rows)
        for row in changed.rows:
            self._scored.pop(row, None)
            self._scorer.refresh_one(row)

    def _read_again(self, rows: Array, *, regroup: bool = True) -> None:
        self._read(rows)
        if regroup:
            self._regroup(rows.tolist())
        self._forget_scores()
        self._scorer.refresh(rows)

    def _forget_scores(self) -> None:
        self._scored.clear()
        self._scores = 0

    def score_one(self, shape: PodShape, row: Row) -> tuple[int, int]:
        """The score and device of one row: as `score`."""
        if self._scores >= SCORES_KEPT:
            self._forget_scores()
        of_row = self._scored.setdefault(row, {})
        score = of_row.get(shape)
        if score is None:
            score = of_row[shape] = self._score_one(shape, row)
            self._scores += 1
        return score

    def _score_one(self, shape: PodShape, row: Row) -> tuple[int, int]:
        fleet, milli, scorer = self._fleet, shape.gpu_milli, self._scorer
        if fleet.cpu.item(row) < shape.cpu_milli:
            return 0, -1
        if isinstance(scorer, Valuation) and shape.is_share:
            score, device = scorer.score_one(shape, row)
            return (0, -1) if device < 0 else (min(max(score + TOP, 0), TOP), device)
        if shape.gpus and sum([free >= milli for free in fleet.devices[row].tolist()]) < shape.gpus:
            return 0, -1
        if isinstance(scorer, Valuation):
            return min(max(scorer.score_one(shape, row)[0] + TOP, 0), TOP), -1
        one = self._scorer.score(shape, np.array([row]))
        return one.score.item(0), one.device.item(0)

    def score_many(self, batch: Batch, rows: Array) -> Array:
        """The scores of some rows for many shapes, by row and shape: as `score`."""
        fleet = self._fleet
        if not isinstance(self._scorer, Valuation):
            return np.stack([self.score(shape, rows).score for shape in batch.shapes], axis=1)
        room = batch.room(fleet.cpu.take(rows), fleet.devices.take(rows, axis=0))
        scores = self._scorer.score_many(batch, room, rows)
        scores += TOP
        np.maximum(scores, 0, out=scores)
        scores *= room
        return scores

    def score(self, shape: PodShape, rows: Array) -> Scores:
        """Scores rows that may or may not have room: rows without room, or without known devices, have 0."""
        fleet = self._fleet
        room = fleet.cpu[rows] >= shape.cpu_milli
        if shape.gpus:
            room &= (fleet.devices[rows] >= shape.gpu_milli).sum(axis=1) >= shape.gpus
        places = room.nonzero()[0]
        score, device = np.zeros(len(rows), np.int64), np.full(len(rows), -1, np.int64)
        for start in range(0, len(places), ROWS_AT_ONCE):
            some = places[start : start + ROWS_AT_ONCE]
            scored = self._scorer.score(shape, rows[some])
            device[some] = scored.device
            if isinstance(self._scorer, Valuation):
                score[some] = np.minimum(np.maximum(scored.score + TOP, 0), TOP)
            else:
                score[some] = scored.score
        return Scores(score, device)

    def values(self, shape: PodShape, row: Row) -> list[float]:
        """What a row is worth with a share on each of its devices: the highest is the best place."""
        if isinstance(self._scorer, Valuation):
            return self._scorer.by_device(shape, row)
        best = self._scorer.score(shape, np.array([row])).device.item(0)
        return [float(slot == best) for slot in range(self._fleet.devices.shape[1])]

    def seen_through(self, cells: Many) -> PackingRows:
        """The same for pods that see rows otherwise than all others do: rows by their place among the cells."""
        through = object.__new__(PackingRows)
        rows = np.arange(len(cells[_CPU]))
        fleet = through._fleet = _no_fleet(len(rows), self._slots)
        fleet.groups, fleet.group = self._fleet.groups, self._fleet.group[cells.rows]
        _write(fleet, rows, cells, self._slots)
        through._scorer = self._scorer.over(fleet)
        return through

    def renew(self) -> None:
        """Between decisions: begin a new epoch if the tables in force do not suit nodes and pods any more."""
        now_s = self._cluster.now_s
        if self._version < 0 or now_s - self._made_s < RENEW_S:
            return
        self._made_s = now_s
        mix = self._mix()
        nodes = self._by_kind()
        others = nodes.keys() != self._nodes.keys() or drift(self._nodes, nodes) > DRIFT
        if others or drift(self._known, mix) > DRIFT or self._name() != self.in_force:
            self._begin(mix)
            touch = self._cluster.table.touch
            for row in np.flatnonzero(self._cluster.table.alive).tolist():
                touch(row, int(Reason.EXACT))

    @property
    def remark(self) -> str:
        """What scores rows, in words, for who asks why."""
        gpu_pods = self.demand.gpu_pods
        if self.in_force == self._policy:
            return f"GPU packing: {self.in_force}, from the shapes of {gpu_pods} GPU pods"
        begins = f"GPU packing: {self.in_force} for now; {self._policy} begins"
        needed = FEWEST_PODS if self._policy == "ShadowPrices" else 1
        if gpu_pods >= needed:
            return f"{begins} when prices are made again, within {RENEW_S / 60:.0f} minutes"
        return f"{begins} when {needed} GPU pods are known, {gpu_pods} are: of fewer, the usual mix cannot be told"

    def figures(self) -> dict[str, object]:
        """The same for programs."""
        shapes = sorted(self._known.items(), key=lambda shape_share: -shape_share[1])[:TOLD]
        return {
            "policy": self._policy,
            "inForce": self.in_force,
            "gpuPods": self.demand.gpu_pods,
            "epoch": self.epoch,
            "groups": [group._asdict() for group in self._fleet.groups],
            "shapes": [{**shape._asdict(), "models": sorted(shape.models), "often": often} for shape, often in shapes],
        }

    def _devices(self) -> Devices:
        return self._cluster.notes(Devices)

    def _name(self) -> str:
        if not self.demand.gpu_pods:
            return "least GPU left"
        if self._policy == "ShadowPrices" and self.demand.gpu_pods < FEWEST_PODS:
            return "FGD"
        return self._policy

    def _mix(self) -> dict[PodShape, float]:
        """What is priced is what stands; FGD counts what comes."""
        mix = self.demand.standing if self._name() == "ShadowPrices" else self.demand.mix
        return mix(self._cluster.now_s)

    def _start(self) -> None:
        """Read everything, and make tables: at first, and when the table has grown."""
        table, slots = self._cluster.table, self._devices().slots[GPU]
        self._capacity, self._slots = table.capacity, slots
        self._kinds, self._cells = [None] * table.capacity, None
        self._fleet = _no_fleet(table.capacity, slots)
        rows = np.flatnonzero(table.alive)
        self._read(rows)
        self._regroup(rows.tolist())
        self._begin(self._mix())

    def _widen(self) -> None:
        """A node has more GPUs than any had. Prices stay until they are made again between decisions: classes keep
        the scores of rows that do not change."""
        slots, narrow = self._devices().slots[GPU], self._fleet.devices
        self._fleet.devices = _no_devices(len(narrow), slots)
        self._fleet.devices[:, : self._slots] = narrow[:, : self._slots]
        self._slots, self._cells = slots, None
        self._forget_scores()
        self._scorer = self._scorer.over(self._fleet)

    def _read(self, rows: Array) -> None:
        _write(self._fleet, rows, Many(self._cluster.table.columns, rows), self._slots)

    def _read_few(self, rows: Sequence[Row]) -> None:
        """The same, cell by cell: numpy's fixed cost per call is more than the arithmetic."""
        columns, fleet = self._cluster.table.columns, self._fleet
        if self._cells is None or self._cells[0] is not columns[_CPU]:
            cells = [columns[name].data for name in (_CPU, _CPU_TAKEN, _MEMORY, _MEMORY_TAKEN)]
            slots = [
                (columns[left(GPU, CORE, slot)].data, columns[left(GPU, RATIO, slot)].data)
                for slot in range(self._slots)
            ]
            self._cells = columns[_CPU], cells, slots
        _, (cpu, cpu_taken, memory, memory_taken), slots = self._cells
        for row in rows:
            fleet.cpu[row] = max(cpu[row] - cpu_taken[row], 0)
            fleet.memory[row] = max(memory[row] - memory_taken[row], 0) // MIB
            free = []
            for cores, ratio in slots:
                percent, other = cores[row], ratio[row]
                if other < percent:
                    percent = other
                free.append(0 if percent < 0 else _MILLI * (percent if percent < 100 else 100))
            fleet.devices[row] = free or 0

    def _regroup(self, rows: Sequence[Row]) -> None:
        nodes, numbers = self._cluster.nodes, self._cluster.table.columns[number(GPU)]
        cores = self._cluster.table.columns[_CPU]
        for row in rows:
            node = nodes.get(row)
            if node is None:
                self._kinds[row] = None
                continue
            gpus = max(0, numbers.item(row))
            model = node.metadata.labels.get(names.LABEL_GPU_MODEL, "")
            kind = _Kind(model, gpus, cores.item(row) // 1000) if gpus else _Kind("", 0, 0)
            if kind != self._kinds[row]:
                self._kinds[row] = kind
                self._fleet.group[row] = _nearest(kind, self._fleet.groups)

    def _begin(self, mix: Mix) -> None:
        """A new epoch."""
        fleet, table = self._fleet, self._cluster.table
        rows = np.flatnonzero(table.alive)
        # A node that comes to a row where another one was is examined again.
        for row in np.flatnonzero(~table.alive).tolist():
            self._kinds[row] = None
        self._nodes = self._by_kind()
        kinds = list(self._nodes)
        places = {kind: k for k, kind in enumerate(kinds)}
        fleet.group[:] = 0
        for row in rows.tolist():
            kind = self._kinds[row]
            fleet.group[row] = 0 if kind is None else places[kind]
        cpu, memory = table.columns[_CPU], table.columns[_MEMORY]
        most_cpu, most_memory = (np.zeros(max(len(kinds), 1), np.int64) for _ in range(2))
        np.maximum.at(most_cpu, fleet.group[rows], cpu[rows])
        np.maximum.at(most_memory, fleet.group[rows], memory[rows] // MIB)
        fleet.groups = [
            NodeGroup(kind.model, kind.gpus, most_cpu.item(k), most_memory.item(k)) for k, kind in enumerate(kinds)
        ] or [NodeGroup("", 0, 0, 0)]
        self.demand.measure_by(self._device_bytes())
        self.in_force, self._known = self._name(), mix
        self._forget_scores()
        self._made_s = self._cluster.now_s
        self.epoch += 1
        if self.in_force == "ShadowPrices":
            self._scorer = Valuation(fleet, work_out(fleet.groups, mix, self._capacity_by_group(rows)))
        elif self.in_force == "FGD":
            self._scorer = Fragmentation(fleet, typical(mix))
        else:
            self._scorer = Tightest(fleet)

    def _by_kind(self) -> Counter[_Kind]:
        rows = np.flatnonzero(self._cluster.table.alive).tolist()
        return Counter(kind for row in rows if (kind := self._kinds[row]) is not None)

    def _device_bytes(self) -> int:
        """The memory of a usual GPU."""
        sizes = Counter(
            unit.total[MEMORY]
            for machine in self._devices().machines.values()
            for unit in machine.units.get(GPU, ())
            if unit.total.get(MEMORY)
        )
        return sizes.most_common(1)[0][0] if sizes else 0

    def _capacity_by_group(self, rows: Array) -> Array:
        """Devices, CPU and memory of all nodes: prices are those of an empty cluster, whatever runs now."""
        columns = self._cluster.table.columns
        fleet = self._fleet
        devices = np.array(
            [max(0, devices_of_row) for devices_of_row in columns[number(GPU)][rows].tolist()], np.float64
        )
        amounts = (devices, columns[_CPU][rows], columns[_MEMORY][rows] // MIB)
        return np.stack(
            [np.bincount(fleet.group[rows], amounts_of_row, len(fleet.groups)) for amounts_of_row in amounts], axis=1
        )


def drift(before: Mapping[Any, float], after: Mapping[Any, float]) -> float:
    """How much of a mix of shapes, or of nodes, is another: 0 none, 1 all of it."""
    sums = [max(sum(mix.values()), 1e-12) for mix in (before, after)]
    shapes = before.keys() | after.keys()
    return sum(abs(before.get(shape, 0.0) / sums[0] - after.get(shape, 0.0) / sums[1]) for shape in shapes) / 2


def _nearest(kind: _Kind, groups: Sequence[NodeGroup]) -> int:
    """The group that a node of a new kind counts for, until prices are made again."""

    def distance(k: int) -> tuple[bool, int, int]:
        group = groups[k]
        return group.model != kind.model, abs(group.gpus - kind.gpus), abs(group.cpu_milli // 1000 - kind.cores)

    return min(range(len(groups)), key=distance, default=0)


def _no_fleet(rows: int, slots: int) -> Fleet:
    """Rows that have nothing."""
    of_rows = [np.zeros(rows, np.int64) for _ in range(3)]
    return Fleet((), of_rows[0], of_rows[1], of_rows[2], _no_devices(rows, slots))


def _no_devices(rows: int, slots: int) -> Array:
    """If no node has a GPU, each gets a fully used one: scorers need at least one device."""
    return np.zeros((rows, max(1, slots)), np.int64)


def _write(fleet: Fleet, rows: Array, cells: Many, slots: int) -> None:
    """What rows have free, from the columns."""
    fleet.cpu[rows] = np.maximum(cells[_CPU] - cells[_CPU_TAKEN], 0)
    fleet.memory[rows] = np.maximum(cells[_MEMORY] - cells[_MEMORY_TAKEN], 0) // MIB
    for slot in range(slots):
        free = np.minimum(cells[left(GPU, CORE, slot)], cells[left(GPU, RATIO, slot)])
        fleet.devices[rows, slot] = np.minimum(np.maximum(free, 0), 100) * _MILLI
