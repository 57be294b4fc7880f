"""Cold memory by idle page tracking, from a sample of the machine's pages.

A page that is marked idle and still is some minutes later was not used in between. Marking all pages of a large machine
takes seconds, so a few groups of 64 pages are marked in each round, evenly spread, and looked at COLD_S later; what
they show stands for all. Marks say nothing to the kernel's own reclaim.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections import deque
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from koord.agent.host.cgroups import Cgroups
from koord.agent.host.cold.reading import COLD_S, ColdReading, above

BITMAP: Final = "sys/kernel/mm/page_idle/bitmap"
FLAGS: Final = "proc/kpageflags"
OWNERS: Final = "proc/kpagecgroup"
MOST_WORDS: Final = 2048
"""Sampled in a cycle, each of 64 pages: half a gigabyte."""
STEPS: Final = 30
"""Rounds of a cycle, over which the work is spread."""
_PAGES: Final = 64
_ALL: Final = (1 << _PAGES) - 1
_LRU, _ANON, _SWAP_BACKED = 1 << 5, 1 << 12, 1 << 14


class Marked(NamedTuple):
    at_s: float
    group: int


class IdlePages:
    name = "idle page tracking, of a sample of pages"

    def __init__(self, cgroups: Cgroups, words: tuple[int, ...], of: int) -> None:
        """`words`: the groups of pages that are sampled; `of`: how many groups exist."""
        self._cgroups = cgroups
        self._groups = [words[step::STEPS] for step in range(STEPS)]
        self._scale = of / max(len(words), 1)
        self._step = 0
        "Which group comes next."
        self._marked: deque[Marked] = deque()
        self._cold: dict[int, dict[int, int]] = {}
        "By group, the cold pages of each owner, as last seen."

    def look(self, directories: Collection[str], now_s: float) -> ColdReading | None:
        while self._marked and now_s - self._marked[0].at_s >= COLD_S:
            self._judge(self._marked.popleft())
        if len(self._marked) < STEPS:
            group = self._step % STEPS
            self._step += 1
            self._mark(self._groups[group])
            self._marked.append(Marked(now_s, group))
        if not self._cold:
            return None
        return self._reading(directories)

    def _reading(self, directories: Collection[str]) -> ColdReading:
        seen = sum(len(self._groups[group]) for group in self._cold)
        bytes_a_page = mmap.PAGESIZE * self._scale * sum(map(len, self._groups)) / max(seen, 1)
        by_owner: dict[int, int] = {}
        for owners in self._cold.values():
            for owner, pages in owners.items():
                by_owner[owner] = by_owner.get(owner, 0) + pages
        cold = dict.fromkeys(directories, 0)
        where = self._owners(directories)
        for owner, pages in by_owner.items():
            for group in above(where[owner]) if owner in where else ():
                if group in cold:
                    cold[group] += pages
        node = None if self._cgroups.root else int(sum(by_owner.values()) * bytes_a_page)
        return ColdReading(node, {group: int(pages * bytes_a_page) for group, pages in cold.items() if group})

    def _owners(self, directories: Collection[str]) -> dict[int, str]:
        """Cgroups by their inode; those inside a known one, for example a pod's sandbox, count as a part of it."""
        inode, name = self._cgroups.files.inode, self._cgroups.name
        wanted = {*directories} - {""}
        below = (f"{group}/{child}" for group in wanted for child in self._cgroups.children(group, "memory"))
        return {number: group for group in (*below, *wanted) if (number := inode(name("memory", group)))}

    def _mark(self, words: tuple[int, ...]) -> None:
        with _Opened(self._cgroups.files.path(BITMAP), os.O_WRONLY) as fd:
            for word in words:
                os.pwrite(fd, struct.pack("=Q", _ALL), word * 8)

    def _judge(self, marked: Marked) -> None:
        path = self._cgroups.files.path
        pages_of: dict[int, int] = {}
        with (
            _Opened(path(BITMAP)) as bitmap,
            _Opened(path(FLAGS)) as flags,
            _Opened(path(OWNERS)) as owners,
        ):
            for word in self._groups[marked.group]:
                idle = _numbers(bitmap, word, 1)[0]
                if not idle:
                    continue
                kinds, of = _numbers(flags, word * _PAGES, _PAGES), _numbers(owners, word * _PAGES, _PAGES)
                for bit, (kind, owner) in enumerate(zip(kinds, of, strict=True)):
                    if idle >> bit & 1 and kind & _LRU and not kind & (_ANON | _SWAP_BACKED):
                        pages_of[owner] = pages_of.get(owner, 0) + 1
        self._cold[marked.group] = pages_of


class _Opened:
    def __init__(self, path: str, flags: int = os.O_RDONLY) -> None:
        self._fd = os.open(path, flags | os.O_CLOEXEC)

    def __enter__(self) -> int:
        return self._fd

    def __exit__(self, *error: object) -> None:
        os.close(self._fd)


def _numbers(fd: int, at: int, count: int) -> tuple[int, ...]:
    text = os.pread(fd, count * 8, at * 8)
    return struct.unpack(f"={count}Q", text.ljust(count * 8, b"\0"))


def page_words(zones: str) -> Iterator[range]:
    """Of the text of /proc/zoneinfo: which groups of 64 pages there are, zone by zone."""
    spanned = 0
    for line in zones.splitlines():
        name, *rest = line.replace(":", " ").split() or [""]
        if name == "spanned":
            spanned = int(rest[0])
        elif name == "start_pfn" and spanned:
            start = int(rest[0])
            yield range(start // _PAGES, (start + spanned) // _PAGES)


def detect(cgroups: Cgroups) -> IdlePages | None:
    files = cgroups.files
    # In a container /sys may be there for reading alone.
    if not all(map(files.exists, (BITMAP, FLAGS, OWNERS))) or not os.access(files.path(BITMAP), os.W_OK):
        return None
    zones = list(page_words(files.text_if_any("proc/zoneinfo")))
    total = sum(map(len, zones))
    stride = max(-(-total // MOST_WORDS), 1)
    words = tuple(word for zone in zones for word in zone[::stride])
    return IdlePages(cgroups, words, total) if words else None
