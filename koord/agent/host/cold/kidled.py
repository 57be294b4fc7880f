"""Cold memory by kidled, of Anolis kernels: `memory.idle_page_stats` in each cgroup has bytes by age and kind of page.

Ages are counted in scans, and the file says how far apart those are. Rows are named by four letters: clean or dirty,
file or swap, evictable or not, inactive or active; the inactive ones of files count.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from koord.agent.host.cgroups import Cgroups
from koord.agent.host.cold.reading import COLD_S, ColdReading

FILE: Final = "memory.idle_page_stats"
LINES: Final = 31
ROWS: Final = ("cfei", "dfei", "cfui", "dfui")
_PERIOD: Final = "# scan_period_in_seconds:"
_BUCKETS: Final = "# buckets:"


class Kidled:
    name = f"kidled: {FILE} of each cgroup"

    def __init__(self, cgroups: Cgroups) -> None:
        self._cgroups = cgroups

    def look(self, directories: Collection[str], now_s: float) -> ColdReading | None:
        cold_by_group = {group: cold for group in directories if (cold := self._of(group)) is not None}
        node = self._of("")
        return None if node is None and not cold_by_group else ColdReading(node, cold_by_group)

    def _of(self, directory: str) -> int | None:
        try:
            text = self._cgroups.files.once(self._cgroups.name("memory", directory, FILE)).decode()
        except OSError:
            return None
        return cold_bytes(text)


def cold_bytes(text: str) -> int | None:
    """None while nothing is scanned. Raises ValueError for a file of another kind."""
    lines = text.splitlines()
    if len(lines) != LINES:
        raise ValueError(f"{FILE}: has {len(lines)} lines, and must have {LINES}")
    period_s = int(_after(lines, _PERIOD))
    if period_s <= 0:
        return None
    scans = [int(count) for count in _after(lines, _BUCKETS).split(",")]
    cold = [at for at, least in enumerate(scans) if least * period_s >= COLD_S]
    rows = {fields[0]: fields[1:] for line in lines if not line.startswith("#") and (fields := line.split())}
    return sum(int(rows[row][at]) for row in ROWS if row in rows for at in cold)


def _after(lines: list[str], head: str) -> str:
    line_of = next((line for line in lines if line.startswith(head)), None)
    if line_of is None:
        raise ValueError(f"{FILE}: has no line {head!r}")
    return line_of[len(head) :].strip()


def detect(cgroups: Cgroups) -> Kidled | None:
    return Kidled(cgroups) if cgroups.files.exists(cgroups.name("memory", "", FILE)) else None
