"""What NodeNUMAResource says of rows for one class of pods.

Amounts are judged in columns, for all rows; the row that wins is looked at exactly: offers of NUMA nodes are merged
with those of other plugins, amounts are split over the nodes agreed upon, and CPUs are chosen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from koord.api.text.quantity import render
from koord.scheduler.framework.amount_scores import ScoreShape
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells, Many, Numbers, One
from koord.scheduler.framework.change import Change, without_pods
from koord.scheduler.framework.judge import Door, Judge, Objection
from koord.scheduler.plugins.numa import changes
from koord.scheduler.plugins.numa.accumulator import NOT_ENOUGH, Free, Wish, take, trimmed
from koord.scheduler.plugins.numa.alike import Alike
from koord.scheduler.plugins.numa.allocations import (
    BIND,
    BIND_POLICIES,
    BOUND,
    HAS,
    NAME,
    PER_CORE,
    POLICIES,
    POLICY,
    RATIO,
    REPORTS,
    TAKEN,
    ZONES,
    Allocations,
    Held,
    OnNode,
    held_among,
)
from koord.scheduler.plugins.numa.facts import CPU, Facts
from koord.scheduler.plugins.numa.growing import both, has_all, missing
from koord.scheduler.plugins.numa.hints import NUMA, UNALIGNED, Agreed, Hint, Hints, Offer, Rule, in_words, keeping
from koord.scheduler.plugins.numa.split import split
from koord.scheduler.plugins.numa.topology import Topology
from koord.scheduler.plugins.numa.wants import NOT_INTEGER, Wants
from koord.scheduler.plugins.numa.zones import (
    Bound,
    Choice,
    Weighed,
    Zones,
    amounts_of,
    bound_cpus,
    ceil,
    choice,
    choice_of_one,
    free_on,
)
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Array, Reason, Row

MISMATCH, FRACTION, AMPLIFIED, INVALID, CONFLICT, UNEVEN, TOO_FEW, NO_ZONES = (1 << i for i in range(8))
FIRST_RESOURCE: Final = 8
"""The bit of the first resource of which NUMA nodes have too little."""
REASONS: Final[Mapping[int, str]] = {
    MISMATCH: "node(s) NUMA Topology policy not match",
    FRACTION: NOT_INTEGER,
    AMPLIFIED: "Insufficient amplified cpu",
    INVALID: "node(s) invalid CPU Topology",
    CONFLICT: "node(s) cpu bind policy conflicts with pod's required cpu bind policy",
    UNEVEN: "node(s) requested cpus not multiple cpus per core",
    TOO_FEW: NOT_ENOUGH,
    NO_ZONES: "node(s) missing NUMA resources",
}
UNSATISFIED: Final = "Unsatisfied NUMA "
NOT_BY_POLICY: Final = "insufficient CPUs to satisfy required cpu bind policy"
SPANS_KEPT: Final = "node(s) CPUs would span the NUMA node of a pod with its own NUMA policy"
LASTING: Final = MISMATCH | FRACTION | INVALID | CONFLICT | UNEVEN | NO_ZONES
"""No pod that leaves helps."""
MOST_TRIED: Final = 8
"""Other pods whose leaving is tried out, on one node."""


class Through(One):
    """The cells of a row as they are through a door: of what rows alike look like, nothing is kept."""

    __slots__ = ()


class NUMAJudge(Judge):
    exact = True
    joint = NUMA
    filters_on = Reason.NODE | Reason.EXACT
    scores_on = Reason.NODE | Reason.EXACT | Reason.REQUESTED | Reason.ALLOCATABLE

    def __init__(
        self,
        cluster: Cluster,
        wants: Wants,
        allocations: Allocations,
        *,
        node_score: Weighed,
        zone_score: Weighed,
        most: bool,
    ) -> None:
        """`most`: whether CPUs are taken from the fullest NUMA node, where a node does not say."""
        self._cluster, self.wants, self._allocations = cluster, wants, allocations
        self._node_score, self._zone_score, self._most = node_score, zone_score, most
        self._needs, self._cpu = dict(wants.requests), wants.cpu_milli
        declared = frozenset((zone, name) for zone in allocations.zones for name in allocations.resources_of(zone))
        self.zones = Zones(allocations.zones, self._needs, declared)
        self._own = BIND_POLICIES.index(wants.bind)
        self._required = BIND_POLICIES.index(wants.required)
        self._policy = POLICIES.index(wants.policy)
        self._alike = Alike(self.zones.inputs(with_cpus=bool(self._own or allocations.binds)))
        if allocations.amplifies:
            self.filters_on |= Reason.REQUESTED | Reason.ALLOCATABLE

    def feasible(self, cells: Cells) -> Numbers:
        if type(cells) is not One or self._allocations.amplifies:
            return self._feasible(cells)
        return self._alike.verdict(cells, self._feasible)

    def _feasible(self, cells: Cells) -> Numbers:
        policy, bind = cells[POLICY], cells[BIND]
        out: Numbers = 0
        if self._policy:
            out = (policy != 0) * (policy != self._policy) * MISMATCH
        policy = policy + (policy == 0) * self._policy
        if self.wants.exactly is not None:
            return out
        bound = self._bound(cells)
        binds = self._own or self._allocations.binds
        if self._allocations.amplifies and self._cpu:
            out = out | self._lacks_amplified(cells, bound) * AMPLIFIED
        if binds and self._cpu:
            binding = bound.binding
            if self._cpu % 1000:
                out = out | binding * FRACTION
            out = out | binding * (bound.per_core == 0) * INVALID
            if self._required:
                out = out | (bind != 0) * (bind != self._required) * CONFLICT
            whole = bound.per_core + (bound.per_core == 0)
            out = out | binding * bound.full * (self._cpu // 1000 % whole != 0) * UNEVEN
            out = out | binding * (self._free(cells, bound) * 1000 < self._cpu) * TOO_FEW
        if self._policy > 1 or (self._allocations.restricts and self._policy != 1):
            is_strict = (policy > 1) * 1
            out = out | is_strict * (cells[ZONES] == 0) * NO_ZONES
            if self.zones.needs:
                short = self.zones.short_of(cells, policy, bound) * is_strict * (cells[ZONES] != 0)
                out = out | short * (1 << FIRST_RESOURCE)
        return out

    def _bound(self, cells: Cells) -> Bound:
        bind = cells[BIND]
        per_core, ratio = cells[PER_CORE], cells[RATIO]
        if not self._cpu:
            return Bound(0, 0, 0, per_core, ratio)
        if not self._allocations.binds:
            return Bound(int(self._own > 0), int(self._required == 1), int(self._required == 2), per_core, ratio)
        is_set = (bind != 0) * 1
        full = (bind == 1) * 1 + (1 - is_set) * (self._required == 1)
        spread = (bind == 2) * 1 + (1 - is_set) * (self._required == 2)
        binding = 1 if self._own else is_set
        return Bound(binding, full, spread, per_core, ratio)

    def _free(self, cells: Cells, bound: Bound) -> Numbers:
        """How many CPUs of a node could be bound."""
        free = free_on(cells, None, bound)
        return free - self.zones.promised(cells, bound) if CPU in self.zones.needs else free

    def _lacks_amplified(self, cells: Cells, bound: Bound) -> Numbers:
        need, left = self._amplified(cells, bound)
        return (cells[RATIO] > 1) * (need > left)

    def _amplified(self, cells: Cells, bound: Bound) -> tuple[Numbers, Numbers]:
        """What the pod takes of a node's CPUs, and what is left of them."""
        ratio, held, requested = cells[RATIO], cells[BOUND], cells["requested", CPU]
        need = self._cpu + bound.binding * (ceil(self._cpu * ratio) - self._cpu)
        used = requested + (requested >= held) * (ceil(held * ratio) - held)
        return need, cells["allocatable", CPU] - used

    def score(self, cells: Cells) -> Numbers:
        policy = cells[POLICY]
        policy = policy + (policy == 0) * self._policy
        by_zones = (policy > 0) * (cells[ZONES] != 0)
        if type(cells) is One and by_zones:
            return self._alike.score(cells, self._score_zones_of_one)
        plain = self._score_node(cells, self._bound(cells))
        if not isinstance(by_zones, np.ndarray):
            return plain
        rows = np.flatnonzero(by_zones)
        if len(rows):
            found = np.asarray(plain).copy() if isinstance(plain, np.ndarray) else np.full(len(by_zones), plain)
            some = Many(cells.columns, _row_numbers(cells, len(by_zones))[rows])
            found[rows] = self._score_zones(some, len(rows), policy[rows], self._bound(some))
            return found
        return plain

    def _score_node(self, cells: Cells, bound: Bound) -> Numbers:
        filled = []
        for name, adds, weight in self._node_score.resources:
            used, more = cells["requested", name], adds
            if name == CPU and self._allocations.amplifies:
                held, ratio = cells[BOUND], cells[RATIO]
                used, more = used + ceil(held * ratio) - held, self._adds(cells, bound)
            filled.append((cells["allocatable", name], used + more, weight))
        return _scored(self._node_score.shape, filled, cells)

    def _adds(self, cells: Cells, bound: Bound) -> Numbers:
        """What the pod adds of cpu: CPUs of its own stand for more, where they are amplified."""
        if not self._allocations.amplifies:
            return self._cpu
        return self._cpu + bound.binding * (ceil(self._cpu * cells[RATIO]) - self._cpu)

    def choice(self, cells: Cells, rows: int) -> Choice:
        if type(cells) is One:
            return self._alike.choice(cells, self._choice_of_one)
        bound = self._bound(cells)
        return choice(self.zones, cells, rows, bound, self._zone_score, self._adds(cells, bound))

    def _choice_of_one(self, cells: Cells) -> Choice:
        bound = self._bound(cells)
        return choice_of_one(self.zones, cells, bound, self._zone_score, self._adds(cells, bound))

    def _score_zones_of_one(self, cells: Cells) -> int:
        policy = np.array([cells[POLICY] or self._policy])
        return int(self._score_zones(cells, 1, policy, self._bound(cells))[0])

    def _score_zones(self, cells: Cells, rows: int, policy: Array, bound: Bound) -> Array:
        """By the NUMA nodes that the pod would use, were they up to this plugin alone."""
        sets = self.choice(cells, rows)
        members = sets.members[sets.chosen(policy)]
        filled = []
        for name, adds, weight in self._node_score.resources:
            has = (amounts_of(self.zones, cells, rows, HAS, name) * members).sum(axis=1)
            used = (amounts_of(self.zones, cells, rows, TAKEN, name) * members).sum(axis=1)
            more: Numbers = adds
            if name == CPU:
                own = (bound_cpus(self.zones, cells, rows) * members).sum(axis=1)
                used = used + bound.binding * (ceil(own * np.asarray(cells[RATIO], np.float64)) - used)
                more = self._adds(cells, bound)
            filled.append((has, used + more, weight))
        found: Array = np.asarray(self._node_score.shape.of_rows(filled)) if filled else np.zeros(rows, np.int64)
        return found

    def reasons(self, mask: int) -> list[str]:
        found = [words for bit, words in REASONS.items() if mask & bit]
        named = enumerate(self.zones.needs, FIRST_RESOURCE)
        return found[:1] or [f"{UNSATISFIED}{name}" for i, name in named if mask >> i & 1]

    def unresolvable(self, mask: int, row: Row) -> bool:
        return bool(mask & LASTING)

    def unresolvable_rows(self, masks: Array, rows: Array) -> Array:
        found: Array = (masks & LASTING) != 0
        return found

    def lack(self, cells: Cells) -> Numbers:
        cpus = self._cpu // 1000
        missing = cpus - self._free(cells, self._bound(cells))
        return 0.5 + missing * (missing > 0) / max(cpus, 1)

    def offer(self, ask: Ask, row: Row, door: Door | None = None) -> Offer | None:
        state = self._allocations.on[row]
        policy = state.facts.policy or self.wants.policy
        if not policy or not state.facts.zones or self.wants.exactly is not None:
            return None
        if door is None:
            hints = self._alike.hints(self._cells(row), self._hints)
        else:
            state, cells, _ = self._through(row, door)
            hints = self._hints(cells)
        all_nodes = sum(1 << zone for zone in state.facts.zones)
        alone, binds = self.wants.alone, self.wish(state.facts) is not None
        uses = state.uses(alone=alone, binds=binds) if alone or (binds and state.kept) else None
        return Offer(hints, Rule(policy, all_nodes, uses))

    def _hints(self, cells: Cells) -> dict[str, Hints]:
        sets = self.choice(cells, 1)
        policy = cells[POLICY] or self._policy
        return {name: hints_of(sets, name, is_restricted=POLICIES[policy] == "Restricted") for name in self.zones.needs}

    def _cells(self, row: Row) -> Cells:
        return One(self._cluster.table.columns if self.view is None else self.view.columns, row)

    def _through(self, row: Row, door: Door | None) -> tuple[OnNode, Cells, int]:
        """A node as the pod sees it: what pods hold there, its cells, and the CPUs to be taken before others. With a
        door, it sees what is left of that room, and no other."""
        state = self._allocations.on[row]
        if door is None:
            hidden: Collection[PodRecord] = () if self.view is None else self.view.hidden(row)
        else:
            hidden = door.holders
        lent = {each.key: held for each in hidden if (held := self._allocations.counts_as(each, row)) is not None}
        preferred = 0
        for held in lent.values():
            preferred |= held.cpus
        if lent:
            state = state.without(lent)
        if door is None:
            return state, self._cells(row), preferred
        columns = self._cluster.table.columns
        if not lent:
            return state, Through(columns, row), 0
        if door.limited:
            (holder,) = door.holders
            whole = holder.note(NAME)
            assert isinstance(whole, Held)
            state = state.limited(whole, lent[holder.key], door.limited)
        return state, Through(columns, row, self._allocations.overlay(row, state)), preferred

    def check(self, ask: Ask, row: Row, agreed: object = None, door: Door | None = None) -> Held | Objection | None:
        facts = self._allocations.on[row].facts
        wish = self.wish(facts)
        nodes = agreed.nodes if isinstance(agreed, Agreed) else None
        if wish is None and nodes is None and self.wants.exactly is None:
            return None
        seen = self._through(row, door)
        if self.wants.exactly is not None:
            return _exactly(self.wants.exactly, seen[0])
        found = self._allocate(seen, wish, nodes)
        if isinstance(found, Objection) and (facts.policy or self.wants.policy) == "BestEffort":
            found = self._allocate(seen, wish, None)
        return found if isinstance(found, Objection) or found.cpus or found.zones else None

    def offer_more(self, ask: Ask, row: Row, having: object) -> Offer | None:
        offer = self.offer(ask, row)
        if offer is None or not isinstance(having, Held):
            return offer
        zones = sum(1 << zone for zone, _ in having.zones)
        return offer._replace(hints={name: keeping(each, zones) for name, each in offer.hints.items()})

    def check_more(self, ask: Ask, row: Row, agreed: object, having: object) -> Held | Objection | None:
        """Chosen anew with its own CPUs first, on the same NUMA nodes where these suffice. Where that would give up
        some of what it has, what is missing alone."""
        if not isinstance(having, Held):
            return self.check(ask, row, agreed)
        state = self._allocations.on[row]
        wish, nodes = self.wish(state.facts), agreed.nodes if isinstance(agreed, Agreed) else None
        if wish is None and nodes is None:
            return having
        topology = state.facts.topology
        if wish is not None and nodes is None and having.cpus and topology is not None:
            near = _cpus_of(topology, sum(1 << zone for zone, _ in topology.nodes_of(having.cpus)))
            taken = _taken(state, wish, {near: self._cpu // 1000}, having.cpus)
            beside = having if isinstance(taken, Objection) else having._replace(cpus=taken, exclusive=wish.exclusive)
            if beside is not having and has_all(beside, having):
                return beside
        found = self._allocate((state, self._cells(row), having.cpus), wish, nodes)
        if isinstance(found, Objection) or has_all(found, having):
            return found
        after = state.with_more(ask.key, having)
        cells = Through(self._cluster.table.columns, row, self._allocations.overlay(row, after))
        more = self._allocate((after, cells, 0), wish, nodes, missing(self._needs, having, after))
        return more if isinstance(more, Objection) else both(having, more)

    def _allocate(
        self,
        seen: tuple[OnNode, Cells, int],
        wish: Wish | None,
        nodes: int | None,
        needs: Mapping[str, int] | None = None,
    ) -> Held | Objection:
        """What the pod holds on a node, from some NUMA nodes or anywhere. `needs`: where that is not all it asks
        for."""
        state, cells, preferred = seen
        needs = self._needs if needs is None else needs
        facts, zones = state.facts, dict[int, dict[str, int]]()
        if nodes is not None:
            found = split(needs, self._left(cells, nodes), _step(wish, facts))
            if isinstance(found, Objection):
                return found
            zones = found
        listed = tuple((zone, tuple(sorted(zones[zone].items()))) for zone in sorted(zones))
        if wish is None:
            return Held(0, listed, "", self.wants.alone)
        if facts.topology is None:
            return Objection(REASONS[INVALID], resolvable=False)
        by_zone = {zone: of.get(CPU, 0) // 1000 for zone, of in zones.items()}
        if not any(by_zone.values()):
            inside = facts.topology.cpus if nodes is None else _cpus_of(facts.topology, nodes)
            wanted = {inside: needs.get(CPU, 0) // 1000}
        else:
            wanted = {facts.topology.nodes.get(zone, 0): number for zone, number in by_zone.items()}
        taken = _taken(state, wish, wanted, preferred)
        return taken if isinstance(taken, Objection) else Held(taken, listed, wish.exclusive, self.wants.alone)

    def _left(self, cells: Cells, nodes: int) -> dict[int, dict[str, int]]:
        bound, found = self._bound(cells), dict[int, dict[str, int]]()
        for name in self.zones.needs:
            if not cells[REPORTS, name]:
                continue
            for zone, left in zip(self.zones.zones, self.zones.left(cells, name, bound), strict=True):
                if nodes >> zone & 1:
                    found.setdefault(zone, {})[name] = int(left)
        return found

    def wish(self, facts: Facts) -> Wish | None:
        """How the pod's CPUs are chosen on a node; None: it has none of its own there."""
        policy = facts.bind or self.wants.bind
        if not self._cpu or not policy:
            return None
        most = self._most if facts.most is None else facts.most
        return Wish(policy, bool(facts.bind or self.wants.required), self.wants.exclusive, most)

    def mend(self, ask: Ask, row: Row) -> Sequence[Change]:
        cells, facts, node = self._cells(row), self._allocations.on[row].facts, self._cluster.nodes[row]
        mask, wish, found = int(self._feasible(cells)), self.wish(facts), list[Change]()
        bound = self._bound(cells)
        if mask & MISMATCH:
            found += changes.other_policy(ask.pod, node, self.wants, facts)
        if mask & FRACTION:
            columns = self._cluster.table.columns
            free = columns["allocatable", CPU].item(row) - columns["requested", CPU].item(row)
            found += changes.whole_cpus(ask.pod, self._cpu, free)
        if mask & UNEVEN and facts.topology is not None:
            step = 1000 * facts.topology.cpus_per_core
            found += changes.fewer_cpus(ask.pod, self._cpu, self._cpu // step * step)
        if mask & TOO_FEW:
            found += changes.fewer_cpus(ask.pod, self._cpu, int(self._free(cells, bound)) * 1000)
        if mask & AMPLIFIED:
            found += changes.fewer_cpus(ask.pod, self._cpu, self._cpu - 1000)
        if mask & (UNEVEN | TOO_FEW | CONFLICT) and wish is not None:
            found += changes.no_requirement(ask.pod, wish)
        if mask & (FRACTION | UNEVEN | CONFLICT | TOO_FEW):
            found += changes.no_node_binding(node)
        if mask & TOO_FEW:
            found += self._others_gone(row, self._cpu // 1000 - int(self._free(cells, bound)))
        elif CPU in self.zones.needs and mask >> FIRST_RESOURCE:
            most = self._most_left(cells, CPU, facts.policy or self.wants.policy)
            found += self._others_gone(row, -(-(self._cpu - most) // 1000))
        if not mask:
            found += changes.not_alone(ask.pod, self.wants)
        if mask >> FIRST_RESOURCE or not mask:
            found += changes.weaker_policy(node, self.wants, facts, aligned=bool(mask))
            if CPU in self.zones.needs:
                policy = facts.policy or self.wants.policy
                most = self._most_left(cells, CPU, policy)
                # CPUs of its own are whole ones, whatever is left beside them.
                found += changes.fewer_cpus(ask.pod, self._cpu, most // 1000 * 1000 if bound.binding else most)
        return found

    def _others_gone(self, row: Row, lacking: int) -> Iterator[Change]:
        """One pod gone that has enough CPUs of its own: those with the fewest of them."""
        pods = self._cluster.pods_on[row].values()
        held = sorted((each.cpus.bit_count(), pod.key) for pod in pods for each in held_among([pod]) if each.cpus)
        for number, key in [each for each in held if each[0] >= lacking > 0][:MOST_TRIED]:
            yield without_pods({key}, f"which would free {number} CPU{'s' if number > 1 else ''}")

    def _most_left(self, cells: Cells, name: str, policy: str) -> int:
        """What a pod could get of a resource under a policy."""
        left = [int(each) for each in self.zones.left(cells, name, self._bound(cells))]
        return max(left, default=0) if policy == "SingleNUMANode" else sum(left)

    def detail(self, reason: str, rows: Sequence[Row]) -> str:
        """How near the nearest of some rows is."""
        name = reason.removeprefix(UNSATISFIED)
        told = {self._in_words(reason, row) for row in rows}
        if told != {""}:
            return told.pop() if len(told) == 1 else ""
        if reason == NOT_ENOUGH:
            most = max(int(self._free(cells, self._bound(cells))) for cells in map(self._cells, rows))
            kind = {"FullPCPUs": "free CPUs in whole cores", "SpreadByPCPUs": "cores with a free CPU"}
            required = {each.policy for row in rows if (each := self._wish_on(row)) is not None and each.required}
            what = kind[required.pop()] if len(required) == 1 else "free CPUs"
            return f"at most {most} {what}, {self._cpu // 1000} needed"
        if name == reason or name not in self.zones.needs:
            return ""
        policies = sorted({self._allocations.on[row].facts.policy or self.wants.policy for row in rows})
        most = max(self._most_left(self._cells(row), name, policy) for row in rows for policy in policies[:1])
        where = "on one NUMA node" if policies[0] == "SingleNUMANode" else "on all NUMA nodes together"
        left, need = render(name, most), render(name, self.zones.needs[name])
        return f"at most {left} {name} free {where}, {need} needed ({', '.join(policies)})"

    def _in_words(self, reason: str, row: Row) -> str:
        """What a reason means on a row."""
        facts, cells = self._allocations.on[row].facts, self._cells(row)
        if reason == REASONS[MISMATCH]:
            return f"the pod wants {self.wants.policy}, the node has {facts.policy}"
        if reason == REASONS[CONFLICT]:
            return f"the pod requires {self.wants.bind}, the node binds by {facts.bind}"
        if reason == REASONS[UNEVEN] and facts.topology is not None:
            number = self._cpu // 1000
            return f"{number} CPU{'s' if number > 1 else ''}, {facts.topology.cpus_per_core} in a core"
        if reason in (REASONS[NO_ZONES], REASONS[INVALID]):
            return "its NodeResourceTopology tells none"
        if reason == REASONS[AMPLIFIED]:
            need, left = self._amplified(cells, self._bound(cells))
            counted = f", where a CPU of a pod's own counts {facts.ratio:g}" if int(need) != self._cpu else ""
            return f"{render(CPU, max(0, int(left)))} cpu free, {render(CPU, int(need))} needed{counted}"
        if reason.startswith(UNALIGNED):
            spanned = [str(zone) for zone, use in enumerate(self._allocations.on[row].uses()) if use == "shared"]
            if self.wants.alone and spanned:
                return f"it wants a NUMA node for itself, and pods span NUMA nodes {' and '.join(spanned)}"
            return in_words(reason)
        return ""

    def _wish_on(self, row: Row) -> Wish | None:
        return self.wish(self._allocations.on[row].facts)


def _taken(state: OnNode, wish: Wish, wanted: Mapping[int, int], preferred: int) -> int | Objection:
    """CPUs for a pod: so many of each of some sets."""
    free = state.free(wish.exclusive)
    free = replace(free, cpus=_not_promised(state, free, wish, preferred))
    cpus = _taken_of(free, wish, wanted, preferred)
    topology = free.topology
    if isinstance(cpus, Objection) or state.kept.keys().isdisjoint(_spanned(topology, cpus)):
        return cpus
    open_ = replace(free, cpus=free.cpus & ~_cpus_of(topology, sum(1 << zone for zone in state.kept)))
    cpus = _taken_of(open_, wish, wanted, preferred)
    return Objection(SPANS_KEPT) if isinstance(cpus, Objection) else cpus


def _taken_of(free: Free, wish: Wish, wanted: Mapping[int, int], preferred: int) -> int | Objection:
    cpus = 0
    for inside, number in wanted.items():
        mine = replace(free, cpus=free.cpus & inside)
        taken = take(mine, number, wish, preferred)
        if taken is None:
            usable = trimmed(free.topology, mine.cpus, wish).bit_count()
            return Objection(NOT_ENOUGH if usable < number else f"{NOT_BY_POLICY} {wish.policy}")
        cpus |= taken
    return cpus


def _not_promised(state: OnNode, free: Free, wish: Wish, preferred: int) -> int:
    """Free CPUs without those that NUMA nodes have promised to pods that share CPUs: of each, the best ones stay."""
    cpus = free.cpus
    for zone, mine in free.topology.nodes_of(free.cpus):
        most = state.bindable(zone)
        if most is not None and most < trimmed(free.topology, mine, wish).bit_count():
            if wish.required and wish.policy == "FullPCPUs":
                most -= most % free.topology.cpus_per_core
            cpus = cpus & ~mine | (take(replace(free, cpus=mine), most, wish, preferred) or 0)
    return cpus


def _spanned(topology: Topology, cpus: int) -> frozenset[int]:
    """The NUMA nodes of a set of CPUs that is on several of them."""
    zones = frozenset(zone for zone, _ in topology.nodes_of(cpus))
    return zones if len(zones) > 1 else frozenset()


def _exactly(wanted: Held, state: OnNode) -> Held | Objection:
    """What was chosen for a pod, if all of it is free."""
    topology = state.facts.topology
    on_nodes = () if topology is None else topology.nodes_of(wanted.cpus)
    is_free = (
        not wanted.cpus & ~state.available
        and all(number <= state.left(zone, name) for zone, listed in wanted.zones for name, number in listed)
        and all((most := state.bindable(zone)) is None or cpus.bit_count() <= most for zone, cpus in on_nodes)
    )
    return wanted if is_free else Objection(NOT_ENOUGH)


def _step(wish: Wish | None, facts: Facts) -> int:
    if wish is None or facts.topology is None:
        return 1
    return 1000 * facts.topology.cpus_per_core if wish.required and wish.policy == "FullPCPUs" else 1000


def _cpus_of(topology: Topology, nodes: int) -> int:
    return sum(cpus for zone, cpus in topology.nodes.items() if nodes >> zone & 1)


def hints_of(sets: Choice, name: str, *, is_restricted: bool) -> Hints:
    """None where no NUMA node reports the resource."""
    if not sets.reported[name][0]:
        return None
    open_ = sets.fits[0] & ~sets.lacking[name][0]
    sizes = sets.members.sum(axis=1)
    smallest = sizes[open_].min() if open_.any() else 0
    found = np.flatnonzero(open_).tolist()
    return tuple(
        Hint(int(sets.sets[i]), bool(is_restricted or sizes[i] == smallest), int(sets.scores[0, i])) for i in found
    )


def _scored(shape: ScoreShape, filled: list[tuple[Numbers, Numbers, int]], cells: Cells) -> Numbers:
    if not filled:
        return 0
    return shape.plain(filled) if isinstance(cells, One) else shape.of_rows(filled)


def _row_numbers(cells: Many, length: int) -> Array:
    rows = cells.rows
    found: Array = np.arange(rows.start or 0, (rows.start or 0) + length) if isinstance(rows, slice) else rows
    return found
