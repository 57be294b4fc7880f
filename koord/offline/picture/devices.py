"""Devices: a bar for the used part of each, and the pods that use it."""

from __future__ import annotations

from typing import Final

from koord.offline.picture.section import Line, NodeView, Section, Span
from koord.scheduler.plugins.devices.figures import DeviceFigures, figures

WIDTH: Final = 10


def devices(seen: NodeView) -> Section | None:
    listed = figures([] if seen.device is None else [seen.device], seen.holders)
    if not listed:
        return None
    return Section("devices", "taken of each", tuple(_line(device) for device in listed), {"devices": listed})


def _line(device: DeviceFigures) -> Line:
    full = min(WIDTH, -(-device.percent * WIDTH // 100))
    where = "" if device.numa_node is None else f"  NUMA node {device.numa_node}"
    where += f", PCIe {device.pcie}" if device.pcie else ""
    where += f", linked with {', '.join(map(str, device.linked_with))}" if device.linked_with else ""
    pods = ", ".join(f"{holder.pod} {holder.percent}%" for holder in device.pods)
    users = pods if device.state == "healthy" else f"{device.state}  {pods}"
    colour = "red" if device.state != "healthy" else "green"
    return (
        Span(f"{device.type} {device.minor:<2} ["),
        Span("#" * full + "." * (WIDTH - full), colour),
        Span(f"] {device.percent:>3}%{where}  {users}".rstrip()),
    )
