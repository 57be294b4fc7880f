"""The machine's own accounts: /proc/stat, /proc/meminfo and the like, as counters and bytes."""

from __future__ import annotations

from typing import Final, NamedTuple

from koord.agent.host.files import Files
from koord.agent.host.pressure import Pressure, parse_pressure

JIFFY_S: Final = 0.01
"""Linux tells user space hundredths of a second, whatever its own tick is."""


class HostMemory(NamedTuple):
    """Bytes."""

    total: int
    free: int
    available: int

    @property
    def used(self) -> int:
        return self.total - self.available


def busy_ticks(files: Files) -> int:
    """Ticks of all CPUs spent in user, nice, system, irq and softirq; guests are in user already."""
    return _busy(files.read("proc/stat").split(b"\n", 1)[0])


def busy_ticks_by_cpu(files: Files) -> dict[int, int]:
    lines = (line for line in files.read("proc/stat").split(b"\n") if line.startswith(b"cpu") and line[3:4].isdigit())
    return {int(line[3 : line.index(b" ")]): _busy(line) for line in lines}


def _busy(line: bytes) -> int:
    _, user, nice, system, _idle, _iowait, irq, softirq, *_ = line.split()
    return int(user) + int(nice) + int(system) + int(irq) + int(softirq)


def io_wait_ticks(files: Files) -> int:
    """Ticks of all CPUs in which they idled while a task waited for a disk."""
    return int(files.read("proc/stat").split(b"\n", 1)[0].split()[5])


def memory(files: Files) -> HostMemory:
    meminfo = _meminfo(files.read("proc/meminfo"))
    return HostMemory(meminfo[b"MemTotal"], meminfo[b"MemFree"], meminfo[b"MemAvailable"])


def memory_of_numa_node(files: Files, node: int) -> HostMemory:
    """A node of memory has no account of what is available: page cache and slabs that can go are counted as such."""
    meminfo = _meminfo(files.read(f"sys/devices/system/node/node{node}/meminfo"))
    available = (
        meminfo[b"MemFree"]
        + meminfo.get(b"Active(file)", 0)
        + meminfo.get(b"Inactive(file)", 0)
        + meminfo.get(b"SReclaimable", 0)
    )
    return HostMemory(meminfo[b"MemTotal"], meminfo[b"MemFree"], available)


def _meminfo(text: bytes) -> dict[bytes, int]:
    """Bytes by name. A node's file says `Node 0 MemTotal:` where the machine's says `MemTotal:`."""
    sizes = {}
    for line in text.splitlines():
        name, _, amount = line.partition(b":")
        if amount:
            number = amount.split()
            sizes[name.rsplit(b" ", 1)[-1]] = int(number[0]) * (1024 if len(number) > 1 else 1)
    return sizes


def pressure(files: Files, resource: str) -> Pressure | None:
    """Of the whole machine; None on a kernel without."""
    try:
        return parse_pressure(files.text(f"proc/pressure/{resource}"))
    except OSError:
        return None


def run_queue_delay_ns(files: Files, task: str) -> int:
    """For how long a task (a number, or `thread-self`) has waited to run, in all."""
    return int(files.read(f"proc/{task}/schedstat").split()[1])
