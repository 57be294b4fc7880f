"""Cold memory by the generations of the multi-gen LRU, read from debugfs and never changed.

A page is in an old generation if it was not found used when younger ones were made. That says something only where the
kernel made one lately: a cgroup whose youngest generation is old itself has not been looked at, and counts as hot.
"""

from __future__ import annotations

import mmap
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from koord.agent.host.cgroups import Cgroups
from koord.agent.host.cold.reading import COLD_S, ColdReading, above

FILE: Final = "sys/kernel/debug/lru_gen"
_COLD_MS: Final = COLD_S * 1000


class Generation(NamedTuple):
    age_ms: int
    file_pages: int


class Generations:
    name = "multi-gen LRU: generations in debugfs"

    def __init__(self, cgroups: Cgroups) -> None:
        self._cgroups = cgroups

    def look(self, directories: Collection[str], now_s: float) -> ColdReading | None:
        try:
            text = self._cgroups.files.once(FILE).decode()
        except OSError:
            return None
        root = f"/{self._cgroups.root}".rstrip("/")
        wanted = {*directories, ""}
        bytes_: dict[str, int] = dict.fromkeys(wanted, 0)
        for path, generations in parsed(text):
            own = path.rstrip("/")
            if own != root and not own.startswith(f"{root}/"):
                continue
            cold = cold_pages(generations) * mmap.PAGESIZE
            for group in above(own[len(root) :].strip("/")):
                if group in wanted:
                    bytes_[group] += cold
        return ColdReading(bytes_.pop(""), {directory: bytes_[directory] for directory in directories if directory})


def cold_pages(generations: list[Generation]) -> int:
    """Of one cgroup on one NUMA node, oldest generation first."""
    if not generations or generations[-1].age_ms >= _COLD_MS:
        return 0
    return sum(generation.file_pages for generation in generations if generation.age_ms >= _COLD_MS)


def parsed(text: str) -> Iterator[tuple[str, list[Generation]]]:
    """Each cgroup's path with its generations, once for each NUMA node."""
    path, own = "", list[Generation]()
    for line in text.splitlines():
        fields = line.split()
        if fields and fields[0] in ("memcg", "node"):
            if own:
                yield path, own
            own = []
            if fields[0] == "memcg":
                path = fields[2] if len(fields) > 2 else "/"
        elif len(fields) >= 4:
            own.append(Generation(int(fields[1]), int(fields[3])))
    if own:
        yield path, own


def detect(cgroups: Cgroups) -> Generations | None:
    try:
        return Generations(cgroups) if any(parsed(cgroups.files.once(FILE).decode())) else None
    except (OSError, ValueError):
        return None
