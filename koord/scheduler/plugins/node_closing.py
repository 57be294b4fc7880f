"""NodeClosing: no pods of a band for a node whose agent holds that band back, or has evicted some a short time ago.

    closed:  usage / capacity >= the band's lowest rung on that node (`thresholds`), by a recent report
    closed:  for COOL_DOWN_S after the agent evicted pods of the band, which it says in the annotation last-evictions
    closed:  for as long to pods of an owner after the descheduler moved one of them away; the annotation names owners

So no pod is evicted from a node and placed there again in a loop. It comes with LoadAwareScheduling, whatever that
one's own limits are. Rungs come from the node's NodeSLO; usage does not close a node without one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple
from zlib import crc32

import numpy as np

from koord.api.configuration.threshold_rungs import DIMENSIONS, Dimension
from koord.api.configuration.thresholds import COOL_DOWN_S, check, strategy_layers
from koord.api.kinds import NODE_METRICS, NODE_SLOS
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.resources import amounts
from koord.api.protocol.annotations.load import LAST_EVICTIONS, OF_OWNER
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.protocol.crd.node_slo import NodeSLO, NodeSLOSpec, ResourceThresholdStrategy
from koord.api.protocol.priority import BANDS, PriorityClass
from koord.api.protocol.report_age import report_age_s
from koord.api.text.timestamp import TimestampError, parse_timestamp
from koord.scheduler.core.queue import ClusterEvent
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells, Numbers, One
from koord.scheduler.framework.change import Change
from koord.scheduler.framework.judge import Judge
from koord.scheduler.framework.plugin import KeyedBy, Plugin, Taking
from koord.scheduler.framework.queueing import Queueing
from koord.scheduler.framework.stable import Version
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Array, Column, Reason, Row
from koord.scheduler.state.watchers import Index

REPORT_COUNTS_S: Final = 180.0
"""An older report says nothing: for all that is known, an agent that does not report does not hold anyone back."""
EVICTED: Final = 1
MOVED: Final = 8
BITS: Final[Mapping[Dimension, int]] = {"cpu": 2, "memory": 4}
COLUMNS: Final[Mapping[PriorityClass, str]] = {band: f"closed to {band}" for band in BANDS}
OWNERS: Final = "closed to owners"
"""Which owners those are, in a number that differs where they do; 0 where there are none."""

Rungs = Mapping[tuple[Dimension, PriorityClass], int]


class _Usage(NamedTuple):
    reported_s: float
    amounts: Mapping[str, int]


@lru_cache(maxsize=1024)
def rungs_of(strategy: ResourceThresholdStrategy | None) -> Rungs:
    """By dimension and band, the usage in percent of a node at which the node is closed."""
    report = check(strategy=strategy_layers(NodeSLOSpec(resource_used_threshold_with_be=strategy)))
    thresholds = {key: rungs.closes_at for key, rungs in report.thresholds.items()}
    return {key: percent for key, percent in thresholds.items() if percent is not None}


class Closings(Index):
    """For each band, the rows that are closed to it. One per cluster, whatever the number of profiles."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        for column in COLUMNS.values():
            cluster.table.declare(Column(column, np.int8, Reason.LOAD))
        cluster.table.declare(Column(OWNERS, np.int64, Reason.LOAD))
        self.bands: set[PriorityClass] = set()
        "Bands that some node was ever closed to, or might have been."
        self._usage: dict[str, _Usage] = {}
        self._rungs: dict[str, Rungs] = {}
        self._said: dict[Row, Mapping[str, str]] = {}
        self._evicted_s: dict[Row, dict[str, float]] = {}
        "By band, or by owner as the annotation names it."
        self.rows_of: dict[str, set[Row]] = {}
        "By the uid of an owner, the rows that are closed to its pods."
        self._owners_at: dict[Row, frozenset[str]] = {}
        self._until_s: dict[Row, float] = {}
        "When a closed row must be checked again although nothing happens."
        self._now_s, self._next_s = cluster.now_s, math.inf
        for row in list(cluster.nodes):
            self.node_put(row)

    def put_metric(self, metric: NodeMetric) -> None:
        name, status = metric.metadata.name, metric.status
        if status.node_metric is None or not status.update_time:
            self.remove_metric(name)
            return
        used = amounts(status.node_metric.node_usage.resources)
        self._usage[name] = _Usage(parse_timestamp(status.update_time), used)
        self._look(name)

    def remove_metric(self, name: str) -> None:
        if self._usage.pop(name, None) is not None:
            self._look(name)

    def put_slo(self, slo: NodeSLO) -> None:
        name = slo.metadata.name
        self._rungs[name] = rungs_of(slo.spec.resource_used_threshold_with_be)
        self.bands |= {band for _, band in self._rungs[name]}
        self._look(name)

    def remove_slo(self, name: str) -> None:
        if self._rungs.pop(name, None) is not None:
            self._look(name)

    def node_put(self, row: Row) -> None:
        self._note_evictions(row)
        self._decide(row)

    def amounts_put(self, row: Row, changed: frozenset[str]) -> None:
        """Only CPU and memory say how full a node is."""

    def node_removed(self, row: Row) -> None:
        self._close_to(row, ())
        for memo in (self._said, self._evicted_s, self._until_s):
            memo.pop(row, None)

    def advance(self) -> None:
        """Time has passed: look again at the rows for which that matters."""
        self._now_s = now_s = self.cluster.now_s
        if now_s < self._next_s:
            return
        for row in [row for row, until_s in self._until_s.items() if until_s <= now_s]:
            self._decide(row)
        self._next_s = min(self._until_s.values(), default=math.inf)

    def keep_up(self) -> None:
        if self.cluster.now_s != self._now_s:
            self.advance()

    def percent_used(self, row: Row, dimension: Dimension) -> int | None:
        """Of the node's capacity; None where nothing recent is known."""
        usage = self._usage.get(self.cluster.table.names[row])
        has = self._capacity(row).get(dimension, 0)
        if usage is None or not has or report_age_s(usage.reported_s, self.cluster.now_s) >= REPORT_COUNTS_S:
            return None
        return usage.amounts.get(dimension, 0) * 100 // has

    def rung(self, row: Row, dimension: Dimension, band: PriorityClass) -> int | None:
        return self._rungs.get(self.cluster.table.names[row], {}).get((dimension, band))

    def evicted_s(self, row: Row, band: PriorityClass) -> float:
        """When pods of the band were last evicted there, by this scheduler's clock if it saw the annotation then."""
        return self._evicted_s.get(row, {}).get(band, -math.inf)

    def as_if_open(self, row: Row, band: PriorityClass) -> Callable[[], None]:
        """The row is open to the band until what is returned is called."""
        self.cluster.table.set(COLUMNS[band], row, 0)
        return lambda: self._decide(row)

    def _note_evictions(self, row: Row) -> None:
        """What is news counts from now, so that clocks need not agree; what was there at first, as it says."""
        said, former = LAST_EVICTIONS.read(self.cluster.nodes[row].metadata, "Node"), self._said.get(row)
        if former == said:
            return
        now_s, evicted_s = self.cluster.now_s, self._evicted_s.setdefault(row, {})
        for name, time in said.items():
            is_meant = name in _CLASSES or name.startswith(OF_OWNER)
            if not is_meant or (former is not None and former.get(name) == time):
                continue
            try:
                at_s = parse_timestamp(time)
            except TimestampError:
                continue
            evicted_s[name] = min(at_s, now_s) if former is None else now_s
        for name in [name for name in evicted_s if name.startswith(OF_OWNER) and name not in said]:
            del evicted_s[name]
        self._said[row] = said
        self.bands |= {PriorityClass(name) for name in evicted_s if name in _CLASSES}

    def _look(self, name: str) -> None:
        row = self.cluster.table.row_of.get(name)
        if row is not None:
            self._decide(row)

    def _decide(self, row: Row) -> None:
        table, now_s, until_s = self.cluster.table, self.cluster.now_s, math.inf
        codes: dict[str, int] = dict.fromkeys(COLUMNS, 0)
        owners = []
        for name, at_s in self._evicted_s.get(row, {}).items():
            if now_s < at_s + COOL_DOWN_S:
                if name in codes:
                    codes[name] |= EVICTED
                else:
                    owners.append(name.removeprefix(OF_OWNER))
                until_s = min(until_s, at_s + COOL_DOWN_S)
        self._close_to(row, owners)
        rungs = self._rungs.get(table.names[row])
        if rungs:
            used = {dimension: self.percent_used(row, dimension) for dimension in DIMENSIONS}
            for (dimension, band), percent in rungs.items():
                share = used[dimension]
                if share is not None and share >= percent:
                    codes[band] |= BITS[dimension]
                    until_s = min(until_s, self._usage[table.names[row]].reported_s + REPORT_COUNTS_S)
        for band, column in COLUMNS.items():
            table.set(column, row, codes[band])
        if until_s == math.inf:
            self._until_s.pop(row, None)
        else:
            self._until_s[row] = until_s
            self._next_s = min(self._next_s, until_s)

    def _close_to(self, row: Row, owners: Sequence[str]) -> None:
        before = self._owners_at.get(row, frozenset())
        closed = frozenset(owners)
        if closed == before:
            return
        for uid in before - closed:
            self.rows_of[uid].discard(row)
            if not self.rows_of[uid]:
                del self.rows_of[uid]
        for uid in closed - before:
            self.rows_of.setdefault(uid, set()).add(row)
        if closed:
            self._owners_at[row] = closed
        else:
            self._owners_at.pop(row, None)
        if row in self.cluster.nodes:
            self.cluster.table.set(OWNERS, row, crc32(" ".join(sorted(closed)).encode()) + 1 if closed else 0)

    def _capacity(self, row: Row) -> Mapping[str, int]:
        status = self.cluster.nodes[row].status
        return amounts(status.capacity or status.allocatable)


class NodeClosing(Plugin):
    name = "NodeClosing"
    wakes_on = Reason.NODE | Reason.LOAD

    def __init__(self) -> None:
        self._closings: Closings | None = None
        self.queueing = Queueing(helps=self._helps)

    def attach(self, cluster: Cluster) -> None:
        self._closings = cluster.index(Closings)

    @property
    def closings(self) -> Closings:
        assert self._closings is not None, "a plugin is attached to a cluster before it is told anything"
        return self._closings

    def takes(self) -> Sequence[Taking]:
        return (
            Taking(NODE_METRICS, self.put_node_metric, lambda metric: self.remove_node_metric(metric.metadata.name)),
            Taking(NODE_SLOS, self.put_node_slo, lambda slo: self.remove_node_slo(slo.metadata.name)),
        )

    def put_node_metric(self, metric: NodeMetric) -> None:
        self.closings.put_metric(metric)

    def remove_node_metric(self, name: str) -> None:
        self.closings.remove_metric(name)

    def put_node_slo(self, slo: NodeSLO) -> None:
        self.closings.put_slo(slo)

    def remove_node_slo(self, name: str) -> None:
        self.closings.remove_slo(name)

    def keyed_by(self, ask: Ask, cluster: Cluster) -> KeyedBy:
        return KeyedBy.LABELS

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        closings = self.closings
        closings.keep_up()
        if closings.rows_of:
            owner = _owner(ask)
            if owner in closings.rows_of:
                return (_NUMBERS[ask.band], owner)
        if not closings.bands:
            return _NUMBERS[PriorityClass.NONE]
        return _NUMBERS[ask.band] if ask.band in closings.bands else _NUMBERS[PriorityClass.NONE]

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        band, owner = ask.band, _owner(ask)
        if owner in self.closings.rows_of:
            return _OpenToOwner(self.closings, band, owner)
        return _Open(self.closings, band) if band in self.closings.bands else None

    def _helps(self, ask: Ask, event: ClusterEvent, cluster: Cluster) -> bool:
        """Only what happens to a node that is open then."""
        subject = event.subject
        name = subject if isinstance(subject, str) else subject.metadata.name if isinstance(subject, Node) else None
        row = cluster.table.row_of.get(name) if name is not None else None
        band = ask.band
        if row is None or band not in COLUMNS:
            return True
        self.closings.keep_up()
        if row in self.closings.rows_of.get(_owner(ask), ()):
            return False
        return not cluster.table.columns[COLUMNS[band]].item(row)


class _Open(Judge):
    filters_on = Reason.NODE | Reason.LOAD
    eased = True

    def __init__(self, closings: Closings, band: PriorityClass) -> None:
        self._closings, self._band, self._column = closings, band, COLUMNS.get(band)

    def feasible(self, cells: Cells) -> Numbers:
        return cells[self._column]

    def reasons(self, mask: int) -> list[str]:
        pods = self._band.removeprefix("koord-")
        if mask & MOVED:
            return ["node(s) had a pod of the same owner moved away a short time ago"]
        if mask & EVICTED:
            return [f"node(s) evicted {pods} pods a short time ago"]
        busy = " and ".join(dimension for dimension, bit in BITS.items() if mask & bit)
        return [f"node(s) hold {pods} pods back for too much {busy} usage"]

    def unresolvable(self, masks: Array, rows: Array) -> Array:
        """No pod's leaving changes the reported usage or the time."""
        return np.ones(len(rows), np.bool_)

    def fixes(self, ask: Ask, row: Row) -> list[Change]:
        """Less usage, or time. No user can grant either, but both are worth waiting for."""
        closings, band = self._closings, self._band
        mask, words = int(self.feasible(One(closings.cluster.table.columns, row))), []
        for dimension, bit in BITS.items():
            used, rung = closings.percent_used(row, dimension), closings.rung(row, dimension, band)
            if mask & bit and used is not None and rung is not None:
                words.append(f"{dimension} usage below {rung}% there (it is {used}%)")
        if mask & EVICTED:
            left_s = closings.evicted_s(row, band) + COOL_DOWN_S - closings.cluster.now_s
            words.append(f"{math.ceil(left_s)} s more since it evicted pods")
        text = " and ".join(words)
        return [Change(text, trial=lambda: closings.as_if_open(row, band), whose="node", size=3.0)] if words else []


class _OpenToOwner(_Open):
    """As for all pods of the band, and closed where a pod of the same owner was moved away."""

    def __init__(self, closings: Closings, band: PriorityClass, owner: str) -> None:
        super().__init__(closings, band)
        self._owner = owner

    def feasible(self, cells: Cells) -> Numbers:
        code = cells[self._column] if self._column is not None else 0
        rows = self._closings.rows_of.get(self._owner, ())
        if isinstance(cells, One):
            return code | (MOVED if cells.rows in rows else 0)
        closed = np.zeros(len(self._closings.cluster.table.alive), np.int8)
        closed[list(rows)] = MOVED
        return closed[cells.rows] | code

    def fixes(self, ask: Ask, row: Row) -> list[Change]:
        return super().fixes(ask, row) if row not in self._closings.rows_of.get(self._owner, ()) else []


def _owner(ask: Ask) -> str:
    owner = ask.meta.controller
    return "" if owner is None else owner.uid


_CLASSES: Final = frozenset(map(str, BANDS))
_NUMBERS: Final = {band: Version(number) for number, band in enumerate((PriorityClass.NONE, *BANDS))}
