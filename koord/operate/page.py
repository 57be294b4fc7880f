"""A report as a standalone page with plots."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from koord.api.text.timestamp import from_seconds as timestamp
from koord.operate import plots as svg
from koord.operate.plots import Axes, figure, round_step, thinned
from koord.operate.since import said
from koord.operate.sizing import Sizing, nodes, summed
from koord.operate.worth import By, Entry, Moment, NodeSize, Worth

PUBLISHED, LENT, USED = svg.GREY, svg.BLUE, svg.AMBER
TITLES: Final[tuple[tuple[By, str], ...]] = (
    ("namespace", "By namespace"),
    ("quota", "By quota"),
    ("workload", "By workload"),
)


HEADS: Final = ("core-hours lent", "used", "GiB-hours lent", "used", "evicted", "node-hours saved")


def page(worth: Worth, node: NodeSize, sizings: Sequence[Sizing] = ()) -> str:
    """`sizings`: what right-sizing would save, by workload."""
    total = worth.total
    hours = worth.node_hours(total, node)
    cost = f" for {hours * node.price:.2f}" if node.price is not None else ""
    body = [
        "<h1>koord: what co-location was worth</h1>",
        f'<p class="big">{total.lent.core_hours:.1f} core-hours of services were lent to batch pods in'
        f" {said(worth.until_s - worth.from_s)}: {hours:.1f} hours of a node{cost} that did not have to be bought.</p>",
        f'<div class="plots">{_plot(worth.course)}</div>' if len(worth.course) > 1 else "",
    ]
    for by, title in TITLES:
        body += [f"<h2>{title}</h2>", _table(worth, by, node)]
    if sizings:
        body += ["<h2>What right-sizing would save</h2>", _sizing_table(sizings, node)]
    footer = "; ".join((f"{timestamp(worth.from_s)} to {timestamp(worth.until_s)}, from {worth.source}", *worth.notes))
    return svg.page("koord report", [*body, f"<footer>{escape(footer)}.</footer>"])


def _table(worth: Worth, by: By, node: NodeSize) -> str:
    heads = (by, *HEADS)
    rows = "".join(_row(name, entry, worth, node) for name, entry in worth.by(by).items())
    whole = _row("all", worth.total, worth, node, ' class="all"')
    return f'<table class="wide"><tr>{"".join(f"<th>{escape(head)}</th>" for head in heads)}</tr>{rows}{whole}</table>'


def _sizing_table(sizings: Sequence[Sizing], node: NodeSize) -> str:
    whole = summed(sizings)
    rows = "".join(
        f"<tr{how}><td>{escape(sized.workload)}</td><td>{sized.cores:z.2f}</td><td>{sized.gib:z.2f}</td>"
        f"<td>{nodes(whole, sized, node):z.2f}</td></tr>"
        for sized, how in (*((sizing, "") for sizing in sizings), (whole, ' class="all"'))
    )
    return f"<table><tr><th>workload</th><th>cores</th><th>GiB</th><th>nodes</th></tr>{rows}</table>"


def _row(name: str, entry: Entry, worth: Worth, node: NodeSize, how: str = "") -> str:
    lent, used = entry.lent, entry.used
    figures = (lent.core_hours, used.core_hours, lent.gib_hours, used.gib_hours)
    cells = [*(f"{number:.2f}" for number in figures), str(entry.evicted), f"{worth.node_hours(entry, node):.2f}"]
    columns = "".join(f'<td data-name="{head}">{cell}</td>' for head, cell in zip(HEADS, cells, strict=True))
    return f"<tr{how}><td>{escape(name)}</td>{columns}</tr>"


def _plot(course: Sequence[Moment]) -> str:
    shown = thinned(course)
    highest = max(max(moment.published, moment.lent, moment.used) for moment in shown)
    step = round_step(highest)
    axes = Axes(shown[0].time_s, shown[-1].time_s, step * max(1, -(-highest // step)))
    names = [(text[5:10], text[11:16]) for text in map(timestamp, axes.ticks)]
    lines = [
        axes.line([(moment.time_s, moment.published) for moment in shown], PUBLISHED),
        axes.line([(moment.time_s, moment.lent) for moment in shown], LENT),
        axes.line([(moment.time_s, moment.used) for moment in shown], USED),
    ]
    marks = [(PUBLISHED, "offered by nodes"), (LENT, "requested by pods"), (USED, "used by them")]
    return figure("CPU that services leave, in cores", "".join([axes.drawn(step, names), *lines]), marks)
