"""The series that collectors write and strategies read."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from koord.agent.series.samples import Series

NODE_CPU: Final = Series("node_cpu")
NODE_MEMORY: Final = Series("node_memory")
NODE_MEMORY_WITH_CACHE: Final = Series("node_memory_with_cache")
SYSTEM_CPU: Final = Series("system_cpu")
SYSTEM_MEMORY: Final = Series("system_memory")
BE_CPU: Final = Series("be_cpu")
"""Used by all in the best-effort directory."""
BE_CPU_REQUEST: Final = Series("be_cpu_request")
BE_CPU_LIMIT: Final = Series("be_cpu_limit")
"""What they may really use: the smallest of CPU sets and quota."""


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
def pod_memory_with_cache(uid: str) -> Series:
    return Series("pod_memory_with_cache", uid)


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
def container_throttled(container_id: str) -> Series:
    """Throttled periods per period."""
    return Series("container_throttled", container_id)


@lru_cache(_REMEMBERED)
def container_periods(container_id: str) -> Series:
    """Periods so far; only to tell how many went by."""
    return Series("container_periods", container_id)


def host_application_cpu(name: str) -> Series:
    return Series("host_application_cpu", name)


def host_application_memory_with_cache(name: str) -> Series:
    return Series("host_application_memory_with_cache", name)


def host_application_memory(name: str) -> Series:
    return Series("host_application_memory", name)


def pressure(owner: str, resource: str, kind: str) -> Series:
    """Percent of ten seconds in which some, or all, tasks waited. No owner is the node."""
    return Series(f"pressure_{resource}_{kind}", owner)


def gpu_core(minor: int, pod: str = "") -> Series:
    """Percent of a GPU's processors, used by a pod or by all."""
    return Series(f"gpu{minor}_core", pod)


def gpu_memory(minor: int, pod: str = "") -> Series:
    return Series(f"gpu{minor}_memory", pod)
