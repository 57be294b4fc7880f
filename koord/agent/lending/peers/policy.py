"""What the policy of another system is: data in, lines of a calculation out.

A calculation is a tuple of lines, and its result is the lines applied one after the other, so what is explained is what
was computed. CPU is in milli-cores, memory in bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

Op: TypeAlias = Literal["start", "minus", "plus", "atMost", "atLeast", "becomes"]
M = TypeVar("M")


class Line(NamedTuple):
    op: Op
    name: str
    "A word for programs: capacity, reserve, services, ..."
    amount: float
    why: str = ""


Lines: TypeAlias = tuple[Line, ...]


def result(lines: Iterable[Line]) -> float:
    amount = 0.0
    for op, _, by, _ in lines:
        match op:
            case "start" | "becomes":
                amount = by
            case "minus":
                amount -= by
            case "plus":
                amount += by
            case "atMost":
                amount = min(amount, by)
            case "atLeast":
                amount = max(amount, by)
    return amount


class PeerNode(NamedTuple):
    cpu_milli: float
    memory_bytes: float
    cpu_percent: float | None = None
    """Share of the node that may be used in all, if it is configured (cpuReclaimThresholdPercent); None: the policy's
    own."""
    memory_percent: float | None = None


class BatchPod(NamedTuple):
    uid: str
    request_milli: float
    age_s: float
    priority: int = 0


class Load(NamedTuple):
    """What one minute of a node was like. *Services* is all that is not batch, the system included."""

    at_s: float
    services_milli: float
    "Mean over the minute."
    services_request_milli: float
    services_memory_bytes: float
    "The highest of the minute."
    services_request_bytes: float
    batch_milli: float
    "Used by batch."
    batch_request_milli: float
    "By batch pods that run."
    sensitive_milli: float = 0.0
    "Part of services: pods of class LSE and LSR."
    sensitive_request_milli: float = 0.0


class PeerPolicy(Protocol[M]):
    @property
    def name(self) -> str:
        """As configurations and scenarios name it."""
        ...

    @property
    def summary(self) -> str: ...

    @property
    def memory_type(self) -> type[M]:
        """Its default is the memory before the first minute."""
        ...

    def after_minute(self, memory: M, load: Load, node: PeerNode) -> M: ...

    def cpu(self, memory: M, node: PeerNode) -> Lines:
        """What the node lends, the requests of running batch pods included."""
        ...

    def memory_bytes(self, memory: M, node: PeerNode) -> Lines: ...

    def box(self, memory: M, services_milli: float, node: PeerNode) -> Lines:
        """What batch may use now. `services_milli`: use of services just now."""
        ...

    def why_evict(self, memory: M, node: PeerNode) -> str:
        """Why batch pods have to go now; empty: they do not."""
        ...

    def to_evict(self, memory: M, pods: Sequence[BatchPod], node: PeerNode) -> tuple[Sequence[str], M]:
        """Uids in the order in which they go, where there is a reason, and the memory after it. `pods`: those that may
        go."""
        ...


AnyPeer: TypeAlias = PeerPolicy[Any]


def share(percent: float | None, own_percent: float, capacity: float) -> tuple[float, str]:
    """A part of a node in percent, and where the percentage comes from."""
    return (
        (capacity * own_percent / 100, f"{own_percent:g}% of {capacity:.0f}, the policy's own")
        if percent is None
        else (capacity * percent / 100, f"{percent:g}% of {capacity:.0f}, as configured")
    )
