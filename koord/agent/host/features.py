"""What this kernel can do for co-location, and what takes the place of what it cannot.

Asked of the kernel itself, by the files it shows; nothing is concluded from its version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from koord.agent.host import knobs, resctrl, tasks, usage
from koord.agent.host.cgroups import Cgroups, Version
from koord.agent.host.io_knobs import io_limit, io_weight
from koord.agent.host.knobs import Knob


@dataclass(frozen=True, slots=True)
class Feature:
    name: str
    is_there: bool
    how: str
    "The kernel's own means, or what is used instead."


@dataclass(frozen=True, slots=True)
class _Known:
    name: str
    knob: Knob
    own: str
    instead: str


_ANY_DISK: Final = "0:0"

_TABLE: Final = (
    _Known("CPU quota", knobs.CPU_QUOTA, "quota per period", "nothing: best effort is not held back in time"),
    _Known("CPU sets", knobs.CPUSET_CPUS, "cpuset.cpus", "nothing: suppress by quota (cpuSuppressPolicy: cfsQuota)"),
    _Known("group identity", knobs.GROUP_IDENTITY, "cpu.bvt_warp_ns", "cpu.idle on the best-effort directory"),
    _Known("idle class", knobs.CPU_IDLE, "cpu.idle", "the least weight, which yields less quickly"),
    _Known("CPU burst", knobs.CPU_BURST, "unused quota is saved up", "raised quotas (cfsQuotaBurstOnly)"),
    _Known("memory limit", knobs.MEMORY_LIMIT, "a hard limit", "nothing"),
    _Known("protected memory", knobs.MEMORY_MIN, "memory.min and memory.low", "nothing"),
    _Known("slowed memory", knobs.MEMORY_HIGH, "memory.high", "nothing: eviction before the node is full"),
    _Known("memory watermarks", knobs.MEMORY_WMARK_RATIO, "reclaim in the background", "memory.high, where it is"),
    _Known("memory priority", knobs.MEMORY_PRIORITY, "who is killed first", "oom_score_adj"),
    _Known("kill as a group", knobs.MEMORY_OOM_GROUP, "memory.oom.group", "processes are killed one by one"),
    _Known("page cache limit", knobs.PAGE_CACHE_LIMIT, "per pod", "nothing"),
    _Known("disk limits", io_limit("rbps", _ANY_DISK), "bytes and operations a second", "nothing"),
    _Known("disk weights", io_weight(_ANY_DISK), "by disk", "nothing: limits hold back instead"),
)


def features(cgroups: Cgroups, directory: str) -> tuple[Feature, ...]:
    """As shown by a directory of pods."""
    found = [Feature("cgroup", True, f"{cgroups.version}")]
    for known in _TABLE:
        is_there = is_shown(cgroups, known.knob, directory)
        instead = known.instead
        if known.knob is knobs.GROUP_IDENTITY and not is_shown(cgroups, knobs.CPU_IDLE, directory):
            instead = "the least weight for best effort"
        found.append(Feature(known.name, is_there, known.own if is_there else instead))
    return (*found, *_pressure(cgroups, directory), *_memory_delays(cgroups, directory), *_machine(cgroups))


def is_shown(cgroups: Cgroups, knob: Knob, directory: str) -> bool:
    place = cgroups.place(knob)
    return place is not None and cgroups.files.exists(cgroups.name(place.controller, directory, place.file))


def _pressure(cgroups: Cgroups, directory: str) -> tuple[Feature, ...]:
    controller = "" if cgroups.version is Version.V2 else "cpuacct"
    if cgroups.files.exists(cgroups.name(controller, directory, "cpu.pressure")):
        return (Feature("pressure of pods", True, "*.pressure in each cgroup"),)
    beside = cgroups.version is Version.V1 and cgroups.files.exists("sys/fs/cgroup/unified/cpu.pressure")
    how = "the v2 tree beside v1, for pods that are in it" if beside else "throttling and run-queue delays"
    return (Feature("pressure of pods", beside, how),)


def _memory_delays(cgroups: Cgroups, directory: str) -> tuple[Feature, ...]:
    is_v2 = cgroups.version is Version.V2
    buckets = any(
        cgroups.files.exists(cgroups.name("memory", directory, f"memory.{item}_latency")) for item in usage.STALL_ITEMS
    )
    reclaim = "pgscan_direct of each cgroup" if is_v2 else "not available on cgroup v1: major faults"
    return (
        Feature("direct reclaim of pods", is_v2, reclaim),
        _cold_memory(cgroups),
        Feature("latency of allocations", buckets, "memory.*_latency" if buckets else "not available: counters alone"),
    )


def _cold_memory(cgroups: Cgroups) -> Feature:
    from koord.agent.host.cold.sources import source_of

    source = source_of(cgroups)
    how = "not available: usageWithHotPageCache reports memory without page cache"
    return Feature("cold memory", source is not None, how if source is None else source.name)


def _machine(cgroups: Cgroups) -> tuple[Feature, ...]:
    from koord.agent.host import perf

    files = cgroups.files
    pressure = files.exists("proc/pressure/cpu")
    undivided = resctrl.absence(files)
    waits, disks = tasks.has_schedstat(files), tasks.counts_io_wait(files)
    unshared = cgroups.cookies.absence()
    cycles, switches = perf.has_cycles(), perf.records_switches()
    return (
        Feature("cycles per instruction", cycles, "perf events" if cycles else "not available: no unit counts cycles"),
        Feature("who held the CPU", switches, "perf events" if switches else "not available: who used more CPU"),
        Feature("run-queue delays", waits, "schedstat of each task" if waits else "not available: pressure of pods"),
        Feature("disk waits of pods", disks, "delay accounting" if disks else "not available: kernel.task_delayacct=0"),
        Feature("pressure of the node", pressure, "/proc/pressure" if pressure else "load average"),
        Feature("core scheduling", not unshared, f"nothing: {unshared}" if unshared else "cookies by prctl"),
        Feature("cache and bandwidth shares", not undivided, f"nothing: {undivided}" if undivided else "resctrl"),
    )
