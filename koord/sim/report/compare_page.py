"""The report of a comparison over seeds: a plot for each of the figures that decide, and the table."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from koord.api.text.counted import counted
from koord.operate import plots as svg
from koord.sim.compare import METRICS, Compared, table
from koord.sim.report.curves import Whisker, whiskers
from koord.sim.report.page import rows
from koord.sim.statistics import CONFIDENCE

DRAWN: Final = {
    "workCoreHours": svg.AMBER,
    "violatedPercent": svg.RED,
    "gotPercent": svg.GREEN,
    "wastedPercent": svg.VIOLET,
}


def page(compared: Sequence[Compared], seeds: int, notes: Sequence[str] = ()) -> str:
    plots = []
    for metric in METRICS:
        drawn = [Whisker(target.name, target.means[metric.key]) for target in compared if metric.key in target.means]
        if metric.key in DRAWN and drawn:
            unit = f", in {metric.unit}" if metric.unit else ""
            plots.append(whiskers(f"{metric.name}{unit}", drawn, DRAWN[metric.key]))
    how = f"means over {counted(seeds, 'seed')}"
    if seeds > 1:
        how += f", ± their {CONFIDENCE:.0%} interval (Student's); differences are taken within a seed"
    body = [
        f"<h1>koord sim: {escape(' and '.join(target.name for target in compared))}</h1>",
        f'<div class="plots">{"".join(plots)}</div>',
        "<h2>Side by side</h2>",
        rows(table(compared)),
        f"<footer>{escape('; '.join((how, *notes)))}.</footer>",
    ]
    return svg.page("koord sim compare", body)
