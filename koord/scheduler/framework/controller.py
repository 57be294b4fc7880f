"""Controllers: what a plugin does beside decisions. It writes objects, counts for Prometheus, and answers people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from koord.scheduler.framework.writes import Tell, Write


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure for Prometheus, by its name and labels: what a gauge is (None where it is gone), by how much a counter
    grew, or one that a histogram is to count."""

    name: str
    labels: Mapping[str, str]
    value: float | None


@dataclass(frozen=True, slots=True)
class Controller:
    """The controller of one plugin, for one cluster."""

    writes: Callable[[], Iterable[Write | Tell]] = tuple
    "Writes and events for other objects: their status, for example. Called with and without decisions."
    measures: Callable[[], Iterable[Measure]] = tuple
    "Figures that changed since the last call."
    services: Mapping[str, Callable[[str], object]] = field(default_factory=dict)
    """Answers for people who inspect a running scheduler: by a path below the plugin's name (`node/:nodeName`), a
    function from that name to JSON."""
    decides: bool = False
    """Whether later decisions depend on its writes, as they do on a reservation's status, or on what it renews when
    it is asked for them. Offline, no other controller is asked: others report what has happened, at limited rates."""
