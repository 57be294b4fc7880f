"""Explanations of NodeNUMAResource: what a reason means on some rows, and what would help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from koord.api.text.quantity import render
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells
from koord.scheduler.framework.change import Change, without_pods
from koord.scheduler.plugins.numa import changes
from koord.scheduler.plugins.numa.accumulator import NOT_ENOUGH, BindRule
from koord.scheduler.plugins.numa.allocation import held_among
from koord.scheduler.plugins.numa.check import INVALID_TOPOLOGY
from koord.scheduler.plugins.numa.facts import CPU
from koord.scheduler.plugins.numa.formulas import (
    AMPLIFIED,
    CONFLICT,
    FIRST_RESOURCE,
    FRACTION,
    INVALID,
    MISMATCH,
    NO_ZONES,
    TOO_FEW,
    UNEVEN,
    Formulas,
)
from koord.scheduler.plugins.numa.hints import UNALIGNED, in_words
from koord.scheduler.plugins.numa.wants import NOT_INTEGER
from koord.scheduler.state.table import Row

REASONS: Final[Mapping[int, str]] = {
    MISMATCH: "node(s) NUMA Topology policy not match",
    FRACTION: NOT_INTEGER,
    AMPLIFIED: "Insufficient amplified cpu",
    INVALID: INVALID_TOPOLOGY,
    CONFLICT: "node(s) cpu bind policy conflicts with pod's required cpu bind policy",
    UNEVEN: "node(s) requested cpus not multiple cpus per core",
    TOO_FEW: NOT_ENOUGH,
    NO_ZONES: "node(s) missing NUMA resources",
}
UNSATISFIED: Final = "Unsatisfied NUMA "
MOST_TRIED: Final = 8
"""Other pods whose leaving is tried out, on one node."""


class Explanation:
    """For one class of pods."""

    def __init__(self, formulas: Formulas) -> None:
        self._formulas = formulas
        self._wants, self._allocations, self._zones, self._cpu_milli, self._cluster = (
            formulas.wants,
            formulas.allocations,
            formulas.zones,
            formulas.cpu_milli,
            formulas.cluster,
        )

    def fixes(self, ask: Ask, row: Row) -> Sequence[Change]:
        cells, facts, node = self._formulas.cells(row), self._allocations.on[row].facts, self._cluster.nodes[row]
        mask, wish, changes_possible = int(self._formulas.verdict(cells)), self._formulas.wish(facts), list[Change]()
        bound = self._formulas.bound(cells)
        if mask & MISMATCH:
            changes_possible += changes.other_policy(ask.pod, node, self._wants, facts)
        if mask & FRACTION:
            columns = self._cluster.table.columns
            free = columns["allocatable", CPU].item(row) - columns["requested", CPU].item(row)
            changes_possible += changes.whole_cpus(ask.pod, self._cpu_milli, free)
        if mask & UNEVEN and facts.topology is not None:
            step = 1000 * facts.topology.cpus_per_core
            changes_possible += changes.fewer_cpus(ask.pod, self._cpu_milli, self._cpu_milli // step * step)
        if mask & TOO_FEW:
            changes_possible += changes.fewer_cpus(
                ask.pod, self._cpu_milli, int(self._formulas.free(cells, bound)) * 1000
            )
        if mask & AMPLIFIED:
            changes_possible += changes.fewer_cpus(ask.pod, self._cpu_milli, self._cpu_milli - 1000)
        if mask & (UNEVEN | TOO_FEW | CONFLICT) and wish is not None:
            changes_possible += changes.no_requirement(ask.pod, wish)
        if mask & (FRACTION | UNEVEN | CONFLICT | TOO_FEW):
            changes_possible += changes.no_node_binding(node)
        if mask & TOO_FEW:
            changes_possible += self._others_gone(row, self._cpu_milli // 1000 - int(self._formulas.free(cells, bound)))
        elif CPU in self._zones.needs and mask >> FIRST_RESOURCE:
            most = self._most_left(cells, CPU, facts.policy or self._wants.policy)
            changes_possible += self._others_gone(row, -(-(self._cpu_milli - most) // 1000))
        if not mask:
            changes_possible += changes.not_alone(ask.pod, self._wants)
        if mask >> FIRST_RESOURCE or not mask:
            changes_possible += changes.weaker_policy(node, self._wants, facts, aligned=bool(mask))
            if CPU in self._zones.needs:
                policy = facts.policy or self._wants.policy
                most = self._most_left(cells, CPU, policy)
                # CPUs of its own are whole ones, whatever is left beside them.
                changes_possible += changes.fewer_cpus(
                    ask.pod, self._cpu_milli, most // 1000 * 1000 if bound.binding else most
                )
        return changes_possible

    def _others_gone(self, row: Row, lacking: int) -> Iterator[Change]:
        """One pod gone that has enough CPUs of its own: those with the fewest of them."""
        pods = self._cluster.pods_on[row].values()
        held = sorted(
            (allocation.cpus.bit_count(), pod.key)
            for pod in pods
            for allocation in held_among([pod])
            if allocation.cpus
        )
        for number, key in [holding for holding in held if holding[0] >= lacking > 0][:MOST_TRIED]:
            yield without_pods({key}, f"which would free {number} CPU{'s' if number > 1 else ''}")

    def _most_left(self, cells: Cells, name: str, policy: str) -> int:
        """What a pod could get of a resource under a policy."""
        left = [int(amount) for amount in self._zones.left(cells, name, self._formulas.bound(cells))]
        return max(left, default=0) if policy == "SingleNUMANode" else sum(left)

    def detail(self, reason: str, rows: Sequence[Row]) -> str:
        """How near the nearest of some rows is."""
        name = reason.removeprefix(UNSATISFIED)
        details = {self._in_words(reason, row) for row in rows}
        if details != {""}:
            return details.pop() if len(details) == 1 else ""
        if reason == NOT_ENOUGH:
            most = max(
                int(self._formulas.free(cells, self._formulas.bound(cells)))
                for cells in map(self._formulas.cells, rows)
            )
            kind = {"FullPCPUs": "free CPUs in whole cores", "SpreadByPCPUs": "cores with a free CPU"}
            required = {rule.policy for row in rows if (rule := self._wish_on(row)) is not None and rule.required}
            what = kind[required.pop()] if len(required) == 1 else "free CPUs"
            return f"at most {most} {what}, {self._cpu_milli // 1000} needed"
        if name == reason or name not in self._zones.needs:
            return ""
        policies = sorted({self._allocations.on[row].facts.policy or self._wants.policy for row in rows})
        most = max(self._most_left(self._formulas.cells(row), name, policy) for row in rows for policy in policies[:1])
        where = "on one NUMA node" if policies[0] == "SingleNUMANode" else "on all NUMA nodes together"
        left, need = render(name, most), render(name, self._zones.needs[name])
        return f"at most {left} {name} free {where}, {need} needed ({', '.join(policies)})"

    def _in_words(self, reason: str, row: Row) -> str:
        """What a reason means on a row."""
        facts, cells = self._allocations.on[row].facts, self._formulas.cells(row)
        if reason == REASONS[MISMATCH]:
            return f"the pod wants {self._wants.policy}, the node has {facts.policy}"
        if reason == REASONS[CONFLICT]:
            return f"the pod requires {self._wants.bind}, the node binds by {facts.bind}"
        if reason == REASONS[UNEVEN] and facts.topology is not None:
            number = self._cpu_milli // 1000
            return f"{number} CPU{'s' if number > 1 else ''}, {facts.topology.cpus_per_core} in a core"
        if reason in (REASONS[NO_ZONES], REASONS[INVALID]):
            return "its NodeResourceTopology tells none"
        if reason == REASONS[AMPLIFIED]:
            need, left = self._formulas.amplified(cells, self._formulas.bound(cells))
            counted = f", where a CPU of a pod's own counts {facts.ratio:g}" if int(need) != self._cpu_milli else ""
            return f"{render(CPU, max(0, int(left)))} cpu free, {render(CPU, int(need))} needed{counted}"
        if reason.startswith(UNALIGNED):
            spanned = [str(zone) for zone, use in enumerate(self._allocations.on[row].uses()) if use == "shared"]
            if self._wants.alone and spanned:
                return f"it wants a NUMA node for itself, and pods span NUMA nodes {' and '.join(spanned)}"
            return in_words(reason)
        return ""

    def _wish_on(self, row: Row) -> BindRule | None:
        return self._formulas.wish(self._allocations.on[row].facts)
