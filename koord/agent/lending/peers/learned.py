"""What is remembered for the policy of another system, how a minute changes it, and the figures that follow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from koord.agent.lending.peers.policy import AnyPeer, BatchPod, Lines, Load, PeerNode
from koord.agent.lending.peers.registry import PEERS
from koord.api.protocol.crd.node_slo import LendingStrategy


@dataclass(frozen=True, slots=True)
class PeerLearned:
    policy: str
    memory: Any
    "Of the policy's own type."
    at_s: float
    leaving: tuple[str, ...] = ()
    "Uids of batch pods that go, in that order."
    why: str = ""


@dataclass(frozen=True, slots=True)
class PeerOutlook:
    """What the node reports about lending by this policy."""

    policy: str
    cpu: Lines
    memory: Lines
    box: Lines
    "Empty where use was not measured a moment ago."


def after_minute(
    before: PeerLearned | None, policy: AnyPeer, load: Load, node: PeerNode, pods: Iterable[BatchPod]
) -> PeerLearned:
    """`pods`: batch pods that may be evicted."""
    memory = before.memory if before is not None and before.policy == policy.name else policy.memory_type()
    memory = policy.after_minute(memory, load, node)
    why = policy.why_evict(memory, node)
    leaving: tuple[str, ...] = ()
    if why:
        chosen, memory = policy.to_evict(memory, tuple(pods), node)
        leaving = tuple(chosen)
    return PeerLearned(policy.name, memory, load.at_s, leaving, why if leaving else "")


def outlook(of: PeerLearned, node: PeerNode, services_milli: float | None) -> PeerOutlook:
    policy = PEERS[of.policy]
    box = () if services_milli is None else policy.box(of.memory, services_milli, node)
    return PeerOutlook(of.policy, policy.cpu(of.memory, node), policy.memory_bytes(of.memory, node), box)


def node_of(strategy: LendingStrategy | None, cpu_milli: int, memory_bytes: int) -> PeerNode:
    cpu, memory = (
        (None, None)
        if strategy is None
        else (strategy.cpu_reclaim_threshold_percent, strategy.memory_reclaim_threshold_percent)
    )
    return PeerNode(cpu_milli, memory_bytes, cpu, memory)
