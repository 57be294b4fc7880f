"""Plots of the simulator's pages: amounts over time, settings on two axes, means with their intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

import numpy as np

from koord.operate.plots import ABOVE, BELOW, MOST_POINTS, RIGHT, WIDTH, Axes, Point, figure, round_step
from koord.sim.minutes import Floats
from koord.sim.statistics import Interval

DAY_S: Final = 24 * 3600.0
ROW: Final = 26
NAMES: Final = 150
"""Room for names beside rows."""
TICKS: Final = 5


@dataclass(frozen=True, slots=True)
class Curve:
    name: str
    colour: str
    until_s: Floats
    "When the span of each value ended."
    values: Floats
    dashes: str = ""


@dataclass(frozen=True, slots=True)
class Dot:
    """One setting of a sweep."""

    x: float
    y: float
    name: str
    colour: str


@dataclass(frozen=True, slots=True)
class Whisker:
    """A mean with its interval, and a name."""

    name: str
    value: Interval


def lines(title: str, unit: str, curves: Sequence[Curve], least: int = 1) -> str:
    """Curves over time. Large amounts are drawn in thousands. `least`: values in one mean."""
    thin = [(curve, binned(curve.until_s, least), binned(curve.values, least)) for curve in curves]
    highest = max((float(np.nanmax(values, initial=0.0)) for _, _, values in thin), default=0.0)
    scale, unit = _scale(highest, unit)
    axes, step = _axes([curve.until_s for curve in curves], highest / scale)
    drawn = [axes.line(_points(until_s, values / scale), curve.colour, curve.dashes) for curve, until_s, values in thin]
    return figure(f"{title}, in {unit}", "".join([axes.drawn(step, _times(axes)), *drawn]), _marks(curves))


def stack(title: str, areas: Sequence[Curve], top: float) -> str:
    """Areas on top of each other, from the bottom up, with equal times. `top`: the end of the scale."""
    until_s = binned(areas[0].until_s)
    axes, step = _axes([areas[0].until_s], top)
    below = np.zeros(len(until_s))
    parts = [axes.drawn(step, _times(axes))]
    for area in areas:
        above = below + binned(area.values)
        parts.append(axes.area(_points(until_s, below), _points(until_s, above), area.colour, area.name))
        below = above
    return figure(title, "".join(parts), _marks([*reversed(areas)]))


def scatter(
    title: str, dots: Sequence[Dot], front: Sequence[int], marks: Iterable[tuple[str, str]], unit: str, below: str
) -> str:
    """Dots, and a line through those on the front. `unit` is that of the height, `below` follows the numbers below."""
    right = max((dot.x for dot in dots), default=0.0)
    step_x = round_step(right)
    highest = max((dot.y for dot in dots), default=0.0)
    scale, unit = _scale(highest, unit)
    step = round_step(highest / scale)
    axes = Axes(0.0, step_x * _whole(right / step_x), step * _whole(highest / scale / step))
    parts = [axes.drawn(step, [(f"{x:.3g}{below}",) for x in axes.ticks])]
    if len(front) > 1:
        parts.append(axes.line([(dots[i].x, dots[i].y / scale) for i in front], dots[front[0]].colour, "4 3"))
    parts += [_dot(axes.x(dot.x), axes.y(dot.y / scale), dot.colour, dot.name) for dot in dots]
    return figure(f"{title}, in {unit}", "".join(parts), marks)


def whiskers(title: str, rows: Sequence[Whisker], colour: str) -> str:
    """A row for each name: a dot at its mean, and a line over its interval where it has one."""
    ends = [end for row in rows for end in (row.value.mean, row.value.low, row.value.high) if math.isfinite(end)]
    least, most = min(0.0, min(ends, default=0.0)), max(0.0, max(ends, default=0.0))
    step = round_step(most - least)
    first, last = step * math.floor(least / step + 1e-9), step * math.ceil(most / step - 1e-9)
    last = max(last, first + step)
    bottom = ABOVE + ROW * len(rows)

    def x(value: float) -> float:
        return NAMES + (value - first) / (last - first) * (WIDTH - NAMES - 2 * RIGHT)

    parts = []
    for i in range(round((last - first) / step) + 1):
        value = first + i * step
        parts.append(
            f'<line x1="{x(value):.1f}" x2="{x(value):.1f}" y1="{ABOVE}" y2="{bottom}" stroke="var(--line)"/>'
            f'<text x="{x(value):.1f}" y="{bottom + 20}" text-anchor="middle" fill="var(--soft)">{_short(value)}</text>'
        )
    for i, row in enumerate(rows):
        y = ABOVE + ROW * (i + 0.5)
        parts.append(
            f'<text x="{NAMES - 10}" y="{y + 5:.1f}" text-anchor="end" fill="var(--ink)">{_cut(row.name)}</text>'
        )
        if math.isfinite(row.value.half_width):
            low, high = x(row.value.low), x(row.value.high)
            parts.append(
                f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="{colour}" stroke-width="2"/>'
            )
        parts.append(_dot(x(row.value.mean), y, colour, f"{row.name}: {_short(row.value.mean)}"))
    return figure(title, "".join(parts), (), bottom + BELOW - 16)


def binned(values: Floats, least: int = 1) -> Floats:
    """Means of neighbouring values: as many as a reader can tell apart. `least`: values in one mean."""
    width = max(least, -(-len(values) // MOST_POINTS))
    if width <= 1:
        return np.asarray(values, dtype=np.float64)
    starts = np.arange(0, len(values), width)
    counts = np.diff(np.append(starts, len(values)))
    means: Floats = np.add.reduceat(np.asarray(values, dtype=np.float64), starts) / counts
    return means


def clock(time_s: float) -> tuple[str, str]:
    """Virtual time as a day, counted from 1, and the time of that day."""
    minutes = round(time_s / 60)
    return f"day {minutes // 1440 + 1}", f"{minutes // 60 % 24:02}:{minutes % 60:02}"


def _scale(highest: float, unit: str) -> tuple[float, str]:
    """By what amounts are divided, so that their numbers fit beside the plot."""
    return (1000.0, f"thousand {unit}") if highest >= 10_000 else (1.0, unit)


def _whole(steps: float) -> int:
    """Steps of a scale: at least one, and enough for the highest value."""
    return max(1, math.ceil(steps - 1e-9))


def _axes(times: Sequence[Floats], highest: float) -> tuple[Axes, float]:
    """Axes from the beginning to the last of the times, and the step of the scale."""
    step = round_step(highest)
    last = max((float(until_s[-1]) for until_s in times if len(until_s)), default=1.0)
    return Axes(0.0, last, step * _whole(highest / step)), step


def _times(axes: Axes) -> list[tuple[str, str]]:
    return [clock(time_s) for time_s in axes.ticks]


def _points(times: Floats, values: Floats) -> list[Point]:
    return [(float(time), float(value)) for time, value in zip(times, values, strict=True) if math.isfinite(value)]


def _marks(curves: Sequence[Curve]) -> list[tuple[str, str]]:
    return [(curve.colour, curve.name) for curve in curves]


def _dot(x: float, y: float, colour: str, name: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}"><title>{escape(name)}</title></circle>'


def _cut(name: str) -> str:
    """A name as it fits beside a row."""
    return escape(name if len(name) <= 18 else f"{name[:17]}…")


def _short(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
