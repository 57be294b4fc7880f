"""What a cgroup has used: CPU time, throttling, memory, pressure. Counters as they stand; rates are the collectors'."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from koord.agent.host.cgroups import Cgroups, Version
from koord.agent.host.convert import PERIOD_US, UNLIMITED
from koord.agent.host.knobs import CPU_PERIOD, CPU_QUOTA
from koord.agent.host.pressure import Pressure, parse_pressure

# Kernels write these one after the other: one search finds all. Where one should not, they are looked for singly.
_LISTS: Final = (b"inactive_anon", b"active_anon", b"inactive_file", b"active_file", b"unevictable")
_V1_LISTS: Final = re.compile(rb"\n" + rb"\n".join(rb"total_%s (\d+)" % list_name for list_name in _LISTS))
_V2_LISTS: Final = re.compile(rb"\n" + rb"\n".join(rb"%s (\d+)" % list_name for list_name in _LISTS))
_THROTTLING: Final = re.compile(rb"nr_periods (\d+)\nnr_throttled (\d+)\nthrottled_(?:time|usec) (\d+)")
TICK_NS: Final = 10_000_000
"""Of the hundredths of a second in which `cpuacct.stat` counts."""
UNIFIED: Final = "unified"
"""Where v2 is mounted beside v1: it has no controllers, but pressure."""


class Throttling(NamedTuple):
    periods: int
    throttled: int
    throttled_ns: int


class CgroupMemory(NamedTuple):
    """Bytes, children included."""

    anon: int
    "Active and inactive anonymous pages."
    unevictable: int
    active_file: int
    inactive_file: int

    @property
    def without_page_cache(self) -> int:
        return self.anon + self.unevictable

    @property
    def page_cache(self) -> int:
        """Of files, what can be dropped."""
        return self.active_file + self.inactive_file

    @property
    def with_page_cache(self) -> int:
        return self.without_page_cache + self.page_cache


def cpu_ns(cgroups: Cgroups, directory: str) -> int:
    """CPU time used so far."""
    if cgroups.version is Version.V1:
        return int(cgroups.files.read(cgroups.name("cpuacct", directory, "cpuacct.usage")))
    return _used_ns(cgroups.files.read(cgroups.name("", directory, "cpu.stat")))


def cpu_quota_us(cgroups: Cgroups, directory: str) -> int:
    """What may be used in PERIOD_US, whatever the period that the kernel counts by; or UNLIMITED."""
    quota = cgroups.get(CPU_QUOTA, directory)
    assert isinstance(quota, int)
    if quota == UNLIMITED or cgroups.version is Version.V2:
        return quota
    period = cgroups.get(CPU_PERIOD, directory)
    assert isinstance(period, int)
    return quota * PERIOD_US // period


def throttling(cgroups: Cgroups, directory: str) -> Throttling:
    text = cgroups.files.read(cgroups.name("cpu", directory, "cpu.stat"))
    return _throttling(text, 1 if cgroups.version is Version.V1 else 1000)


def cpu_and_throttling(
    cgroups: Cgroups, directory: str, stood_ns: float | None = None
) -> tuple[int, Throttling | None]:
    """Both, which one file tells on v2. Where two do, the second is not read (None) if nothing was used since then."""
    if cgroups.version is Version.V1:
        used_ns = cpu_ns(cgroups, directory)
        return used_ns, None if used_ns == stood_ns else throttling(cgroups, directory)
    text = cgroups.files.read(cgroups.name("", directory, "cpu.stat"))
    return _used_ns(text), _throttling(text, 1000)


def memory(cgroups: Cgroups, directory: str) -> CgroupMemory:
    text = cgroups.files.read(cgroups.name("memory", directory, "memory.stat"))
    is_v1 = cgroups.version is Version.V1
    match = (_V1_LISTS if is_v1 else _V2_LISTS).search(text)
    if match is not None:
        values = [int(size) for size in match.groups()]
    else:
        values = [_field(text, b"total_" + list_name if is_v1 else list_name) for list_name in _LISTS]
    inactive_anon, active_anon, inactive_file, active_file, unevictable = values
    return CgroupMemory(inactive_anon + active_anon, unevictable, active_file, inactive_file)


def memory_charged(cgroups: Cgroups, directory: str) -> int:
    """Bytes charged, with all page cache: what is compared with the limit."""
    file = "memory.usage_in_bytes" if cgroups.version is Version.V1 else "memory.current"
    return int(cgroups.files.read(cgroups.name("memory", directory, file)))


class CpuSplit(NamedTuple):
    user_ns: int
    system_ns: int


class MemoryDelays(NamedTuple):
    """Counters. None: this kernel does not tell it of a cgroup."""

    major_faults: int
    direct_reclaim: int | None
    "Pages that tasks looked at themselves before they got memory."
    limit_hits: int
    "How often the cgroup met its own limit."


def cpu_split(cgroups: Cgroups, directory: str) -> CpuSplit | None:
    """CPU time in programs and in the kernel; None where the kernel does not tell them apart."""
    if cgroups.version is Version.V1:
        text, unit_ns = cgroups.files.read(cgroups.name("cpuacct", directory, "cpuacct.stat")), TICK_NS
        return CpuSplit(_field(text, b"user") * unit_ns, _field(text, b"system") * unit_ns)
    text = cgroups.files.read(cgroups.name("", directory, "cpu.stat"))
    if b"system_usec " not in text:
        return None
    return CpuSplit(_field(text, b"user_usec") * 1000, _field(text, b"system_usec") * 1000)


def memory_delays(cgroups: Cgroups, directory: str) -> MemoryDelays:
    text = cgroups.files.read(cgroups.name("memory", directory, "memory.stat"))
    if cgroups.version is Version.V1:
        return MemoryDelays(_field(text, b"total_pgmajfault"), None, limit_hits(cgroups, directory))
    reclaim = _field(text, b"pgscan_direct") if b"pgscan_direct " in text else None
    return MemoryDelays(_field(text, b"pgmajfault"), reclaim, limit_hits(cgroups, directory))


def limit_hits(cgroups: Cgroups, directory: str) -> int:
    """How often a cgroup met its own memory limit; on v2, or one inside of it."""
    if cgroups.version is Version.V1:
        return int(cgroups.files.read(cgroups.name("memory", directory, "memory.failcnt")))
    events = cgroups.files.read(cgroups.name("", directory, "memory.events"))
    return _field(events, b"max") + _field(events, b"high")


STALL_ITEMS: Final = (
    "direct_reclaim_global",
    "direct_reclaim_memcg",
    "direct_compact",
    "direct_swapout_global",
    "direct_swapout_memcg",
    "direct_swapin",
)
"""What Anolis kernels keep latency histograms of, in `memory.*_latency` of each cgroup."""


def stalls(cgroups: Cgroups, directory: str, item: str) -> dict[str, int]:
    """By bucket (`0-1ms`), how often; `total` in milliseconds. Raises FileNotFoundError on a kernel without."""
    text = cgroups.files.text(cgroups.name("memory", directory, f"memory.{item}_latency"))
    counts = {}
    for line in text.splitlines():
        bucket, colon, count = line.partition(":")
        if colon and count.strip().isdigit():
            counts["total" if bucket.startswith("total") else bucket.strip()] = int(count)
    return counts


def io_bytes(cgroups: Cgroups, directory: str) -> int:
    """Read from and written to block devices so far."""
    if cgroups.version is Version.V1:
        text = cgroups.files.read(cgroups.name("blkio", directory, "blkio.throttle.io_service_bytes_recursive"))
        return _field(text, b"Total")
    text = cgroups.files.read(cgroups.name("", directory, "io.stat"))
    pairs = (part.partition(b"=") for part in text.split())
    return sum(int(value) for name, _, value in pairs if name in (b"rbytes", b"wbytes"))


def disks_used(cgroups: Cgroups, directory: str) -> tuple[str, ...]:
    """The numbers of the block devices that were read from or written to. On v2 alone: v1 does not hold back writes
    that go through the page cache."""
    if cgroups.version is Version.V1:
        return ()
    disks = []
    for line in cgroups.files.read(cgroups.name("", directory, "io.stat")).splitlines():
        disk, _, rest = line.partition(b" ")
        pairs = [part.partition(b"=") for part in rest.split()]
        if any(name in (b"rbytes", b"wbytes") and value != b"0" for name, _, value in pairs):
            disks.append(disk.decode())
    return tuple(disks)


_V1_DISK_LIMITS: Final = tuple(
    f"blkio.throttle.{what}_{unit}_device" for what in ("read", "write") for unit in ("bps", "iops")
)


def has_disk_limit(cgroups: Cgroups, directory: str) -> bool:
    """Whether what a cgroup reads or writes is limited on some disk."""
    is_v1 = cgroups.version is Version.V1
    for file in _V1_DISK_LIMITS if is_v1 else ("io.max",):
        try:
            if cgroups.files.read(cgroups.name("blkio" if is_v1 else "", directory, file)).strip():
                return True
        except FileNotFoundError:
            continue
    return False


def pressure(cgroups: Cgroups, directory: str, resource: str) -> Pressure | None:
    """Of `cpu`, `memory` or `io`; None on a kernel without. A v2 tree beside v1 is asked where v1 has no answer."""
    if cgroups.version is Version.V2:
        names = [cgroups.name("", directory, f"{resource}.pressure")]
    else:
        mounted = cgroups.name(UNIFIED, directory, f"{resource}.pressure")
        names = [cgroups.name("cpuacct", directory, f"{resource}.pressure"), mounted]
    for name in names:
        try:
            return parse_pressure(cgroups.files.text(name))
        except (FileNotFoundError, OSError):
            continue
    return None


def _used_ns(text: bytes) -> int:
    if text.startswith(b"usage_usec "):
        return int(text[11 : text.index(b"\n")]) * 1000
    return _field(text, b"usage_usec") * 1000


def _throttling(text: bytes, unit_ns: int) -> Throttling:
    match = _THROTTLING.search(text)
    if match is None:
        return Throttling(_field(text, b"nr_periods"), _field(text, b"nr_throttled"), 0)
    return Throttling(int(match[1]), int(match[2]), int(match[3]) * unit_ns)


def _field(text: bytes, name: bytes) -> int:
    """A number of a file of lines `name number`; zero if the kernel does not have the line."""
    start = 0 if text.startswith(name + b" ") else text.find(b"\n" + name + b" ") + 1
    if start == 0 and not text.startswith(name + b" "):
        return 0
    end = text.find(b"\n", start)
    return int(text[start + len(name) : end if end >= 0 else None])
