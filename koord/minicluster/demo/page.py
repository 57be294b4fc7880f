"""The demo's summary as a page of its own: a table, plots as inline SVG, nothing from elsewhere. For desk and phone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Final

from koord.minicluster.demo.ledger import Look
from koord.minicluster.demo.summary import Course as Came
from koord.minicluster.demo.summary import Summary
from koord.minicluster.hollow.load_model import DAY_S, Course

WIDTH: Final = 480
HEIGHT: Final = 260
LEFT: Final = 44
RIGHT: Final = 12
ABOVE: Final = 34
BELOW: Final = 40
MOST_POINTS: Final = 300
BANDS: Final = (("system", "system", "#9aa5b1"), ("prod", "services", "#4f9d8f"), ("batch", "batch", "#c08a3e"))
"""From the bottom to the top: band, name, colour."""
WITHOUT: Final = "#d1495b"
LENT: Final = "#1f5fa8"

_STYLE: Final = """
body{font:16px/1.5 system-ui,sans-serif;color:#222;background:#fff;margin:0 auto;max-width:1000px;padding:16px}
h1{font-size:1.5rem;margin:.5rem 0}h2{font-size:1.1rem;margin:1.5rem 0 .5rem}
p.big{font-size:1.15rem;margin:.25rem 0 1rem}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,430px),1fr));gap:16px}
figure{margin:0;border:1px solid #e4e7eb;border-radius:6px;padding:8px}
svg{width:100%;height:auto;display:block}
table{border-collapse:collapse;width:100%;max-width:560px}
td,th{padding:.3rem .5rem;border-bottom:1px solid #e4e7eb;text-align:right}
td:first-child,th:first-child{text-align:left}
tr.all td{font-weight:600}
dt{font-weight:600;margin-top:.5rem}dd{margin:0}
.legend{font-size:.85rem;color:#555;margin:.25rem .25rem 0}.legend i{display:inline-block;width:.8em;height:.8em;
margin:0 .35em 0 .8em;border-radius:2px}
footer{color:#555;font-size:.85rem;margin-top:2rem}
"""


def page(found: Summary, nodes: int, looks: Sequence[Look], alone: Sequence[Look], course: Course) -> str:
    """`looks`: what was seen; `alone`: what was worked out without co-location; `course`: the load's own time."""
    came, without = found.colocated, found.without
    cores = looks[-1].capacity // 1000
    first_s = looks[0].time_s
    plots = [
        _figure("CPU used, in percent of all", _stack(_thinned(looks), alone, first_s, course), _bands_legend()),
        _figure("Lent to batch pods, in cores", _lines(_thinned(looks), first_s, course), _lines_legend()),
    ]
    gain = f"{came.total:.0%} of all CPU was used" + (
        f"; without co-location it is {without.total:.0%}" if without else ""
    )
    body = [
        "<h1>koord demo: co-location at work</h1>",
        f'<p class="big">{nodes} nodes with {cores} cores, {came.seconds / 60:.1f} minutes: {gain}.</p>',
        f'<div class="plots">{"".join(plots)}</div>',
        "<h2>What it came to</h2>",
        _table(came, without),
        "<dl>",
        *(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in _facts(found)),
        "</dl>",
        "<footer>Without co-location: simulated with the same nodes, seeded load and jobs, placed by the same"
        " scheduler; nothing is lent, and batch pods ask for CPU as services do.</footer>",
    ]
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>koord demo</title>'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><style>{_STYLE}</style></head>'
    )
    return f"{head}<body>{''.join(body)}</body></html>\n"


def _facts(found: Summary) -> list[tuple[str, str]]:
    evicted = [f"{count} {cause}" for cause, count in found.evicted.items()]
    return [
        ("Reclaimed", f"{found.lent_cores:.0f} cores on average were lent to batch pods"),
        ("Held back", f"{found.held_back_cores:.0f} cores on average that batch pods would have used"),
        ("Moved", f"{found.moved} pods, away from hot nodes"),
        ("Evicted", ", ".join(evicted) or "none"),
        ("Violations", "; ".join(found.violations) or "none"),
    ]


def _table(came: Came, without: Came | None) -> str:
    rows = [
        (name, *(f"{each.by_band.get(band, 0.0):.0%}" if each else "-" for each in (came, without)))
        for band, name, _ in reversed(BANDS)
    ]
    rows.append(("all", *(f"{each.total:.0%}" if each else "-" for each in (came, without))))
    rows.append(("batch core-hours", *(f"{each.batch_core_hours:.1f}" if each else "-" for each in (came, without))))
    rows.append(("batch pods done", *(str(each.done) if each else "-" for each in (came, without))))
    cells = "".join(
        f'<tr class="{escape(name)}"><td>{escape(name)}</td>' + "".join(f"<td>{cell}</td>" for cell in rest) + "</tr>"
        for name, *rest in rows
    )
    return f"<table><tr><th>CPU</th><th>with co-location</th><th>without</th></tr>{cells}</table>"


def _figure(title: str, drawn: str, legend: str) -> str:
    about = f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}"'
    text = f'<text x="{LEFT}" y="20" font-weight="bold" fill="#222">{escape(title)}</text>'
    drawing = f'<svg {about} font-family="sans-serif" font-size="13">{text}{drawn}</svg>'
    return f"<figure>{drawing}{legend}</figure>"


def _bands_legend() -> str:
    marks = "".join(f'<i style="background:{colour}"></i>{name}' for _, name, colour in reversed(BANDS))
    return (
        f'<figcaption class="legend">{marks}<i style="background:{WITHOUT}"></i>all, without co-location</figcaption>'
    )


def _lines_legend() -> str:
    marks = ((LENT, "lent"), (BANDS[2][2], "used by batch pods"), (WITHOUT, "held back"))
    told = "".join(f'<i style="background:{colour}"></i>{name}' for colour, name in marks)
    return f'<figcaption class="legend">{told}</figcaption>'


class _Axes:
    """From seconds and amounts to places in the picture."""

    def __init__(self, first_s: float, last_s: float, top: float) -> None:
        self.first_s, self.last_s, self.top = first_s, max(last_s, first_s + 1), top

    def x(self, time_s: float) -> float:
        return LEFT + (time_s - self.first_s) / (self.last_s - self.first_s) * (WIDTH - LEFT - RIGHT)

    def y(self, amount: float) -> float:
        return HEIGHT - BELOW - amount / self.top * (HEIGHT - ABOVE - BELOW)

    def drawn(self, step: float, course: Course) -> str:
        """Lines and numbers; below them the load's time of day."""
        parts = []
        amount = 0.0
        while amount <= self.top + 1e-9:
            y = self.y(amount)
            parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e4e7eb"/>')
            parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#555">{amount:g}</text>')
            amount += step
        for i in range(5):
            time_s = self.first_s + (self.last_s - self.first_s) * i / 4
            hour = course.at(time_s) % DAY_S / 3600
            anchor = "start" if i == 0 else "end" if i == 4 else "middle"
            at = f'x="{self.x(time_s):.1f}" text-anchor="{anchor}" fill="#555"'
            parts.append(f'<text {at} y="{HEIGHT - BELOW + 17}">{time_s - self.first_s:.0f} s</text>')
            parts.append(f'<text {at} y="{HEIGHT - BELOW + 33}">{int(hour):02}:{int(hour % 1 * 60):02}</text>')
        return "".join(parts)

    def line(self, points: Sequence[tuple[float, float]], colour: str, dashes: str = "") -> str:
        path = " ".join(f"{self.x(time_s):.1f},{self.y(amount):.1f}" for time_s, amount in points)
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashed}/>'


def _stack(looks: Sequence[Look], alone: Sequence[Look], first_s: float, course: Course) -> str:
    axes = _Axes(first_s, looks[-1].time_s, 100)
    below = [0.0] * len(looks)
    parts = [axes.drawn(20, course)]
    for band, name, colour in BANDS:
        above = [
            under + 100 * look.used.get(band, 0) / max(look.capacity, 1)
            for under, look in zip(below, looks, strict=True)
        ]
        top = [f"{axes.x(look.time_s):.1f},{axes.y(amount):.1f}" for look, amount in zip(looks, above, strict=True)]
        bottom = [f"{axes.x(look.time_s):.1f},{axes.y(amount):.1f}" for look, amount in zip(looks, below, strict=True)]
        path = " ".join([*top, *reversed(bottom)])
        parts.append(f'<polygon points="{path}" fill="{colour}" opacity=".85"><title>{name}</title></polygon>')
        below = above
    within = [each for each in alone if each.time_s >= first_s]
    points = [(each.time_s, 100 * each.total / max(each.capacity, 1)) for each in within]
    return "".join([*parts, axes.line(points, WITHOUT, "5 3")])


def _lines(looks: Sequence[Look], first_s: float, course: Course) -> str:
    kinds: list[tuple[str, Callable[[Look], int]]] = [
        (LENT, lambda look: look.lent),
        (BANDS[2][2], lambda look: look.used.get("batch", 0)),
        (WITHOUT, lambda look: look.held_back),
    ]
    highest = max(amount(look) / 1000 for look in looks for _, amount in kinds)
    step = max(10, round(highest / 5, -2) or round(highest / 5, -1))
    axes = _Axes(first_s, looks[-1].time_s, step * max(1, -(-highest // step)))
    lines = [axes.line([(look.time_s, amount(look) / 1000) for look in looks], colour) for colour, amount in kinds]
    return "".join([axes.drawn(step, course), *lines])


def _thinned(looks: Sequence[Look]) -> Sequence[Look]:
    """As many as can be told apart."""
    step = -(-len(looks) // MOST_POINTS)
    return [*looks[:-1:step], looks[-1]]
