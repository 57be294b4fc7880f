"""The whole benchmark: traces, seeds and policies, each run verified; figures, a table and a picture.

Without a folder of traces it runs on a small made-up cluster. Figures are means of seeds. A run that broke a rule, or
has allocated more than the ceiling, makes the benchmark fail: then its figures are worth nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from koord.sim.packing import POLICIES as IN_THE_SIMULATOR
from koord_bench.gpu_packing import arrivals, by_time, published
from koord_bench.gpu_packing.plot import svg
from koord_bench.gpu_packing.policies import FGD, POLICIES, RANDOM, SHADOW, set_up
from koord_bench.gpu_packing.traces import MADE_UP, PUBLISHED, Trace, TraceError, made_up, names, read
from koord_bench.harness import Progress, Report, Result, silent

BENCH: Final = "gpu-packing"
SEEDS: Final = (42, 43, 44)
MEAN: Final = "mean of traces"
PEER: Final = "FGD in the same run"
MORE_THAN_FGD: Final = 0.4
"""Points that shadow prices are to gain on every trace."""
MORE_IN_THE_MEAN: Final = 1.5
ALLOCATED: Final = "allocated"
IN_USE: Final = "in use"
WAITING: Final = "waiting"
TITLES: Final = {
    ALLOCATED: "GPU allocated (%) when as much GPU was asked for as there is",
    WAITING: "GPU that pods wait for, and GPU in use (% of all GPUs, the mean over time)",
}


COMPARED: Final = (FGD, "MostAllocated", SHADOW)
"""By time: the second one is best fit."""


class RuleBrokenError(Exception):
    """A replay broke a rule of its cluster."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to run. Empty: all that are published."""

    folder: Path | None = None
    traces: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    policies: tuple[str, ...] = ()
    loads: tuple[float, ...] = ()
    "Pods also end, at these loads; none: they stay."
    plot: Path | None = None


@dataclass(slots=True)
class _Outcomes:
    """Figures of all seeds."""

    allocated: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    "By trace and policy, at 100 % arrived."
    curves: dict[str, dict[str, dict[int, list[float]]]] = field(default_factory=dict)
    ceilings: dict[str, list[float]] = field(default_factory=dict)
    gaps: dict[str, list[float]] = field(default_factory=dict)
    speeds: dict[str, list[float]] = field(default_factory=dict)
    by_time: dict[tuple[str, float, str, str], list[float]] = field(default_factory=dict)
    "By trace, load, measure and policy."


def run(quick: bool = False, progress: Progress = silent, options: Options | None = None) -> list[Result]:
    """All runs that are asked for. `quick`: one seed, and the first trace."""
    options = _completed(options or Options(), quick)
    outcomes, expected = _Outcomes(), {} if options.folder is None else published.read(options.folder)
    for name in options.traces:
        for seed in options.seeds:
            trace = made_up(seed) if options.folder is None else read(options.folder, name, seed)
            if options.loads:
                _by_time(trace, options, outcomes, progress, quick)
            else:
                _by_arrival(trace, options, outcomes, expected, progress)
    if options.plot is not None:
        options.plot.write_text(_picture(outcomes, options.policies))
    return _results(outcomes, options)


def _completed(options: Options, quick: bool) -> Options:
    seeds, policies = options.seeds or (SEEDS[:1] if quick else SEEDS), options.policies
    valid = tuple(IN_THE_SIMULATOR) if options.loads else POLICIES
    unknown = [policy for policy in policies if policy not in valid]
    if unknown:
        raise TraceError(f"no policy {', '.join(unknown)}: choose of {', '.join(valid)}")
    policies = policies or (COMPARED if options.loads else POLICIES)
    if options.folder is None:
        if options.traces:
            raise TraceError("traces are read from a folder: --data FOLDER")
        return Options(None, (MADE_UP,), seeds, policies, options.loads, options.plot)
    there = names(options.folder)
    missing = [trace for trace in options.traces if trace not in there]
    if missing or not there:
        what = f"no trace {', '.join(missing)}" if missing else "no trace"
        raise TraceError(f"{options.folder}: {what}; there are {', '.join(there) or 'none'}")
    chosen = options.traces or tuple(trace for trace in PUBLISHED if trace in there) or tuple(there)
    return Options(options.folder, chosen[:1] if quick else chosen, seeds, policies, options.loads, options.plot)


def _by_arrival(
    trace: Trace, options: Options, outcomes: _Outcomes, expected: dict[published.Run, float], progress: Progress
) -> None:
    progress(f"{trace.name}, seed {trace.seed}: ceiling")
    most = arrivals.ceiling(trace)
    outcomes.ceilings.setdefault(trace.name, []).append(most)
    until = 130 if options.plot is not None else arrivals.FULL
    for policy in options.policies:
        progress(f"{trace.name}, seed {trace.seed}: {policy}")
        done = arrivals.replay(trace, set_up(policy, trace), until)
        _check(trace, policy, done.faults)
        if done.at_full > most + 1e-6:
            _check(trace, policy, [f"{done.at_full:.2f} % is allocated, more than the ceiling of {most:.2f} %"])
        outcomes.allocated.setdefault((trace.name, policy), []).append(done.at_full)
        curve = outcomes.curves.setdefault(trace.name, {}).setdefault(policy, {})
        for percent, allocated in done.allocated.items():
            curve.setdefault(percent, []).append(allocated)
        outcomes.speeds.setdefault(policy, []).append(done.pods_s)
        at_full = expected.get(published.Run(trace.name, trace.seed, policy))
        if at_full is not None:
            outcomes.gaps.setdefault(policy, []).append(round(done.at_full, 2) - at_full)


def _by_time(trace: Trace, options: Options, outcomes: _Outcomes, progress: Progress, quick: bool) -> None:
    for load in options.loads:
        for policy in options.policies:
            progress(f"{trace.name}, seed {trace.seed}, load {load:g}: {policy}")
            totals = by_time.totals_of(trace, policy, load, by_time.QUICK_HOURS if quick else by_time.HOURS)
            for measure, value in ((WAITING, totals.gpu_waiting_percent), (IN_USE, totals.gpu_allocated_percent)):
                outcomes.by_time.setdefault((trace.name, load, measure, policy), []).append(value)


def _check(trace: Trace, policy: str, faults: list[str]) -> None:
    if faults:
        raise RuleBrokenError(f"{trace.name}, seed {trace.seed}, {policy}: {'; '.join(faults)}")


def _results(outcomes: _Outcomes, options: Options) -> list[Result]:
    # Goals need published traces, not a full run.
    report = Report(BENCH)
    by_policy: dict[str, list[float]] = {}
    for (trace, policy), values in outcomes.allocated.items():
        by_policy.setdefault(policy, []).append(_mean(values))
        _add_allocated(report, trace, policy, _mean(values), outcomes, options, MORE_THAN_FGD)
    for trace, values in outcomes.ceilings.items():
        report.case(trace).add("ceiling", _mean(values), "%")
    if len(outcomes.ceilings) > 1:
        for policy, values in by_policy.items():
            _add_allocated(report, MEAN, policy, _mean(values), outcomes, options, MORE_IN_THE_MEAN)
        report.case(MEAN).add("ceiling", _mean(map(_mean, outcomes.ceilings.values())), "%")
    for policy, values in outcomes.gaps.items():
        gap = published.gap(policy, values)
        if gap is not None:
            metric = f"{'mean' if policy == RANDOM else 'largest'} gap to published"
            report.case(f"{policy}, {len(values)} runs").add(metric, gap[0], "points", goal=gap[1])
    for policy, values in outcomes.speeds.items():
        report.case(policy).add("placed or dropped", _mean(values), "pods/s")
    for (trace, load, measure, policy), values in outcomes.by_time.items():
        fgd = outcomes.by_time.get((trace, load, measure, FGD)) if policy == SHADOW else None
        baseline = None if fgd is None else _mean(fgd)
        case = report.case(f"{trace}, load {load:g}", PEER)
        metric, is_use = f"{measure}, {policy}", measure == IN_USE
        case.add(metric, _mean(values), "% of all GPUs", baseline=baseline, more_is_better=is_use)
    return report.rows


def _add_allocated(
    report: Report, trace: str, policy: str, value: float, outcomes: _Outcomes, options: Options, gain: float
) -> None:
    baseline = goal = None
    if policy == SHADOW and FGD in options.policies:
        traces = list(outcomes.ceilings) if trace == MEAN else [trace]
        baseline = _mean(_mean(outcomes.allocated[name, FGD]) for name in traces)
        goal = None if options.folder is None else baseline + gain
    case = report.case(trace, PEER)
    case.add(f"{ALLOCATED}, {policy}", value, "% of GPU", baseline=baseline, more_is_better=True, goal=goal)


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)


def _picture(outcomes: _Outcomes, policies: tuple[str, ...]) -> str:
    panels = {
        trace: {
            policy: {percent: _mean(values) for percent, values in curve.items()} for policy, curve in curves.items()
        }
        for trace, curves in outcomes.curves.items()
    }
    return svg(panels, {trace: _mean(values) for trace, values in outcomes.ceilings.items()}, policies)


def table(results: list[Result]) -> str:
    """A line a trace, a column a policy; what is not of that kind comes below."""
    wide: dict[str, dict[str, float]] = {}
    rest: list[list[str]] = []
    titles = []
    for result in results:
        kind, _, policy = result.metric.partition(", ")
        if kind in TITLES or kind in ("ceiling", IN_USE):
            titles += [TITLES[kind]] if kind in TITLES else []
            line = wide.setdefault(result.case + ("" if kind in (ALLOCATED, "ceiling") else f", {kind}"), {})
            line[policy or kind] = result.value
        else:
            met = "" if result.met is None else ", as it should" if result.met else ", TOO MUCH"
            number = f"{result.value:,.{3 if result.value < 10 else 0}f}"
            rest.append([result.case, result.metric, f"{number} {result.unit}{met}"])
    columns = list(dict.fromkeys(name for line in wide.values() for name in line if name != "ceiling"))
    ends = ["ceiling"] if any("ceiling" in line for line in wide.values()) else []
    compares = FGD in columns and SHADOW in columns
    lines = [["TRACE", *columns, *(["DIFFERENCE"] if compares else []), *(name.upper() for name in ends)]]
    for case, line in wide.items():
        cells = [f"{line[name]:.2f}" if name in line else "-" for name in columns]
        if compares:
            cells.append(f"{line[SHADOW] - line[FGD]:+.2f}")
        lines.append([case, *cells, *(f"{line[name]:.2f}" for name in ends if name in line)])
    return "\n".join(filter(None, [*titles[:1], _aligned(lines), _aligned(rest)])) + "\n"


def _aligned(lines: list[list[str]]) -> str:
    if not lines:
        return ""
    widths = [max(len(line[i]) for line in lines if i < len(line)) for i in range(len(lines[0]))]
    return "\n".join("   ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)  # noqa: B905
