"""Curves and tasks from formulas, for scenarios without a trace: daily waves, flat load, nightly jobs, hourly jumps and
services that are idle at weekends (services); tasks of 3 minutes to 4 hours over a day (batch)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from koord.sim.chance import between, between_by_ratio, chance, choice
from koord.sim.columns import BatchTasks, ServiceCurves
from koord.sim.traces.trace import Streams, Trace

STEP_S: Final = 300.0
TASK_STEP_S: Final = 60.0
DAYS: Final = 7
SERVICES: Final = 60
TASKS: Final = 600
HOURS: Final = np.arange(DAYS * 288, dtype=np.float64) * np.float64(STEP_S / 3600)
LEAST_MILLI, MOST_MILLI = 250, 4000
SHORTEST_S, LONGEST_S = 180, 14_400
MEMORY_BYTES_PER_MILLI: Final = 1 << 20
Curve: TypeAlias = Callable[[float], NDArray[np.float64]]


def _wave(share: float) -> NDArray[np.float64]:
    return 0.35 + 0.3 * np.cos((HOURS - 14 - 2 * share) * (2 * np.pi / 24))


def _flat(share: float) -> NDArray[np.float64]:
    return np.full(len(HOURS), 0.2 + 0.4 * share)


def _nightly(share: float) -> NDArray[np.float64]:
    return np.where(1 + 3 * share > HOURS % 24, 0.9, 0.1)


def _jumps(share: float) -> NDArray[np.float64]:
    minutes = (HOURS * 60 + 60 * share) % 60
    return np.where(minutes < 15, 0.8, 0.25)


def _weekly(share: float) -> NDArray[np.float64]:
    return np.where(HOURS // 24 % 7 < 5, _wave(share), 0.03)


SHAPES: Final[tuple[Curve, ...]] = (_wave, _wave, _flat, _nightly, _jumps, _weekly)


def read(_: Streams) -> Trace:
    return Trace(services=_services(), tasks=_tasks())


def _services() -> ServiceCurves:
    curves = []
    requests = []
    for number in range(SERVICES):
        request = between_by_ratio(LEAST_MILLI, MOST_MILLI, chance(0, "request", number))
        curves.append(request * SHAPES[number % len(SHAPES)](chance(0, "shape", number)))
        requests.append(round(request))
    return ServiceCurves(
        ids=tuple(f"synthetic-{number:02}" for number in range(SERVICES)),
        step_s=STEP_S,
        cpu_milli=np.array(curves, np.float32),
        request_cpu_milli=np.array(requests, np.int64),
    )


def _tasks() -> BatchTasks:
    lengths = [
        round(between_by_ratio(SHORTEST_S, LONGEST_S, chance(0, "length", number)) / TASK_STEP_S)
        for number in range(TASKS)
    ]
    requests = np.array([choice((1000, 2000, 4000), chance(0, "cores", number)) for number in range(TASKS)], np.int64)
    use = requests * [between(0.3, 1, chance(0, "use", number)) for number in range(TASKS)]
    return BatchTasks(
        ids=tuple(f"synthetic-{number:03}" for number in range(TASKS)),
        arrival_s=np.arange(TASKS, dtype=np.float64) * np.float64(86_400 / TASKS),
        request_cpu_milli=requests,
        request_memory_bytes=requests * MEMORY_BYTES_PER_MILLI,
        step_s=TASK_STEP_S,
        offset=np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
        use_milli=np.repeat(use, lengths).astype(np.float32),
    )
