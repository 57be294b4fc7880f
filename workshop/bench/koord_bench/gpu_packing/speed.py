"""How fast the engine places pods with shares of GPUs by shadow prices, on a cluster as large as openb's."""

from __future__ import annotations

from typing import Final

from koord_bench.decisions import Decisions
from koord_bench.gpu_packing.engine import EngineReplay
from koord_bench.gpu_packing.traces import as_large
from koord_bench.harness import Report, undisturbed

GOAL: Final = 5_000
CASE: Final = "GPU shares by shadow prices"


def add_rows(report: Report, pods: int) -> None:
    trace = as_large(1, pods)
    replay = EngineReplay(trace, "ShadowPrices")
    shapes = [trace.pods[i].shape for i in trace.arrivals[:pods]]
    decisions = Decisions()
    with undisturbed():
        for shape in shapes:
            before_s = replay.took_s
            replay.place(shape)
            decisions.took_s.append(replay.took_s - before_s)
    case, warm = report.case(f"{CASE}, {len(trace.nodes)} nodes"), decisions.warm()
    warm.add_rate(case, goal=GOAL)
    case.add("p50", warm.ms(0.5), "ms")
    case.add("p99", warm.ms(0.99), "ms", goal=5.0)
