"""A recording of response times on one machine: points that the latency model is fitted to.

`koord bench colocation --record FILE` writes it, `koord sim calibrate` reads it. A *setting* is what was set up: the
service's load, the neighbour, how much of the node the neighbour could use, and whether the agent protected the
service. A point is a setting that was measured once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from typing import Annotated, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from koord.api.machinery.faults import Fault, Invalid, check
from koord.api.machinery.struct import Struct

FORMAT: Final = "koord.sim/latency-recording/v1"
DISTURBED: Final = 0.03
"""Share of the CPUs: a point is not used if other programs and the hypervisor took more."""
ALONE: Final = ""
"""In place of a neighbour's name."""
UNLIMITED: Final = 100

Part: TypeAlias = Annotated[float, Meta(ge=0, le=1.05)]
"""A share of the node's CPU time; clocks and counters differ a little."""
Milliseconds: TypeAlias = Annotated[float, Meta(gt=0, le=1e6)]


class Machine(Struct, omit_defaults=False):
    """Where a recording was made. It names no host."""

    cpu: str
    cpus: Annotated[int, Meta(ge=1)]
    kernel: str
    cgroups: str
    date: str
    resctrl: bool = False
    "Whether the agent could divide cache and memory bandwidth."


class Setting(NamedTuple):
    load: float
    "The part of every CPU that the service was set to use."
    neighbour: str
    "`ALONE` without one."
    protected: bool
    "By the agent with its default gates; else equal weights and no agent."
    ceiling_percent: int
    "Of the node, what the neighbour could use at most."


class Point(Struct, omit_defaults=False):
    load: Annotated[float, Meta(gt=0, le=1)]
    neighbour: str
    protected: bool
    ceiling_percent: Annotated[int, Meta(ge=1, le=100)]
    services: Part
    "What the service used of the node, like the next one."
    batch: Part
    "What the neighbour used."
    p50_ms: Milliseconds
    p99_ms: Milliseconds
    requests: Annotated[int, Meta(ge=1)]
    answered: Annotated[float, Meta(ge=0)]
    "Share of the requests that were answered by the end; below 1 where the service fell behind."
    disturbed: Annotated[float, Meta(ge=0)]
    "Share of the CPUs that other programs and the hypervisor took."

    @property
    def setting(self) -> Setting:
        return Setting(self.load, self.neighbour, self.protected, self.ceiling_percent)


class Recording(Struct, omit_defaults=False):
    machine: Machine
    seconds: Annotated[float, Meta(gt=0)]
    "Duration of each point."
    points: tuple[Point, ...] = ()
    format: str = FORMAT


def parse(text: bytes, source: str) -> Recording:
    """The recording in a file's bytes. Raises `Invalid`, which names the file, and the field of each fault."""
    example = "record one with koord bench colocation --record FILE"
    try:
        data = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise Invalid(source, [Fault("", f"is not JSON ({error}); {example}")]) from None
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        raise Invalid(source, [Fault("format", f"must be {FORMAT}; {example}")])
    return check(Recording, data, source)


def settled(points: Iterable[Point]) -> list[Point]:
    """One point for each setting: the median of its undisturbed points. Without any, a setting has none."""
    by_setting: dict[Setting, list[Point]] = {}
    for point in points:
        if point.disturbed <= DISTURBED:
            by_setting.setdefault(point.setting, []).append(point)
    return [_median(by_setting[setting]) for setting in sorted(by_setting)]


def _median(points: list[Point]) -> Point:
    return replace(
        points[0],
        p50_ms=median(point.p50_ms for point in points),
        p99_ms=median(point.p99_ms for point in points),
        answered=median(point.answered for point in points),
        services=median(point.services for point in points),
        batch=median(point.batch for point in points),
        requests=sum(point.requests for point in points),
        disturbed=max(point.disturbed for point in points),
    )
