"""Interference control: names the neighbour that slows a service down, holds it back, and undoes it if it was not that.

At the end of each window, all pods' counters become windows (`interference.window`), and `interference.control`
decides. In between, what was decided stands. A pod is held back by what its victim lacks: its CPU quota, on cgroup v2
also its disks (io.max), and its memory where the kernel has memory.high. Offline pods and mid pods can be held, those
not below their request; prod pods cannot. With the gate InterferenceDetection alone it only tells.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from koord.agent import wish
from koord.agent.collect.pressure import RESOURCES
from koord.agent.host.convert import LONG_PERIOD_US, quota_of_milli
from koord.agent.host.io_knobs import io_limit
from koord.agent.host.knobs import CPU_PERIOD, CPU_QUOTA, CPU_QUOTA_IN_LONG_PERIODS, MEMORY_HIGH
from koord.agent.host.usage import disks_used, has_disk_limit
from koord.agent.interference import control
from koord.agent.interference.control import Node, Outcome, OwnMeans, Standing
from koord.agent.interference.episode import HeldBy
from koord.agent.interference.signals import EXCUSED_BY_DISK_LIMIT, Dimension, Signal
from koord.agent.interference.story import reason
from koord.agent.interference.window import PodWindow, Reading, pod_window
from koord.agent.pods import BATCH_MEMORY, CPU, MEMORY, MID_CPU, MID_MEMORY, AgentPod
from koord.agent.qos.decision import NOTHING, Eviction, Move, StrategyDecision
from koord.agent.qos.evicting import may_be_evicted
from koord.agent.qos.strategy import NEVER, Reader, Sight, Strategy, Turn
from koord.agent.qos.yielding import best_effort_yields
from koord.agent.series import names
from koord.agent.series.samples import Samples, Series
from koord.agent.wish import Wish
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.words import KubeQoS
from koord.api.protocol.priority import PriorityClass, QoSClass

NAME: Final = "interference"
WINDOW_S: Final = 10.0
GATES: Final = (AgentGate.INTERFERENCE_DETECTION, AgentGate.INTERFERENCE_CONTROL)
CPI_FRESH_S: Final = 90.0
"""It is counted once a minute."""
LEAST_MEMORY: Final = 64 << 20
NOTICE_S: Final = 30.0
"""For how long it can wait for a pod that asks for notice: its victim is slow until then, not broken."""
_MADE_HERE: Final = frozenset({"DaemonSet", "Node"})
"""Owners that create a pod again on the very same node: a DaemonSet, and kubelet for static pods."""
_OFFLINE: Final = frozenset({PriorityClass.BATCH, PriorityClass.FREE})


@dataclass(frozen=True, slots=True)
class InterferenceMemory:
    ended_s: float = NEVER
    "When the last window did."
    readings: Mapping[str, Reading] = field(default_factory=dict)
    "By uid, at that moment."
    waited: Mapping[str, float] = field(default_factory=dict)
    "By container id, at that moment."
    control: control.Memory = field(default_factory=control.Memory)
    wishes: tuple[Wish, ...] = ()


@dataclass(frozen=True, slots=True)
class Means:
    """By uid of a pod, how it can be held back by memory and disks."""

    has_memory: frozenset[str] = frozenset()
    disks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    limits_disks: frozenset[str] = frozenset()
    "Services whose own use of disks is limited."
    yields: bool = False
    "Whether best effort gets only what no other task would use: its quota then has long periods."


NO_MEANS: Final = Means()


def strategy_of(window_s: float = WINDOW_S) -> Strategy[InterferenceMemory, Means]:
    def look(reader: Reader, memory: InterferenceMemory) -> Means:
        is_over = reader.now_s - memory.ended_s >= window_s
        return look_for_means(reader, memory) if is_over and memory.control.watched else NO_MEANS

    def decide(sight: Sight, held: Means, memory: InterferenceMemory) -> Turn[InterferenceMemory]:
        if sight.now_s - memory.ended_s < window_s:
            return Turn(_standing(sight, memory.wishes), memory)
        return _window_ended(sight, held, memory, window_s)

    return Strategy(NAME, GATES, InterferenceMemory(), decide, look)


def look_for_means(reader: Reader, memory: InterferenceMemory) -> Means:
    """Only while a pod suffers from what they are for: before any pod is held for it, it was unusual for two windows
    at least."""
    suffers = {
        signal.dimension
        for (_, signal), watched in memory.control.watched.items()
        if watched.may_be_slow or any(watched.unusual)
    }
    yields = bool(suffers or memory.control.holds) and _yields(reader)
    pods = reader.state.pods.values() if suffers & {Dimension.MEMORY, Dimension.IO} else ()
    has_memory, disks, limits_disks = set(), {}, set()
    for pod in pods:
        try:
            if Dimension.IO in suffers and any(
                has_disk_limit(reader.cgroups, directory) for directory in _directories(pod)
            ):
                limits_disks.add(pod.uid)
            if not _can_be_held(pod):
                continue
            if Dimension.MEMORY in suffers and reader.cgroups.has(MEMORY_HIGH, pod.directory):
                has_memory.add(pod.uid)
            if Dimension.IO in suffers:
                disks[pod.uid] = disks_used(reader.cgroups, pod.directory)
        except OSError:
            continue
    return Means(frozenset(has_memory), disks, frozenset(limits_disks), yields)


def _directories(pod: AgentPod) -> Iterator[str]:
    yield pod.directory
    yield from (container.directory for container in pod.containers if container.directory)


def _yields(reader: Reader) -> bool:
    try:
        return best_effort_yields(reader.cgroups, reader.state.driver)
    except OSError:
        return False


def _window_ended(sight: Sight, means: Means, memory: InterferenceMemory, window_s: float) -> Turn[InterferenceMemory]:
    state, now_s = sight.state, sight.now_s
    seconds = now_s - memory.ended_s
    waited = {
        container.id: value
        for pod in state.pods.values()
        for container in pod.containers
        if container.id
        and (value := sight.samples.last(names.container_wait(container.id), now_s, 2 * window_s)) is not None
    }
    readings = {uid: reading(sight.samples, uid, now_s, window_s) for uid in state.pods}
    after = InterferenceMemory(now_s, readings, waited, memory.control, memory.wishes)
    if seconds > 3 * window_s:
        # Nobody looked for a while, or it is the first time: no window has ended.
        return Turn(_standing(sight, memory.wishes), after)
    node = Node(
        now_s,
        seconds,
        _windows(sight, memory, readings, seconds, means.limits_disks),
        {uid: standing_of(pod, sight, means) for uid, pod in state.pods.items()},
        {uid: _by_signal(of_replicas) for uid, of_replicas in sight.replicas.items()},
        sight.switches,
        _slowest(state.pods, memory.waited, waited),
        may_act=_may_act(sight),
        usual=sight.usual,
    )
    outcome = control.decide(node, memory.control)
    wishes = _wishes(state.pods, outcome.memory, means.yields)
    # The executor recognizes identical wishes.
    wishes = memory.wishes if wishes == memory.wishes else wishes
    after = InterferenceMemory(now_s, readings, waited, outcome.memory, wishes)
    signals = {
        uid: {signal.key: value for signal, value in window.signals.items()} for uid, window in node.windows.items()
    }
    teaches = {uid: signals[uid] for uid, standing in node.standings.items() if standing.is_service and uid in signals}
    for uid, episode in outcome.memory.episodes.items():
        if any(suspect.uid != uid for suspect in episode.suspects.listed):
            teaches.pop(uid, None)
    return Turn(replace(_decision(state.pods, outcome, wishes), signals=signals, usual_signals=teaches), after)


def _may_act(sight: Sight) -> bool:
    state = sight.state
    return state.gates[AgentGate.INTERFERENCE_CONTROL] and state.slo is not None and not state.is_colocation_off


def _standing(sight: Sight, wishes: tuple[Wish, ...]) -> StrategyDecision:
    """Nobody stays held until the end of a window in which that was forbidden."""
    return StrategyDecision(wishes) if wishes and _may_act(sight) else NOTHING


def _windows(
    sight: Sight,
    memory: InterferenceMemory,
    readings: Mapping[str, Reading],
    seconds: float,
    limits_disks: Collection[str],
) -> dict[str, PodWindow]:
    used = sight.samples.mean(names.NODE_CPU, sight.now_s, seconds) or 0.0
    busy = used / max(sight.state.capacity_cpu_milli, 1)
    last = memory.control.history[-1] if memory.control.history else {}
    windows = {
        uid: pod_window(memory.readings[uid], now, seconds, busy, last.get(uid))
        for uid, now in readings.items()
        if uid in memory.readings
    }
    for uid in windows.keys() & limits_disks:
        left = {signal: value for signal, value in windows[uid].signals.items() if signal not in EXCUSED_BY_DISK_LIMIT}
        windows[uid] = replace(windows[uid], signals=left)
    return windows


def reading(samples: Samples, uid: str, now_s: float, window_s: float) -> Reading:
    """What was last measured of a pod. The figures of a window may be as old as one."""

    def last(series: Series) -> float | None:
        return samples.last(series, now_s, 2 * window_s)

    use = {
        Dimension.CPU: samples.mean(names.pod_cpu(uid), now_s, window_s),
        Dimension.MEMORY: last(names.pod_charged_bytes(uid)),
        Dimension.IO: _rate(samples, names.pod_io_bytes(uid), now_s, window_s),
    }
    stalled_us = {resource: last(names.pod_stalled_us(uid, resource)) for resource in RESOURCES}
    return Reading(
        wait_ns=last(names.pod_wait(uid)),
        slices=last(names.pod_slices(uid)),
        threads=last(names.pod_threads(uid)) or 1.0,
        throttled_ns=last(names.pod_throttled_ns(uid)) or 0.0,
        throttled=last(names.pod_throttled_periods(uid)) or 0.0,
        memory_limit_hits=last(names.pod_memory_limit_hits(uid)) or 0.0,
        direct_reclaim=last(names.pod_direct_reclaim(uid)),
        major_faults=last(names.pod_major_faults(uid)),
        io_wait_ns=last(names.pod_io_wait(uid)),
        probe=samples.mean(names.pod_probe(uid), now_s, window_s),
        cpi=samples.last(names.pod_cpi(uid), now_s, CPI_FRESH_S),
        stalled_ns={name: value * 1000 for name, value in stalled_us.items() if value is not None},
        use={name: value for name, value in use.items() if value is not None},
    )


def _rate(samples: Samples, series: Series, now_s: float, window_s: float) -> float | None:
    """Of a counter, per second, over the last window or two."""
    window = samples.window(series, now_s, 2.5 * window_s)
    if window is None or window.span_s <= 0:
        return None
    return max(window.values[-1] - window.values[0], 0.0) / window.span_s


def _is_offline(pod: AgentPod) -> bool:
    return pod.is_best_effort or pod.band in _OFFLINE


def _can_be_held(pod: AgentPod) -> bool:
    return pod.is_active and (_is_offline(pod) or pod.band is PriorityClass.MID)


def standing_of(pod: AgentPod, sight: Sight, means: Means = NO_MEANS) -> Standing:
    is_offline = _is_offline(pod)
    requested = pod.requests.get(MID_CPU, pod.requests.get(CPU, 0))
    departures = sight.departures
    was_refused = pod.uid in departures.refused or pod.uid in departures.unmoved
    goes = pod.uid in departures.evicted or pod.uid in departures.refused
    owner = next((reference for reference in pod.meta.owner_references if reference.controller), None)
    stays_here = owner is not None and owner.kind in _MADE_HERE
    return Standing(
        is_service=pod.is_active and not is_offline and pod.labelled_qos is not QoSClass.SYSTEM,
        is_offline=is_offline,
        can_be_evicted=is_offline
        and not goes
        and not stays_here
        and may_be_evicted(pod, str(AgentGate.INTERFERENCE_CONTROL)),
        can_be_held=_can_be_held(pod),
        least_milli=0 if is_offline else requested,
        can_move=owner is not None and not stays_here,
        is_leaving=pod.uid in departures.evicted,
        has_notice=pod.uid in departures.under_notice,
        was_refused=was_refused,
        means=OwnMeans(
            _memory_left(pod, sight) if pod.uid in means.has_memory else 0,
            means.disks.get(pod.uid, ()),
        ),
    )


def _memory_left(pod: AgentPod, sight: Sight) -> int:
    """What it works with now, and what it asked for: its page cache goes, and it grows no more."""
    used = sight.samples.last(names.pod_memory(pod.uid), sight.now_s, 2 * WINDOW_S)
    if used is None:
        return 0
    requested = max(pod.requests.get(name, 0) for name in (MEMORY, BATCH_MEMORY, MID_MEMORY))
    return max(int(used), requested, LEAST_MEMORY)


def _slowest(pods: Mapping[str, AgentPod], before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, str]:
    """By uid, the name of the container that waited most."""
    slowest = {}
    for uid, pod in pods.items():
        grown = {
            container.name: now[container.id] - before.get(container.id, 0.0)
            for container in pod.containers
            if container.id in now
        }
        if grown:
            slowest[uid] = max(grown, key=lambda name: grown[name])
    return slowest


def _by_signal(of_replicas: Mapping[str, tuple[float, ...]]) -> dict[Signal, tuple[float, ...]]:
    return {signal: of_replicas[signal.key] for signal in Signal if signal.key in of_replicas}


def _wishes(pods: Mapping[str, AgentPod], memory: control.Memory, yields: bool) -> tuple[Wish, ...]:
    """The pod and each of its containers: none may have more than what it is in. Disks are held for the pod alone."""
    wishes: list[Wish] = []
    for (uid, by), hold in memory.holds.items():
        pod = pods[uid]
        slows = f"{pod.key} slows {pods[hold.victim].key} down: held to"
        if hold.disks:
            why = f"{slows} {hold.io_bytes_s} bytes a second"
            limits_of_disks = [io_limit(what, disk) for disk in hold.disks for what in ("rbps", "wbps")]
            wishes += [Wish(wish.pod(uid), knob, hold.io_bytes_s, NAME, why) for knob in limits_of_disks]
            continue
        if hold.memory_bytes:
            why = f"{slows} {hold.memory_bytes} bytes of memory"
            targets = [wish.pod(uid), *(wish.container(uid, container.name) for container in pod.containers)]
            wishes += [Wish(target, MEMORY_HIGH, hold.memory_bytes, NAME, why) for target in targets]
            continue
        if by is HeldBy.CPU and (uid, HeldBy.NEARLY_ALL_CPU) in memory.holds:
            continue
        wishes += _of_cpu(pod, hold.milli, f"{slows} {hold.milli}m", yields and pod.kube_qos is KubeQoS.BEST_EFFORT)
    return tuple(wishes)


def _of_cpu(pod: AgentPod, milli: int, why: str, yields: bool) -> Iterator[Wish]:
    """Each time that best effort gets new quota, it can keep a service off its CPU until the next tick, whatever it
    weighs: where it yields, that is once a second."""
    limits = [container.limits.get(CPU, 0) for container in pod.containers]
    own = [quota_of_milli(limit) if limit else None for limit in limits]
    places = [(wish.pod(pod.uid), quota_of_milli(sum(limits)) if limits and all(limits) else None)]
    places += [
        (wish.container(pod.uid, container.name), its) for container, its in zip(pod.containers, own, strict=True)
    ]
    knob = CPU_QUOTA_IN_LONG_PERIODS if yields else CPU_QUOTA
    for target, before in places:
        if yields:
            yield Wish(target, CPU_PERIOD, LONG_PERIOD_US, NAME, why)
        yield Wish(target, knob, quota_of_milli(milli), NAME, why, own=before)


def _decision(pods: Mapping[str, AgentPod], outcome: Outcome, wishes: tuple[Wish, ...]) -> StrategyDecision:
    name_of: Callable[[str], str] = lambda uid: pods[uid].key if uid in pods else "a pod that is gone"  # noqa: E731
    evictions: tuple[Eviction, ...] = ()
    moves: tuple[Move, ...] = ()
    if outcome.evict is not None:
        asked = outcome.evict.action
        assert asked is not None, "an episode that evicts a pod names it"
        why = reason(outcome.evict, name_of)
        evictions = (Eviction(pods[asked.uid], NAME, str(AgentGate.INTERFERENCE_CONTROL), why, notice_s=NOTICE_S),)
    if outcome.move is not None:
        moves = (Move(pods[outcome.move.victim], NAME, reason(outcome.move, name_of)),)
    asks = tuple(pods[uid] for uid in outcome.asks)
    return StrategyDecision(wishes, evictions, tuple(outcome.findings), moves, asks=asks)


STRATEGY: Final = strategy_of()
