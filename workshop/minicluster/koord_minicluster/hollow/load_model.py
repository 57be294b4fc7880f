"""The load model: what a modelled pod or node uses at a given time.

Usage is a function of (seed, pod, time) and nothing else. Services follow the day, shifted a little for each app, with
smooth noise for each pod and now and then a spike that hits all pods of an app at once; best-effort pods take nearly
all they asked for, always:

    cpu = request * (low + (high - low) * day(t)) * (1 + noise * n(t)) * spike(t),     at most limit, else 2 * request

The day may pass faster than the clock (`Course`); noise and spikes do not. What the pods of a node want together is
then cut to what the node has (`settle`), best-effort pods first, which may also be held back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import NON_ZERO_REQUESTS, pod_limits, pod_requests
from koord.api.protocol.names import RESOURCE_BATCH_CPU, RESOURCE_BATCH_MEMORY, RESOURCE_MID_CPU, RESOURCE_MID_MEMORY
from koord.api.protocol.priority import QoSClass, qos_class
from koord_minicluster.hollow.chance import chance

DAY_S: Final = 86400.0
TROUGH_S: Final = 4 * 3600.0
"""The quietest time of the day, in UTC."""
SHIFT_S: Final = 2 * 3600.0
"""An app's day may be up to this much earlier or later."""
NOISE_BUCKET_S: Final = 60.0
SPIKE_BUCKET_S: Final = 300.0
WARM_UP_S: Final = 300.0
"""How long a pod's memory grows after its start."""
BURST: Final = 2.0
"""How far a pod without a limit goes beyond its request."""
SYSTEM_CPU_SHARE: Final = 0.015
SYSTEM_MEMORY_SHARE: Final = 0.02

_CPU_NAMES: Final = ("cpu", RESOURCE_BATCH_CPU, RESOURCE_MID_CPU)
_MEMORY_NAMES: Final = ("memory", RESOURCE_BATCH_MEMORY, RESOURCE_MID_MEMORY)


class Band(StrEnum):
    """How a pod behaves under load."""

    SERVICE = "service"
    BEST_EFFORT = "best-effort"


@dataclass(frozen=True, slots=True)
class Usage:
    cpu_milli: int = 0
    memory_bytes: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.cpu_milli + other.cpu_milli, self.memory_bytes + other.memory_bytes)


@dataclass(frozen=True, slots=True)
class PodShape:
    """What the model looks at of a pod. `app` is `namespace/name` of its workload; zero limits mean none."""

    uid: str
    key: str
    app: str
    band: Band
    request: Usage
    limit: Usage
    started_s: float


@dataclass(frozen=True, slots=True)
class NodeShape:
    name: str
    capacity: Usage


@dataclass(frozen=True, slots=True)
class Course:
    """The load's own time: 0:00 at `since_s`, and `speed` times as fast as the clock. By default it is the clock."""

    since_s: float = 0.0
    speed: float = 1.0

    def at(self, now_s: float) -> float:
        return (now_s - self.since_s) * self.speed


CLOCK: Final = Course()


class Load(Protocol):
    """Where usage comes from: the seeded model, or a recording."""

    def of_pod(self, pod: PodShape, now_s: float) -> Usage:
        """What the pod would use if it had the node for itself."""
        ...

    def of_system(self, node: NodeShape, now_s: float) -> Usage:
        """What runs on the node outside of pods."""
        ...


@dataclass(frozen=True, slots=True)
class LoadProfile:
    """A band's figures, as shares of the request."""

    low: float
    high: float
    noise: float
    spike_chance: float
    spike: float
    memory_idle: float
    memory_warm: float


PROFILES: Final[Mapping[Band, LoadProfile]] = {
    Band.SERVICE: LoadProfile(0.15, 0.55, 0.20, 0.02, 1.8, 0.35, 0.65),
    Band.BEST_EFFORT: LoadProfile(0.90, 0.90, 0.08, 0.0, 1.0, 0.50, 0.85),
}


@dataclass(frozen=True, slots=True)
class SeededLoad:
    """Day and night, noise, spikes."""

    seed: int = 0
    course: Course = CLOCK

    def of_pod(self, pod: PodShape, now_s: float) -> Usage:
        profile = PROFILES[pod.band]
        day = self._day(pod.app, now_s)
        noise = 1 + profile.noise * self._noise(pod.uid, now_s)
        spiking = profile.spike_chance and self._spikes(pod.app, now_s, profile.spike_chance)
        share = (profile.low + (profile.high - profile.low) * day) * noise * (profile.spike if spiking else 1.0)
        warm = min(1.0, max(0.0, now_s - pod.started_s) / WARM_UP_S)
        memory_share = profile.memory_idle + (profile.memory_warm - profile.memory_idle) * warm
        memory_share *= 1 + 0.02 * self._noise(f"memory/{pod.uid}", now_s)
        return Usage(
            _within(pod.request.cpu_milli * share, pod.request.cpu_milli, pod.limit.cpu_milli),
            _within(pod.request.memory_bytes * memory_share, pod.request.memory_bytes, pod.limit.memory_bytes),
        )

    def of_system(self, node: NodeShape, now_s: float) -> Usage:
        noise = self._noise(f"system/{node.name}", now_s)
        return Usage(
            int(node.capacity.cpu_milli * SYSTEM_CPU_SHARE * (1 + 0.3 * noise)),
            int(node.capacity.memory_bytes * SYSTEM_MEMORY_SHARE * (1 + 0.02 * noise)),
        )

    def _day(self, app: str, now_s: float) -> float:
        """0 in the middle of the app's night, 1 at the height of its day."""
        shift_s = SHIFT_S * (2 * chance(self.seed, "day", app) - 1)
        return 0.5 - 0.5 * math.cos(2 * math.pi * (self.course.at(now_s) - TROUGH_S - shift_s) / DAY_S)

    def _noise(self, key: str, now_s: float) -> float:
        """Between -1 and 1, and smooth: from one bucket's number to the next."""
        bucket, into = divmod(now_s, NOISE_BUCKET_S)
        share = into / NOISE_BUCKET_S
        eased = share * share * (3 - 2 * share)
        before, after = (2 * chance(self.seed, "noise", key, int(bucket) + i) - 1 for i in (0, 1))
        return before + (after - before) * eased

    def _spikes(self, app: str, now_s: float, share: float) -> bool:
        return chance(self.seed, "spike", app, int(now_s // SPIKE_BUCKET_S)) < share


@dataclass(frozen=True, slots=True)
class Asked:
    """What services and best-effort pods wanted of a node's CPU, and got."""

    services_milli: int = 0
    services_got_milli: int = 0
    best_effort_milli: int = 0
    best_effort_got_milli: int = 0
    limit_milli: int | None = None
    "What best-effort pods may use together, where they are held back."

    def __add__(self, other: Asked) -> Asked:
        return Asked(
            self.services_milli + other.services_milli,
            self.services_got_milli + other.services_got_milli,
            self.best_effort_milli + other.best_effort_milli,
            self.best_effort_got_milli + other.best_effort_got_milli,
        )


Limit = Callable[[int, int], int | None]
"""What best-effort pods may use of a node, by what its services and its system use, in milli-cores. None: all."""


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """A node at one moment; `pods` in the order in which they were given."""

    system: Usage
    pods: tuple[Usage, ...]
    asked: Asked = Asked()

    @property
    def total(self) -> Usage:
        return sum(self.pods, self.system)


def _no_limit(services_milli: int, system_milli: int) -> int | None:
    return None


def usage_at(
    load: Load, node: NodeShape, pods: Sequence[PodShape], now_s: float, limit: Limit = _no_limit
) -> NodeUsage:
    """What the node and its pods use: what they want, cut to what there is."""
    return settle(node, pods, [load.of_pod(pod, now_s) for pod in pods], load.of_system(node, now_s), limit)


def settle(
    node: NodeShape, pods: Sequence[PodShape], wanted: Sequence[Usage], system: Usage, limit: Limit = _no_limit
) -> NodeUsage:
    """Cuts what is wanted to what there is: system first, then services in proportion, best effort gets the rest."""
    system = Usage(min(system.cpu_milli, node.capacity.cpu_milli), min(system.memory_bytes, node.capacity.memory_bytes))
    firm = [pod.band is Band.SERVICE for pod in pods]
    wanted_cpu = [usage.cpu_milli for usage in wanted]
    cpu = _shared(wanted_cpu, firm, node.capacity.cpu_milli - system.cpu_milli)
    services = _of_services(cpu, firm)
    most = limit(services, system.cpu_milli)
    if most is not None and sum(cpu) - services > most:
        cpu = _shared(cpu, firm, services + most)
    memory = _shared([usage.memory_bytes for usage in wanted], firm, node.capacity.memory_bytes - system.memory_bytes)
    wanting = _of_services(wanted_cpu, firm)
    asked = Asked(wanting, services, sum(wanted_cpu) - wanting, sum(cpu) - services, most)
    return NodeUsage(system, tuple(map(Usage, cpu, memory)), asked)


def _of_services(amounts: Sequence[int], firm: Sequence[bool]) -> int:
    return sum(amount for amount, is_firm in zip(amounts, firm, strict=True) if is_firm)


def _shared(wanted: Sequence[int], firm: Sequence[bool], available: int) -> list[int]:
    if sum(wanted) <= available:
        return list(wanted)
    services = _of_services(wanted, firm)
    rest = sum(wanted) - services
    for_services = min(services, available)
    for_rest = available - for_services
    # Integer division rounds down, so that the sum never exceeds what there is.
    return [
        amount * for_services // services if is_firm and services else amount * for_rest // rest if rest else 0
        for amount, is_firm in zip(wanted, firm, strict=True)
    ]


def shape_of(pod: Pod, started_s: float) -> PodShape:
    """A pod as the model sees it. Batch and mid resources count as the cpu and memory that they stand for."""
    requests, limits = pod_requests(pod, capped=True), pod_limits(pod, capped=True)
    request = Usage(_first(requests, _CPU_NAMES), _first(requests, _MEMORY_NAMES))
    return PodShape(
        uid=pod.metadata.uid,
        key=pod.metadata.key,
        app=f"{pod.metadata.namespace}/{_workload(pod)}",
        band=Band.BEST_EFFORT if qos_class(pod) is QoSClass.BE else Band.SERVICE,
        request=Usage(
            request.cpu_milli or NON_ZERO_REQUESTS["cpu"], request.memory_bytes or NON_ZERO_REQUESTS["memory"]
        ),
        limit=Usage(_first(limits, _CPU_NAMES), _first(limits, _MEMORY_NAMES)),
        started_s=started_s,
    )


def _workload(pod: Pod) -> str:
    """The name of what the pod is a copy of. A Deployment is meant where its ReplicaSet owns the pod."""
    owner, labels = pod.metadata.controller, pod.metadata.labels
    if owner is None:
        return labels.get("app", pod.metadata.name)
    return owner.name.removesuffix(f"-{labels['pod-template-hash']}") if "pod-template-hash" in labels else owner.name


def _first(amounts: Mapping[str, int], names: Sequence[str]) -> int:
    return next((amounts[name] for name in names if amounts.get(name)), 0)


def _within(wanted: float, request: int, limit: int) -> int:
    return max(1, min(int(wanted), limit or int(request * BURST)))
