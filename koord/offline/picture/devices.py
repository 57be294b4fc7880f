"""Devices: a bar for each, as full as it is, and the pods that have a part of it."""

from __future__ import annotations

from typing import Final

from koord.offline.picture.section import Line, Section, Seen, Span
from koord.scheduler.plugins.devices.figures import DeviceFigures, figures

WIDTH: Final = 10


def devices(seen: Seen) -> Section | None:
    found = figures([] if seen.device is None else [seen.device], seen.holders)
    if not found:
        return None
    return Section("devices", "taken of each", tuple(_line(each) for each in found), {"devices": found})


def _line(each: DeviceFigures) -> Line:
    full = min(WIDTH, -(-each.percent * WIDTH // 100))
    where = "" if each.numa_node is None else f"  NUMA node {each.numa_node}"
    where += f", PCIe {each.pcie}" if each.pcie else ""
    where += f", linked with {', '.join(map(str, each.linked_with))}" if each.linked_with else ""
    pods = ", ".join(f"{holder.pod} {holder.percent}%" for holder in each.pods)
    colour = "red" if each.state != "healthy" else "green"
    return (
        Span(f"{each.type} {each.minor:<2} ["),
        Span("#" * full + "." * (WIDTH - full), colour),
        Span(f"] {each.percent:>3}%{where}  {pods if each.state == 'healthy' else f'{each.state}  {pods}'}".rstrip()),
    )
