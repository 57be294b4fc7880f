"""The oracle: what a policy reaches that knows the next hour of services and reacts at once.

    ceiling   mark - what services use in the coming 10 s
    amount    mark - services' mean over the next hour
    lent      requests of batch pods on the node + max(0, amount - what they want)

It has the same mark, the same queue and the same discrete pods as any policy, and sells greedily: `koord.sim.fluid`
says what no policy can beat.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from koord.agent.lending.learning import HOUR_MINUTES
from koord.agent.lending.minute import MINUTE_S
from koord.agent.lending.sale import MEMORY_MARK
from koord.sim.minutes import Floats, Ints, NodeColumns, NodeMinutes
from koord.sim.policies.pods import per_node
from koord.sim.policies.policy import Band, Future, Lent, Settings

AHEAD_S: Final = HOUR_MINUTES * MINUTE_S
JUST_BELOW: Final = 1 - 1e-9
"""Means of floats that should come to the mark may be above it by their last bits."""


@dataclass(frozen=True, slots=True)
class OracleMemory:
    mark: Floats
    capacity_bytes: Floats


@dataclass(frozen=True, slots=True)
class Oracle:
    name: str = "oracle"
    summary: str = "knows the next hour of services and reacts at once: what the others are measured by"
    band: Band = "batch"
    knows_now: bool = True

    def begin(self, nodes: NodeColumns, settings: Settings) -> OracleMemory:
        return OracleMemory(nodes.cpu_milli * settings.mark_percent / 100, nodes.memory_bytes.astype(np.float64))

    def after_minute(self, memory: OracleMemory, minutes: NodeMinutes) -> OracleMemory:
        return memory

    def ceiling(self, memory: OracleMemory, services_milli: Floats) -> Floats:
        return np.maximum(0.0, memory.mark * JUST_BELOW - services_milli)

    def lent(self, memory: OracleMemory, minutes: NodeMinutes, future: Future) -> Lent:
        pods, count = minutes.pods, len(memory.mark)
        amount = np.maximum(0.0, memory.mark - future.services_milli(AHEAD_S))
        stays = ~pods.ended
        room = np.maximum(0.0, amount - per_node(pods.node, pods.wanted_milli * stays, count))
        most = future.services_memory_bytes(AHEAD_S)
        return Lent(
            cpu_milli=per_node(pods.node, pods.request_milli * stays, count) + room,
            memory_bytes=np.maximum(0.0, MEMORY_MARK * memory.capacity_bytes - most),
            room_milli=room,
        )

    def evictions(self, memory: OracleMemory, minutes: NodeMinutes, ceiling_milli: Floats) -> tuple[Ints, OracleMemory]:
        return np.zeros(0, np.int64), memory


POLICY: Final = Oracle()
