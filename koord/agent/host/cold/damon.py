"""Cold memory by DAMON, if a monitor of physical memory is configured for it. Only read: no monitor is started.

It needs a scheme with the action `stat` that matches memory not used for COLD_S, and passes page cache
alone (a filter that rejects anonymous pages). Its count grows in each interval by what it matched; how fast it grows
tells how much that is. The kernel shows new counts by itself where `refresh_ms` is set.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from koord.agent.host.cgroups import Cgroups
from koord.agent.host.cold.reading import COLD_S, ColdReading
from koord.agent.host.files import Files

MONITORS: Final = "sys/kernel/mm/damon/admin/kdamonds"
_US: Final = 1e6


class Scheme(NamedTuple):
    path: str
    every_us: int
    "How often what it matches is counted."


class Damon:
    name = "DAMON: a monitor that another program runs"

    def __init__(self, files: Files) -> None:
        self._files = files
        self._before: tuple[Scheme, int, float] | None = None

    def look(self, directories: Collection[str], now_s: float) -> ColdReading | None:
        scheme = scheme_of(self._files)
        if scheme is None:
            self._before = None
            return None
        counted = _number(self._files, f"{scheme.path}/stats/sz_ops_filter_passed")
        before, self._before = self._before, (scheme, counted, now_s)
        if before is None or before[0] != scheme or counted < before[1] or now_s <= before[2]:
            return None
        times = (now_s - before[2]) * _US / scheme.every_us
        return ColdReading(int((counted - before[1]) / max(times, 1.0)), {})


def scheme_of(files: Files) -> Scheme | None:
    for monitor in _children(files, MONITORS):
        if files.text_if_any(f"{monitor}/state") != "on" or _number(files, f"{monitor}/refresh_ms") <= 0:
            continue
        for context in _children(files, f"{monitor}/contexts"):
            if files.text_if_any(f"{context}/operations") != "paddr":
                continue
            every_us = _number(files, f"{context}/monitoring_attrs/intervals/aggr_us")
            for scheme in _children(files, f"{context}/schemes"):
                if every_us > 0 and _tells_cold_page_cache(files, scheme, every_us):
                    return Scheme(scheme, _number(files, f"{scheme}/apply_interval_us") or every_us)
    return None


def _tells_cold_page_cache(files: Files, scheme: str, every_us: int) -> bool:
    pattern = f"{scheme}/access_pattern"
    if files.text_if_any(f"{scheme}/action") != "stat" or _number(files, f"{pattern}/nr_accesses/max") != 0:
        return False
    if _number(files, f"{pattern}/age/min") * every_us < COLD_S * _US:
        return False
    filters = [filter_ for kind in ("filters", "ops_filters") for filter_ in _children(files, f"{scheme}/{kind}")]
    return any(_rejects_anonymous(files, filter_) for filter_ in filters)


def _rejects_anonymous(files: Files, filter_: str) -> bool:
    words = tuple(files.text_if_any(f"{filter_}/{name}") for name in ("type", "matching", "allow"))
    return words == ("anon", "Y", "N")


def _children(files: Files, directory: str) -> list[str]:
    return [f"{directory}/{name}" for name in files.directories(directory) if name.isdigit()]


def _number(files: Files, file: str) -> int:
    text = files.text_if_any(file)
    return int(text) if text.isdigit() else 0


def detect(cgroups: Cgroups) -> Damon | None:
    """Of the whole machine: where a part of it is the node, it tells nothing."""
    return Damon(cgroups.files) if not cgroups.root and scheme_of(cgroups.files) is not None else None
