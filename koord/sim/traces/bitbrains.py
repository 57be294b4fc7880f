"""Bitbrains: business virtual machines of a service provider, 30 days of CPU use (services).

`vm_cpu_50vms.csv` has a sample a line: mean use in MHz over the `dur_s` seconds before `t_s`. `vm_meta.csv` has the
machines: cores, capacity in MHz and memory in KiB. A virtual machine requests its cores and its memory.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from koord.sim.columns import ServiceCurves
from koord.sim.traces.grid import fill_short_gaps, means
from koord.sim.traces.rows import Row, rows
from koord.sim.traces.trace import Repairs, Streams, Trace, TraceFault

SAMPLES: Final = "vm_cpu_50vms.csv"
MACHINES: Final = "vm_meta.csv"
STEP_S: Final = 300.0
LONGEST_GAP: Final = 12
"Steps: an hour."


@dataclass(frozen=True, slots=True)
class _Machine:
    cores: float
    mhz: float
    memory_kib: float


@dataclass(slots=True)
class _Samples:
    end_s: list[float] = field(default_factory=list)
    begin_s: list[float] = field(default_factory=list)
    mhz: list[float] = field(default_factory=list)


def read(streams: Streams) -> Trace:
    machines = _machines(streams)
    repairs = Repairs()
    samples = _samples(streams, machines, repairs)
    first_s = min(min(samples[name].begin_s) for name in samples)
    last_s = max(samples[name].end_s[-1] for name in samples)
    steps = int((last_s - first_s) // STEP_S)
    ids = tuple(name for name in machines if name in samples)
    cpu = np.empty((len(ids), steps), np.float32)
    for row, name in enumerate(ids):
        machine, sampled = machines[name], samples[name]
        milli = np.array(sampled.mhz) * (1000 * machine.cores / machine.mhz)
        cpu[row] = means(np.array(sampled.begin_s) - first_s, np.array(sampled.end_s) - first_s, milli, STEP_S, steps)
        if filled := fill_short_gaps(cpu[row], LONGEST_GAP):
            repairs.add(
                "gap of at most an hour filled with the value before it (steps)", f"{SAMPLES} {name}", None, filled
            )
    return Trace(
        services=ServiceCurves(
            ids=tuple(f"bitbrains-{name}" for name in ids),
            step_s=STEP_S,
            cpu_milli=cpu,
            request_cpu_milli=np.array([round(machines[name].cores * 1000) for name in ids], np.int64),
            request_memory_bytes=np.array([round(machines[name].memory_kib * 1024) for name in ids], np.int64),
        ),
        repairs=repairs.listed(),
    )


def _machines(streams: Streams) -> dict[str, _Machine]:
    machines: dict[str, _Machine] = {}
    for row in rows(streams[MACHINES], MACHINES, ("id", "cpu_count", "cpu_capacity", "mem_capacity")):
        if (name := row.text("id")) in machines:
            raise row.fault(f"machine {name} stands twice")
        machines[name] = _Machine(row.positive("cpu_count"), row.positive("cpu_capacity"), row.positive("mem_capacity"))
    return machines


def _samples(streams: Streams, machines: dict[str, _Machine], repairs: Repairs) -> dict[str, _Samples]:
    samples: dict[str, _Samples] = defaultdict(_Samples)
    for row in rows(streams[SAMPLES], SAMPLES, ("id", "t_s", "dur_s", "cpu_mhz")):
        name = row.text("id")
        if name not in machines:
            raise row.fault(f"machine {name} is not in {MACHINES}")
        end_s, length_s = row.number("t_s"), row.positive("dur_s")
        machine = samples[name]
        if machine.end_s and end_s <= machine.end_s[-1]:
            repairs.add("sample not later than the one before it left out", row.file, row.line)
            continue
        machine.end_s.append(end_s)
        machine.begin_s.append(end_s - length_s)
        machine.mhz.append(_use(row, repairs))
    if not samples:
        raise TraceFault(SAMPLES, None, "has no samples")
    return samples


def _use(row: Row, repairs: Repairs) -> float:
    mhz = row.number("cpu_mhz")
    if mhz < 0:
        repairs.add("negative use set to 0", row.file, row.line)
        return 0.0
    return mhz
