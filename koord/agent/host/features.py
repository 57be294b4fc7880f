"""What this kernel can do for co-location, and what takes the place of what it cannot.

Asked of the kernel itself, by the files it shows; nothing is concluded from its version. The table also is the page
docs/what-the-agent-needs.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from koord.agent.host import knobs, resctrl, tasks, time_slices, usage
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
class Answer:
    """Whether a kernel has something; and where that is more than the table says, what it has or lacks."""

    is_there: bool
    how: str = ""


@dataclass(frozen=True, slots=True)
class KernelFeature:
    name: str
    asked: Knob | Callable[[Cgroups, str], Answer]
    "The setting that shows it, or who finds it out, with a directory of pods."
    own: str
    instead: str
    since: str
    "The kernels that have it, for people."


def _pressure_of_pods(cgroups: Cgroups, directory: str) -> Answer:
    controller = "" if cgroups.version is Version.V2 else "cpuacct"
    if cgroups.files.exists(cgroups.name(controller, directory, "cpu.pressure")):
        return Answer(True)
    beside = cgroups.version is Version.V1 and cgroups.files.exists("sys/fs/cgroup/unified/cpu.pressure")
    return Answer(beside, "the v2 tree beside v1, for pods that are in it" if beside else "")


def _stalls(cgroups: Cgroups, directory: str) -> Answer:
    files = (cgroups.name("memory", directory, f"memory.{item}_latency") for item in usage.STALL_ITEMS)
    return Answer(any(map(cgroups.files.exists, files)))


def _cold_memory(cgroups: Cgroups, directory: str) -> Answer:
    from koord.agent.host.cold.sources import source_of

    source = source_of(cgroups)
    return Answer(source is not None, "" if source is None else source.name)


def _cycles(cgroups: Cgroups, directory: str) -> Answer:
    from koord.agent.host import perf

    return Answer(perf.has_cycles())


def _switches(cgroups: Cgroups, directory: str) -> Answer:
    from koord.agent.host import perf

    return Answer(perf.records_switches())


def _cookies(cgroups: Cgroups, directory: str) -> Answer:
    absence = cgroups.cookies.absence()
    return Answer(not absence, f"nothing: {absence}" if absence else "")


def _time_slices(cgroups: Cgroups, directory: str) -> Answer:
    missing = time_slices.absence(cgroups.files)
    return Answer(not missing, f"nothing: {missing}" if missing else "")


def _shares(cgroups: Cgroups, directory: str) -> Answer:
    absence = resctrl.absence(cgroups.files)
    return Answer(not absence, f"nothing: {absence}" if absence else "")


def _network_classes(cgroups: Cgroups, directory: str) -> Answer:
    from koord.agent.host.network.look import absence, look

    seen = look(cgroups, {})
    missing = seen.why or absence(cgroups, seen)
    return Answer(not missing, f"not available: {missing}" if missing else f"tc on {seen.interface}, and nftables")


def _network_limits(cgroups: Cgroups, directory: str) -> Answer:
    from koord.agent.host.network.knobs import no_network

    missing = no_network(cgroups)
    return Answer(not missing, f"not available: {missing}" if missing else "")


_ANY_DISK: Final = "0:0"
_ALWAYS: Final = "all"
_ANOLIS: Final = "Anolis"
_V2: Final = "cgroup v2"

TABLE: Final = (
    KernelFeature(
        "CPU quota", knobs.CPU_QUOTA, "quota per period", "nothing: best effort is not held back in time", _ALWAYS
    ),
    KernelFeature(
        "CPU sets",
        knobs.CPUSET_CPUS,
        "cpuset.cpus",
        "nothing: suppress by quota (cpuSuppressPolicy: cfsQuota)",
        _ALWAYS,
    ),
    KernelFeature(
        "group identity", knobs.GROUP_IDENTITY, "cpu.bvt_warp_ns", "the least weight for best effort", _ANOLIS
    ),
    KernelFeature(
        "time slices",
        _time_slices,
        "sched_setattr",
        "nothing: a service that wakes may wait for best effort until the next tick",
        "6.12",
    ),
    KernelFeature("idle class", knobs.CPU_IDLE, "cpu.idle", "nothing: schedIdle has no effect", "5.15"),
    KernelFeature(
        "CPU burst",
        knobs.CPU_BURST,
        "unused quota is saved up",
        "raised quotas (cfsQuotaBurstOnly)",
        "5.14, up to one quota",
    ),
    KernelFeature("memory limit", knobs.MEMORY_LIMIT, "a hard limit", "nothing", _ALWAYS),
    KernelFeature(
        "protected memory", knobs.MEMORY_MIN, "memory.min and memory.low", "nothing", f"{_V2}; on v1 {_ANOLIS}"
    ),
    KernelFeature(
        "slowed memory",
        knobs.MEMORY_HIGH,
        "memory.high",
        "nothing: eviction before the node is full",
        f"{_V2}; on v1 {_ANOLIS}",
    ),
    KernelFeature(
        "memory watermarks",
        knobs.MEMORY_WMARK_RATIO,
        "reclaim in the background",
        "memory.high, where it is",
        _ANOLIS,
    ),
    KernelFeature("memory priority", knobs.MEMORY_PRIORITY, "who is killed first", "oom_score_adj", _ANOLIS),
    KernelFeature(
        "kill as a group",
        knobs.MEMORY_OOM_GROUP,
        "memory.oom.group",
        "processes are killed one by one",
        f"4.19 on {_V2}; on v1 {_ANOLIS}",
    ),
    KernelFeature("page cache limit", knobs.PAGE_CACHE_LIMIT, "per pod", "nothing", f"{_ANOLIS}, on {_V2}"),
    KernelFeature(
        "disk limits",
        io_limit("rbps", _ANY_DISK),
        "bytes and operations a second",
        "nothing",
        "with CONFIG_BLK_DEV_THROTTLING",
    ),
    KernelFeature(
        "disk weights",
        io_weight(_ANY_DISK),
        "by disk",
        "nothing: limits hold back instead",
        f"5.4 on {_V2}, with CONFIG_BLK_CGROUP_IOCOST; on v1 {_ANOLIS}",
    ),
    KernelFeature(
        "pressure of pods",
        _pressure_of_pods,
        "*.pressure in each cgroup",
        "throttling and run-queue delays",
        f"4.20 on {_V2}, with CONFIG_PSI; on v1 {_ANOLIS}",
    ),
    KernelFeature(
        "direct reclaim of pods",
        lambda cgroups, directory: Answer(cgroups.version is Version.V2),
        "pgscan_direct of each cgroup",
        "not available on cgroup v1: major faults",
        _V2,
    ),
    KernelFeature(
        "cold memory",
        _cold_memory,
        "idle pages, generations of pages, DAMON or kidled",
        "not available: usageWithHotPageCache reports memory without page cache",
        f"idle page tracking; multi-gen LRU (6.1); DAMON; {_ANOLIS}",
    ),
    KernelFeature(
        "latency of allocations", _stalls, "memory.*_latency", "not available: time in all, by memory pressure", _ANOLIS
    ),
    KernelFeature(
        "cycles per instruction",
        _cycles,
        "perf events",
        "not available: no unit counts cycles",
        "where the machine counts cycles; most virtual machines do not",
    ),
    KernelFeature(
        "who held the CPU",
        _switches,
        "perf events",
        "not available: who used more CPU",
        "where perf events are allowed (CAP_PERFMON)",
    ),
    KernelFeature(
        "run-queue delays",
        lambda cgroups, directory: Answer(tasks.has_schedstat(cgroups.files)),
        "schedstat of each task",
        "not available: pressure of pods",
        "with CONFIG_SCHED_INFO",
    ),
    KernelFeature(
        "disk waits of pods",
        lambda cgroups, directory: Answer(tasks.counts_io_wait(cgroups.files)),
        "delay accounting",
        "not available: kernel.task_delayacct=0",
        "with sysctl kernel.task_delayacct=1",
    ),
    KernelFeature(
        "pressure of the node",
        lambda cgroups, directory: Answer(cgroups.files.exists("proc/pressure/cpu")),
        "/proc/pressure",
        "load average",
        "4.20, with CONFIG_PSI",
    ),
    KernelFeature(
        "core scheduling",
        _cookies,
        "cookies by prctl",
        "nothing",
        "5.14, with CONFIG_SCHED_CORE, on machines with several threads a core",
    ),
    KernelFeature(
        "cache and bandwidth shares",
        _shares,
        "resctrl",
        "nothing",
        "4.10 (cache) and 4.12 (bandwidth), on CPUs with Intel RDT or AMD QoS, and /sys/fs/resctrl mounted",
    ),
    KernelFeature(
        "network classes",
        _network_classes,
        "tc and nftables",
        "not available",
        "with CONFIG_NET_SCH_HTB and CONFIG_NF_TABLES, on an interface without a root queue of another program",
    ),
    KernelFeature(
        "network limits of pods",
        _network_limits,
        "tc at both ends of their interfaces",
        "not available",
        "with CONFIG_NET_SCH_TBF, for pods with a network namespace and a veth",
    ),
    KernelFeature(
        "network class of cgroups",
        knobs.NET_CLASS,
        "net_cls",
        "not available: pods on the host's network are in the system's class",
        "cgroup v1, with CONFIG_CGROUP_NET_CLASSID",
    ),
)


def features(cgroups: Cgroups, directory: str) -> tuple[Feature, ...]:
    """As shown by a directory of pods."""
    features_here = [Feature("cgroup", True, f"{cgroups.version}")]
    for feature in TABLE:
        asked = feature.asked
        answer = Answer(is_shown(cgroups, asked, directory)) if isinstance(asked, Knob) else asked(cgroups, directory)
        usual = feature.own if answer.is_there else feature.instead
        features_here.append(Feature(feature.name, answer.is_there, answer.how or usual))
    return tuple(features_here)


def is_shown(cgroups: Cgroups, knob: Knob, directory: str) -> bool:
    place = cgroups.place(knob)
    return place is not None and cgroups.files.exists(cgroups.name(place.controller, directory, place.file))
