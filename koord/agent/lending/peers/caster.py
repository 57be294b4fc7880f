"""caster, Bilibili's: a safety watermark less what runs outside of the box.

    colocatable = max(0, capacity * watermark% - online)      64 cores, 70%: online 20 -> 24.8; online 50 -> 0

A rise of the amount follows the mean of a minute, a fall the load just now: what is sold follows the mean, the box
follows the moment. A node whose services alone are above the watermark evicts batch, one pod a minute (the least
important first, then the youngest), and is closed to new batch for 5 minutes, which double up to an hour while it
happens again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from koord.agent.lending.peers.policy import BatchPod, Line, Lines, Load, PeerNode, result, share

WATERMARK_PERCENT: Final = 70.0
COOL_DOWN_S: Final = 300.0
LONGEST_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class CasterMemory:
    at_s: float = 0.0
    services_milli: float = 0.0
    services_bytes: float = 0.0
    requested_milli: float = 0.0
    "By batch pods."
    closed_until_s: float = 0.0
    cool_down_s: float = 0.0
    "The last one; 0 before any."


@dataclass(frozen=True, slots=True)
class Caster:
    name: str = "caster"
    summary: str = "Bilibili's: a watermark of 70% less what services use, in a box of its own"
    memory_type: type[CasterMemory] = CasterMemory

    def after_minute(self, memory: CasterMemory, load: Load, node: PeerNode) -> CasterMemory:
        has_calmed = load.at_s >= memory.closed_until_s + memory.cool_down_s
        return replace(
            memory,
            at_s=load.at_s,
            services_milli=load.services_milli,
            services_bytes=load.services_memory_bytes,
            requested_milli=load.batch_request_milli,
            cool_down_s=0.0 if has_calmed else memory.cool_down_s,
        )

    def cpu(self, memory: CasterMemory, node: PeerNode) -> Lines:
        lines = self.box(memory, memory.services_milli, node)
        if memory.at_s >= memory.closed_until_s:
            return lines
        why = f"closed for {memory.closed_until_s - memory.at_s:.0f} s more, because batch was evicted"
        return (*lines, Line("atMost", "allocated", memory.requested_milli, why))

    def memory_bytes(self, memory: CasterMemory, node: PeerNode) -> Lines:
        watermark, why = share(node.memory_percent, WATERMARK_PERCENT, node.memory_bytes)
        return (
            Line("start", "watermark", watermark, why),
            Line("minus", "online", memory.services_bytes, "used outside of the box, highest of the last minute"),
            Line("atLeast", "nothing", 0.0),
        )

    def box(self, memory: CasterMemory, services_milli: float, node: PeerNode) -> Lines:
        watermark, why = share(node.cpu_percent, WATERMARK_PERCENT, node.cpu_milli)
        return (
            Line("start", "watermark", watermark, why),
            Line("minus", "online", services_milli, "used outside of the box"),
            Line("atLeast", "nothing", 0.0),
        )

    def why_evict(self, memory: CasterMemory, node: PeerNode) -> str:
        if not memory.requested_milli or result(self.box(memory, memory.services_milli, node)) > 0:
            return ""
        return f"services alone use {memory.services_milli:.0f}m, which is at the watermark"

    def to_evict(
        self, memory: CasterMemory, pods: Sequence[BatchPod], node: PeerNode
    ) -> tuple[Sequence[str], CasterMemory]:
        if not pods:
            return (), memory
        first = min(pods, key=lambda pod: (pod.priority, pod.age_s, pod.uid))
        if memory.at_s < memory.closed_until_s:
            return (first.uid,), replace(memory, closed_until_s=memory.at_s + memory.cool_down_s)
        cool_down_s = min(2 * memory.cool_down_s, LONGEST_S) if memory.cool_down_s else COOL_DOWN_S
        return (first.uid,), replace(memory, closed_until_s=memory.at_s + cool_down_s, cool_down_s=cool_down_s)


POLICY: Final = Caster()
