"""When the manager writes what nodes lend: the rules of `koord.manager` on columns.

`due` is `manager.node_resource.writing.decide` for all nodes at once, and `stale` is `manager.lending.freshness`: tests
compare them case by case. A report takes its time to the manager, and a write to the scheduler.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from koord.api.configuration.slo_config_types import ColocationStrategy
from koord.manager.colocation_settings import given
from koord.manager.node_resource.writing import LEAST_SHARE, WAVERING
from koord.sim.minutes import Flags, Floats, Ints
from koord.sim.policies.policy import Lent

ABSENT: Final = -1
"""In place of a figure: the node does not have the resource."""


@dataclass(frozen=True, slots=True)
class Figures:
    """CPU and memory of some nodes: what a node shows or should show, and the firm part of it."""

    cpu_milli: Ints
    memory_bytes: Ints
    firm_milli: Ints
    firm_bytes: Ints
    measured_milli: Ints
    measured_bytes: Ints
    room_milli: Ints
    "`ABSENT` where the figure is not made of requests and room."


@dataclass(slots=True)
class Report:
    """What left the nodes after a minute."""

    sent_s: float
    arrives_s: float
    reported: Flags
    figures: Figures


@dataclass(slots=True)
class Change:
    """What the scheduler comes to know."""

    visible_s: float
    rows: Ints
    cpu_milli: Ints
    memory_bytes: Ints


@dataclass(slots=True)
class Published:
    """What the manager remembers of each node."""

    cpu_milli: Ints
    memory_bytes: Ints
    firm_milli: Ints
    firm_bytes: Ints
    written_s: Floats
    "NaN: never."
    reported_s: Floats
    "When the last report that arrived was sent; NaN: never."
    wanted: Figures
    "By the last reports."


def nothing_published(nodes: int) -> Published:
    absent, zero = np.full(nodes, ABSENT, np.int64), np.zeros(nodes, np.int64)
    none = Figures(
        cpu_milli=absent.copy(),
        memory_bytes=absent.copy(),
        firm_milli=zero.copy(),
        firm_bytes=zero.copy(),
        measured_milli=zero.copy(),
        measured_bytes=zero.copy(),
        room_milli=absent.copy(),
    )
    never = np.full(nodes, np.nan)
    return Published(
        absent.copy(), absent.copy(), np.zeros(nodes, np.int64), np.zeros(nodes, np.int64), never, never.copy(), none
    )


def figures_of(lent: Lent | None, nodes: int) -> Figures:
    """What nodes should show; `ABSENT` where they lend nothing. NaN becomes -2: the figure stays."""
    if lent is None:
        return nothing_published(nodes).wanted
    zero = np.zeros(nodes, np.int64)
    cpu, memory = _whole(lent.cpu_milli), _whole(lent.memory_bytes)
    cpu_measured = zero if lent.measured_milli is None else _whole(lent.measured_milli)
    memory_measured = zero if lent.measured_bytes is None else _whole(lent.measured_bytes)
    room = np.full(nodes, ABSENT) if lent.room_milli is None else _whole(lent.room_milli)
    return Figures(cpu, memory, cpu + cpu_measured, memory + memory_measured, cpu_measured, memory_measured, room)


_KEEPS: Final = -2


def _whole(values: Floats) -> Ints:
    whole: Ints = np.where(np.isnan(values), _KEEPS, np.maximum(np.nan_to_num(values), 0)).astype(np.int64)
    return whole


def arrive(published: Published, report: Report) -> None:
    """A report reaches the manager."""
    published.reported_s[report.reported] = report.sent_s
    rows = report.reported & (report.figures.cpu_milli != _KEEPS)
    for name in Figures.__slots__:
        getattr(published.wanted, name)[rows] = getattr(report.figures, name)[rows]


def stale(published: Published, now_s: float, degrade_minutes: Floats) -> Flags:
    """Nodes whose report does not count any more, or that never sent one."""
    with np.errstate(invalid="ignore"):
        is_stale: Flags = ~(now_s <= published.reported_s + 60 * degrade_minutes)
    return is_stale


@dataclass(frozen=True, slots=True)
class Gates:
    """The settings that decide about writes, by node."""

    difference: Floats
    seconds: Floats
    degrade_minutes: Floats


def gates(strategies: list[ColocationStrategy]) -> Gates:
    """`strategies`: by node."""
    return Gates(
        np.array([given(strategy.resource_diff_threshold) for strategy in strategies], np.float64),
        np.array([given(strategy.update_time_threshold_seconds) for strategy in strategies], np.float64),
        np.array([given(strategy.degrade_time_minutes) for strategy in strategies], np.float64),
    )


def decide(published: Published, now_s: float, gates: Gates) -> tuple[Ints, Ints, Ints]:
    """The nodes to write now, and the CPU and memory that they show then. `published` changes."""
    is_stale = stale(published, now_s, gates.degrade_minutes)
    wanted = published.wanted
    cpu = np.where(is_stale, ABSENT, wanted.cpu_milli)
    memory = np.where(is_stale, ABSENT, wanted.memory_bytes)
    is_due = due(published, cpu, memory, now_s, gates)
    rows = np.flatnonzero(is_due)
    published.cpu_milli[rows], published.memory_bytes[rows] = cpu[rows], memory[rows]
    published.firm_milli[rows], published.firm_bytes[rows] = wanted.firm_milli[rows], wanted.firm_bytes[rows]
    published.written_s[rows] = now_s
    return rows, cpu[rows], memory[rows]


def due(published: Published, cpu: Ints, memory: Ints, now_s: float, gates: Gates) -> Flags:
    wanted = published.wanted
    beyond_cpu = _beyond(
        published.cpu_milli,
        cpu,
        wanted.measured_milli,
        wanted.firm_milli - published.firm_milli,
        gates.difference,
    )
    beyond_memory = _beyond(
        published.memory_bytes,
        memory,
        wanted.measured_bytes,
        wanted.firm_bytes - published.firm_bytes,
        gates.difference,
    )
    has_room = (wanted.room_milli >= 0) & (published.cpu_milli > 0) & (cpu > 0)
    beyond_room = _room_beyond(published.cpu_milli, cpu, wanted.room_milli, gates.difference)
    beyond = np.where(has_room, beyond_room, beyond_cpu) | beyond_memory
    with np.errstate(invalid="ignore"):
        is_open = ~(now_s - published.written_s <= gates.seconds)
    differs = (published.cpu_milli != cpu) | (published.memory_bytes != memory)
    is_due: Flags = beyond | (is_open & differs)
    return is_due


def _beyond(published: Ints, wanted: Ints, measured: Ints, moved: Ints, threshold: Floats) -> Flags:
    has_both = (published >= 0) & (wanted >= 0)
    allowed = published * 1000 * threshold
    differs = np.abs(wanted - published)
    beyond = np.where(has_both, differs * 1000 > allowed, published != wanted)
    wavers = has_both & (published > 0) & (wanted > 0) & (differs <= (measured * WAVERING).astype(np.int64))
    result: Flags = np.where(beyond & wavers, np.abs(moved) * 1000 > allowed, beyond)
    return result


def _room_beyond(published: Ints, wanted: Ints, room: Ints, threshold: Floats) -> Flags:
    by = np.abs(wanted - published)
    beyond: Flags = (by > LEAST_SHARE * published) & (by > threshold * np.maximum(room, room + published - wanted))
    return beyond


@dataclass(slots=True)
class Wire:
    """Reports on their way to the manager, and writes on their way to the scheduler, in their order."""

    reports: deque[Report] = field(default_factory=deque)
    changes: deque[Change] = field(default_factory=deque)

    def arrived(self, now_s: float) -> Report | None:
        return self.reports.popleft() if self.reports and self.reports[0].arrives_s <= now_s else None

    def visible(self, now_s: float) -> Change | None:
        return self.changes.popleft() if self.changes and self.changes[0].visible_s <= now_s else None
