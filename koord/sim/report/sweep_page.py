"""The report of a sweep: work done against violations, with the front, and the table of all settings."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from koord.api.text.counted import counted
from koord.operate import plots as svg
from koord.sim.report.curves import Dot, scatter
from koord.sim.report.page import rows
from koord.sim.sweep import Setting, table

TITLE: Final = "Work by share above the mark"


def page(scenario: str, settings: Sequence[Setting], seeds: int, notes: Sequence[str] = ()) -> str:
    dots = [
        Dot(setting.violated_percent, setting.work_core_hours, setting.name, svg.BLUE if setting.on_front else svg.GREY)
        for setting in settings
    ]
    front = sorted((i for i, setting in enumerate(settings) if setting.on_front), key=lambda i: (dots[i].x, dots[i].y))
    marks = [(svg.BLUE, "on the front"), (svg.GREY, "others")]
    how = "; ".join((f"means over {counted(seeds, 'seed')}", *notes))
    body = [
        f"<h1>koord sim: a sweep of {escape(scenario)}</h1>",
        f'<p class="big">{counted(len(settings), "setting")}, {len(front)} of them worth considering:'
        " no other one does more work with as few violations.</p>",
        f'<div class="plots">{scatter(TITLE, dots, front, marks, "core-hours", "%")}</div>',
        "<h2>Settings</h2>",
        rows(table(settings)),
        f"<footer>{escape(how)}.</footer>",
    ]
    return svg.page("koord sim sweep", body)
