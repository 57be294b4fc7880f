"""The signals that show a pod's suffering, and what a neighbour must use more of to be its cause.

A signal is a number per pod and window, larger when the pod is worse off. `least` is the smallest value that users
notice: below it no pod suffers, however much larger than usual it is.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from koord.agent.interference.baseline import TIMES


class Dimension(Enum):
    """What neighbours compete for, and below which amount a neighbour's use of it counts as none."""

    CPU = "CPU", 100.0
    "Milli-cores."
    MEMORY = "memory", float(64 << 20)
    "Bytes, with page cache."
    IO = "disk", float(1 << 20)
    "Bytes per second."

    def __init__(self, text: str, least: float) -> None:
        self.text: Final = text
        self.least: Final = least


class Signal(Enum):
    """A member's value is (its name in reports, dimension, least, how people call it, its unit)."""

    RUN_QUEUE_DELAY = "runQueueDelay", Dimension.CPU, 0.3, "run-queue delay", "ms"
    "Milliseconds that a task waited for a CPU each time that it ran, on average."
    CPU_PRESSURE = "cpuPressure", Dimension.CPU, 5.0, "CPU pressure", "%"
    MEMORY_PRESSURE = "memoryPressure", Dimension.MEMORY, 1.0, "memory pressure", "%"
    IO_PRESSURE = "ioPressure", Dimension.IO, 5.0, "I/O pressure", "%"
    DIRECT_RECLAIM = "directReclaim", Dimension.MEMORY, 100.0, "direct reclaim", " pages/s"
    MAJOR_FAULTS = "majorFaults", Dimension.MEMORY, 10.0, "major page faults", "/s"
    IO_WAIT = "ioWait", Dimension.IO, 20.0, "I/O wait", " ms/s"
    CPI = "cpi", Dimension.CPU, 0.1, "cycles per instruction", ""
    PROBE = "probe", Dimension.CPU, 0.0, "the application's own probe", ""

    def __init__(self, key: str, dimension: Dimension, least: float, text: str, unit: str) -> None:
        self.key: Final = key
        self.dimension: Final = dimension
        self.least: Final = least
        self.text: Final = text
        self.unit: Final = unit

    @property
    def times(self) -> float:
        """How many times its usual value is too much."""
        return WORKS_SLOWER if self in OF_WORK else TIMES


OF_WORK: Final = frozenset({Signal.CPI, Signal.PROBE})
"""How slowly a pod works, not how long it waits. Neighbours that take caches, memory bandwidth or the other thread of
its core slow it down whenever they run."""
WORKS_SLOWER: Final = 1.25
"""A wait that grows by half may still be short. A request that takes a quarter longer is what users notice."""

EXCUSED_BY_QUOTA: Final = frozenset({Signal.MEMORY_PRESSURE, Signal.IO_PRESSURE, Signal.IO_WAIT, Signal.PROBE})
"""Signals that also rise, by an unknown amount, when a pod meets its own CPU limit: not judged in that window."""

EXCUSED_BY_DISK_LIMIT: Final = frozenset({Signal.IO_PRESSURE, Signal.IO_WAIT})
"""What also rises when a pod meets a limit of its own on a disk. No kernel counts how often it does."""

EXCUSED_BY_MEMORY_LIMIT: Final = frozenset({Signal.MEMORY_PRESSURE, Signal.DIRECT_RECLAIM, Signal.MAJOR_FAULTS})
"""What also rises when a pod meets its own memory limit."""
