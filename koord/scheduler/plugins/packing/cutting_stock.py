"""What a GPU share really takes of a device, if devices are cut into shares as well as they can be.

A share of 810 takes a whole device where nothing comes that could use the other 190; one of 100 is free where it fills
what others leave. The sizes are the duals of the cutting stock problem (Gilmore and Gomory): as few devices as possible
for all shares of the mix. A step of the simplex method finds the pattern of shares that is worth most at the present
duals, by a knapsack over one device.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from koord.scheduler.plugins.packing.shapes import STEP, WHOLE
from koord.scheduler.state.table import Array

TRUST: Final = 0.9
"""How far the duals count; the rest is the size itself, so that a share which is free today is not free for ever."""
MOST_STEPS: Final = 400
TINY: Final = 1e-9


def effective_sizes(demand: Mapping[int, float]) -> dict[int, float]:
    """By the milli of a share, the part of a device that it takes. `demand`: how often each comes."""
    sizes = sorted(milli for milli, number in demand.items() if 0 < milli < WHOLE and number > 0)
    duals = device_duals([-(-milli // STEP) for milli in sizes], [demand[milli] for milli in sizes])
    sizes_by_milli = {
        milli: TRUST * dual + (1 - TRUST) * milli / WHOLE for milli, dual in zip(sizes, duals.tolist(), strict=True)
    }
    return {**sizes_by_milli, WHOLE: 1.0}


def device_duals(widths: list[int], demand: list[float], device: int = WHOLE // STEP) -> Array:
    """What each width is worth, where a device is worth 1."""
    number = len(widths)
    if not number:
        return np.zeros(0)
    needed = np.array(demand) / max(sum(demand), TINY)
    patterns = np.diag([float(device // width) for width in widths])
    costs = np.ones(number)
    for _ in range(MOST_STEPS):
        inverse = np.linalg.inv(patterns)
        duals: Array = costs @ inverse
        column, cost = _entering(widths, duals, device)
        if column is None:
            break
        amounts, direction = inverse @ needed, inverse @ column
        ratios = np.where(direction > TINY, amounts / np.maximum(direction, TINY), np.inf)
        leaving = int(ratios.argmin())
        if not np.isfinite(ratios[leaving]):
            break
        patterns[:, leaving], costs[leaving] = column, cost
    return np.clip(duals, 0.0, 1.0)


def _entering(widths: list[int], duals: Array, device: int) -> tuple[Array | None, float]:
    """A column that makes the solution better, and what it costs: a pattern of a device, or a share too many."""
    worst = int(duals.argmin())
    if duals[worst] < -TINY:
        column = np.zeros(len(widths))
        column[worst] = -1.0
        return column, 0.0
    best, taken = np.zeros(device + 1), np.full(device + 1, -1)
    for room in range(1, device + 1):
        best[room], taken[room] = best[room - 1], -1
        for i, width in enumerate(widths):
            if width <= room and duals[i] + best[room - width] > best[room] + TINY:
                best[room], taken[room] = duals[i] + best[room - width], i
    if best[device] <= 1 + 1e-7:
        return None, 0.0
    column, room = np.zeros(len(widths)), device
    while room > 0:
        if taken[room] < 0:
            room -= 1
        else:
            column[taken[room]] += 1
            room -= widths[taken[room]]
    return column, 1.0
