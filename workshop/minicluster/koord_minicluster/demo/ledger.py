"""The record of the demo: a sample of the cluster at each look, and the events in between.

An event on an evicted pod gives the reason; `cause_of` maps the reasons of all evictors to a few words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from koord_minicluster.demo.scenario import ANALYTICS, MODELS, RESEARCH, SHOP, TENANTS, TRAIN

EVICTED: Final[Mapping[str, str]] = {
    "evictPodSuccess": "left too little CPU",
    "QuotaOverused": "beyond their tenant's share",
    "Preempted": "preempted by more important pods",
}
"""By the reason of the event on the pod, what it means."""
MOVED: Final = "Descheduled"


@dataclass(frozen=True, slots=True)
class PodSeen:
    """The part of a pod that matters for the story."""

    namespace: str
    name: str
    state: str
    is_ready: bool = False
    node: str = ""
    batch_milli: int = 0
    gpu_percent: int = 0

    @property
    def is_service(self) -> bool:
        return self.namespace == SHOP or (self.namespace == MODELS and self.name.startswith("chat-"))

    @property
    def is_batch(self) -> bool:
        return self.namespace in TENANTS

    @property
    def is_gang(self) -> bool:
        return self.namespace == MODELS and self.name.startswith(f"{TRAIN.name}-")

    @property
    def holds(self) -> bool:
        """Whether it has a place."""
        return bool(self.node) and self.state not in ("Succeeded", "Failed")

    @property
    def waits(self) -> bool:
        return not self.node and self.state == "Pending"


@dataclass(frozen=True, slots=True)
class ClusterSample:
    """The state of the cluster at one moment. Amounts are milli-cores."""

    time_s: float
    capacity: int
    used: Mapping[str, int]
    "By band."
    lent: int = 0
    held_back: int = 0
    "What batch pods would use and may not."
    services_short: int = 0
    "What services would use and do not get."
    services_ready: int = 0
    services: int = 0
    hot_percent: float = 0.0
    "How much of the node with the backup is used."

    @property
    def total(self) -> int:
        return sum(self.used.values())


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant's current milli-cores, and the number of its pending pods."""

    name: str
    used: int
    waiting: int


@dataclass(slots=True)
class Ledger:
    began_s: float = 0.0
    looks: list[ClusterSample] = field(default_factory=list)
    pods: dict[str, PodSeen] = field(default_factory=dict)
    evicted: Counter[str] = field(default_factory=Counter)
    moved: int = 0
    done: int = 0
    "Batch pods that came to their end."

    def hear_pod(self, key: str, before: PodSeen | None, after: PodSeen | None) -> None:
        if after is None:
            self.pods.pop(key, None)
            return
        self.pods[key] = after
        if after.is_batch and after.state == "Succeeded" and before is not None and before.state != "Succeeded":
            self.done += 1

    def hear_event(self, reason: str) -> None:
        if reason == MOVED:
            self.moved += 1
        elif reason in EVICTED:
            self.evicted[EVICTED[reason]] += 1

    def services(self) -> tuple[int, int]:
        """How many of the services' pods are ready, of how many."""
        pods = [pod for pod in self.pods.values() if pod.is_service and pod.state != "Terminating"]
        return sum(pod.is_ready for pod in pods), len(pods)

    def tenants(self) -> list[Tenant]:
        return [
            Tenant(
                name,
                sum(pod.batch_milli for pod in self.pods.values() if pod.namespace == name and pod.holds),
                sum(pod.waits for pod in self.pods.values() if pod.namespace == name),
            )
            for name in (RESEARCH, ANALYTICS)
        ]

    def gpu_percent(self) -> int:
        """Hundredths of GPUs that pods have."""
        return sum(pod.gpu_percent for pod in self.pods.values() if pod.holds)

    def gang(self) -> tuple[int, int]:
        """How many pods of the gang have a place, and how many wait."""
        pods = [pod for pod in self.pods.values() if pod.is_gang]
        return sum(pod.holds for pod in pods), sum(pod.waits for pod in pods)

    def batch(self) -> tuple[int, int]:
        """Batch pods that have a place, and that wait."""
        pods = [pod for pod in self.pods.values() if pod.is_batch]
        return sum(pod.holds for pod in pods), sum(pod.waits for pod in pods)
