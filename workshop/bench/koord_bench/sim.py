"""How fast is a simulated cluster, and how do its costs grow with nodes and time?

Each run has a process of its own on one core. The scale case is a day of 5,000 nodes with 150,000 pods by minutes,
without the descheduler and with a round of it every ten minutes. Growth is measured at 1, 2 and 4 times the nodes for
the same time, and at 1, 2 and 4 times the time for the same nodes. As many pods arrive per node and day in each of
them. Last comes how much batch work the default policy does (`sim_mix`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from koord_bench import sim_mix
from koord_bench.children import figures_of
from koord_bench.harness import Figures, Progress, Report, Result, Size, silent

BENCH: Final = "sim"
HOUR_S: Final = 3600.0
FULL: Final = Size(nodes=5_000, hours=24, grown_nodes=1_250, grown_hours=6)
QUICK: Final = Size(nodes=100, hours=1, grown_nodes=25, grown_hours=1)
WITHOUT_S: Final = 120.0
WITH_S: Final = 300.0
MOST_MIB: Final = 2048.0
LINEAR: Final = 1.3
"""How much more a node or an hour may cost at four times as many."""


def run(quick: bool = False, progress: Progress = silent, data: Path | None = None) -> list[Result]:
    """`data`: folder with traces."""
    report, size = Report(BENCH, quick, progress), QUICK if quick else FULL
    for descheduler, goal_s in ((False, WITHOUT_S), (True, WITH_S)):
        suffix = ", descheduler" if descheduler else ""
        progress(f"{size.hours} h of {size.nodes} nodes{suffix}")
        figures = _figures(size.nodes, size.hours, descheduler=descheduler)
        case = report.case(f"{size.nodes} nodes, {figures['pods']:.0f} pods, {size.hours} h{suffix}")
        case.add("the run", figures["cpu_s"], "s of CPU", goal=goal_s)
        case.add("real time", size.hours * HOUR_S / figures["cpu_s"], "times", more_is_better=True)
        case.add("peak memory", figures["peak_mib"], "MiB", goal=MOST_MIB)
        if descheduler:
            case.add("pods moved", figures["moved"], "pods")
    _growth(report, size)
    sim_mix.add_cases(report, None if quick else data, quick=quick)
    return report.rows


def _growth(report: Report, size: Size) -> None:
    by_nodes, by_time = [], []
    for factor in (1, 2, 4):
        report.progress(f"{factor} times the nodes, {factor} times the time")
        more_nodes = _figures(factor * size.grown_nodes, size.grown_hours)
        by_nodes.append(more_nodes["cpu_s"] / factor)
        longer = more_nodes if factor == 1 else _figures(size.grown_nodes, factor * size.grown_hours)
        by_time.append(longer["cpu_s"] / factor)
    for name, costs in (("nodes", by_nodes), ("time", by_time)):
        case = report.case(f"{size.grown_nodes} nodes, {size.grown_hours} h, {name} x 1, 2, 4")
        case.add("at 1x", costs[0], "s of CPU")
        case.add("at 2x, a part", costs[1], "s of CPU")
        case.add("at 4x, a part", costs[2], "s of CPU")
        case.add("4x by 1x, a part", costs[2] / costs[0], "times", goal=LINEAR)


def _figures(nodes: int, hours: int, *, descheduler: bool = False) -> Figures:
    return figures_of("koord_bench.sim_child", str(nodes), str(hours), "descheduler" if descheduler else "-")
