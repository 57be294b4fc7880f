"""LowNodeLoad: take pods off nodes that are used above their high marks, as far as others can take them.

Pool by pool. A node is a source once it was above its high marks for several rounds (`anomaly`), a target while it is
below its low ones; likewise by the usage of prod pods alone, where there are marks for that. From each source the least
important pods go, until it is below its mark or the targets are full. A pod goes only if a target would take it by
all rules of the scheduler and stay below its own high mark. What has left a node since its report, or is about to, does
not count there: no more pods go than it takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Final, Literal, TypeAlias

import numpy as np

from koord.api.configuration.descheduler_args import AnomalyCondition, LowNodeLoadArgs, NodePool, UsageAggregation
from koord.api.kubernetes.pod import Pod
from koord.api.protocol.priority import PriorityClass, priority_class
from koord.api.text.duration import parse_duration
from koord.api.text.selector import LabelMatcher
from koord.descheduler.anomaly import NOTHING_KNOWN, Detector, marked
from koord.descheduler.importance import Importance, created_s, importance, roughly
from koord.descheduler.load import (
    PODS,
    Amounts,
    Marks,
    NodeLoad,
    Percents,
    Reading,
    around_the_mean,
    load_of,
    marks_of,
)
from koord.descheduler.moves import identity
from koord.descheduler.plugin import NodeAssessment, Plugin, Proposal, Terms, Turn
from koord.descheduler.selection import Selection, chosen_by
from koord.descheduler.usage_estimate import estimated
from koord.scheduler.state.table import Array

Class: TypeAlias = Literal["high", "prodHigh", "low", "prodLow", "bothLow", "normal"]
Memory: TypeAlias = Mapping[tuple[str, str, bool], Detector]
"""By pool, node, and whether prod pods alone count."""

_MAX_PERCENT: Final = 100.0
_LOW_BY: Final[Mapping[str, tuple[bool, ...]]] = {"low": (False,), "prodLow": (True,), "bothLow": (False, True)}
"""By which marks a node of a class is low: those for all pods, those for prod pods alone."""
NO_TARGET: Final = "no other node would take it and stay below its own high mark"


@dataclass(slots=True)
class _PoolNode:
    """A node of the pool, with its marks."""

    load: NodeLoad
    marks: Marks
    prod_marks: Marks | None
    class_: Class = "normal"

    def usage(self, prod: bool) -> dict[str, int]:
        return self.load.prod_usage if prod else self.load.usage

    def marks_for(self, prod: bool) -> Marks:
        marks = self.prod_marks if prod else self.marks
        assert marks is not None
        return marks

    def is_over(self, prod: bool) -> bool:
        return bool(self.marks_for(prod).above(self.usage(prod)))


@dataclass(slots=True)
class _Pass:
    """One pool's share of a round."""

    turn: Turn
    args: LowNodeLoadArgs
    selection: Selection
    pool: NodePool
    condition: AnomalyCondition
    nodes: list[_PoolNode]
    memory: dict[tuple[str, str, bool], Detector]

    def of(self, *classes: Class) -> list[_PoolNode]:
        return [node for node in self.nodes if node.class_ in classes]

    def slot(self, node: _PoolNode, prod: bool) -> tuple[str, str, bool]:
        return self.pool.name, node.load.name, prod

    def mark(self, node: _PoolNode, prod: bool, *, overloaded: bool) -> Detector:
        slot = self.slot(node, prod)
        before = self.memory.get(slot, NOTHING_KNOWN)
        self.memory[slot] = marked(before, self.condition, self.turn.sight.now_s, overloaded=overloaded)
        return self.memory[slot]

    def forget(self, node: _PoolNode, prod: bool) -> None:
        """Counting starts again."""
        self.memory.pop(self.slot(node, prod), None)


class LowNodeLoad(Plugin):
    name = "LowNodeLoad"
    cools = True

    def __init__(self, args: LowNodeLoadArgs) -> None:
        self.args = args
        self._selection = Selection.of(args)
        by = args.aggregated or UsageAggregation()
        self._reading = Reading(
            args.node_metric_expiration_seconds, by.usage_aggregation_type, parse_duration(by.usage_aggregated_duration)
        )
        self._pools = tuple((pool, chosen_by(pool.node_selector)) for pool in (args.as_pool(), *args.node_pools))

    def propose(self, turn: Turn, memory: Memory | None) -> Memory:
        args = self.args
        if args.paused:
            return memory or {}
        detectors = _recent(memory or {}, turn, args)
        overloaded_before: set[str] = set()
        for pool, chosen in self._pools:
            loads = self._loads(turn, pool, chosen, overloaded_before)
            nodes = _classified(loads, pool)
            assert pool.anomaly_condition is not None
            this = _Pass(turn, args, self._selection, pool, pool.anomaly_condition, nodes, detectors)
            overloaded_before |= {node.load.name for node in this.of("high")}
            before = [dict(node.load.usage) for node in nodes]
            self._balance(this)
            for pool_node, usage in zip(nodes, before, strict=True):
                load = pool_node.load
                turn.nodes_seen[load.name] = NodeAssessment(pool_node.class_, load.has, usage, dict(load.usage))
        return detectors

    def _loads(self, turn: Turn, pool: NodePool, chosen: LabelMatcher, taken: set[str]) -> list[NodeLoad]:
        sight = turn.sight
        prod = bool(pool.prod_low_thresholds or pool.prod_high_thresholds)
        reading = replace(self._reading, prod=prod, without_gone=sight.has_all_pods)
        leaving: dict[str, set[str]] = {}
        for move in sight.moving:
            leaving.setdefault(move.node, set()).add(move.pod)
        loads = []
        for name in turn.nodes:
            node = sight.nodes[name]
            if pool.node_selector is not None and (name in taken or not chosen.matches(node.metadata.labels)):
                continue
            metric, pods = sight.metrics.get(name), sight.pods_on.get(name, ())
            load = load_of(node, pods, metric, sight.now_s, reading)
            if load is not None:
                loads.append(load)
                going = leaving.get(name, set())
                for pod in pods if going else ():
                    if identity(pod) in going:
                        load.take({**_used(load, pod), PODS: 1}, priority_class(pod) is PriorityClass.PROD, -1)
        return loads

    def _balance(self, this: _Pass) -> None:
        sources = {prod: self._anomalous(this, prod) for prod in (False, True)}
        low = this.of("low", "bothLow", "prodLow")
        for node in low:
            for prod in _LOW_BY[node.class_]:
                this.forget(node, prod)
        if not low or len(low) <= this.args.number_of_nodes or len(low) == len(this.nodes):
            return
        if sources[False]:
            _relieve(this, sources[False], this.of("low", "bothLow"), prod=False)
        if sources[True]:
            _relieve(this, sources[True], this.of("prodLow", "bothLow"), prod=True)
        for prod in (False, True):
            for source in sources[prod]:
                if not source.is_over(prod):
                    this.forget(source, prod)
                this.mark(source, prod, overloaded=False)

    def _anomalous(self, this: _Pass, prod: bool) -> list[_PoolNode]:
        """Nodes that have been over their high marks for long enough, the most used first."""
        anomalous, wanted = [], "prodHigh" if prod else "high"
        for node in this.nodes:
            over = node.class_ == wanted
            if this.slot(node, prod) in this.memory or over:
                detector = this.mark(node, prod, overloaded=over)
                at_once = this.turn.at_once or this.condition.consecutive_abnormalities == 1
                if over and (at_once or detector.is_anomalous):
                    anomalous.append(node)
        weights = this.pool.resource_weights
        anomalous.sort(key=lambda node: (-_usage_score(node.usage(prod), node.load.has, weights), node.load.name))
        return anomalous


def _recent(memory: Memory, turn: Turn, args: LowNodeLoadArgs) -> dict[tuple[str, str, bool], Detector]:
    """Without entries that were not used for long."""
    kept_s = max(parse_duration(args.detector_cache_timeout), turn.interval_s)
    return {slot: detector for slot, detector in memory.items() if turn.sight.now_s - detector.seen_s <= kept_s}


def completed(low: Percents, high: Percents, *, deviation: bool) -> tuple[Percents, Percents]:
    """Percentages for every resource that either of the two names. A node with a resource without a low mark takes pods
    unless it is high; a resource without a high mark is never high."""
    none = 0.0 if deviation else _MAX_PERCENT
    named = dict.fromkeys((*low, *high))
    return (
        {name: low.get(name, high.get(name, none)) for name in named},
        {name: high.get(name, none) for name in named},
    )


def _classified(loads: Sequence[NodeLoad], pool: NodePool) -> list[_PoolNode]:
    deviation = pool.use_deviation_thresholds
    low, high = completed(pool.low_thresholds, pool.high_thresholds, deviation=deviation)
    prod = completed(pool.prod_low_thresholds, pool.prod_high_thresholds, deviation=deviation)
    if deviation:
        low, high = around_the_mean(loads, low, high)
        prod = around_the_mean(loads, *prod, prod=True)
    nodes = []
    for load in loads:
        seen = _PoolNode(load, marks_of(load, low, high), marks_of(load, *prod) if prod[0] else None)
        seen.class_ = _class(seen)
        nodes.append(seen)
    return nodes


def _class(seen: _PoolNode) -> Class:
    open_ = not seen.load.node.spec.unschedulable
    prod_over = seen.prod_marks is not None and seen.is_over(True)
    prod_under = seen.prod_marks is not None and open_ and not seen.prod_marks.above(seen.load.prod_usage, low=True)
    if open_ and not seen.marks.above(seen.load.usage, low=True):
        return "prodHigh" if prod_over else "bothLow" if prod_under else "low"
    if seen.is_over(False):
        return "high"
    return "prodHigh" if prod_over else "prodLow" if prod_under else "normal"


def _usage_score(usage: Amounts, has: Amounts, weights: Mapping[str, int]) -> int:
    parts = [
        (weight, min(usage.get(name, 0), has[name]) * 1000 // has[name])
        for name, weight in weights.items()
        if has.get(name)
    ]
    total = sum(weight for weight, _ in parts)
    return sum(weight * part for weight, part in parts) // total if total else 0


def _excess_score(used: Amounts, excess: Amounts, weights: Mapping[str, int]) -> float:
    """How well a pod's usage suits what its node has too much of: best is just enough."""
    total = score = 0.0
    for name, amount in excess.items():
        weight, ratio = weights.get(name, 1), used.get(name, 0) / amount
        score += weight * (ratio if ratio < 1 else 1 + 1 / ratio)
        total += weight
    return score / total if total else 0.0


class _Room:
    """What targets can still take without being high themselves, by row and in total. A target of a prod pod must stay
    below its mark for prod pods and below that for all pods."""

    def __init__(self, targets: Iterable[_PoolNode], turn: Turn, prod: bool) -> None:
        table = turn.sight.places.cluster.table
        listed = list(targets)
        self._loads = {node.load.name: node.load for node in listed}
        self._rows = np.array([table.row_of[node.load.name] for node in listed], np.int64)
        self._capacity = table.capacity
        self._of_row = {int(row): i for i, row in enumerate(self._rows)}
        self._row_of = table.row_of
        self._left: dict[tuple[bool, str], Array] = {}
        self._decides = (False, True) if prod else (False,)
        has_prod = any(node.prod_marks is not None for node in listed)
        for of_prod in (False, True) if has_prod else (False,):
            for name in dict.fromkeys(name for node in listed for name in node.marks_for(of_prod).high):
                self._left[of_prod, name] = np.array(
                    [node.marks_for(of_prod).high.get(name, 0) - node.usage(of_prod).get(name, 0) for node in listed],
                    np.int64,
                )
        self.total = {key: int(left.sum()) for key, left in self._left.items()}

    @property
    def is_spent(self) -> bool:
        return any(left <= 0 for (of_prod, _), left in self.total.items() if of_prod in self._decides)

    def for_pod(self, used: Amounts, is_prod: bool) -> Array:
        """The rows that stay below their marks with this pod."""
        fits = np.ones(len(self._rows), np.bool_)
        for (of_prod, name), left in self._left.items():
            if is_prod or not of_prod:
                fits &= left >= used.get(name, 0)
        mask = np.zeros(self._capacity, np.bool_)
        mask[self._rows[fits]] = True
        return mask

    def take(self, node: str, used: Amounts, is_prod: bool) -> None:
        at = self._of_row.get(self._row_of.get(node, -1))
        if node in self._loads:
            self._loads[node].take(used, is_prod)
        for key, left in self._left.items():
            of_prod, name = key
            if of_prod and not is_prod:
                continue
            if at is not None:
                left[at] -= used.get(name, 0)
            self.total[key] -= used.get(name, 0)


def _relieve(this: _Pass, sources: Sequence[_PoolNode], targets: Sequence[_PoolNode], *, prod: bool) -> None:
    if not targets:
        return
    room = _Room(targets, this.turn, prod)
    for source in sources:
        for pod in _victims(this, source, prod):
            if room.is_spent or not source.is_over(prod):
                break
            used, is_prod = {**_used(source.load, pod), PODS: 1}, priority_class(pod) is PriorityClass.PROD
            terms = Terms(looks_on=this.args.dry_run)
            if this.args.node_fit:
                fits = room.for_pod(used, is_prod)
                terms = Terms(fits, must_fit=True, nowhere=NO_TARGET, looks_on=this.args.dry_run)
            moved = this.turn.ask(Proposal(pod, LowNodeLoad.name, _reason(source, prod)), terms)
            if moved is None:
                continue
            room.take(moved.to, used, is_prod)
            source.load.take(used, is_prod, -1)


def _victims(this: _Pass, source: _PoolNode, prod: bool) -> Iterator[Pod]:
    """The pods of a source that may go, the first to go first. Few of them are ever needed, so that the closer look is
    taken at the least important ones, then at others."""
    load = source.load
    usage, marks = source.usage(prod), source.marks_for(prod)
    excess = {name: usage[name] - marks.high[name] for name in marks.above(usage) if name != PODS}
    weights = this.pool.resource_weights

    def rank(pod: Pod) -> tuple[Importance, bool, float]:
        measured = load.of_pod(pod)
        score = 0.0 if measured is None else _excess_score(measured, excess, weights)
        return (importance(pod), measured is None, -score)

    groups: dict[tuple[int, int], list[Pod]] = {}
    for pod in load.pods:
        if this.selection.has_pod(pod) and (not prod or priority_class(pod) is PriorityClass.PROD):
            groups.setdefault(roughly(pod), []).append(pod)
    for key in sorted(groups):
        ranked = sorted(((rank(pod), pod) for pod in groups[key]), key=itemgetter(0))
        for _, equals in groupby(ranked, key=itemgetter(0)):
            alike = [pod for _, pod in equals]
            for pod in sorted(alike, key=_newest_first) if len(alike) > 1 else alike:
                if this.turn.never(pod) is None:
                    yield pod


def _newest_first(pod: Pod) -> tuple[float, str]:
    return (-created_s(pod), pod.metadata.key)


def _used(load: NodeLoad, pod: Pod) -> Amounts:
    return load.of_pod(pod) or estimated(pod)


def _reason(source: _PoolNode, prod: bool) -> str:
    usage, marks, load = source.usage(prod), source.marks_for(prod), source.load
    shares = [
        f"{'prod' if prod else 'node'} {name} usage({load.percent(usage, name):.2f}%)"
        f">threshold({load.percent(marks.high, name):.2f}%)"
        for name in marks.above(usage)
    ]
    return f"node is overutilized, {', '.join(shares)}"
