"""One visit of a neighbour: the same service alone twice, then beside the neighbour with interference control, with
protection alone, and with neither.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from koord.agent.core import Done
from koord.agent.interference.episode import Step
from koord.agent.qos.cpu_suppress import YIELDING_OVER_S
from koord_bench import colocation_node as node
from koord_bench.colocation_neighbours import Neighbour
from koord_bench.colocation_node import THRESHOLD, BenchNode, Phase, Used
from koord_bench.harness import percentile

ALONE: Final = ("alone", "alone again")
CONTROLLED: Final = "protected, controlled"
PROTECTED: Final = "protected"
SUPPRESSED: Final = "suppressed"
UNPROTECTED: Final = "unprotected"
LOAD: Final = 0.25
"""The part of every CPU that the service uses."""
WAITED_MS: Final = 1.0
"""Less is a switch between tasks, or a kernel thread."""
WATCHED: Final = 5
"""Windows from a neighbour's arrival until what control made of it is measured."""
SETTLED_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class ServiceFigures:
    """The service in one way of one visit, and the neighbour's share."""

    p50_ms: float
    p99_ms: float
    waited: float
    "Of the requests, those whose thread waited for a CPU. One holds up those behind it, so that few make a p99."
    answered_s: float
    "Requests a second that were answered."
    worked_ms: float = 0.0
    "Median CPU time of a request: a neighbour on the same caches, memory or core makes it longer."
    best_effort: float | None = None
    "The neighbour's share of the CPU time that nothing else used. None: the machine was too busy to measure in time."
    off_budget: float | None = None
    "By which part of it the neighbour missed what CPU suppress allowed."
    written_s: float | None = None
    "Bytes a second that the neighbour wrote to disk."
    stolen: float | None = None
    "Of the CPUs' time, what the hypervisor gave to others."


@dataclass(slots=True)
class Visit:
    ways: dict[str, ServiceFigures] = field(default_factory=dict)
    named_after: int | None = None
    "The windows from its arrival until it was named as who slows the service down; None: it was not."
    steps: list[str] = field(default_factory=list)
    "What interference control did, in order."


def visit(neighbour: Neighbour, seconds: float) -> Visit:
    with node.bench_node(neighbour) as place:
        return _Visiting(place, seconds).run()


class _Visiting:
    def __init__(self, place: BenchNode, seconds: float) -> None:
        self._node, self._seconds = place, seconds
        self._states = {
            CONTROLLED: place.state(controls=True),
            PROTECTED: place.state(),
            SUPPRESSED: place.state(suppress_above=THRESHOLD),
        }
        self._visit = Visit()

    def run(self) -> Visit:
        self._node.start_services()
        phases = self._phases(time.monotonic() + 2 * node.WINDOW_S)
        self._node.announce([phase for _, phase in phases])
        # What services say of their first second is of caches that are still cold.
        time.sleep(node.WINDOW_S)
        arrives_s = phases[1][1].ends_s
        self._node.start_guests(arrives_s)
        respond = partial(self._respond, arrives_s=arrives_s)
        measured = []
        for way, phase in phases:
            is_alone = way in ALONE
            if way == UNPROTECTED:
                self._node.release()
            if not is_alone and way != CONTROLLED and not self._node.has_guests:
                self._node.start_guests(0.0)
            state = self._states.get(CONTROLLED if is_alone else way)
            self._node.rounds(state, phase.begins_s, respond)
            before = self._node.used()
            allowed = self._node.rounds(state, phase.ends_s, respond)
            measured.append(self._got(before, self._node.used(), allowed if way == SUPPRESSED else ()))
        answers = self._node.answers()
        for number, (way, phase) in enumerate(phases):
            self._visit.ways[way] = _figures([times[number] for times in answers], phase, measured[number])
        return self._visit

    def _phases(self, begins_s: float) -> list[tuple[str, Phase]]:
        """Each way with its time."""
        phases, at_s = [], begins_s
        ways = [(way, 0.0) for way in ALONE] + [(CONTROLLED, WATCHED * node.WINDOW_S), (PROTECTED, SETTLED_S)]
        if self._node.neighbour.name == "cpu":
            # Its second decision uses the load of services while best effort is suppressed.
            ways.append((SUPPRESSED, SETTLED_S + YIELDING_OVER_S))
        for way, before_s in (*ways, (UNPROTECTED, SETTLED_S)):
            phases.append((way, Phase(at_s + before_s, at_s + before_s + self._seconds, LOAD)))
            at_s = phases[-1][1].ends_s
        return phases

    def _respond(self, done: Done, arrives_s: float) -> None:
        for finding in done.findings:
            taken, culprit = finding.taken, finding.episode.suspects.culprit
            self._visit.steps.append(f"{taken.step} by {finding.episode.signal.key}")
            names_it = culprit is not None and culprit.uid == self._node.guest.uid
            if names_it and taken.at_s > arrives_s and self._visit.named_after is None:
                self._visit.named_after = round((taken.at_s - arrives_s) / node.WINDOW_S)
        if done.evictions:
            # As kubelet would.
            self._node.end_guests()
            self._visit.steps.append(Step.EVICTED)

    def _got(self, before: Used, after: Used, allowed: Sequence[float]) -> Got:
        took_s, used_s = after.at_s - before.at_s, after.guest_s - before.guest_s
        if took_s < self._seconds / 2:
            return Got()
        return Got(
            used_s / max(used_s + after.idle_s - before.idle_s, 1e-9),
            used_s / took_s / statistics.mean(allowed) - 1 if allowed else None,
            max(after.written_bytes - before.written_bytes, 0) / took_s,
            (after.stolen_s - before.stolen_s) / took_s / len(node.CPUS),
        )


class Got(NamedTuple):
    """Between two looks, as in `ServiceFigures`."""

    best_effort: float | None = None
    off_budget: float | None = None
    written_s: float | None = None
    stolen: float | None = None


def _figures(answers: Sequence[Mapping[str, list[float]]], phase: Phase, got: Got) -> ServiceFigures:
    taken, delays, worked = (
        [value for answer in answers for value in answer[which]] for which in ("taken_ms", "delays_ms", "worked_ms")
    )
    return ServiceFigures(
        p50_ms=percentile(taken, 0.5),
        p99_ms=percentile(taken, 0.99),
        waited=sum(delay >= WAITED_MS for delay in delays) / max(len(delays), 1),
        answered_s=len(delays) / (phase.ends_s - phase.begins_s),
        worked_ms=percentile(worked, 0.5),
        **got._asdict(),
    )
