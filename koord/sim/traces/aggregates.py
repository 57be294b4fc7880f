"""Means and sums over whole clusters: Alibaba 2018, Google 2019, Azure (one curve each, to compare shapes with).

What is a share of the cluster counts as a share of one core; Azure's sum of VMs is in cores.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from koord.sim.columns import ServiceCurves
from koord.sim.traces.grid import fill_short_gaps, means
from koord.sim.traces.rows import rows
from koord.sim.traces.trace import Repairs, Streams, Trace, TraceFault

ALIBABA: Final = "cluster_mean_usage_30s.csv"
GOOGLE: Final = "instance_usage_mean_300s_month.csv"
AZURE: Final = "vm_v2_total_cpu_mem_300s_month.csv"
ALIBABA_STEP_S: Final = 30.0
STEP_S: Final = 300.0
MILLI_PER_PERCENT: Final = 10
GIB: Final = 1 << 30
NEGATIVE: Final = "negative use set to 0"
BACK: Final = "sample not later than the one before it left out"
GAP: Final = "gap of at most an hour filled with the value before it (steps)"


def read_alibaba(streams: Streams) -> Trace:
    """Percent of all machines, every 30 s."""
    return _regular(streams, ALIBABA, "alibaba2018-mean", "cpu_util_percent", MILLI_PER_PERCENT, 100, ALIBABA_STEP_S)


def read_google(streams: Streams) -> Trace:
    """Share of all machines, every 5 minutes."""
    return _regular(streams, GOOGLE, "google2019-mean", "avg_cpu", 1000, 1, STEP_S)


def read_azure(streams: Streams) -> Trace:
    """Percent of a core, summed over all virtual machines, and the GB of memory that they were assigned."""
    repairs = Repairs()
    end_s: list[float] = []
    cpu: list[float] = []
    memory: list[float] = []
    for row in rows(streams[AZURE], AZURE, ("timestamp", "cpu_usage", "assigned_mem")):
        time_s = row.number("timestamp") + STEP_S
        if end_s and time_s <= end_s[-1]:
            repairs.add(BACK, row.file, row.line)
            continue
        use = row.number("cpu_usage")
        if use < 0:
            repairs.add(NEGATIVE, row.file, row.line)
        end_s.append(time_s)
        cpu.append(max(0.0, use) * MILLI_PER_PERCENT)
        memory.append(row.not_negative("assigned_mem") * GIB)
    if not end_s:
        raise TraceFault(AZURE, None, "has no samples")
    ends = np.array(end_s) - (end_s[0] - STEP_S)
    steps = int(ends[-1] // STEP_S)
    curves = [
        means(ends - STEP_S, ends, np.array(values), STEP_S, steps).astype(np.float32)[None] for values in (cpu, memory)
    ]
    if filled := fill_short_gaps(curves[0][0], round(3600 / STEP_S)):
        repairs.add(GAP, AZURE, None, filled)
    fill_short_gaps(curves[1][0], round(3600 / STEP_S))
    return Trace(
        ServiceCurves(("azure-sum",), STEP_S, cpu_milli=curves[0], memory_bytes=curves[1]), repairs=repairs.listed()
    )


def _regular(streams: Streams, file: str, name: str, column: str, milli: float, most: float, step_s: float) -> Trace:
    """A file without times: a line a step."""
    repairs = Repairs()
    values = []
    for row in rows(streams[file], file, (column,)):
        value = row.number(column)
        if value > most:
            raise row.fault(f"column {column}: must be at most {most:g}, not {value:g}")
        if value < 0:
            repairs.add(NEGATIVE, row.file, row.line)
        values.append(max(0.0, value) * milli)
    if not values:
        raise TraceFault(file, None, "has no samples")
    return Trace(ServiceCurves((name,), step_s, np.array([values], np.float32)), repairs=repairs.listed())
