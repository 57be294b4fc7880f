"""The demo's summary as a page of its own: a table, plots as inline SVG, nothing from elsewhere. For desk and phone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Final

from koord.operate import plots as svg
from koord.operate.plots import Axes, figure, thinned
from koord_minicluster.demo.ledger import ClusterSample
from koord_minicluster.demo.summary import Course as Came
from koord_minicluster.demo.summary import Summary
from koord_minicluster.hollow.load_model import DAY_S, Course

BANDS: Final = (("system", "system", svg.GREY), ("prod", "services", svg.GREEN), ("batch", "batch", svg.AMBER))
"""From the bottom to the top: band, name, colour."""
WITHOUT: Final = svg.RED
LENT: Final = svg.BLUE


def page(
    result: Summary, nodes: int, looks: Sequence[ClusterSample], alone: Sequence[ClusterSample], course: Course
) -> str:
    """`looks`: what was seen; `alone`: what was worked out without co-location; `course`: the load's own time."""
    came, without = result.colocated, result.without
    cores = looks[-1].capacity // 1000
    first_s = looks[0].time_s
    plots = [
        figure("CPU used, in percent of all", _stack(thinned(looks), alone, first_s, course), _bands_legend()),
        figure("Lent to batch pods, in cores", _lines(thinned(looks), first_s, course), _lines_legend()),
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
        *(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in _facts(result)),
        "</dl>",
        "<footer>Without co-location: simulated with the same nodes, seeded load and jobs, placed by the same"
        " scheduler; nothing is lent, and batch pods ask for CPU as services do.</footer>",
    ]
    return svg.page("koord demo", body)


def _facts(result: Summary) -> list[tuple[str, str]]:
    evicted = [f"{count} {cause}" for cause, count in result.evicted.items()]
    return [
        ("Reclaimed", f"{_number(result.lent_cores, 'core')} on average lent to batch pods"),
        ("Held back", f"{_number(result.held_back_cores, 'core')} on average that batch pods would have used"),
        ("Moved", f"{_number(result.moved, 'pod')}, away from hot nodes"),
        ("Evicted", ", ".join(evicted) or "none"),
        ("Violations", "; ".join(result.violations) or "none"),
    ]


def _number(amount: float, what: str) -> str:
    return f"{amount:.0f} {what}" + "s" * (round(amount) != 1)


def _table(came: Came, without: Came | None) -> str:
    rows = [
        (name, *(f"{course.by_band.get(band, 0.0):.0%}" if course else "-" for course in (came, without)))
        for band, name, _ in reversed(BANDS)
    ]
    rows.append(("all", *(f"{course.total:.0%}" if course else "-" for course in (came, without))))
    rows.append(
        ("batch core-hours", *(f"{course.batch_core_hours:.1f}" if course else "-" for course in (came, without)))
    )
    rows.append(("batch pods done", *(str(course.done) if course else "-" for course in (came, without))))
    cells = "".join(
        f'<tr class="{escape(name)}"><td>{escape(name)}</td>' + "".join(f"<td>{cell}</td>" for cell in rest) + "</tr>"
        for name, *rest in rows
    )
    return f"<table><tr><th>CPU</th><th>with co-location</th><th>without</th></tr>{cells}</table>"


def _bands_legend() -> list[tuple[str, str]]:
    return [*((colour, name) for _, name, colour in reversed(BANDS)), (WITHOUT, "all, without co-location")]


def _lines_legend() -> list[tuple[str, str]]:
    return [(LENT, "lent"), (BANDS[2][2], "used by batch pods"), (WITHOUT, "held back")]


def _times(axes: Axes, course: Course) -> list[tuple[str, str]]:
    """Seconds, and below them the load's time of day."""
    hours = [course.at(time_s) % DAY_S / 3600 for time_s in axes.ticks]
    return [
        (f"{time_s - axes.first_s:.0f} s", f"{int(hour):02}:{int(hour % 1 * 60):02}")
        for time_s, hour in zip(axes.ticks, hours, strict=True)
    ]


def _stack(looks: Sequence[ClusterSample], alone: Sequence[ClusterSample], first_s: float, course: Course) -> str:
    axes = Axes(first_s, looks[-1].time_s, 100)
    below = [0.0] * len(looks)
    parts = [axes.drawn(20, _times(axes, course))]
    for band, name, colour in BANDS:
        above = [
            under + 100 * look.used.get(band, 0) / max(look.capacity, 1)
            for under, look in zip(below, looks, strict=True)
        ]
        times = [look.time_s for look in looks]
        under, over = (list(zip(times, amounts, strict=True)) for amounts in (below, above))
        parts.append(axes.area(under, over, colour, name))
        below = above
    within = [sample for sample in alone if sample.time_s >= first_s]
    points = [(sample.time_s, 100 * sample.total / max(sample.capacity, 1)) for sample in within]
    return "".join([*parts, axes.line(points, WITHOUT, "5 3")])


def _lines(looks: Sequence[ClusterSample], first_s: float, course: Course) -> str:
    kinds: list[tuple[str, Callable[[ClusterSample], int]]] = [
        (LENT, lambda look: look.lent),
        (BANDS[2][2], lambda look: look.used.get("batch", 0)),
        (WITHOUT, lambda look: look.held_back),
    ]
    highest = max(amount(look) / 1000 for look in looks for _, amount in kinds)
    step = max(10, round(highest / 5, -2) or round(highest / 5, -1))
    axes = Axes(first_s, looks[-1].time_s, step * max(1, -(-highest // step)))
    lines = [axes.line([(look.time_s, amount(look) / 1000) for look in looks], colour) for colour, amount in kinds]
    return "".join([axes.drawn(step, _times(axes, course)), *lines])
