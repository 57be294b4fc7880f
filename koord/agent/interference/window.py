"""One window of one pod: from what counters and gauges showed at its ends to the values of its signals.

A pod that meets its own limit waits too, and no neighbour causes that. What a pod's own quota can explain is
taken off before anything is compared: while a quota stops a cgroup, each of its threads may wait, so up to
`throttled time x threads`. Delay is counted when a task runs again, which may be in the window after the one in which
the quota released it: what was left to excuse in one window also excuses the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from koord.agent.interference.signals import EXCUSED_BY_MEMORY_LIMIT, EXCUSED_BY_QUOTA, Dimension, Signal

BUSY_HOST: Final = 0.7
"""Share of the host's CPU: on a busier one, pressure beyond a pod's own throttling counts."""
SMALL_PART: Final = 0.1
"""Share of a stall: less throttling than that did not cause it."""
LEAST_WAIT: Final = 0.01
"""Share of the window: a pod that waited less in total did not wait, however long each wait was."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What was known of a pod at one moment. None: the kernel does not tell, or it was not read."""

    wait_ns: float | None = None
    "For how long its tasks have waited for a CPU, those that ended included."
    slices: float | None = None
    "How often its tasks have been given a CPU."
    threads: float = 1.0
    throttled_ns: float = 0.0
    "For how long its own quotas have stopped it, summed over CPUs."
    throttled: float = 0.0
    "In how many periods."
    memory_limit_hits: float = 0.0
    "How often it met its own memory limit."
    direct_reclaim: float | None = None
    "Pages that its own tasks had to look at before they got memory."
    major_faults: float | None = None
    io_wait_ns: float | None = None
    stalled_ns: Mapping[str, float] = field(default_factory=dict)
    "How long some task has waited (pressure), by resource. Averages would include the window before, too."
    cpi: float | None = None
    probe: float | None = None
    use: Mapping[Dimension, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodWindow:
    """What a window showed of a pod."""

    signals: Mapping[Signal, float] = field(default_factory=dict)
    use: Mapping[Dimension, float] = field(default_factory=dict)
    excuse_ns: float = 0.0
    "Waiting that the pod's own quota explains and that did not show in this window."


def pod_window(
    before: Reading, now: Reading, seconds: float, host_busy: float, last: PodWindow | None = None
) -> PodWindow:
    """`host_busy`: the share of the host's CPU that is in use. `last`: the same pod's window before this one."""
    carried_ns = last.excuse_ns if last else 0.0
    throttled_ns = max(now.throttled_ns - before.throttled_ns, 0.0)
    was_throttled = now.throttled > before.throttled or throttled_ns > 0 or carried_ns > 0
    excuse_ns = throttled_ns * max(now.threads, before.threads, 1.0)
    values: dict[Signal, float] = {}
    left_ns = excuse_ns
    waited_ns = _grown(before.wait_ns, now.wait_ns)
    if waited_ns is not None:
        others_ns = max(waited_ns - excuse_ns - carried_ns, 0.0)
        # What is carried over is spent first: it is the older.
        left_ns = min(max(excuse_ns + carried_ns - waited_ns, 0.0), excuse_ns)
        slices = _grown(before.slices, now.slices) or 0.0
        is_noticed = others_ns >= LEAST_WAIT * seconds * 1e9
        values[Signal.RUN_QUEUE_DELAY] = others_ns / 1e6 / max(slices, 1.0) if is_noticed else 0.0
    _pressures(values, before.stalled_ns, now.stalled_ns, throttled_ns + carried_ns, seconds, host_busy)
    for signal, one, other, unit in (
        (Signal.DIRECT_RECLAIM, before.direct_reclaim, now.direct_reclaim, 1.0),
        (Signal.MAJOR_FAULTS, before.major_faults, now.major_faults, 1.0),
        (Signal.IO_WAIT, before.io_wait_ns, now.io_wait_ns, 1e6),
    ):
        grown = _grown(one, other)
        if grown is not None:
            values[signal] = grown / unit / seconds
    for signal, value in ((Signal.CPI, now.cpi), (Signal.PROBE, now.probe)):
        if value is not None:
            values[signal] = value
    hit_memory = now.memory_limit_hits > before.memory_limit_hits
    for signal in list(values):
        if (was_throttled and signal in EXCUSED_BY_QUOTA) or (hit_memory and signal in EXCUSED_BY_MEMORY_LIMIT):
            del values[signal]
    return PodWindow(values, now.use, left_ns)


def _pressures(
    values: dict[Signal, float],
    before: Mapping[str, float],
    now: Mapping[str, float],
    throttled_ns: float,
    seconds: float,
    host_busy: float,
) -> None:
    """In percent of the window."""
    percent = 1e7 * seconds
    for resource, signal in (("memory", Signal.MEMORY_PRESSURE), ("io", Signal.IO_PRESSURE)):
        stall_ns = _grown(before.get(resource), now.get(resource))
        if stall_ns is not None:
            values[signal] = stall_ns / percent
    stall_ns = _grown(before.get("cpu"), now.get("cpu"))
    if stall_ns is None:
        return
    if throttled_ns < SMALL_PART * stall_ns or host_busy > BUSY_HOST or not throttled_ns:
        values[Signal.CPU_PRESSURE] = max(stall_ns - throttled_ns, 0.0) / percent


def _grown(before: float | None, now: float | None) -> float | None:
    return None if before is None or now is None or now < before else now - before
