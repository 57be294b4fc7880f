"""The series that collectors write and strategies read."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from koord.agent.host.resctrl import CLASSES
from koord.agent.series.samples import Series

NODE_CPU: Final = Series("node_cpu")
NODE_MEMORY: Final = Series("node_memory")
NODE_MEMORY_WITH_CACHE: Final = Series("node_memory_with_cache")
SYSTEM_CPU: Final = Series("system_cpu")
NODE_MEMORY_HOT: Final = Series("node_memory_hot")
"""With the page cache that was used lately."""
NODE_COLD: Final = Series("node_cold")
"""Bytes of page cache that were not used for a while; `pod_cold` and the like have those of others."""
SYSTEM_MEMORY: Final = Series("system_memory")
SYSTEM_MEMORY_WITH_CACHE: Final = Series("system_memory_with_cache")
SYSTEM_MEMORY_HOT: Final = Series("system_memory_hot")
BE_CPU: Final = Series("be_cpu")
"""Used by all in the best-effort directory."""
BE_THROTTLED: Final = Series("be_throttled")
"""Milli-cores that it was kept from by its own quota, now and then."""
SERVICES_CPU: Final = Series("services_cpu")
"""Used outside the best-effort directory, with idle CPU that is kept for the system and for LSE pods."""
BE_CPU_REQUEST: Final = Series("be_cpu_request")
BE_CPU_LIMIT: Final = Series("be_cpu_limit")
"""What they may really use: the smallest of CPU sets and quota."""


NODE_IO_WAIT: Final = Series("node_io_wait")
"""Share of the CPUs' time."""


def numa_cpu(node: int) -> Series:
    return Series(f"numa{node}_cpu")


def numa_memory(node: int) -> Series:
    return Series(f"numa{node}_memory")


_REMEMBERED: Final = 8192
"""Names are asked for each second, and are the same each second."""


@lru_cache(_REMEMBERED)
def pod_cpu(uid: str) -> Series:
    return Series("pod_cpu", uid)


@lru_cache(_REMEMBERED)
def pod_memory(uid: str) -> Series:
    return Series("pod_memory", uid)


@lru_cache(_REMEMBERED)
def pod_page_cache(uid: str) -> Series:
    """Bytes of files that the kernel keeps in memory for it, and can drop."""
    return Series("pod_page_cache", uid)


@lru_cache(_REMEMBERED)
def pod_cold(uid: str) -> Series:
    return Series("pod_cold", uid)


@lru_cache(_REMEMBERED)
def pod_charged(uid: str) -> Series:
    """Bytes, with all page cache; only to tell whether they changed."""
    return Series("pod_charged", uid)


@lru_cache(_REMEMBERED)
def container_cpu(container_id: str) -> Series:
    return Series("container_cpu", container_id)


@lru_cache(_REMEMBERED)
def container_memory(container_id: str) -> Series:
    return Series("container_memory", container_id)


@lru_cache(_REMEMBERED)
def container_page_cache(container_id: str) -> Series:
    return Series("container_page_cache", container_id)


@lru_cache(_REMEMBERED)
def container_cold(container_id: str) -> Series:
    return Series("container_cold", container_id)


@lru_cache(_REMEMBERED)
def container_throttled(container_id: str) -> Series:
    """Throttled periods per period."""
    return Series("container_throttled", container_id)


@lru_cache(_REMEMBERED)
def container_periods(container_id: str) -> Series:
    """Periods so far; only differences matter."""
    return Series("container_periods", container_id)


def guest_cpu(uid: str) -> Series:
    """Now and then."""
    return Series("guest_cpu", uid)


def guest_memory(uid: str) -> Series:
    return Series("guest_memory", uid)


def host_application_cpu(name: str) -> Series:
    return Series("host_application_cpu", name)


def host_application_page_cache(name: str) -> Series:
    return Series("host_application_page_cache", name)


def host_application_cold(name: str) -> Series:
    return Series("host_application_cold", name)


def host_application_memory(name: str) -> Series:
    return Series("host_application_memory", name)


def pressure(owner: str, resource: str, kind: str) -> Series:
    """Percent of ten seconds in which some, or all, tasks waited. No owner is the node."""
    return Series(f"pressure_{resource}_{kind}", owner)


def resctrl(owner: str, cache: int, counter: str) -> Series:
    """Bytes of one of resctrl's counters, for a QoS class or a pod. What a class has is the node's."""
    kind = f"resctrl_{counter}_{cache}"
    return Series(f"{kind}_{owner}") if owner in CLASSES else Series(kind, owner)


def gpu_core(minor: int, pod: str = "") -> Series:
    """Percent of a GPU's processors, used by a pod or by all."""
    return Series(f"gpu{minor}_core", pod)


def gpu_memory(minor: int, pod: str = "") -> Series:
    return Series(f"gpu{minor}_memory", pod)


@lru_cache(_REMEMBERED)
def pod_wait(uid: str) -> Series:
    """Nanoseconds that its tasks have waited for a CPU, those that ended included."""
    return Series("pod_wait_ns", uid)


@lru_cache(_REMEMBERED)
def pod_slices(uid: str) -> Series:
    """How often its tasks have been given a CPU."""
    return Series("pod_slices", uid)


@lru_cache(_REMEMBERED)
def pod_threads(uid: str) -> Series:
    """How many tasks it has."""
    return Series("pod_threads", uid)


@lru_cache(_REMEMBERED)
def pod_io_wait(uid: str) -> Series:
    """Nanoseconds that its tasks have waited for disks."""
    return Series("pod_io_wait_ns", uid)


@lru_cache(_REMEMBERED)
def pod_throttled_ns(uid: str) -> Series:
    """Nanoseconds for which its own quotas have stopped it."""
    return Series("pod_throttled_ns", uid)


@lru_cache(_REMEMBERED)
def pod_throttled_periods(uid: str) -> Series:
    """In how many periods its own quotas have stopped it."""
    return Series("pod_throttled_periods", uid)


@lru_cache(_REMEMBERED)
def pod_kernel_share(uid: str) -> Series:
    """Of its CPU time, what the kernel used on its behalf."""
    return Series("pod_kernel_share", uid)


@lru_cache(_REMEMBERED)
def pod_user_time(uid: str) -> Series:
    """CPU time of its own code so far; only to tell how it grew."""
    return Series("pod_user_time", uid)


@lru_cache(_REMEMBERED)
def pod_major_faults(uid: str) -> Series:
    """Page faults that had to read from disk, so far."""
    return Series("pod_major_faults", uid)


@lru_cache(_REMEMBERED)
def pod_direct_reclaim(uid: str) -> Series:
    """Pages that its own tasks looked at before they got memory, so far."""
    return Series("pod_direct_reclaim", uid)


@lru_cache(_REMEMBERED)
def pod_memory_limit_hits(uid: str) -> Series:
    """How often it has met its own memory limit."""
    return Series("pod_memory_limit_hits", uid)


@lru_cache(_REMEMBERED)
def pod_io_bytes(uid: str) -> Series:
    """Bytes read from and written to disks so far."""
    return Series("pod_io_bytes", uid)


@lru_cache(_REMEMBERED)
def pod_charged_bytes(uid: str) -> Series:
    """Memory with all page cache."""
    return Series("pod_charged_bytes", uid)


@lru_cache(_REMEMBERED)
def container_wait(container_id: str) -> Series:
    """Nanoseconds that its tasks have waited for a CPU."""
    return Series("container_wait_ns", container_id)


@lru_cache(_REMEMBERED)
def pod_load(uid: str, letter: str, span: str) -> Series:
    """The average number of its tasks in a state, R or D, over 1m, 5m or 15m."""
    return Series(f"pod_load_{letter}_{span}", uid)


@lru_cache(_REMEMBERED)
def pod_stalls(uid: str, item: str, bucket: str) -> Series:
    """How often an allocation stalled for so long, where the kernel tells; `total` is in milliseconds."""
    return Series(f"pod_stalls_{item}_{bucket}", uid)


@lru_cache(_REMEMBERED)
def pod_stalled_us(uid: str, resource: str) -> Series:
    """Microseconds in which some task of a pod has waited for a resource."""
    return Series(f"pod_stalled_{resource}_us", uid)


@lru_cache(_REMEMBERED)
def pod_signal(uid: str, name: str) -> Series:
    """A signal of suffering, by its name in reports, window by window."""
    return Series(f"pod_signal_{name}", uid)


@lru_cache(_REMEMBERED)
def pod_cpi(uid: str) -> Series:
    """Cycles per instruction."""
    return Series("pod_cpi", uid)


@lru_cache(_REMEMBERED)
def pod_probe(uid: str) -> Series:
    """What its probe said, or how many milliseconds it took; larger is worse."""
    return Series("pod_probe", uid)
