"""Alibaba 2018: CPU use of production machines, 8 days (services: each machine's use is one curve).

`machine_usage_16machines.csv` has no header: machine, time in seconds, CPU percent, and others. `machine_meta.csv` has
the cores of each machine. The published use is that of services and batch together.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import numpy as np

from koord.sim.columns import ServiceCurves
from koord.sim.traces.grid import fill_short_gaps, means
from koord.sim.traces.rows import rows
from koord.sim.traces.trace import Repairs, Streams, Trace, TraceFault

USAGE: Final = "machine_usage_16machines.csv"
MACHINES: Final = "machine_meta.csv"
USAGE_COLUMNS: Final = ("machine", "time_s", "cpu", "memory", "mem_gps", "mkpi", "net_in", "net_out", "disk_io")
MACHINE_COLUMNS: Final = ("machine", "time_s", "failure_domain_1", "failure_domain_2", "cores", "memory", "status")
STEP_S: Final = 60.0
LONGEST_SAMPLE_S: Final = 120.0
"A sample covers the time since the one before it, at most this."
LONGEST_GAP: Final = 60
"Steps: an hour."


def read(streams: Streams) -> Trace:
    cores = _cores(streams)
    repairs = Repairs()
    samples: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for row in rows(streams[USAGE], USAGE, ("machine", "time_s", "cpu"), USAGE_COLUMNS):
        if (name := row.text("machine")) not in cores:
            raise row.fault(f"machine {name} is not in {MACHINES}")
        time_s, (times, use) = row.number("time_s"), samples[name]
        if times and time_s <= times[-1]:
            repairs.add("sample not later than the one before it left out", row.file, row.line)
        elif not row.has("cpu") or not 0 <= row.number("cpu") <= 100:
            repairs.add("sample without a percent from 0 to 100 left out", row.file, row.line)
        else:
            times.append(time_s)
            use.append(row.number("cpu") * 10 * cores[name])
    samples = {name: sampled for name, sampled in samples.items() if sampled[0]}
    if not samples:
        raise TraceFault(USAGE, None, "has no samples")
    names = tuple(samples)
    steps = int(max(times[-1] for times, _ in samples.values()) // STEP_S)
    cpu = np.empty((len(names), steps), np.float32)
    for row_number, name in enumerate(names):
        end_s = np.array(samples[name][0])
        begin_s = np.maximum(np.concatenate((end_s[:1] - STEP_S, end_s[:-1])), end_s - LONGEST_SAMPLE_S)
        cpu[row_number] = means(begin_s, end_s, np.array(samples[name][1]), STEP_S, steps)
        if filled := fill_short_gaps(cpu[row_number], LONGEST_GAP):
            repairs.add(
                "gap of at most an hour filled with the value before it (steps)", f"{USAGE} {name}", None, filled
            )
    return Trace(
        services=ServiceCurves(
            ids=tuple(f"alibaba2018-{name}" for name in names),
            step_s=STEP_S,
            cpu_milli=cpu,
            request_cpu_milli=np.array([cores[name] * 1000 for name in names], np.int64),
        ),
        repairs=repairs.listed(),
    )


def _cores(streams: Streams) -> dict[str, int]:
    """A machine has a line for each change of its state; the last one counts."""
    needed = ("machine", "cores")
    return {
        row.text("machine"): round(row.positive("cores"))
        for row in rows(streams[MACHINES], MACHINES, needed, MACHINE_COLUMNS)
    }
