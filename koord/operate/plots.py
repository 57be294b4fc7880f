"""Lines and areas over time as inline SVG, and the page around them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final, TypeVar

WIDTH: Final = 480
HEIGHT: Final = 260
LEFT: Final = 48
RIGHT: Final = 12
ABOVE: Final = 34
BELOW: Final = 46
LETTERS: Final = 15
"""Font size; readable even if the picture is as narrow as a phone."""
MOST_POINTS: Final = 300

STYLE: Final = """
:root{color-scheme:light dark;--ink:#222;--soft:#555;--line:#e4e7eb;--ground:#fff;
--grey:#9aa5b1;--green:#4f9d8f;--amber:#c08a3e;--blue:#1f5fa8;--red:#d1495b;--violet:#7d5ba6}
@media(prefers-color-scheme:dark){:root{--ink:#e3e6ea;--soft:#a3abb5;--line:#31373f;--ground:#15181c;
--grey:#7b8794;--green:#57a99a;--amber:#cf9a4f;--blue:#6fa8e6;--red:#e5717f;--violet:#b093d6}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--ground);margin:0 auto;max-width:1000px;
padding:16px}
h1{font-size:1.5rem;margin:.5rem 0}h2{font-size:1.1rem;margin:1.5rem 0 .5rem}
p.big{font-size:1.15rem;margin:.25rem 0 1rem}
.plots{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,430px),1fr));gap:16px}
figure{margin:0;border:1px solid var(--line);border-radius:6px;padding:8px}
svg{width:100%;height:auto;display:block}
table{border-collapse:collapse;width:100%;max-width:560px}
table.wide{max-width:none}
td,th{padding:.3rem .5rem;border-bottom:1px solid var(--line);text-align:right}
td:first-child,th:first-child{text-align:left}
tr.all td{font-weight:600}
tr.part td:first-child{padding-left:1.5rem;color:var(--soft)}
dt{font-weight:600;margin-top:.5rem}dd{margin:0}
.legend{font-size:.85rem;color:var(--soft);margin:.25rem .25rem 0}.legend span{white-space:nowrap;margin:0 .4em}
.legend i{display:inline-block;width:.8em;height:.8em;margin-right:.35em;border-radius:2px}
footer{color:var(--soft);font-size:.85rem;margin-top:2rem;overflow-wrap:anywhere}
td:first-child{overflow-wrap:anywhere}
@media(max-width:640px){
table.wide tr:first-child{display:none}
table.wide tr{display:grid;grid-template-columns:1fr 1fr;border-bottom:1px solid var(--line);padding:.3rem 0}
table.wide td{border:0;padding:.1rem .5rem}
table.wide td:first-child{grid-column:1/-1;font-weight:600}
table.wide td[data-name]{display:flex;justify-content:space-between;gap:.5rem;font-size:.85rem}
table.wide td[data-name]::before{content:attr(data-name);color:var(--soft);font-weight:400;text-align:left}
}
"""

GREY, GREEN, AMBER, BLUE, RED, VIOLET = (
    f"var(--{name})" for name in ("grey", "green", "amber", "blue", "red", "violet")
)
"""Colours of curves, legible on a light and on a dark page."""
Point = tuple[float, float]
"""A time in seconds, and an amount."""
T = TypeVar("T")


def page(title: str, body: Iterable[str]) -> str:
    head = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><style>{STYLE}</style></head>'
    )
    return f"{head}<body>{''.join(body)}</body></html>\n"


def figure(title: str, drawn: str, marks: Iterable[tuple[str, str]], height: float = HEIGHT) -> str:
    """`marks`: colours and what they mean."""
    about = f'viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(title)}"'
    text = f'<text x="{LEFT}" y="20" font-weight="bold" fill="var(--ink)">{escape(title)}</text>'
    drawing = f'<svg {about} font-family="sans-serif" font-size="{LETTERS}">{text}{drawn}</svg>'
    legend = "".join(f'<span><i style="background:{colour}"></i>{escape(name)}</span> ' for colour, name in marks)
    return f'<figure>{drawing}<figcaption class="legend">{legend}</figcaption></figure>'


class Axes:
    """From seconds and amounts to places in the picture."""

    def __init__(self, first_s: float, last_s: float, top: float) -> None:
        self.first_s, self.last_s, self.top = first_s, last_s if last_s > first_s else first_s + 1, top

    @property
    def ticks(self) -> list[float]:
        """The times to name."""
        return [self.first_s + (self.last_s - self.first_s) * i / 4 for i in range(5)]

    def x(self, time_s: float) -> float:
        return LEFT + (time_s - self.first_s) / (self.last_s - self.first_s) * (WIDTH - LEFT - RIGHT)

    def y(self, amount: float) -> float:
        return HEIGHT - BELOW - amount / self.top * (HEIGHT - ABOVE - BELOW)

    def drawn(self, step: float, names: Sequence[Sequence[str]]) -> str:
        """Lines and numbers; below them the `names` of each tick, one below the other."""
        parts = []
        amount = 0.0
        while amount <= self.top + 1e-9:
            y = self.y(amount)
            parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--line)"/>')
            parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="var(--soft)">{amount:g}</text>')
            amount += step
        for i, (time_s, lines) in enumerate(zip(self.ticks, names, strict=True)):
            anchor = "start" if i == 0 else "end" if i == 4 else "middle"
            at = f'x="{self.x(time_s):.1f}" text-anchor="{anchor}" fill="var(--soft)"'
            for row, text in enumerate(lines):
                parts.append(f'<text {at} y="{HEIGHT - BELOW + 18 + 19 * row}">{escape(text)}</text>')
        return "".join(parts)

    def line(self, points: Sequence[Point], colour: str, dashes: str = "") -> str:
        path = " ".join(f"{self.x(time_s):.1f},{self.y(amount):.1f}" for time_s, amount in points)
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashed}/>'

    def area(self, below: Sequence[Point], above: Sequence[Point], colour: str, name: str) -> str:
        top = [f"{self.x(time_s):.1f},{self.y(amount):.1f}" for time_s, amount in above]
        bottom = [f"{self.x(time_s):.1f},{self.y(amount):.1f}" for time_s, amount in below]
        path = " ".join([*top, *reversed(bottom)])
        return f'<polygon points="{path}" fill="{colour}" opacity=".85"><title>{escape(name)}</title></polygon>'


def round_step(highest: float) -> float:
    """The step of a scale: about five steps, 1, 2 or 5 times a power of ten."""
    step = 0.01
    while step * 5 < highest:
        step *= 2.5 if f"{step:e}".startswith("2") else 2
    return step


def thinned(looks: Sequence[T]) -> Sequence[T]:
    """As many as a reader can tell apart."""
    step = -(-len(looks) // MOST_POINTS)
    return [*looks[:-1:step], looks[-1]]
