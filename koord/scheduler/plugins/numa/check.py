"""The exact check of NodeNUMAResource: which CPUs and NUMA amounts a pod gets on the row that won.

Offers of NUMA nodes are merged with those of other plugins, amounts are split over the nodes agreed upon, and CPUs are
chosen.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells, One
from koord.scheduler.framework.exact_check import Door, ExactCheck, Objection
from koord.scheduler.plugins.numa.accumulator import BindRule
from koord.scheduler.plugins.numa.allocation import NAME, Allocation
from koord.scheduler.plugins.numa.allocations import POLICIES, POLICY, REPORTS
from koord.scheduler.plugins.numa.facts import CPU, Facts
from koord.scheduler.plugins.numa.formulas import Formulas
from koord.scheduler.plugins.numa.growing import both, has_all, missing
from koord.scheduler.plugins.numa.hints import NUMA, Agreed, Hint, Hints, Offer, Rule, keeping
from koord.scheduler.plugins.numa.on_node import OnNode
from koord.scheduler.plugins.numa.own_cpus import cpus_of, exactly, own_cpus
from koord.scheduler.plugins.numa.split import split
from koord.scheduler.plugins.numa.zones import Choice
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Row

INVALID_TOPOLOGY: Final = "node(s) invalid CPU Topology"


class ThroughDoor(One):
    """The cells of a row seen through a door: answers about rows that look alike are not kept."""

    __slots__ = ()


class NUMACheck(ExactCheck):
    joint = NUMA

    def __init__(self, formulas: Formulas) -> None:
        self._formulas = formulas
        self._wants, self._allocations, self._zones, self._cpu_milli, self._cluster = (
            formulas.wants,
            formulas.allocations,
            formulas.zones,
            formulas.cpu_milli,
            formulas.cluster,
        )

    def offer(self, ask: Ask, row: Row, door: Door | None = None) -> Offer | None:
        state = self._allocations.on[row]
        policy = state.facts.policy or self._wants.policy
        if not policy or not state.facts.zones or self._wants.exactly is not None:
            return None
        if door is None:
            hints = self._formulas.alike.hints(self._formulas.cells(row), self._hints)
        else:
            state, cells, _ = self._through(row, door)
            hints = self._hints(cells)
        all_nodes = sum(1 << zone for zone in state.facts.zones)
        alone, binds = self._wants.alone, self._formulas.wish(state.facts) is not None
        uses = state.uses(alone=alone, binds=binds) if alone or (binds and state.kept) else None
        return Offer(hints, Rule(policy, all_nodes, uses))

    def _hints(self, cells: Cells) -> dict[str, Hints]:
        sets = self._formulas.choice(cells, 1)
        policy = cells[POLICY] or self._formulas.policy
        return {
            name: hints_of(sets, name, is_restricted=POLICIES[policy] == "Restricted") for name in self._zones.needs
        }

    def _through(self, row: Row, door: Door | None) -> tuple[OnNode, Cells, int]:
        """A node as the pod sees it: what pods hold there, its cells, and the CPUs to be taken before others. With a
        door, it sees what is left of that room, and no other."""
        state = self._allocations.on[row]
        if door is None:
            hidden: Collection[PodRecord] = () if self._formulas.view is None else self._formulas.view.hidden(row)
        else:
            hidden = door.holders
        lent = {record.key: held for record in hidden if (held := self._allocations.counts_as(record, row)) is not None}
        preferred = 0
        for held in lent.values():
            preferred |= held.cpus
        if lent:
            state = state.without(lent)
        if door is None:
            return state, self._formulas.cells(row), preferred
        columns = self._cluster.table.columns
        if not lent:
            return state, ThroughDoor(columns, row), 0
        if door.limited:
            (holder,) = door.holders
            whole = holder.note(NAME)
            assert isinstance(whole, Allocation)
            state = state.limited(whole, lent[holder.key], door.limited)
        return state, ThroughDoor(columns, row, self._allocations.overlay(row, state)), preferred

    def check(
        self, ask: Ask, row: Row, agreed: object = None, door: Door | None = None
    ) -> Allocation | Objection | None:
        facts = self._allocations.on[row].facts
        wish = self._formulas.wish(facts)
        nodes = agreed.nodes if isinstance(agreed, Agreed) else None
        if wish is None and nodes is None and self._wants.exactly is None:
            return None
        seen = self._through(row, door)
        if self._wants.exactly is not None:
            return exactly(self._wants.exactly, seen[0])
        allocation = self._allocate(seen, wish, nodes)
        if isinstance(allocation, Objection) and (facts.policy or self._wants.policy) == "BestEffort":
            allocation = self._allocate(seen, wish, None)
        return allocation if isinstance(allocation, Objection) or allocation.cpus or allocation.zones else None

    def offer_more(self, ask: Ask, row: Row, having: object) -> Offer | None:
        offer = self.offer(ask, row)
        if offer is None or not isinstance(having, Allocation):
            return offer
        zones = sum(1 << zone for zone, _ in having.zones)
        return offer._replace(hints={name: keeping(hints, zones) for name, hints in offer.hints.items()})

    def check_more(self, ask: Ask, row: Row, agreed: object, having: object) -> Allocation | Objection | None:
        """Chosen once more with its own CPUs first, on the same NUMA nodes where these suffice. Where that would give
        up some of what it has, what is missing alone."""
        if not isinstance(having, Allocation):
            return self.check(ask, row, agreed)
        state = self._allocations.on[row]
        wish, nodes = self._formulas.wish(state.facts), agreed.nodes if isinstance(agreed, Agreed) else None
        if wish is None and nodes is None:
            return having
        topology = state.facts.topology
        if wish is not None and nodes is None and having.cpus and topology is not None:
            near = cpus_of(topology, sum(1 << zone for zone, _ in topology.nodes_of(having.cpus)))
            taken = own_cpus(state, wish, {near: self._cpu_milli // 1000}, having.cpus)
            beside = having if isinstance(taken, Objection) else having._replace(cpus=taken, exclusive=wish.exclusive)
            if beside is not having and has_all(beside, having):
                return beside
        allocation = self._allocate((state, self._formulas.cells(row), having.cpus), wish, nodes)
        if isinstance(allocation, Objection) or has_all(allocation, having):
            return allocation
        after = state.with_more(ask.key, having)
        cells = ThroughDoor(self._cluster.table.columns, row, self._allocations.overlay(row, after))
        more = self._allocate((after, cells, 0), wish, nodes, missing(self._formulas.needs, having, after))
        return more if isinstance(more, Objection) else both(having, more)

    def _allocate(
        self,
        seen: tuple[OnNode, Cells, int],
        wish: BindRule | None,
        nodes: int | None,
        needs: Mapping[str, int] | None = None,
    ) -> Allocation | Objection:
        """What the pod holds on a node, from some NUMA nodes or anywhere. `needs`: where that is not all it asks
        for."""
        state, cells, preferred = seen
        needs = self._formulas.needs if needs is None else needs
        facts, zones = state.facts, dict[int, dict[str, int]]()
        if nodes is not None:
            amounts_by_zone = split(needs, self._left(cells, nodes), _step(wish, facts))
            if isinstance(amounts_by_zone, Objection):
                return amounts_by_zone
            zones = amounts_by_zone
        listed = tuple((zone, tuple(sorted(zones[zone].items()))) for zone in sorted(zones))
        if wish is None:
            return Allocation(0, listed, "", self._wants.alone)
        if facts.topology is None:
            return Objection(INVALID_TOPOLOGY, resolvable=False)
        by_zone = {zone: of.get(CPU, 0) // 1000 for zone, of in zones.items()}
        if not any(by_zone.values()):
            inside = facts.topology.cpus if nodes is None else cpus_of(facts.topology, nodes)
            wanted = {inside: needs.get(CPU, 0) // 1000}
        else:
            wanted = {facts.topology.nodes.get(zone, 0): number for zone, number in by_zone.items()}
        taken = own_cpus(state, wish, wanted, preferred)
        return taken if isinstance(taken, Objection) else Allocation(taken, listed, wish.exclusive, self._wants.alone)

    def _left(self, cells: Cells, nodes: int) -> dict[int, dict[str, int]]:
        bound, left_by_zone = self._formulas.bound(cells), dict[int, dict[str, int]]()
        for name in self._zones.needs:
            if not cells[REPORTS, name]:
                continue
            for zone, left in zip(self._zones.zones, self._zones.left(cells, name, bound), strict=True):
                if nodes >> zone & 1:
                    left_by_zone.setdefault(zone, {})[name] = int(left)
        return left_by_zone


def _step(wish: BindRule | None, facts: Facts) -> int:
    if wish is None or facts.topology is None:
        return 1
    return 1000 * facts.topology.cpus_per_core if wish.required and wish.policy == "FullPCPUs" else 1000


def hints_of(sets: Choice, name: str, *, is_restricted: bool) -> Hints:
    """None where no NUMA node reports the resource."""
    if not sets.reported[name][0]:
        return None
    open_ = sets.fits[0] & ~sets.lacking[name][0]
    sizes = sets.members.sum(axis=1)
    smallest = sizes[open_].min() if open_.any() else 0
    open_sets = np.flatnonzero(open_).tolist()
    return tuple(
        Hint(int(sets.sets[i]), bool(is_restricted or sizes[i] == smallest), int(sets.scores[0, i])) for i in open_sets
    )
