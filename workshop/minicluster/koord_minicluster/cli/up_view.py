"""The live view of `koord up` on a terminal: components, nodes, pods, CPU by band, service latency, events.

It uses the whole screen and restores it at the end. It always shows what a user needs to continue (the kubeconfig, how
to stop); the rest shares the remaining lines, events last.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

import aiohttp
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from koord.api.kubernetes.core import Event
from koord.api.text.timestamp import TimestampError, parse_timestamp
from koord.kube.client import Client
from koord.operate.bands import KEPT, Bands
from koord.operate.health import age
from koord_minicluster.up.picture import Picture, event_time, followed
from koord_minicluster.up.plan import LOCAL_NODE
from koord_minicluster.up.run import Up
from koord_minicluster.up.supervisor import Child
from koord_minicluster.up.this_node import Scraper, ThisNode

REFRESH_S: Final = 0.5
LOOK_S: Final = 2.0
"""Between two points of the course of usage."""
LEAST_EVENTS: Final = 3
"""So many lines are kept for events before the bands of CPU get theirs."""
LONGEST_REASON: Final = 16
GAP: Final = "  "
_STYLES: Final = {
    "ready": "green",
    "Ready": "green",
    "Running": "green",
    "Succeeded": "blue",
    "starting": "yellow",
    "waiting": "yellow",
    "Pending": "yellow",
    "Terminating": "magenta",
    "NotReady": "red",
    "Failed": "red",
    "stopped": "dim",
}


BAND_STYLES: Final = {"prod": "green", "mid": "cyan", "batch": "yellow", "free": "magenta", "system": "dim"}


async def show(up: Up, client: Client) -> None:
    """Draws until cancelled."""
    console = Console()
    here = ThisNode()
    async with followed(client) as picture, aiohttp.ClientSession() as session:
        scraper = Scraper(client, session, time.monotonic)
        with Live(console=console, auto_refresh=False, screen=True) as live:
            looked_s = 0.0
            while True:
                if time.monotonic() - looked_s >= LOOK_S:
                    looked_s = time.monotonic()
                    here.look(*[await scraper.scrape(_address(up, name)) for name in ("local", "agent")])
                    if here.used is not None:
                        picture.used[LOCAL_NODE] = here.used
                    picture.look()
                size = console.size
                live.update(view(up, picture, here, time.time(), size.width, size.height), refresh=True)
                await asyncio.sleep(REFRESH_S)


def _address(up: Up, component: str) -> str | None:
    child = up.supervisor.children.get(component)
    return child.endpoints.get("health") if child is not None else None


def view(up: Up, picture: Picture, here: ThisNode, now_s: float, columns: int, lines: int) -> RenderableType:
    """Exactly as many lines as the screen has, none of them longer than it is wide."""
    top = wrapped(f"export KUBECONFIG={up.data.kubeconfig}", columns)
    if link := up.data.console_link:
        top += wrapped(f"console: {link}", columns)
    if (monitoring := up.supervisor.children.get("monitoring")) is not None:
        for name, url in monitoring.endpoints.items():
            top += wrapped(f"{name}: {url}", columns)
    bottom = [Text("Ctrl-C stops everything", "dim")]
    middle = [
        _components(list(up.supervisor.children.values()), now_s, columns),
        [_counts("nodes", picture.nodes), _counts("pods", picture.pods)],
        this_node(here),
    ]
    room = lines - len(top) - len(bottom) - sum(map(len, middle))
    bands = _bands(picture.bands)
    if len(bands) <= room - LEAST_EVENTS:
        middle.insert(2, bands)
        room -= len(bands)
    separators = sum(1 for section in middle if section) + 1
    events = events_shown(picture.recent(max(min(room, LEAST_EVENTS), room - separators)), now_s, columns)
    sections = [section for section in (top, *middle, events) if section]
    spare = room - len(events)
    shown: list[Text] = []
    for number, section in enumerate(sections):
        # Empty lines between sections come last of all, from the top.
        if number and spare > 0:
            shown.append(Text())
            spare -= 1
        shown += section
    shown += [Text()] * max(0, spare) + bottom
    for line in shown:
        line.truncate(columns, overflow="ellipsis")
    return Group(*shown[:lines])


def wrapped(text: str, columns: int) -> list[Text]:
    """Over as many lines as it takes: a path must be whole to be copied."""
    return [Text(text[start : start + columns], "bold") for start in range(0, len(text), columns)]


def _components(children: Sequence[Child], now_s: float, columns: int) -> list[Text]:
    rows = [("COMPONENT", "STATE", "FOR", "PID", "ADDRESS", "RESTARTS")]
    for child in children:
        address = next(iter(child.endpoints.values()), "")
        ended = child.ended.removeprefix("was ended ").removeprefix("ended with ")
        restarts = f"{child.restarts} ({ended})" if child.restarts else "0"
        rows.append((child.name, child.state, age(now_s - child.since_s), str(child.pid), address, restarts))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [_line(rows[0], widths, "bold")]
    for child, row in zip(children, rows[1:], strict=True):
        line = _line(row, widths)
        start = widths[0] + len(GAP)
        line.stylize(_STYLES.get(child.state, ""), start, start + len(child.state))
        lines.append(line)
    return lines


def _line(cells: Sequence[str], widths: Sequence[int], style: str = "") -> Text:
    return Text(GAP.join(_fitted(cell, width) for cell, width in zip(cells, widths, strict=True)).rstrip(), style)


def _fitted(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else text[: max(0, width - 1)] + "…"


def events_shown(events: Sequence[Event], now_s: float, columns: int) -> list[Text]:
    """The reason and the object get what they need up to a bound; the note, which says most, all the rest."""
    rows = [
        (
            _event_age(event_time(event), now_s),
            event.reason,
            f"{event.regarding.kind}/{event.regarding.name}",
            " ".join(event.note.split()),
        )
        for event in events
    ]
    bounds = (6, LONGEST_REASON, max(16, columns * 3 // 10))
    widths = [min(bound, max((len(row[i]) for row in rows), default=0)) for i, bound in enumerate(bounds)]
    widths.append(columns - sum(widths) - len(GAP) * len(widths))
    styles = ["yellow" if event.type == "Warning" else "dim" for event in events]
    return [_line(row, widths, style) for row, style in zip(rows, styles, strict=True)]


def _bands(bands: Bands) -> list[Text]:
    """CPU by band, with its course; and what is lent."""
    rows = bands.rows()
    if not rows:
        return []
    lines = [Text(f"{'CPU BY BAND':<12}{'CORES':>7}{'OF ALL':>8}  LAST {int(KEPT * LOOK_S)} s", "bold")]
    for band, cpu_milli, part, course in rows:
        line = Text(f"{band:<12}", BAND_STYLES[band])
        line.append(f"{cpu_milli / 1000:>7.1f}{part:>8.0%}  ", "default")
        lines.append(line.append(course))
    cores, lent = bands.room.cpu_milli / 1000, bands.room.lent_milli / 1000
    yarn = f", {bands.room.yarn_milli / 1000:.0f} to YARN" if bands.room.yarn_milli else ""
    return [*lines, Text(f"{lent:.1f} of {cores:.0f} cores are lent to batch pods{yarn}", "dim")]


def this_node(here: ThisNode) -> list[Text]:
    """How services perform beside best effort, if this machine is a node."""
    lines = []
    median_s, worst_s = here.answer_s(0.5), here.answer_s(0.99)
    if median_s is not None and worst_s is not None:
        answers = f" answer their probes in {_ms(median_s)}, 99% within {_ms(worst_s)}"
        lines.append(Text("services", "green").append(answers, "default"))
    if here.held is not None:
        used, limit = here.held.used / 1000, here.held.limit / 1000
        evicted = f"; {here.evicted} evicted" if here.evicted else ""
        words = f" uses {used:.2f} of the {limit:.2f} cores that it may have{evicted}"
        lines.append(Text("best effort", "yellow").append(words, "default"))
    return lines


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _counts(what: str, counts: Counter[str]) -> Text:
    text = Text(f"{what:6}", "bold")
    shown = [(state, count) for state, count in sorted(counts.items()) if count]
    for state, count in shown:
        text.append(f"{count} {state}   ", _STYLES.get(state, ""))
    return text if shown else text.append("none", "dim")


def _event_age(when: str, now_s: float) -> str:
    try:
        return age(now_s - parse_timestamp(when))
    except TimestampError:
        return ""
