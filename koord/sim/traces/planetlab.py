"""PlanetLab: CPU use of about a thousand virtual machines, five days of 5-minute steps (services).

An array a day: machines x 288 steps, percent of a core. Machines of different days have no common names. Service k is
the machine with the k-th highest use on each day, ties by mean, one day after the other: so curves have the length of
all days and busy machines stay busy. A machine is one core.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from koord.sim.columns import ServiceCurves
from koord.sim.traces.archive import arrays, numbers
from koord.sim.traces.trace import Repairs, Streams, Trace, TraceFault

FILE: Final = "vm_cpu_percent_5min.npz"
STEP_S: Final = 300.0
STEPS_A_DAY: Final = 288
MILLI_PER_PERCENT: Final = 10


def read(streams: Streams) -> Trace:
    archive = arrays(streams[FILE], FILE)
    repairs = Repairs()
    days = [_by_use(_day(numbers(archive, FILE, name, 2), name, repairs)) for name in sorted(archive)]
    if not days:
        raise TraceFault(FILE, None, "has no days")
    count = min(len(day) for day in days)
    for day, name in zip(days, sorted(archive), strict=True):
        if len(day) > count:
            repairs.add(
                "machine without a partner on the other days left out", f"{FILE} {name}", None, len(day) - count
            )
    curves = np.concatenate([_spread(day, count) for day in days], axis=1) * np.float32(MILLI_PER_PERCENT)
    return Trace(
        services=ServiceCurves(
            ids=tuple(f"planetlab-{number:04}" for number in range(count)),
            step_s=STEP_S,
            cpu_milli=curves,
            request_cpu_milli=np.full(count, 100 * MILLI_PER_PERCENT, np.int64),
        ),
        repairs=repairs.listed(),
    )


def _day(percent: NDArray[np.float32], name: str, repairs: Repairs) -> NDArray[np.float32]:
    if percent.shape[1] != STEPS_A_DAY:
        raise TraceFault(FILE, None, f"array {name} must have {STEPS_A_DAY} steps a machine, not {percent.shape[1]}")
    day = percent.astype(np.float32)
    if not np.isfinite(day).all() or day.max(initial=0) > 100:
        row = int(np.flatnonzero(~np.isfinite(day).all(1) | (day > 100).any(1))[0])
        raise TraceFault(FILE, None, f"array {name}, row {row}: percent must be 0 to 100")
    if (negative := day < 0).any():
        row = int(np.flatnonzero(negative.any(1))[0])
        repairs.add("negative use set to 0", f"{FILE} {name}, row {row}", None, int(negative.sum()))
        day[negative] = 0
    return day


def _by_use(day: NDArray[np.float32]) -> NDArray[np.float32]:
    return day[np.lexsort((day.mean(1), day.max(1)))]


def _spread(day: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """`count` machines of the day, evenly over the ranks."""
    return day[np.arange(count) * len(day) // count]
