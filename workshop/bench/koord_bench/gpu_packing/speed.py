"""How fast the engine places pods with shares of GPUs by shadow prices, on a cluster as large as openb's."""

from __future__ import annotations

import gc
from typing import Final

from koord_bench.gpu_packing.engine import EngineReplay
from koord_bench.gpu_packing.traces import as_large
from koord_bench.result import Result, result

GOAL: Final = 5_000
CASE: Final = "GPU shares by shadow prices"


def results(bench: str, pods: int, *, goals: bool) -> list[Result]:
    """The first tenth of the pods warms up and is not counted."""
    trace = as_large(1, pods)
    replay = EngineReplay(trace, "ShadowPrices")
    shapes = [trace.pods[i].shape for i in trace.arrivals[:pods]]
    warm = len(shapes) // 10
    took: list[float] = []
    # As in all cases of the benchmark, the collector is off.
    gc.collect()
    gc.disable()
    try:
        for shape in shapes:
            before_s = replay.took_s
            replay.place(shape)
            took.append(replay.took_s - before_s)
    finally:
        gc.enable()
    counted = sorted(took[warm:])
    name = f"{CASE}, {len(trace.nodes)} nodes"
    return [
        result(
            bench,
            name,
            "decided",
            len(counted) / sum(counted),
            "pods/s",
            more_is_better=True,
            goal=GOAL if goals else None,
        ),
        result(bench, name, "p50", counted[len(counted) // 2] * 1000, "ms"),
        result(bench, name, "p99", counted[len(counted) * 99 // 100] * 1000, "ms", goal=5.0 if goals else None),
    ]
