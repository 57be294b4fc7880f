"""Are recommended requests enough? A back-test: each hour of a trace against the target that was known before it.

Machines of the Bitbrains trace (50 VMs, 30 days, CPU every five minutes; https://gwa.ewi.tudelft.nl, GWA-T-12) are
taken for containers. An hour is under-provisioned if its mean CPU is above the target that it began with. Without the
trace, made-up machines with days, weeks and bursts stand in for it.
"""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final, TypeAlias
from zlib import crc32

from koord.api.machinery.faults import BadInput
from koord.manager.recommend.history import HOUR_S, ContainerHistory
from koord_bench.harness import Progress, Report, Result, silent

BENCH: Final = "recommend"
TRACE: Final = "vm_cpu_50vms.csv.gz"
MACHINES: Final = "vm_meta.csv"
UNDER_GOAL_PERCENT: Final = 2.0
EPOCH_S: Final = 480_000 * HOUR_S
"""When a trace begins: on the hour, as good as any."""
STEP_S: Final = 300
QUICK_MACHINES: Final = 4
MADE_UP: Final = 12
MADE_UP_DAYS: Final = 14

Samples: TypeAlias = list[tuple[float, int]]
"""Moments and milli-cores, in order."""


class TraceError(BadInput):
    """A folder without a trace that can be read."""


@dataclass(frozen=True, slots=True)
class Machine:
    name: str
    requested_milli: int
    samples: Samples


@dataclass(frozen=True, slots=True)
class Judged:
    """What the hours of one machine came to."""

    hours: int = 0
    under: int = 0
    "Hours whose mean was above the target."
    touched: int = 0
    "Hours in which one sample of five minutes was."
    target_milli: float = 0
    "Summed over hours, as the next two."
    used_milli: float = 0
    requested_milli: float = 0

    def plus(self, other: Judged) -> Judged:
        return Judged(
            self.hours + other.hours,
            self.under + other.under,
            self.touched + other.touched,
            self.target_milli + other.target_milli,
            self.used_milli + other.used_milli,
            self.requested_milli + other.requested_milli,
        )


def back_test(machine: Machine) -> Judged:
    """Hour by hour: the target is asked for, the hour is judged, and only then added to the history."""
    history, judged = ContainerHistory.new(), Judged()
    for _hour, group in groupby(machine.samples, key=lambda sample: int(sample[0] // HOUR_S)):
        samples = list(group)
        recommended = history.recommended()
        if recommended is not None:
            mean = sum(milli for _, milli in samples) / len(samples)
            target = recommended.target.cpu_milli
            highest = max(milli for _, milli in samples)
            judged = judged.plus(Judged(1, mean > target, highest > target, target, mean, machine.requested_milli))
        for at_s, milli in samples:
            history.add(milli, 0, EPOCH_S + at_s)
    return judged


def bitbrains(folder: Path) -> list[Machine]:
    """MHz become milli-cores of each machine's own cores. Raises TraceError."""
    try:
        with (folder / MACHINES).open(newline="") as text:
            sizes = {row["id"]: (int(row["cpu_count"]), float(row["cpu_capacity"])) for row in csv.DictReader(text)}
        with gzip.open(folder / TRACE, "rt", newline="") as text:
            rows = [(row["id"], float(row["t_s"]), float(row["cpu_mhz"])) for row in csv.DictReader(text)]
    except (OSError, KeyError, ValueError) as error:
        raise TraceError(
            f"{folder}: must hold {MACHINES} (id, cpu_count, cpu_capacity) and {TRACE} (id, t_s, cpu_mhz): {error}"
        ) from error
    return list(_machines(rows, sizes))


def _machines(rows: Iterable[tuple[str, float, float]], sizes: Mapping[str, tuple[int, float]]) -> Iterator[Machine]:
    by_machine: dict[str, list[tuple[float, float]]] = {}
    for name, at_s, mhz in rows:
        by_machine.setdefault(name, []).append((at_s, mhz))
    for name, samples in by_machine.items():
        if name not in sizes or sizes[name][1] <= 0:
            raise TraceError(f"{MACHINES}: machine {name} must have a cpu_capacity above 0")
        cores, mhz_of_all = sizes[name]
        milli = cores * 1000 / mhz_of_all
        yield Machine(name, cores * 1000, [(at_s, round(mhz * milli)) for at_s, mhz in sorted(samples)])


def made_up() -> list[Machine]:
    """Days, weekends, noise and bursts, by names alone: the same each time."""
    return [_made_up(f"vm-{number}") for number in range(MADE_UP)]


def _made_up(name: str) -> Machine:
    cores = 1 << crc32(f"{name}/cores".encode()) % 4
    base, swing = 0.05 + 0.2 * _chance(name, "base"), 0.3 * _chance(name, "swing")
    samples: Samples = []
    for step in range(MADE_UP_DAYS * 24 * HOUR_S // STEP_S):
        hours = step * STEP_S / HOUR_S
        day = (1 + math.sin(2 * math.pi * hours / 24)) / 2
        weekend = 0.4 if int(hours // 24) % 7 >= 5 else 1.0
        used = base + swing * day * weekend + 0.05 * _chance(name, str(step))
        if _chance(name, f"burst {step // 6}") > 0.99:
            used += 0.3
        samples.append((step * STEP_S, round(min(used, 1.0) * cores * 1000)))
    return Machine(name, cores * 1000, samples)


def _chance(name: str, of: str) -> float:
    return crc32(f"{name}/{of}".encode()) / 2**32


def run(quick: bool = False, progress: Progress = silent, data: Path | None = None) -> list[Result]:
    machines = made_up() if data is None else bitbrains(data)
    machines = machines[:QUICK_MACHINES] if quick else machines
    report = Report(BENCH, quick, progress)
    name = f"{len(machines)} machines, {'made up' if data is None else 'bitbrains'}"
    total, worst = Judged(), 0.0
    for machine in machines:
        progress(f"{name}: {machine.name}")
        judged = back_test(machine)
        total = total.plus(judged)
        worst = max(worst, _percent(judged.under, judged.hours))
    case, used_milli = report.case(name), max(total.used_milli, 1)
    case.add("hours judged", total.hours, "hours")
    mean = "hours above the target, by their mean"
    case.add(mean, _percent(total.under, total.hours), "%", goal=UNDER_GOAL_PERCENT, at_any_size=True)
    case.add("the same, of the worst machine", worst, "%")
    case.add("hours with five minutes above the target", _percent(total.touched, total.hours), "%")
    case.add("target to mean use", total.target_milli / used_milli, "times")
    case.add("request to mean use", total.requested_milli / used_milli, "times")
    return report.rows


def _percent(part: float, whole: float) -> float:
    return part * 100 / whole if whole else 0.0
