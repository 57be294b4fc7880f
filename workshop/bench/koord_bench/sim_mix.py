"""How much of the oracle's batch work koord's default policy does, and Koordinator's: the scenarios `mix` and
`mix-heavy`.

Needs a folder of traces (bitbrains, planetlab, surf); without it, the trace that ships with koord is played, whose
scenario is too short for goals. Each policy has a process of its own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from koord.sim import fluid
from koord.sim.live import shipped
from koord.sim.live.traces import cluster_of
from koord.sim.policies.registry import DEFAULT, POLICIES
from koord.sim.run import run
from koord.sim.scenario import Scenario, parse
from koord_bench.children import figures_of
from koord_bench.harness import Figures, Report

MIX: Final = "mix"
HEAVY: Final = "mix-heavy"
SHIPPED: Final = "shipped"
QUICK: Final = "quick"
NODES: Final = 60
"""Of the mixes, which have 250: figures are those of 250 within a point, in a quarter of the time."""
MEASURED_BY: Final = "oracle"
KOORDINATOR: Final = "usage"


def add_cases(report: Report, traces: Path | None, *, quick: bool) -> None:
    if traces is None:
        _add_case(report, QUICK if quick else SHIPPED, Path(), {})
        return
    for size, goals in GOALS.items():
        _add_case(report, size, traces, goals)


def _add_case(report: Report, size: str, traces: Path, goals: Mapping[str, float]) -> None:
    outcomes = {}
    for name in (MEASURED_BY, DEFAULT, KOORDINATOR):
        report.progress(f"{name} on {size}")
        outcomes[name] = figures_of("koord_bench.sim_mix", name, size, str(traces))
    oracle, own, koordinator = (outcomes[name] for name in (MEASURED_BY, DEFAULT, KOORDINATOR))
    case = report.case(f"{size}, {own['nodes']:.0f} nodes, {DEFAULT}")
    for metric, value, unit, more_is_better in (
        ("work, of the oracle's", 100 * own["work"] / oracle["work"], "%", True),
        ("work, of the fluid bound", 100 * own["work"] / own["bound"], "%", True),
        ("work, by Koordinator's", own["work"] / koordinator["work"], "times", True),
        ("minutes above the mark", own["violated"], "%", False),
        ("the same, worst node", own["worst"], "%", False),
        ("batch got of what it wanted", own["got"], "%", True),
        ("wasted work", own["wasted"], "%", False),
        ("evictions a node and day", own["evicted"], "pods", False),
    ):
        case.add(metric, value, unit, more_is_better=more_is_better, goal=goals.get(metric))


GOALS: Final[Mapping[str, Mapping[str, float]]] = {
    MIX: {
        "work, of the oracle's": 95.0,
        "work, by Koordinator's": 2.4,
        "minutes above the mark": 1.0,
        "the same, worst node": 1.2,
        "batch got of what it wanted": 95.0,
        "wasted work": 0.5,
    },
    HEAVY: {"work, of the oracle's": 85.0},
}
"""By the name of the scenario."""


def measure(policy: str, size: str, traces: Path) -> Figures:
    scenario = _scenario(size)
    cluster = cluster_of(scenario, traces, scenario.seed)
    outcome = run(scenario, cluster, {"": POLICIES[policy]}, seed=scenario.seed)
    totals = outcome.totals
    bound = fluid.bound_milli_s(outcome.series, warm_up_ticks=scenario.warm_up_ticks, never_empty=True)
    return {
        "nodes": float(len(cluster.nodes)),
        "work": totals.work_milli_s,
        "bound": bound,
        "violated": totals.violated_percent,
        "worst": totals.worst_node_percent,
        "got": totals.got_percent,
        "wasted": totals.wasted_percent,
        "evicted": totals.evicted_per_node_day,
    }


def _scenario(size: str) -> Scenario:
    file = shipped.DEFAULT.with_name(f"{size}.yaml") if size in GOALS else shipped.DEFAULT
    scenario = parse(file.read_text(), str(file))
    if size in GOALS:
        batch = replace(scenario.batch, pending=NODES)
        return replace(scenario, cluster=replace(scenario.cluster, nodes=NODES), batch=batch)
    if size == QUICK:
        small = replace(scenario.cluster, nodes=4)
        return replace(scenario, cluster=small, duration="3h", warm_up="1h")
    return scenario


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure(sys.argv[1], sys.argv[2], Path(sys.argv[3]))) + "\n")
