"""The report of a run as one page that needs nothing else: the answer, plots, the table, and how it was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Final

import numpy as np

from koord.api.text.counted import counted
from koord.operate import plots as svg
from koord.sim.minutes import Floats
from koord.sim.outcome import Outcome
from koord.sim.report.curves import Curve, clock, lines, stack
from koord.sim.report.figures import (
    CORE_HOUR_MILLI_S,
    NOTHING,
    Run,
    SideBySide,
    amount,
    core_hours,
    duration,
    headline,
    table,
)
from koord.sim.report.pace import span

COLOURS: Final = (svg.AMBER, svg.RED, svg.GREEN, svg.VIOLET, svg.GREY, svg.BLUE)
"""Of runs, in the order of the table."""
MOST_EVICTED: Final = 20
MINUTE_S: Final = 60.0
MINUTES_OF_HOUR: Final = 60


def page(side: SideBySide, description: str = "", notes: Sequence[str] = ()) -> str:
    """`notes`: how the figures came about, beside what the outcomes say."""
    chosen = side.runs[0]
    body = [
        f"<h1>koord sim: {escape(chosen.outcome.scenario)}</h1>",
        f"<p>{escape(description)}</p>" if description else "",
        f'<p class="big">{escape(headline(side, chosen))}</p>',
        "" if side.is_whole else "<p><b>A run was stopped before its end: figures cover the time until then.</b></p>",
    ]
    if len(chosen.outcome.series.at_s) > 1:
        body.append(f'<div class="plots">{"".join(_plots(side, chosen))}</div>')
    body += ["<h2>Side by side</h2>", rows(table(side)), _quotas(chosen), _evictions(chosen)]
    return svg.page("koord sim", [*body, _footer(chosen.outcome, notes)])


def rows(cells: Sequence[Sequence[str]]) -> str:
    """A table with its heading; names that begin with a space are parts of the row above."""
    head, *rest = cells
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    lines_of_table = (
        f"<tr{' class=part' if name.startswith(' ') else ''}><td>{escape(name.strip())}</td>"
        + "".join(
            f'<td data-name="{escape(column)}">{escape(cell)}</td>' for column, cell in zip(head[1:], row, strict=True)
        )
        + "</tr>"
        for name, *row in rest
    )
    return f'<table class="wide"><tr>{top}</tr>{"".join(lines_of_table)}</table>'


def _plots(side: SideBySide, chosen: Run) -> list[str]:
    series = chosen.outcome.series
    at_s, capacity = series.at_s, np.maximum(series.capacity_milli, 1)

    def cores(name: str, colour: str, milli: Floats, dashes: str = "") -> Curve:
        return Curve(name, colour, at_s, milli / 1000, dashes)

    areas = [
        Curve("system", svg.GREY, at_s, 100 * series.system_milli / capacity),
        Curve("services", svg.GREEN, at_s, 100 * series.services_milli / capacity),
        Curve("batch", svg.AMBER, at_s, 100 * series.batch_used_milli / capacity),
    ]
    lent = [
        cores("lent", svg.BLUE, series.lent_milli),
        cores("requested", svg.GREY, series.requested_milli),
        cores("wanted", svg.RED, series.batch_wanted_milli, "5 3"),
        cores("used", svg.AMBER, series.batch_used_milli),
    ]
    plots = [
        stack(f"CPU used with {chosen.name}, in percent", areas, 100.0),
        lines(f"Batch with {chosen.name}", "cores", lent),
        lines("Batch work so far", "core-hours", by_run(side, work_so_far)),
        lines("Nodes above the mark by hour", "percent", by_run(side, violated), MINUTES_OF_HOUR),
        lines("Batch pods that wait", "pods", by_run(side, lambda outcome: outcome.series.pending.astype(np.float64))),
    ]
    if np.isfinite(series.p99).any():
        response = by_run(side, lambda outcome: outcome.series.p99)
        plots.append(lines("p99 response time of services", "multiples of idle", response))
    return plots


def by_run(side: SideBySide, values: Callable[[Outcome], Floats]) -> list[Curve]:
    return [
        Curve(run.name, colour, run.outcome.series.at_s, values(run.outcome))
        for run, colour in zip(side.runs, COLOURS, strict=False)
    ]


def work_so_far(outcome: Outcome) -> Floats:
    series = outcome.series
    gained = series.batch_used_milli * MINUTE_S - series.wasted_milli_s
    work: Floats = np.cumsum(gained) / CORE_HOUR_MILLI_S
    return work


def violated(outcome: Outcome) -> Floats:
    share: Floats = 100.0 * outcome.series.violated / max(1, len(outcome.nodes.names))
    return share


def _quotas(run: Run) -> str:
    """What each quota got, where there are several."""
    quotas = run.outcome.quotas
    if len(quotas) < 2:
        return ""
    cells = [("quota", "pods arrived", "finished", "core-hours asked", "done", "done of asked", "mean wait")]
    for quota in sorted(quotas, key=lambda quota: -quota.asked_milli_s):
        done = f"{quota.done_milli_s / quota.asked_milli_s:.0%}" if quota.asked_milli_s else NOTHING
        cells.append(
            (
                quota.name or "without a quota",
                f"{quota.arrived:,}",
                f"{quota.finished:,}",
                amount(core_hours(quota.asked_milli_s)),
                amount(core_hours(quota.done_milli_s)),
                done,
                duration(quota.waited_s),
            )
        )
    return f"<h2>Quotas with {escape(run.name)}</h2>{rows(cells)}"


def evicted_rows(outcome: Outcome) -> list[tuple[str, ...]]:
    """Evictions, those that lost most work first."""
    cells: list[tuple[str, ...]] = [("pod", "when", "node", "by", "core-hours lost")]
    for pod in sorted(outcome.evicted, key=lambda pod: (-pod.lost_milli_s, pod.at_s, pod.pod))[:MOST_EVICTED]:
        cells.append((pod.pod, " ".join(clock(pod.at_s)), pod.node, pod.by, amount(core_hours(pod.lost_milli_s))))
    return cells


def _evictions(run: Run) -> str:
    count = len(run.outcome.evicted)
    if not count:
        return ""
    title = f"Evictions with {run.name}" + (f": the costliest of {count:,}" if count > MOST_EVICTED else "")
    return f"<h2>{escape(title)}</h2>{rows(evicted_rows(run.outcome))}"


def _footer(outcome: Outcome, notes: Sequence[str]) -> str:
    minutes = len(outcome.series.at_s)
    parts = [
        f"{counted(len(outcome.nodes.names), 'node')}, {span(minutes * MINUTE_S)} simulated,"
        f" {span(outcome.totals.minutes * MINUTE_S)} counted, seed {outcome.seed}",
        "work is batch core-time less what evictions lost; the oracle knows each service's next hour; no policy can"
        " pass the fluid bound",
        *(f"{repair.count} times: {repair.rule} (first: {repair.first})" for repair in outcome.repairs),
        *notes,
    ]
    return f"<footer>{escape('; '.join(parts))}.</footer>"
