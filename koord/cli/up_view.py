"""The live view of `koord up` on a terminal: components, nodes, pods, CPU by band, how services fare, events."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Final

import aiohttp
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from koord.api.text.timestamp import TimestampError, parse_timestamp
from koord.kube.client import Client
from koord.minicluster.up.bands import KEPT, Bands
from koord.minicluster.up.health import age
from koord.minicluster.up.picture import Picture, event_time, followed
from koord.minicluster.up.plan import LOCAL_NODE
from koord.minicluster.up.run import Up
from koord.minicluster.up.this_node import ThisNode, scrape

REFRESH_S: Final = 0.5
LOOK_S: Final = 2.0
"""Between two points of the course of usage."""
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


_BAND_STYLES: Final = {"prod": "green", "mid": "cyan", "batch": "yellow", "free": "magenta", "system": "dim"}


async def show(up: Up, client: Client) -> None:
    """Draws until cancelled."""
    console = Console()
    console.print("[green]ready[/]. In another terminal:\n")
    console.print(f"  export KUBECONFIG={up.data.kubeconfig}", soft_wrap=True)
    console.print("  kubectl get nodes\n")
    here = ThisNode()
    async with followed(client) as picture, aiohttp.ClientSession() as session:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            try:
                looked_s = 0.0
                while True:
                    if time.monotonic() - looked_s >= LOOK_S:
                        looked_s = time.monotonic()
                        here.look(*[await scrape(session, _address(up, name)) for name in ("local", "agent")])
                        if here.used is not None:
                            picture.used[LOCAL_NODE] = here.used
                        picture.look()
                    live.update(view(up, picture, here, time.time()), refresh=True)
                    await asyncio.sleep(REFRESH_S)
            finally:
                live.update(Text("stopping ..."), refresh=True)


def _address(up: Up, component: str) -> str | None:
    child = up.supervisor.children.get(component)
    return child.endpoints.get("health") if child is not None else None


def view(up: Up, picture: Picture, here: ThisNode, now_s: float) -> RenderableType:
    components = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("COMPONENT", "STATE", "FOR", "PID", "RESTARTS", "ADDRESS"):
        components.add_column(heading, no_wrap=True)
    for child in up.supervisor.children.values():
        state = Text(child.state, _STYLES.get(child.state, ""))
        address = next(iter(child.endpoints.values()), "")
        restarts = f"{child.restarts} (last {child.ended})" if child.restarts else "0"
        components.add_row(child.name, state, age(now_s - child.since_s), str(child.pid), restarts, address)
    events = Table(box=None, pad_edge=False, show_header=False)
    for column in ("age", "reason", "object", "note"):
        events.add_column(column, no_wrap=True, overflow="ellipsis", ratio=3 if column == "note" else None)
    for event in picture.recent():
        about = event.regarding
        style = "yellow" if event.type == "Warning" else "dim"
        events.add_row(
            _event_age(event_time(event), now_s), event.reason, f"{about.kind}/{about.name}", event.note, style=style
        )
    return Group(
        components,
        Text(),
        _counts("nodes", picture.nodes),
        _counts("pods", picture.pods),
        Text(),
        *_bands(picture.bands),
        *_this_node(here),
        events,
        Text("Ctrl-C stops everything", "dim"),
    )


def _bands(bands: Bands) -> list[RenderableType]:
    """CPU by band, with its course; and what is lent."""
    rows = bands.rows()
    if not rows:
        return []
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("CPU BY BAND", "CORES", "OF ALL", f"LAST {int(KEPT * LOOK_S)} s"):
        table.add_column(heading, no_wrap=True, justify="right" if heading in ("CORES", "OF ALL") else "left")
    for band, cpu_milli, part, course in rows:
        table.add_row(
            Text(band, _BAND_STYLES[band]), f"{cpu_milli / 1000:.1f}", f"{part:.0%}", Text(course, _BAND_STYLES[band])
        )
    cores, lent = bands.room.cpu_milli / 1000, bands.room.lent_milli / 1000
    lending = Text(f"{lent:.1f} of {cores:.0f} cores are lent to batch pods", "dim")
    return [table, lending, Text()]


def _this_node(here: ThisNode) -> list[RenderableType]:
    """How services fare beside best effort, where this machine is a node."""
    text = Text()
    median_s, worst_s = here.answer_s(0.5), here.answer_s(0.99)
    if median_s is not None and worst_s is not None:
        text.append("services", "green").append(f" answer their probes in {_ms(median_s)}, 99% within {_ms(worst_s)}\n")
    if here.held is not None:
        used, limit = here.held.used / 1000, here.held.limit / 1000
        text.append("best effort", "yellow").append(f" uses {used:.2f} of the {limit:.2f} cores that it may have")
        text.append(f"; {here.evicted} evicted\n" if here.evicted else "\n")
    return [text] if text else []


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
