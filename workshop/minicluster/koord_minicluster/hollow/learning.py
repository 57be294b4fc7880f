"""What a modelled node learns about lending: the agent's own learning, from the model's samples.

Samples of a minute become a `Minute`. What batch pods wanted is known here, where an agent estimates it. The ceiling is
the agent's too: below the mark by the margin and services' mean of 30 s, or by what services need just now.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from koord.agent.lending import eviction
from koord.agent.lending.eviction import Starving
from koord.agent.lending.learner import LendingOutlook, outlook_of
from koord.agent.lending.learning import LendingMemory, after_minute, ceiling
from koord.agent.lending.minute import MARK_PERCENT, MINUTE_S, Capacity, Minute, PodMinute
from koord.agent.lending.peers.learned import PeerLearned, node_of
from koord.agent.lending.peers.learned import after_minute as peer_after_minute
from koord.agent.lending.peers.learned import outlook as peer_outlook
from koord.agent.lending.peers.policy import AnyPeer, BatchPod, Load, PeerNode, result
from koord.agent.lending.peers.registry import PEERS
from koord.agent.lending.protection import REACTION_S, ceiling_milli, rise
from koord.api.protocol.crd.node_slo import LendingStrategy
from koord_minicluster.hollow.load_model import Band, Limit, NodeUsage, PodShape


class _Point(NamedTuple):
    time_s: float
    services_milli: int
    services_memory_bytes: int
    batch_milli: int
    wanted_milli: int


@dataclass(slots=True)
class NodeLearning:
    memory: LendingMemory = field(default_factory=LendingMemory)
    peer: PeerLearned | None = None
    "For the policy of another system, where one owns the node."
    _points: deque[_Point] = field(default_factory=deque)
    "Of the minute that runs, and of the 30 s before it."
    _used: dict[str, list[int]] = field(default_factory=dict)
    "By batch pod, what it used in the minute that runs."
    _ends_s: float | None = None
    _evicted_s: float = float("-inf")

    def add(
        self,
        pods: Sequence[PodShape],
        usage: NodeUsage,
        time_s: float,
        strategy: LendingStrategy | None,
        cpu_milli: int,
    ) -> None:
        """One sample. `strategy`: the NodeSLO's; None where another policy is in force."""
        used = {pod.uid: own for pod, own in zip(pods, usage.pods, strict=True) if pod.band is Band.BEST_EFFORT}
        batch = sum(own.cpu_milli for own in used.values())
        memory = usage.total.memory_bytes - sum(own.memory_bytes for own in used.values())
        services = usage.total.cpu_milli - batch
        self._points.append(_Point(time_s, services, memory, batch, max(batch, usage.asked.best_effort_milli)))
        for uid, own in used.items():
            self._used.setdefault(uid, []).append(own.cpu_milli)
        if self._ends_s is None:
            self._ends_s = time_s + MINUTE_S
        if time_s >= self._ends_s:
            self._end_minute(pods, time_s, strategy, cpu_milli)

    def limit(self, strategy: LendingStrategy, cpu_milli: int) -> Limit:
        """What batch pods may use together."""
        if (policy := PEERS.get(strategy.policy or "")) is not None:
            return self._box(policy, node_of(strategy, cpu_milli, 0))
        capacity = capacity_of(strategy, cpu_milli)

        def limit(services_milli: int, system_milli: int) -> int:
            now = services_milli + system_milli
            before = [point.services_milli for point in self._points][-self._recent() :] if self._points else []
            mean = (sum(before) + now) / (len(before) + 1)
            return int(min(ceiling(self.memory, mean, capacity), ceiling_milli(0.0, now, capacity)))

        return limit

    def _box(self, policy: AnyPeer, node: PeerNode) -> Limit:
        memory = self.peer.memory if self._learned(policy.name) and self.peer is not None else policy.memory_type()
        return lambda services_milli, system_milli: int(result(policy.box(memory, services_milli + system_milli, node)))

    def _learned(self, policy: str | None) -> bool:
        return self.peer is not None and self.peer.policy == policy

    def outlook(self, strategy: LendingStrategy | None, cpu_milli: int, memory_bytes: int) -> LendingOutlook | None:
        if not self.memory.minutes or not self._points:
            return None
        recent = [point.services_milli for point in self._points][-self._recent() :]
        capacity, services = capacity_of(strategy, cpu_milli), sum(recent) / len(recent)
        said = outlook_of(self.memory, capacity, services, is_in_force=strategy is not None and not strategy.policy)
        if strategy is None or self.peer is None or not self._learned(strategy.policy):
            return said
        return replace(said, peer=peer_outlook(self.peer, node_of(strategy, cpu_milli, memory_bytes), services))

    def starving(
        self, pods: Sequence[PodShape], strategy: LendingStrategy, cpu_milli: int, now_s: float
    ) -> Sequence[str]:
        """Uids of the batch pods to evict, in that order."""
        if strategy.policy:
            return self.peer.leaving if self.peer is not None and self._learned(strategy.policy) else ()
        if not eviction.starves(self.memory.got_mean) or now_s - self._evicted_s < eviction.PEACE_S or not self._points:
            return ()
        allowed = ceiling(self.memory, self._points[-1].services_milli, capacity_of(strategy, cpu_milli))
        counted = self.memory.counted
        listed = [
            Starving(
                pod.uid,
                pod.request.cpu_milli,
                counted[pod.uid].milli,
                max(now_s - pod.started_s, 0.0) * counted[pod.uid].milli,
            )
            for pod in pods
            if pod.uid in counted
        ]
        chosen = [pod.uid for pod in eviction.to_evict(listed, allowed)]
        self._evicted_s = now_s if chosen else self._evicted_s
        return chosen

    def _recent(self) -> int:
        """How many of the last samples are in the mean of 30 s, but at least one."""
        last_s = self._points[-1].time_s
        return max(1, sum(last_s - point.time_s < REACTION_S for point in self._points))

    def _end_minute(
        self, pods: Sequence[PodShape], time_s: float, strategy: LendingStrategy | None, cpu_milli: int
    ) -> None:
        minute = [point for point in self._points if point.time_s > time_s - MINUTE_S]
        times, services = [point.time_s for point in self._points], [point.services_milli for point in self._points]
        count = len(minute)
        shapes = {pod.uid: pod for pod in pods}
        ended = Minute(
            at_s=time_s,
            services_milli=sum(point.services_milli for point in minute) / count,
            rise_milli=rise(times, services, time_s) or 0.0,
            services_memory_bytes=max(point.services_memory_bytes for point in minute),
            batch_used_milli=sum(point.batch_milli for point in minute) / count,
            batch_wanted_milli=sum(point.wanted_milli for point in minute) / count,
            pods={
                uid: PodMinute(
                    shapes[uid].request.cpu_milli, sum(used) / len(used), max(time_s - shapes[uid].started_s, 0.0)
                )
                for uid, used in self._used.items()
                if uid in shapes
            },
        )
        is_in_force = strategy is not None and not strategy.policy
        self.memory = after_minute(self.memory, ended, capacity_of(strategy, cpu_milli), is_in_force=is_in_force)
        policy = PEERS.get(strategy.policy or "") if strategy is not None else None
        if policy is not None:
            self.peer = peer_after_minute(
                self.peer, policy, _load(ended, pods), node_of(strategy, cpu_milli, 0), _candidates(ended)
            )
        self._used.clear()
        self._ends_s = time_s + MINUTE_S
        while self._points[0].time_s <= time_s - REACTION_S:
            self._points.popleft()


def capacity_of(strategy: LendingStrategy | None, cpu_milli: int) -> Capacity:
    percent = strategy.cpu_safety_mark_percent if strategy is not None else None
    return Capacity(cpu_milli, percent or MARK_PERCENT)


def _load(minute: Minute, pods: Sequence[PodShape]) -> Load:
    services = [pod.request for pod in pods if pod.band is not Band.BEST_EFFORT]
    return Load(
        at_s=minute.at_s,
        services_milli=minute.services_milli,
        services_request_milli=sum(request.cpu_milli for request in services),
        services_memory_bytes=minute.services_memory_bytes,
        services_request_bytes=sum(request.memory_bytes for request in services),
        batch_milli=minute.batch_used_milli,
        batch_request_milli=sum(pod.request_milli for pod in minute.pods.values()),
    )


def _candidates(minute: Minute) -> list[BatchPod]:
    return [BatchPod(uid, pod.request_milli, pod.age_s) for uid, pod in minute.pods.items()]
