"""How fast does a service answer, at every load, alone and beside each neighbour, with and without the agent?

Not a figure with a goal: points for the latency model of the simulator (`koord.sim.latency_recording`). One visit of a
neighbour keeps the service running and goes through its loads: alone, beside the neighbour without the agent, and with
it; and at some loads with a ceiling for the neighbour, as the agent sets one.

A point that other programs or the hypervisor disturbed is measured again by a later visit. The file is written after
each visit, so a run that was ended goes on where it was.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from koord.agent.core import Done
from koord.agent.host import resctrl
from koord.agent.host.cgroups import Cgroups
from koord.agent.host.convert import LONG_PERIOD_US, PERIOD_US
from koord.agent.host.files import Files
from koord.agent.host.topology import topology
from koord.api.machinery.faults import BadInput
from koord.sim.latency_recording import ALONE, DISTURBED, UNLIMITED, Machine, Point, Recording, Setting, parse
from koord_bench import colocation_node as node
from koord_bench.colocation_neighbours import NEIGHBOURS, Neighbour
from koord_bench.colocation_node import BenchNode, Phase, Used
from koord_bench.harness import Progress, percentile, silent

LOADS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
CEILINGS: Final = {False: (40, (0.2, 0.5, 0.8)), True: (65, (0.1, 0.3, 0.5))}
"""With and without the agent: a ceiling in percent of the node, and the loads at which it is measured."""
ALONE_A_VISIT: Final = 4
"""Loads that a visit measures alone; visits take turns, so that all of them together have each load a few times."""
ALONE_TIMES: Final = 3
"""In a round: how often a load is measured alone, at most."""
VISITS_A_ROUND: Final = 2
"""At most, of one neighbour: what is still disturbed then is left out."""
SETTLED_S: Final = 0.3
"""From one load to the next."""
ARRIVED_S: Final = 2.0
"""From the start of a neighbour, or of other protection, to the first load."""
OVERHEAD_S: Final = 6.0
"""Of a visit: its service starts, and its cgroups are made and removed."""


@dataclass(frozen=True, slots=True)
class Order:
    """What to record."""

    file: Path
    neighbours: tuple[Neighbour, ...] = NEIGHBOURS
    rounds: int = 1
    seconds: float = 2.0
    minutes: float = 10.0
    loads: tuple[float, ...] = LOADS


def record(order: Order, progress: Progress = silent) -> Recording:
    """Goes on with the file's recording, until every setting has enough undisturbed points or the time is up."""
    if os.geteuid() != 0:
        raise BadInput("a recording of response times needs root: it makes cgroups")
    until_s = time.monotonic() + 60 * order.minutes
    recording = _begun(order)
    node.clean()
    for neighbour, settings in _visits(order, recording):
        wanted = [setting for setting in settings if _missing(recording, setting, order.rounds)]
        if not wanted:
            continue
        if time.monotonic() + duration_s(wanted, order.seconds) > until_s:
            progress(f"the time is up: {summary(order, recording)}")
            return recording
        progress(f"a neighbour that {neighbour.does}: {len(wanted)} points; {summary(order, recording)}")
        recording = replace(recording, points=(*recording.points, *_points(neighbour, wanted, order.seconds)))
        write(order.file, recording)
    progress(summary(order, recording))
    return recording


def settings_of(neighbour: Neighbour, loads: Sequence[float], number: int) -> list[Setting]:
    """In the order of a visit; `number`: of the visit."""
    count = min(ALONE_A_VISIT, len(loads))
    alone = {loads[(number * count + at) % len(loads)] for at in range(count)}
    settings = [Setting(load, ALONE, True, UNLIMITED) for load in sorted(alone)]
    for protected in (True, False):
        ceiling, limited = CEILINGS[protected]
        settings += [Setting(load, neighbour.name, protected, UNLIMITED) for load in loads]
        settings += [Setting(load, neighbour.name, protected, ceiling) for load in loads if load in limited]
    return settings


def duration_s(settings: Sequence[Setting], seconds: float) -> float:
    """Of a visit."""
    return OVERHEAD_S + 4 * ARRIVED_S + len(settings) * (seconds + SETTLED_S)


def write(file: Path, recording: Recording) -> None:
    """Whole or not at all."""
    new = file.with_name(f"{file.name}.new")
    new.write_bytes(msgspec.json.format(msgspec.json.encode(recording), indent=1))
    os.replace(new, file)


def machine() -> Machine:
    files = Files("/")
    return Machine(
        cpu=topology(files).model or platform.machine(),
        cpus=len(node.CPUS),
        kernel=platform.release(),
        cgroups=str(Cgroups.of(files).version.value),
        date=date.today().isoformat(),
        resctrl=not resctrl.absence(files),
    )


def _begun(order: Order) -> Recording:
    here = machine()
    if not order.file.exists():
        recording = Recording(here, order.seconds)
        write(order.file, recording)
        return recording
    recording = parse(order.file.read_bytes(), str(order.file))
    if replace(recording.machine, date=here.date) != here:
        raise BadInput(f"{order.file} was recorded on another machine ({recording.machine.cpu}): name another file")
    if recording.seconds != order.seconds:
        raise BadInput(f"{order.file} has points of {recording.seconds:g} s: give --seconds {recording.seconds:g}")
    return recording


def _visits(order: Order, recording: Recording) -> Iterator[tuple[Neighbour, list[Setting]]]:
    """What may be measured next. A setting that has enough points by then is skipped."""
    for number in range(VISITS_A_ROUND * order.rounds):
        for index, neighbour in enumerate(order.neighbours):
            yield neighbour, settings_of(neighbour, order.loads, number * len(order.neighbours) + index)


def _missing(recording: Recording, setting: Setting, rounds: int) -> bool:
    """Alone is the base of all others, so it is measured more often."""
    undisturbed = sum(point.setting == setting and point.disturbed <= DISTURBED for point in recording.points)
    return undisturbed < rounds or (setting.neighbour == ALONE and undisturbed < ALONE_TIMES * rounds)


def summary(order: Order, recording: Recording) -> str:
    settings = {
        setting
        for index, neighbour in enumerate(order.neighbours)
        for setting in settings_of(neighbour, order.loads, index)
    }
    missing = sum(_missing(recording, setting, order.rounds) for setting in settings if setting.neighbour != ALONE)
    return f"{len(settings) - missing} of {len(settings)} settings have enough undisturbed points"


def _points(neighbour: Neighbour, settings: Sequence[Setting], seconds: float) -> list[Point]:
    with node.bench_node(neighbour) as place:
        return _Sweep(place, settings, seconds).run()


class _Sweep:
    """One visit."""

    def __init__(self, place: BenchNode, settings: Sequence[Setting], seconds: float) -> None:
        self._node, self._settings, self._seconds = place, settings, seconds
        self._protection = place.state()

    def run(self) -> list[Point]:
        self._node.start_services()
        phases = self._phases(time.monotonic() + 2 * node.WINDOW_S)
        self._node.announce(phases)
        measured, last = [], Setting(0.0, ALONE, True, UNLIMITED)
        for setting, phase in zip(self._settings, phases, strict=True):
            self._set_up(last, setting)
            last = setting
            state = self._protection if setting.protected else None
            self._node.rounds(state, phase.begins_s, self._respond)
            before = self._node.used()
            self._node.rounds(state, phase.ends_s, self._respond)
            measured.append((before, self._node.used()))
        answers = self._node.answers()
        return [
            point(setting, phase, [times[number] for times in answers], *measured[number])
            for number, (setting, phase) in enumerate(zip(self._settings, phases, strict=True))
        ]

    def _phases(self, begins_s: float) -> list[Phase]:
        phases, at_s = [], begins_s
        last = Setting(0.0, ALONE, True, UNLIMITED)
        for setting in self._settings:
            at_s += SETTLED_S if _around(setting) == _around(last) else ARRIVED_S
            phases.append(Phase(at_s, at_s + self._seconds, setting.load))
            at_s, last = phases[-1].ends_s, setting
        return phases

    def _set_up(self, last: Setting, setting: Setting) -> None:
        if setting.neighbour != ALONE and not self._node.has_guests:
            self._node.start_guests(0.0)
        if last.protected and not setting.protected:
            self._node.release()
        if setting.ceiling_percent != last.ceiling_percent:
            percent = None if setting.ceiling_percent == UNLIMITED else setting.ceiling_percent
            # The agent counts by long periods where best effort yields.
            self._node.limit_guests(percent, LONG_PERIOD_US if setting.protected and percent else PERIOD_US)

    def _respond(self, done: Done) -> None:
        """Nothing to do: default gates evict no pod here."""


def _around(setting: Setting) -> tuple[str, bool, int]:
    return setting.neighbour, setting.protected, setting.ceiling_percent


def point(
    setting: Setting, phase: Phase, answers: Sequence[Mapping[str, list[float]]], before: Used, after: Used
) -> Point:
    taken = [value for answer in answers for value in answer["taken_ms"]]
    answered = sum(len(answer["worked_ms"]) for answer in answers)
    node_s = (after.at_s - before.at_s) * len(node.CPUS)
    return Point(
        load=setting.load,
        neighbour=setting.neighbour,
        protected=setting.protected,
        ceiling_percent=setting.ceiling_percent,
        services=min((after.service_s - before.service_s) / node_s, 1.0),
        batch=min((after.guest_s - before.guest_s) / node_s, 1.0),
        p50_ms=percentile(taken, 0.5),
        p99_ms=percentile(taken, 0.99),
        requests=len(taken),
        answered=answered / max(len(taken), 1),
        disturbed=max(after.others_s - before.others_s + after.stolen_s - before.stolen_s, 0.0) / node_s,
    )
