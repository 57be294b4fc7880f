"""What does each component cost on a large cluster, and how does that grow with nodes and pods?

Every component is measured at several sizes, each in a process of its own (`scale_child`), in CPU seconds. The law that
fits its figures best is

    cost = constant x nodes^a x pods^b

so a and b are slopes in log-log axes: 1 is proportional, and more is superlinear. A whole cluster grows by both, and
`a + b` says how.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from koord_bench import shards
from koord_bench.children import figures_of
from koord_bench.harness import Figures, Progress, Report, Result, Size, silent

BENCH: Final = "scale"
MEMORY_MIB: Final = 6 * 1024.0
START_S: Final = 120.0
"""What feeding a million pods may take, and restarting with them."""
SLOWER: Final = 3.0
"""How many times longer a decision may take on the largest cluster than on 5,000 nodes."""
INTERVAL_S: Final = 60.0
"""How often agents report, and the descheduler works, unless it is configured otherwise."""
PROPORTIONAL: Final = 1.1
"""The largest slope of what should grow in proportion, with what a shared machine adds."""


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """The size of a cluster."""

    nodes: int
    pods: int

    def __str__(self) -> str:
        return f"{self.nodes:,} nodes, {self.pods:,} pods"


@dataclass(frozen=True, slots=True)
class Quantity:
    """One figure of a component."""

    figure: str
    metric: str
    unit: str
    goal: float | None = None
    "At the largest size."
    proportional: bool = True
    "Whether it should grow no faster than the cluster. Decisions should hardly grow at all."


@dataclass(frozen=True, slots=True)
class Component:
    """What `scale_child` measures under this name."""

    name: str
    quantities: tuple[Quantity, ...]
    sizes: str
    "The name of its points in the size of the run."


COMPONENTS: Final = (
    Component(
        "scheduler engine",
        (
            Quantity("start_s", "decode and feed", "s of CPU", START_S),
            Quantity("feeding_s", "feed of pods", "s of CPU"),
            Quantity("peak_mib", "peak memory", "MiB", MEMORY_MIB),
            Quantity("us_alike", "decision, one class", "us of CPU", proportional=False),
            Quantity("us_mixed", "decision, 200 classes", "us of CPU", proportional=False),
        ),
        "engine",
    ),
    Component(
        "restart",
        (
            Quantity("cpu_s", "list, decode and feed", "s of CPU", START_S),
            Quantity("peak_mb", "peak memory", "MiB"),
        ),
        "restart",
    ),
    Component("manager", (Quantity("cpu_s", "a full recalculation", "s of CPU", INTERVAL_S),), "rounds"),
    Component("descheduler", (Quantity("cpu_s", "a round", "s of CPU", INTERVAL_S),), "rounds"),
)

FULL: Final = Size(
    engine=(Point(5_000, 50_000), Point(20_000, 50_000), Point(20_000, 200_000), Point(100_000, 1_000_000)),
    restart=(Point(5_000, 50_000), Point(20_000, 50_000), Point(20_000, 200_000)),
    rounds=(Point(2_500, 75_000), Point(5_000, 75_000), Point(5_000, 150_000), Point(20_000, 600_000)),
    shard_nodes=5_000,
    shard_pods=5_000,
)
QUICK: Final = Size(
    engine=(Point(200, 2_000), Point(400, 2_000), Point(400, 4_000)),
    restart=(Point(200, 2_000), Point(400, 2_000), Point(400, 4_000)),
    rounds=(Point(100, 1_000), Point(200, 1_000), Point(200, 2_000)),
    shard_nodes=60,
    shard_pods=120,
)


def run(quick: bool = False, progress: Progress = silent) -> list[Result]:
    report, size = Report(BENCH, quick, progress), QUICK if quick else FULL
    for component in COMPONENTS:
        add_rows(report, component, getattr(size, component.sizes))
    shards.add_rows(report, size)
    return report.rows


def add_rows(report: Report, component: Component, points: Sequence[Point]) -> None:
    """Each quantity at each size, and how it grows."""
    measured: dict[Point, Figures] = {}
    for point in points:
        report.progress(f"{component.name}: {point}")
        module = "koord_bench.scale_child"
        measured[point] = figures_of(module, component.name, str(point.nodes), str(point.pods))
    largest, smallest = max(points), min(points)
    for quantity in component.quantities:
        values = {point: figures[quantity.figure] for point, figures in measured.items()}
        for point, value in values.items():
            goal = quantity.goal
            if not quantity.proportional:
                goal = SLOWER * values[smallest]
            case = report.case(f"{component.name}, {point}")
            case.add(quantity.metric, value, quantity.unit, goal=goal if point == largest else None)
        by_nodes, by_pods = slopes(values)
        case = report.case(f"{component.name}, growth")
        case.add(f"{quantity.metric}, with nodes", by_nodes, "slope")
        case.add(f"{quantity.metric}, with pods", by_pods, "slope")
        goal = PROPORTIONAL if quantity.proportional else None
        case.add(f"{quantity.metric}, with both", by_nodes + by_pods, "slope", goal=goal)


def slopes(values: Mapping[Point, float]) -> tuple[float, float]:
    """Exponents of nodes and of pods in the law that fits best. Needs three sizes, not all with the same ratio."""
    rows = [(1.0, math.log(point.nodes), math.log(point.pods)) for point in values]
    solution = np.linalg.lstsq(np.array(rows), np.log(list(values.values())), rcond=None)[0]
    return float(solution[1]), float(solution[2])
