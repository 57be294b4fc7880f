"""What can be set on a cgroup: one name each, whatever the kernel calls it.

A knob's value is in one unit on both versions (shares, microseconds, bytes, a set of CPUs; -1 is no limit); the
knob itself defines how each version writes and reads it. Its `Present` defines which kernels have it; `Cgroups.has`
checks that. A new kernel file needs one line in KNOBS, and nothing else. Settings of single processes are listed
separately.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from koord.agent.host import idle_class
from koord.agent.host.convert import (
    LEAST_QUOTA_US,
    LEAST_SHARES,
    LONG_PERIOD_US,
    MOST_SHARES,
    PERIOD_US,
    UNLIMITED,
    shares_of_weight,
    weight_of_shares,
)
from koord.agent.host.idle_class import IdleClass
from koord.agent.host.means import Means
from koord.api.text.cpuset import CPUSet

Value: TypeAlias = int | CPUSet | str

MOST_BYTES: Final = 2**63 - 1
"""What stands for "max" where no limit has a number."""
_V1_UNLIMITED_FROM: Final = 0x7FFF_FFFF_FFFF_F000
_PAGE_BYTES: Final = mmap.PAGESIZE


class Present(Enum):
    ALWAYS = "always"
    KUBEPODS = "kubepods"
    "If the pods' root directory has the file."
    TARGET = "target"
    "If the very directory has it."


class Growth(Enum):
    """What a parent must be while its children change, so that it never contradicts them."""

    LARGER = "larger"
    "At least as large as any child."
    SUPERSET = "superset"
    FREE = "free"
    "Parents and children know nothing of each other."


@dataclass(frozen=True, slots=True)
class Form:
    """How a version spells a value."""

    write: Callable[[Value], str]
    read: Callable[[str], Value]
    is_literal: bool = False
    "Whether two texts that read the same are still not the same: a quota of another period."
    unit: int = 1
    "The kernel keeps only whole multiples of it: bytes are rounded to pages."
    shown: Callable[[str], str] | None = None
    "Extracts this knob's part from a file with several settings, in the form in which it is written."
    alike: Callable[[str, str], bool] | None = None
    "Whether two texts say the same, where reading them does not tell."

    def same(self, one: str, other: str) -> bool:
        """Whether two texts say the same. No limit, written -1, may be shown as a very large number."""
        if self.alike is not None:
            return self.alike(one, other)
        if self.is_literal:
            return one.split() == other.split()
        return self._kept(one) == self._kept(other)

    def _kept(self, text: str) -> Value:
        value = self.read(text)
        return value // self.unit if isinstance(value, int) else value


@dataclass(frozen=True, slots=True)
class Place:
    """Where one cgroup version has a knob."""

    file: str
    form: Form
    controller: str = ""
    "The v1 hierarchy; v2 has one for all."
    present: Present = Present.ALWAYS
    reads: str = ""
    "The file that tells what is in force, where that is another one."
    means: Means | None = None
    "How it is read and written where no file has it."


@dataclass(frozen=True, slots=True, eq=False)
class Knob:
    name: str
    v1: Place | None
    v2: Place | None
    least: int | None = None
    most: int | None = None
    growth: Growth = Growth.FREE
    unlimited: bool = False
    "Whether -1 is a value: none."
    is_of_host: bool = False
    "Whether it is the whole machine's, in a file below the host's root and in no cgroup."
    is_of_processes: bool = False
    "Whether each process of a container has it, below /proc; a new process inherits it."

    def fault(self, value: Value) -> str | None:
        """Why this is no value for the knob."""
        if not isinstance(value, int) or (self.unlimited and value == UNLIMITED):
            return None
        if (self.least is not None and value < self.least) or (self.most is not None and value > self.most):
            low = "" if self.least is None else f" from {self.least}"
            high = "" if self.most is None else f" up to {self.most}"
            return f"{self.name} is {value}: valid is{low}{high}"
        return None

    def is_tighter(self, value: Value, than: Value) -> bool:
        """Whether `value` leaves a child less than `than` does."""
        if isinstance(value, int) and isinstance(than, int):
            return self._limit(value) < self._limit(than)
        return isinstance(value, CPUSet) and isinstance(than, CPUSet) and not than <= value

    def _limit(self, value: int) -> float:
        return float("inf") if self.unlimited and value == UNLIMITED else value


def _number(text: str) -> int:
    return int(text)


def _max_as(none: int) -> Form:
    """`max` is the number `none`."""
    return Form(
        write=lambda value: "max" if value == none else str(value),
        read=lambda text: none if text.strip() == "max" else int(text),
        unit=_PAGE_BYTES,
    )


def _v1_limit(text: str) -> int:
    number = int(text)
    return UNLIMITED if number >= _V1_UNLIMITED_FROM else number


def _weight(value: Value) -> str:
    assert isinstance(value, int)
    return str(weight_of_shares(value))


def _v2_quota(text: str) -> int:
    quota, *period = text.split()
    if quota == "max":
        return UNLIMITED
    return int(quota) * PERIOD_US // int(period[0]) if period else int(quota)


def _v2_quota_per(period_us: int) -> Form:
    """The period goes with it: alone, the kernel would keep whatever was there."""

    def write(value: Value) -> str:
        assert isinstance(value, int)
        return f"{'max' if value == UNLIMITED else value * period_us // PERIOD_US} {period_us}"

    return Form(write, _v2_quota, is_literal=True)


def _v1_quota_per(period_us: int) -> Form:
    times = period_us // PERIOD_US

    def write(value: Value) -> str:
        assert isinstance(value, int)
        return str(value if value == UNLIMITED else value * times)

    def read(text: str) -> int:
        quota = int(text)
        return quota if quota == UNLIMITED else quota // times

    return Form(write, read)


_NUMBER: Final = Form(write=str, read=_number)
_LIMIT: Final = _max_as(UNLIMITED)
_BOUND: Final = _max_as(MOST_BYTES)
_V1_BOUND: Final = Form(write=str, read=_BOUND.read, unit=_PAGE_BYTES)
"""Kernels that brought these to v1 take the number, and show `max`."""
_V1_LIMIT: Final = Form(write=str, read=_v1_limit, unit=_PAGE_BYTES)
_WEIGHT: Final = Form(write=_weight, read=lambda text: shares_of_weight(int(text)))
_CPUS: Final = Form(write=str, read=CPUSet.parse)


def _same(
    name: str,
    controller: str,
    file: str,
    v1: Present | None,
    v2: Present | None,
    least: int | None = None,
    most: int | None = None,
    growth: Growth = Growth.FREE,
    v1_form: Form = _NUMBER,
    v2_form: Form = _NUMBER,
) -> Knob:
    """A knob that both versions call alike."""
    return Knob(
        name,
        None if v1 is None else Place(file, v1_form, controller, v1),
        None if v2 is None else Place(file, v2_form, "", v2),
        least,
        most,
        growth,
    )


_A, _K, _T = Present.ALWAYS, Present.KUBEPODS, Present.TARGET

CPU_SHARES: Final = Knob(
    "cpu.shares", Place("cpu.shares", _NUMBER, "cpu"), Place("cpu.weight", _WEIGHT), LEAST_SHARES, MOST_SHARES
)
CPU_QUOTA: Final = Knob(
    "cpu.cfs_quota_us",
    Place("cpu.cfs_quota_us", _NUMBER, "cpu"),
    Place("cpu.max", _v2_quota_per(PERIOD_US)),
    LEAST_QUOTA_US,
    growth=Growth.LARGER,
    unlimited=True,
)
CPU_QUOTA_IN_LONG_PERIODS: Final = Knob(
    CPU_QUOTA.name,
    Place("cpu.cfs_quota_us", _v1_quota_per(LONG_PERIOD_US), "cpu"),
    Place("cpu.max", _v2_quota_per(LONG_PERIOD_US)),
    LEAST_QUOTA_US,
    growth=Growth.LARGER,
    unlimited=True,
)
"""The same files, by another period; on v1 CPU_PERIOD has to say so."""
CPU_PERIOD: Final = Knob(
    "cpu.cfs_period_us", Place("cpu.cfs_period_us", _NUMBER, "cpu"), None, 1000, LONG_PERIOD_US, Growth.LARGER
)
CPU_BURST: Final = Knob(
    "cpu.cfs_burst_us",
    Place("cpu.cfs_burst_us", _NUMBER, "cpu", _T),
    Place("cpu.max.burst", _NUMBER, "", _K),
    0,
    100_000_000,
)
GROUP_IDENTITY: Final = _same("cpu.bvt_warp_ns", "cpu", "cpu.bvt_warp_ns", _T, _T, -1, 2)
_IDLE: Final = Form(write=str, read=idle_class.read, alike=idle_class.says)
CPU_IDLE: Final = Knob(
    "cpu.idle",
    Place("cpu.idle", _IDLE, "cpu", _K, means=IdleClass("cpu", "cpu.shares", "1024")),
    Place("cpu.idle", _IDLE, "", _K, means=IdleClass("", "cpu.weight", "100")),
    0,
    1,
)
CPUSET_CPUS: Final = Knob(
    "cpuset.cpus",
    Place("cpuset.cpus", _CPUS, "cpuset"),
    Place("cpuset.cpus", _CPUS, "", _A, reads="cpuset.cpus.effective"),
    growth=Growth.SUPERSET,
)
MEMORY_LIMIT: Final = Knob(
    "memory.limit_in_bytes",
    Place("memory.limit_in_bytes", _V1_LIMIT, "memory"),
    Place("memory.max", _LIMIT),
    0,
    growth=Growth.LARGER,
    unlimited=True,
)
MEMORY_MIN: Final = _same("memory.min", "memory", "memory.min", _K, _A, 0, None, Growth.LARGER, _V1_BOUND, _BOUND)
MEMORY_LOW: Final = _same("memory.low", "memory", "memory.low", _K, _A, 0, None, Growth.LARGER, _V1_BOUND, _BOUND)
MEMORY_HIGH: Final = _same("memory.high", "memory", "memory.high", _K, _A, 0, None, Growth.LARGER, _V1_BOUND, _BOUND)
MEMORY_WMARK_RATIO: Final = _same("memory.wmark_ratio", "memory", "memory.wmark_ratio", _K, _T, 0, 100)
MEMORY_WMARK_SCALE: Final = _same("memory.wmark_scale_factor", "memory", "memory.wmark_scale_factor", _K, _T, 1, 1000)
MEMORY_WMARK_MIN_ADJ: Final = _same("memory.wmark_min_adj", "memory", "memory.wmark_min_adj", _K, _T, -25, 50)
MEMORY_PRIORITY: Final = _same("memory.priority", "memory", "memory.priority", _K, _T, 0, 12)
MEMORY_PRIORITY_OOM: Final = _same("memory.use_priority_oom", "memory", "memory.use_priority_oom", _K, _T, 0, 1)
MEMORY_OOM_GROUP: Final = _same("memory.oom.group", "memory", "memory.oom.group", _K, _T, 0, 1)
PAGE_CACHE_LIMIT: Final = _same(
    "memory.pagecache_limit.enable", "memory", "memory.pagecache_limit.enable", None, _T, 0, 1
)
PAGE_CACHE_SIZE: Final = _same("memory.pagecache_limit.size", "memory", "memory.pagecache_limit.size", None, _T, 0)
PAGE_CACHE_SYNC: Final = _same("memory.pagecache_limit.sync", "memory", "memory.pagecache_limit.sync", None, _T, 0, 1)
NET_CLASS: Final = _same("net_cls.classid", "net_cls", "net_cls.classid", _K, None, 0, 2**32 - 1)
"""Of packets that its processes send."""

OOM_SCORE_ADJ: Final = Knob(
    "oom_score_adj",
    Place("oom_score_adj", _NUMBER),
    Place("oom_score_adj", _NUMBER),
    -1000,
    1000,
    is_of_processes=True,
)

KNOBS: Final[tuple[Knob, ...]] = (
    CPU_SHARES,
    CPU_QUOTA,
    CPU_PERIOD,
    CPU_BURST,
    GROUP_IDENTITY,
    CPU_IDLE,
    CPUSET_CPUS,
    MEMORY_LIMIT,
    MEMORY_MIN,
    MEMORY_LOW,
    MEMORY_HIGH,
    MEMORY_WMARK_RATIO,
    MEMORY_WMARK_SCALE,
    MEMORY_WMARK_MIN_ADJ,
    MEMORY_PRIORITY,
    MEMORY_PRIORITY_OOM,
    MEMORY_OOM_GROUP,
    PAGE_CACHE_LIMIT,
    PAGE_CACHE_SIZE,
    PAGE_CACHE_SYNC,
    NET_CLASS,
)
"""Those of cgroups."""

PROCESS_KNOBS: Final[tuple[Knob, ...]] = (OOM_SCORE_ADJ,)
