"""Pressure stall information: the share of time in which tasks waited for a resource."""

from __future__ import annotations

from typing import NamedTuple


class Stall(NamedTuple):
    """Percent of the last 10, 60 and 300 s, and microseconds in all."""

    avg10: float = 0.0
    avg60: float = 0.0
    avg300: float = 0.0
    total_us: int = 0


class Pressure(NamedTuple):
    some: Stall
    "Some task waited."
    full: Stall
    "All tasks waited at once."
    full_supported: bool
    "Older kernels do not tell `full` for CPU."


def parse_pressure(text: str) -> Pressure:
    stalls = {}
    for line in text.splitlines():
        kind, *fields = line.split()
        values = dict(field.split("=", 1) for field in fields)
        stalls[kind] = Stall(
            float(values["avg10"]), float(values["avg60"]), float(values["avg300"]), int(values["total"])
        )
    return Pressure(stalls["some"], stalls.get("full", Stall()), "full" in stalls)
