"""The policies of other systems in the simulator: the agent's own code, node by node.

They keep a memory for each node, as the agent does, so there is no second form of them. Their services have no classes
here: all of them are in LAR's pool 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from koord.agent.lending.peers.policy import AnyPeer, BatchPod, Load, PeerNode, result
from koord.agent.lending.peers.registry import PEERS
from koord.sim.minutes import BatchPodMinutes, Floats, Ints, NodeColumns, NodeMinutes
from koord.sim.policies.pods import per_node
from koord.sim.policies.policy import Band, Future, Lent, Policy, Settings

FIRST_S: Final = 1_600_000_000.0 // 86_400 * 86_400
"""The beginning of a scenario, as time that policies with hours understand."""


@dataclass(frozen=True, slots=True)
class PeerMemory:
    cpu_milli: Floats
    memory_bytes: Floats
    cpu_percent: float | None
    memory_percent: float | None
    by_node: Mapping[int, Any]
    is_known: tuple[bool, ...]
    "By node, whether a minute of it was measured."


@dataclass(frozen=True, slots=True)
class PerNode:
    peer: AnyPeer
    band: Band = "batch"
    knows_now: bool = False

    @property
    def name(self) -> str:
        return self.peer.name

    @property
    def summary(self) -> str:
        return self.peer.summary

    def begin(self, nodes: NodeColumns, settings: Settings) -> PeerMemory:
        return PeerMemory(
            nodes.cpu_milli.astype(np.float64),
            nodes.memory_bytes.astype(np.float64),
            settings.cpu_percent,
            settings.memory_percent,
            {row: self.peer.memory_type() for row in range(len(nodes))},
            (False,) * len(nodes),
        )

    def after_minute(self, memory: PeerMemory, minutes: NodeMinutes) -> PeerMemory:
        pods, count = minutes.pods, len(memory.cpu_milli)
        requested = per_node(pods.node, pods.request_milli * ~pods.ended, count)
        columns = zip(
            minutes.services_milli.tolist(),
            minutes.services_request_milli.tolist(),
            minutes.services_memory_bytes.tolist(),
            minutes.services_request_memory_bytes.tolist(),
            minutes.batch_used_milli.tolist(),
            requested.tolist(),
            strict=True,
        )
        at_s = FIRST_S + minutes.at_s
        is_known = ~np.isnan(minutes.services_milli)
        by_node = dict(memory.by_node)
        for row, column in enumerate(columns):
            if is_known[row]:
                by_node[row] = self.peer.after_minute(by_node[row], Load(at_s, *column), _node(memory, row))
        measured = tuple((is_known | np.array(memory.is_known)).tolist())
        return replace(memory, by_node=by_node, is_known=measured)

    def ceiling(self, memory: PeerMemory, services_milli: Floats) -> Floats:
        box, by_node = self.peer.box, memory.by_node
        allowed = [
            result(box(by_node[row], services, _node(memory, row)))
            for row, services in enumerate(services_milli.tolist())
        ]
        return np.array(allowed)

    def lent(self, memory: PeerMemory, minutes: NodeMinutes, future: Future) -> Lent:
        cpu, memory_bytes = np.full((2, len(memory.cpu_milli)), np.nan)
        for row in np.flatnonzero(minutes.reported & np.array(memory.is_known)).tolist():
            node, of_node = _node(memory, row), memory.by_node[row]
            cpu[row] = result(self.peer.cpu(of_node, node))
            memory_bytes[row] = result(self.peer.memory_bytes(of_node, node))
        return Lent(cpu, memory_bytes)

    def evictions(self, memory: PeerMemory, minutes: NodeMinutes, ceiling_milli: Floats) -> tuple[Ints, PeerMemory]:
        chosen: list[int] = []
        by_node = dict(memory.by_node)
        for row in range(len(memory.cpu_milli)):
            node = _node(memory, row)
            if not self.peer.why_evict(by_node[row], node):
                continue
            rows = {f"{minutes.pods.number[at]:020}": at for at in _pods_of(minutes.pods, row)}
            pods = [
                BatchPod(uid, float(minutes.pods.request_milli[at]), float(minutes.pods.age_s[at]))
                for uid, at in rows.items()
            ]
            leaving, by_node[row] = self.peer.to_evict(by_node[row], pods, node)
            chosen += [rows[uid] for uid in leaving]
        return np.array(chosen, np.int64), replace(memory, by_node=by_node)


def _node(memory: PeerMemory, row: int) -> PeerNode:
    cpu, memory_bytes = float(memory.cpu_milli[row]), float(memory.memory_bytes[row])
    return PeerNode(cpu, memory_bytes, memory.cpu_percent, memory.memory_percent)


def _pods_of(pods: BatchPodMinutes, node: int) -> list[int]:
    rows: list[int] = np.flatnonzero((pods.node == node) & ~pods.ended).tolist()
    return rows


POLICIES: Final[tuple[Policy[Any], ...]] = tuple(PerNode(peer) for peer in PEERS.values())
