"""How the demo looks: a screen of 80 by 24 while it runs, or a line each few seconds; and its summary in words."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from koord.api.text.counted import counted
from koord.cli.lines import say
from koord.operate.bands import bars
from koord_minicluster.cli.up_view import BAND_STYLES, events_shown, this_node, wrapped
from koord_minicluster.demo.ledger import EVICTED, MOVED, ClusterSample, Ledger, Tenant
from koord_minicluster.demo.live.watching import LOOK_S, Watching
from koord_minicluster.demo.scenario import GANG_SIZE, GPU_NODES, GPUS, Scenario
from koord_minicluster.demo.settings import HOT_PERCENT, hot_node
from koord_minicluster.demo.summary import Course as Came
from koord_minicluster.demo.summary import Summary
from koord_minicluster.hollow.load_model import DAY_S, Course
from koord_minicluster.up.run import Up

LINE_S: Final = 5.0
LABEL: Final = 11
FULL: Final = 0.8
"""The part of all CPU that has the highest bar: no node is filled beyond it on purpose."""
BARS: Final = 44
"""Looks that the course shows."""
NAMES: Final[Mapping[str, str]] = {
    "prod": "services", "mid": "mid", "batch": "batch", "free": "free", "system": "system",
}  # fmt: skip


async def on_screen(watched: Watching, course: Course, up: Up) -> None:
    """Draws until cancelled."""
    console = Console()
    with Live(console=console, auto_refresh=False, screen=True) as live:
        while True:
            await watched.look()
            size = console.size
            shown = screen(watched, course, up, time.time(), size.width, size.height)
            live.update(shown, refresh=True)
            await asyncio.sleep(LOOK_S)


async def in_lines(watched: Watching, course: Course, *, is_silent: bool) -> None:
    """A line each few seconds until cancelled."""
    last_s = float("-inf")
    while True:
        await watched.look()
        look = watched.ledger.looks[-1]
        if not is_silent and look.time_s - last_s >= LINE_S:
            last_s = look.time_s
            say(line(watched.ledger, look, course))
        await asyncio.sleep(LOOK_S)


def line(ledger: Ledger, look: ClusterSample, course: Course) -> str:
    """The moment, in one line."""
    parts = ", ".join(f"{NAMES[band]} {_part(look, band):.0%}" for band in ("prod", "batch"))
    runs, waits = ledger.batch()
    return (
        f"{look.time_s - ledger.began_s:4.0f}s  {clock(course, look.time_s)}  cpu {_whole(look):.0%} ({parts})"
        f"  services {look.services_ready}/{look.services}  batch {runs} run, {waits} wait, {ledger.done} done"
        f"  lent {_cores(look.lent)}  held back {_cores(look.held_back)}  moved {ledger.moved}"
        f"  evicted {ledger.evicted.total()}"
    )


def clock(course: Course, now_s: float) -> str:
    """The load's own time."""
    day, second = divmod(max(0.0, course.at(now_s)), DAY_S)
    hours, minutes = divmod(int(second) // 60, 60)
    return f"day {int(day) + 1}, {hours:02}:{minutes // 10 * 10:02}"


def screen(watched: Watching, course: Course, up: Up, now_s: float, columns: int, lines: int) -> RenderableType:
    """Exactly as many lines as there are, none of them longer than the screen is wide."""
    ledger = watched.ledger
    look = ledger.looks[-1]
    nodes = watched.picture.nodes.total()
    status_line = (
        f"   {clock(course, now_s)}   {nodes} nodes, {_cores(look.capacity)} cores   {lasted(now_s - ledger.began_s)}"
    )
    head = Text("koord demo", "bold").append(status_line, "dim")
    story = [*_story(ledger, look, watched.scenario), *this_node(watched.here)]
    sections = [[head], _bands(ledger.looks), story, _try_next(up, watched.scenario, columns)]
    room = lines - sum(map(len, sections))
    happened = [event for event in watched.picture.recent() if event.reason in (MOVED, *EVICTED)]
    events = events_shown(happened[: max(0, room - len(sections))], now_s, columns)
    if events:
        sections.insert(3, events)
    spare = max(0, lines - sum(map(len, sections)))
    shown: list[Text] = []
    for number, section in enumerate(sections):
        if number and spare > 0:
            shown.append(Text())
            spare -= 1
        shown += section
    shown += [Text()] * spare
    for row in shown:
        row.truncate(columns, overflow="ellipsis")
    return Group(*shown[:lines])


def _bands(looks: Sequence[ClusterSample]) -> list[Text]:
    last = looks[-BARS:]
    look = last[-1]
    rows = [Text(f"{'CPU':<{LABEL}}{'CORES':>6}{'OF ALL':>8}  LAST {int(BARS * LOOK_S)} s", "bold")]
    for band, name in NAMES.items():
        if any(sample.used.get(band) for sample in last):
            text = Text(f"{name:<{LABEL}}", BAND_STYLES[band])
            text.append(f"{_cores(look.used.get(band, 0)):>6}{_part(look, band):>8.0%}  ", "default")
            rows.append(text.append(bars([_part(sample, band) for sample in last], FULL)))
    text = Text(f"{'all':<{LABEL}}{_cores(look.total):>6}{_whole(look):>8.0%}  ", "bold")
    return [*rows, text.append(bars([_whole(sample) for sample in last], FULL), "default")]


def _story(ledger: Ledger, look: ClusterSample, scenario: Scenario) -> list[Text]:
    """What is going on, a line for each part of it."""
    runs, waits = ledger.batch()
    lines = [
        ("reclaimed", f"{_cores(look.lent)} cores, which services asked for and leave idle, are lent"),
        (
            "held back",
            f"{counted(round(look.held_back / 1000), 'core')} that batch pods would use: services come first",
        ),
        ("services", services_told(look)),
        ("batch", f"{runs} pods run, {waits} wait, {ledger.done} done"),
        ("tenants", "   ".join(tenant_told(tenant, scenario) for tenant in ledger.tenants())),
        ("gang", gang_told(ledger)),
        ("hot node", hot_told(ledger, look, scenario)),
        ("evicted", evicted_told(ledger.evicted)),
    ]
    return [Text(f"{label:<{LABEL}}", "bold").append(text, "default") for label, text in lines]


def services_told(look: ClusterSample) -> str:
    if not look.services:
        return "are being started"
    cpu = "all get the CPU that they want"
    if look.services_short > 0:
        cpu = f"{look.services_short / 1000:.1f} cores short"
    return f"{look.services_ready} of {look.services} pods ready; {cpu}"


def tenant_told(tenant: Tenant, scenario: Scenario) -> str:
    """How much it has beside what it is guaranteed."""
    sure, _ = scenario.guaranteed(tenant.name)
    used = tenant.used // 1000
    how = f"borrows {used - sure}" if used > sure else f"lends {sure - used}"
    return f"{tenant.name} {used} cores ({how})"


def gang_told(ledger: Ledger) -> str:
    has, waits = ledger.gang()
    used = ledger.gpu_percent() / 100
    gpus = f"; {used:g} of {GPU_NODES * GPUS} GPUs in use"
    if has:
        return f"models/train runs on {has * GPUS} GPUs{gpus}"
    if waits:
        return f"models/train waits for {GANG_SIZE * GPUS} free GPUs at once{gpus}"
    return f"the next training job is to come{gpus}"


def hot_told(ledger: Ledger, look: ClusterSample, scenario: Scenario) -> str:
    name = hot_node(scenario)
    moved = f"; {counted(ledger.moved, 'pod')} moved"
    if look.hot_percent >= HOT_PERCENT:
        return f"{name} {look.hot_percent:.0f}% used: a backup runs on it{moved}"
    return f"none ({name} {look.hot_percent:.0f}% used){moved}"


def evicted_told(evicted: Mapping[str, int]) -> str:
    if not evicted:
        return "none"
    return f"{sum(evicted.values())}: " + ", ".join(f"{count} {cause}" for cause, count in evicted.items())


def _try_next(up: Up, scenario: Scenario, columns: int) -> list[Text]:
    commands = (
        ("koord top nodes", "who has, asks for and uses what"),
        ("koord top quotas", "what tenants have, and may have"),
        (f"koord explain node/{hot_node(scenario)}", "why it lends as much as it does"),
    )
    width = max(len(command) for command, _ in commands)
    rows = []
    if link := up.data.console_link:
        rows += [Text("Open in a browser:", "bold"), *wrapped(f"  {link}", columns)]
    rows.append(Text("Try in another terminal:", "bold"))
    for setting in (f"KUBECONFIG={up.data.kubeconfig}", *_path()):
        rows += [Text(text.plain, "cyan") for text in wrapped(f"  export {setting}", columns)]
    for command, why in commands:
        rows.append(Text(f"  {command:<{width}}", "cyan").append(f"   {why}", "dim"))
    return [*rows, Text("Ctrl-C ends it with a summary", "dim")]


def _path() -> list[str]:
    """What else a shell needs to find this program."""
    if shutil.which("koord"):
        return []
    folders = (Path(path).absolute().parent for path in (sys.argv[0], sys.executable))
    return [f"PATH={folder}:$PATH" for folder in folders if (folder / "koord").exists()][:1]


def outcome_text(result: Summary, scenario: Scenario, looks: Sequence[ClusterSample]) -> str:
    """The summary, in words and one table."""
    came, without = result.colocated, result.without
    both = (came, without)
    rows = [
        ("CPU USED", ["WITH CO-LOCATION", "WITHOUT"]),
        *((NAMES[band], [_percent(course, band) for course in both]) for band in ("prod", "batch", "system")),
        ("all", [_percent(course) for course in both]),
        ("batch work", [f"{course.batch_core_hours:.1f} core-hours" if course else "-" for course in both]),
        ("batch pods done", [str(course.done) if course else "-" for course in both]),
    ]
    table = [f"{name:<17}" + "".join(f"{cell:>17}" for cell in cells) for name, cells in rows]
    cores = looks[-1].capacity
    parts = [
        ("peak", f"{result.peak:.0%} of all CPU in use"),
        ("reclaimed", f"{result.lent_cores:.0f} cores on average were lent to batch pods"),
        ("held back", f"{result.held_back_cores:.0f} cores on average, which services needed or might have"),
        ("moved", f"{counted(result.moved, 'pod')}, away from hot nodes"),
        ("evicted", evicted_told(result.evicted)),
        ("violations", "; ".join(result.violations) or "none: services had their CPU and their pods all the time"),
    ]
    return "\n".join(
        [
            "",
            f"koord demo: {lasted(came.seconds)} of {scenario.nodes} nodes with {_cores(cores)} cores",
            "",
            *table,
            "",
            *(f"{label:<{LABEL}}{text}" for label, text in parts),
            "",
            "WITHOUT is simulated: the same nodes, seeded load and jobs, placed by the same",
            "scheduler, but nothing is lent, and batch pods ask for CPU as services do.",
        ]
    )


def _percent(came: Came | None, band: str = "") -> str:
    """Of one band, or of all."""
    if came is None:
        return "-"
    return f"{came.by_band.get(band, 0.0) if band else came.total:.0%}"


def lasted(seconds: float) -> str:
    whole = max(0, int(seconds))
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"


def _part(look: ClusterSample, band: str) -> float:
    return look.used.get(band, 0) / look.capacity if look.capacity else 0.0


def _whole(look: ClusterSample) -> float:
    return look.total / look.capacity if look.capacity else 0.0


def _cores(milli: int) -> str:
    return f"{milli / 1000:.0f}"
