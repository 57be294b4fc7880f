"""The report of a change of settings: gain and risk, the course of both runs, and the pods that would be evicted."""

from __future__ import annotations

from html import escape

from koord.operate import plots as svg
from koord.sim.report.curves import lines
from koord.sim.report.page import MINUTES_OF_HOUR, by_run, rows, violated, work_so_far
from koord.sim.what_if import WhatIf, evictions, headline, table


def page(runs: WhatIf, change: str) -> str:
    """`change`: the settings that differ, in words."""
    plots = [
        lines("Batch work so far", "core-hours", by_run(runs.side, work_so_far)),
        lines("Nodes above the mark by hour", "percent", by_run(runs.side, violated), MINUTES_OF_HOUR),
    ]
    body = [
        f"<h1>koord sim: what if {escape(change)}</h1>",
        *(f'<p class="big">{escape(line)}</p>' for line in headline(runs).splitlines()),
        f'<div class="plots">{"".join(plots)}</div>' if len(runs.after.series.at_s) > 1 else "",
        "<h2>Figures</h2>",
        rows(table(runs)),
    ]
    if runs.added:
        body += ["<h2>Pods that would be evicted</h2>", rows(evictions(runs.added))]
    if runs.spared:
        body += ["<h2>Pods that would be spared</h2>", rows(evictions(runs.spared))]
    footer = f"{runs.before.scenario}, seed {runs.before.seed}: the same load and the same chance in both runs"
    return svg.page("koord sim what-if", [*body, f"<footer>{escape(footer)}.</footer>"])
