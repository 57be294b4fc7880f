"""Memory QoS: what of a pod's memory is protected, and from where on it is slowed down instead of killed.

Per container with request R and limit M: memory.min = R * min%, memory.low = R * low%, memory.high lies the throttling
percentage of the way from R to M (or the node's allocatable). A pod has the sums of its containers, and the directory
of a QoS class those of its pods, since the kernel grants no child more than its parent has.

A pod may have settings of its own. Those of best effort protect it no more than its class is: its memory is lent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from koord.agent import wish
from koord.agent.host import knobs
from koord.agent.host.knobs import MOST_BYTES, Knob
from koord.agent.pods import BATCH_MEMORY, MEMORY, AgentPod
from koord.agent.qos.decision import NOTHING, StrategyDecision
from koord.agent.qos.strategy import Reader, Sight, Strategy, Turn
from koord.agent.state import NodeState
from koord.agent.wish import Target, Wish
from koord.api.configuration.features import AgentGate
from koord.api.configuration.overlay import overlay
from koord.api.configuration.slo_defaults import QOSClass, default_qos, qos_off
from koord.api.kubernetes.words import KubeQoS
from koord.api.protocol.annotations import pod_qos
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.crd.resource_qos import MemoryQOS, MemoryQOSCfg, ResourceQOS
from koord.api.protocol.priority import QoSClass

NAME: Final = "memory_qos"
_PAGE: Final = 4096

_CLASS_OF: Final[Mapping[QoSClass, QOSClass]] = {
    QoSClass.LSE: "LSR",
    QoSClass.LSR: "LSR",
    QoSClass.LS: "LS",
    QoSClass.BE: "BE",
    QoSClass.SYSTEM: "SYSTEM",
}
_DIRECTORY_CLASS: Final = {
    KubeQoS.GUARANTEED: QoSClass.LSR,
    KubeQoS.BURSTABLE: QoSClass.LS,
    KubeQoS.BEST_EFFORT: QoSClass.BE,
}


def decide(state: NodeState) -> StrategyDecision | None:
    if state.slo is None or state.slo.resource_qos_strategy is None:
        return None
    if state.is_colocation_off:
        return NOTHING
    pods = [(pod, _config(state, pod)) for pod in state.pods.values() if pod.is_active]
    if not any(_is_enabled(state, qos) for qos in QoSClass) and not any(_asks(pod) for pod, _ in pods):
        return NOTHING
    wishes = [pod_wish for pod, config in pods for pod_wish in _pod_wishes(state, pod, config)]
    return StrategyDecision((*wishes, *_band_wishes(state, pods)))


def protected(request: int, config: MemoryQOS) -> tuple[int | None, int | None]:
    """memory.min and memory.low; None is not said."""
    least = None if config.min_limit_percent is None else request * config.min_limit_percent // 100
    low = None if config.low_limit_percent is None else request * config.low_limit_percent // 100
    return least, max(low, least) if low and least else low


def slowed_from(request: int, limit: int, allocatable: int, least: int, percent: int) -> int:
    """memory.high."""
    towards = limit if limit > 0 else allocatable
    if percent == 0 or towards <= 0:
        return MOST_BYTES
    high = (request + (towards - request) * percent // 100) // _PAGE * _PAGE
    return max(high, least)


def page_cache_wishes(target: Target, limit: int, config: MemoryQOS) -> Iterator[Wish]:
    """Of a pod: size beats percent, which is of a limit; zero is no limit; the switch alone sets no size."""
    size, percent, enable = config.page_cache_limit_size, config.page_cache_limit_percent, config.page_cache_enable
    if size is not None:
        wanted = min(size, limit) if limit > 0 else size
    elif percent is not None and limit > 0:
        wanted = limit * percent // 100
    else:
        wanted = None
    why = "memory QoS: page cache"
    if wanted is not None:
        enable = wanted > 0 if enable is None else enable
        yield Wish(target, knobs.PAGE_CACHE_SIZE, wanted, NAME, why)
        if wanted > 0:
            yield Wish(target, knobs.PAGE_CACHE_SYNC, int(bool(config.page_cache_reclaim_sync)), NAME, why)
    if enable is not None:
        yield Wish(target, knobs.PAGE_CACHE_LIMIT, int(enable), NAME, why)


def _config(state: NodeState, pod: AgentPod) -> MemoryQOS:
    """The class's settings, or what the pod's policy says instead, and over both the pod's own fields."""
    config: MemoryQOS = _of_class(state, pod.qos)
    try:
        own = pod_qos.MEMORY_QOS.read(pod.meta)
    except AnnotationError:
        return config
    if own is None:
        return config
    if own.policy == "none":
        config = qos_off().memory_qos or config
    elif own.policy == "auto":
        config = default_qos(_CLASS_OF.get(pod.qos, "LS")).memory_qos or config
    own_config = overlay(overlay(MemoryQOS(), config), own)
    return _no_safer(own_config, _of_class(state, pod.qos)) if pod.qos is QoSClass.BE else own_config


def _no_safer(own: MemoryQOS, of_class: MemoryQOS) -> MemoryQOS:
    return replace(
        own,
        min_limit_percent=min(own.min_limit_percent or 0, of_class.min_limit_percent or 0),
        low_limit_percent=min(own.low_limit_percent or 0, of_class.low_limit_percent or 0),
        wmark_min_adj=max(own.wmark_min_adj or 0, of_class.wmark_min_adj or 0),
        priority_enable=of_class.priority_enable,
        priority=min(own.priority or 0, of_class.priority or 0),
    )


def _of_class(state: NodeState, qos: QoSClass) -> MemoryQOSCfg:
    settings = _settings(state, qos)
    return (settings.memory_qos if settings else None) or qos_off().memory_qos or MemoryQOSCfg()


def _settings(state: NodeState, qos: QoSClass) -> ResourceQOS | None:
    strategy = state.qos
    return {
        "LSR": strategy.lsr_class,
        "LS": strategy.ls_class,
        "BE": strategy.be_class,
        "SYSTEM": strategy.system_class,
    }.get(_CLASS_OF.get(qos, ""))


def _is_enabled(state: NodeState, qos: QoSClass) -> bool:
    settings = _settings(state, qos)
    return bool(settings and settings.memory_qos and settings.memory_qos.enable)


def _asks(pod: AgentPod) -> bool:
    return pod_qos.MEMORY_QOS.is_on(pod.meta)


def _pod_wishes(state: NodeState, pod: AgentPod, config: MemoryQOS) -> Iterator[Wish]:
    # What was reclaimed is asked for under another name.
    name = BATCH_MEMORY if pod.qos is QoSClass.BE else MEMORY
    why = f"memory QoS of {pod.qos}"
    for container in pod.containers:
        target = wish.container(pod.uid, container.name)
        request, limit = container.requests.get(name, 0), container.limits.get(name, 0)
        least, low = protected(request, config)
        yield from _each(target, why, {knobs.MEMORY_MIN: least, knobs.MEMORY_LOW: low})
        if config.throttling_percent is not None:
            high = slowed_from(request, limit, state.allocatable.get(MEMORY, 0), least or 0, config.throttling_percent)
            if high == MOST_BYTES and limit > 0 and not state.kernel.has_watermarks and config.wmark_ratio:
                # Without watermarks, being slowed down early is what comes nearest to being reclaimed early.
                high = max(limit * config.wmark_ratio // 100 // _PAGE * _PAGE, least or 0)
            yield Wish(target, knobs.MEMORY_HIGH, high, NAME, why)
        yield from _each(target, why, _fixed(config))
    least, low = protected(pod.requests.get(name, 0), config)
    yield from _each(wish.pod(pod.uid), why, {knobs.MEMORY_MIN: least, knobs.MEMORY_LOW: low, **_fixed(config)})
    yield from page_cache_wishes(wish.pod(pod.uid), pod.limits.get(name, 0), config)


def _fixed(config: MemoryQOS) -> dict[Knob, int | None]:
    """Settings that are copied from the configuration."""
    return {
        knobs.MEMORY_WMARK_RATIO: config.wmark_ratio,
        knobs.MEMORY_WMARK_SCALE: config.wmark_scale_permill,
        knobs.MEMORY_WMARK_MIN_ADJ: config.wmark_min_adj,
        knobs.MEMORY_PRIORITY: config.priority,
        knobs.MEMORY_PRIORITY_OOM: config.priority_enable,
        # Zero, the default, asks for nothing: kubelet has containers killed as a group, unless it is told otherwise.
        knobs.MEMORY_OOM_GROUP: config.oom_kill_group or None,
    }


def _band_wishes(state: NodeState, pods: Iterable[tuple[AgentPod, MemoryQOS]]) -> Iterator[Wish]:
    sums = dict.fromkeys(KubeQoS, (0, 0))
    for pod, config in pods:
        name = BATCH_MEMORY if pod.qos is QoSClass.BE else MEMORY
        least, low = protected(pod.requests.get(name, 0), config)
        before = sums[pod.kube_qos]
        sums[pod.kube_qos] = before[0] + (least or 0), before[1] + (low or 0)
    everything = (
        sum(sums_of_pod[0] for sums_of_pod in sums.values()),
        sum(sums_of_pod[1] for sums_of_pod in sums.values()),
    )
    for qos, (least, low) in {**sums, KubeQoS.GUARANTEED: everything}.items():
        target, why = wish.band(qos), "the sum of the pods below"
        yield from _each(target, why, {knobs.MEMORY_MIN: least, knobs.MEMORY_LOW: low})
        config = _of_class(state, _DIRECTORY_CLASS[qos])
        # Killed as one group is a pod at most: where the node is out of memory, all pods of a class would go with one.
        rank: dict[Knob, int | None] = {
            knobs.MEMORY_PRIORITY: config.priority,
            knobs.MEMORY_PRIORITY_OOM: config.priority_enable,
        }
        yield from _each(target, f"memory QoS of {_DIRECTORY_CLASS[qos]}", rank)


def _each(target: Target, why: str, values: Mapping[Knob, int | None]) -> Iterator[Wish]:
    for knob, value in values.items():
        if value is not None:
            yield Wish(target, knob, value, NAME, why)


def _is_due(reader: Reader, memory: NodeState | None) -> bool:
    """It depends on the state alone: thousands of wishes that stay the same from second to second."""
    return memory is not reader.state or reader.is_thorough


def _decide(sight: Sight, is_due: bool, memory: NodeState | None) -> Turn[NodeState | None]:
    return Turn(sight.state.once(decide), sight.state) if is_due else Turn(None, memory)


STRATEGY: Final[Strategy[NodeState | None, bool]] = Strategy(
    NAME, (AgentGate.CGROUP_RECONCILE,), None, _decide, _is_due
)
