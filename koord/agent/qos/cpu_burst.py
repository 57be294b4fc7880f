"""CPU burst: a service that is throttled gets more, as long as the CPUs that services share have room.

Two means. The kernel lets a container save up unused quota (`cpu.cfs_burst_us`); and its quota itself is raised while
it is throttled, by a fifth per round up to a multiple of its limit, and lowered again when the share pool fills up.
Pods with CPUs of their own (LSR, LSE) and best effort have no part in it, nor has a pod that is being resized in place:
what it had goes back, so that kubelet can write what it means to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from koord.agent import wish
from koord.agent.cpu_pools import own_cpus
from koord.agent.hooks.ratio import normalization_ratio, normalized
from koord.agent.host.cgroups import Cgroups
from koord.agent.host.convert import PERIOD_US, UNLIMITED, quota_of_milli
from koord.agent.host.knobs import CPU_BURST, CPU_QUOTA
from koord.agent.pods import CPU, AgentContainer, AgentPod
from koord.agent.qos.burst_tokens import Tokens
from koord.agent.qos.decision import NOTHING, StrategyDecision
from koord.agent.qos.strategy import Reader, Sight, Strategy, Turn
from koord.agent.series import names
from koord.agent.series.samples import Samples
from koord.agent.state import NodeState
from koord.agent.wish import Wish
from koord.api.configuration.features import AgentGate
from koord.api.configuration.overlay import overlay
from koord.api.configuration.slo_defaults import CPU_BURST_STRATEGY
from koord.api.protocol.annotations import pod_qos
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.crd.node_slo import CPUBurstConfig, CPUBurstStrategy
from koord.api.protocol.priority import QoSClass

NAME: Final = "cpu_burst"
FRESH_WITHIN_S: Final = 2.0
WINDOW_S: Final = 5.0
MOST_BURST_US: Final = 100_000_000
RAISED: Final = 1.2
LOWERED: Final = 0.8
COOLING: Final = 0.9
"""From this part of the threshold on, quotas are no longer raised."""

_OWN_CPUS: Final = frozenset({QoSClass.LSR, QoSClass.LSE})


class Pool(Enum):
    """How busy the CPUs are that services share."""

    IDLE = "idle"
    COOLING = "cooling"
    OVERLOAD = "overload"
    UNKNOWN = "unknown"


class Move(Enum):
    UP = "raised, since it is throttled"
    REMAIN = "as it is"
    DOWN = "lowered"
    RESET = "as its limit says"


@dataclass(frozen=True, slots=True)
class BurstOutcome:
    decision: StrategyDecision
    tokens: Mapping[str, Tokens]
    "By container; the state for the next round."


def decide(
    state: NodeState,
    samples: Samples,
    quotas: Mapping[str, int],
    tokens: Mapping[str, Tokens],
    seed: int,
    now_s: float,
    ratio: float | None = None,
) -> BurstOutcome | None:
    """`quotas`: what the directories of containers and pods have at present. `ratio`: of CPU normalisation."""
    plan = state.once(_plan if ratio is None else _normalized_plan)
    if plan is None:
        return None
    pool = pool_state(state, samples, plan.strategy.share_pool_threshold_percent or 0, now_s)
    raised: list[Wish] = []
    kept = {container: own for container, own in tokens.items() if not own.is_over(now_s)}
    for pod, config in plan.raising:
        raised += _quota_wishes(pod, config, pool, samples, quotas, tokens, kept, seed, now_s, ratio)
    # The very same tuple from round to round costs the executor nothing.
    wishes = (*plan.saving, *raised) if raised else plan.saving
    return BurstOutcome(StrategyDecision(wishes) if wishes else NOTHING, kept)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What does not depend on what is used."""

    strategy: CPUBurstStrategy
    saving: tuple[Wish, ...]
    "How much unused time is saved up."
    raising: tuple[tuple[AgentPod, CPUBurstConfig], ...]
    "Pods whose quotas may be raised, and with which settings."


def _plan(state: NodeState) -> _Plan | None:
    return _planned(state, None)


def _normalized_plan(state: NodeState) -> _Plan | None:
    return _planned(state, normalization_ratio(state))


def _planned(state: NodeState, ratio: float | None) -> _Plan | None:
    if state.slo is None or state.slo.cpu_burst_strategy is None:
        return None
    strategy = overlay(CPU_BURST_STRATEGY, state.slo.cpu_burst_strategy)
    saving: list[Wish] = []
    raising = []
    for pod in state.pods.values():
        if not pod.is_active or _has_own_cpus(pod) or pod.qos is QoSClass.BE:
            continue
        if pod.is_resizing:
            # A quota below what a container may save up, or below that of a sibling, would be refused to kubelet.
            continue
        config = _config(strategy, pod)
        if config.policy not in (None, "none"):
            if config.policy != "cfsQuotaBurstOnly":
                saving += _burst_wishes(pod, config, state.kernel.burst_within_quota, ratio)
            if config.policy != "cpuBurstOnly":
                raising.append((pod, config))
    return _Plan(strategy, tuple(saving), tuple(raising))


def _has_own_cpus(pod: AgentPod) -> bool:
    """By its label or the scheduler's word. A Guaranteed pod with neither runs on shared CPUs like any service."""
    return pod.labelled_qos in _OWN_CPUS or bool(own_cpus(pod))


def directories(state: NodeState) -> list[str]:
    """Directories whose quotas count."""
    plan = state.once(_plan)
    return [
        directory
        for pod, _ in (plan.raising if plan else ())
        if (limited := _limited(pod))
        for directory in (pod.directory, *(container.directory for container in limited))
    ]


def pool_state(state: NodeState, samples: Samples, threshold_percent: int, now_s: float) -> Pool:
    """The state of the shared CPUs, which are those that no pod has exclusively; best effort's usage does not count."""
    node = samples.mean(names.NODE_CPU, now_s, WINDOW_S)
    if node is None:
        return Pool.UNKNOWN
    total, others = state.once(_shared)
    used_by_others = sum(samples.mean(names.pod_cpu(uid), now_s, WINDOW_S) or 0.0 for uid in others)
    ratio = 1.0 if total <= 0 else (node - used_by_others) / total
    threshold = threshold_percent / 100
    if ratio >= threshold:
        return Pool.OVERLOAD
    return Pool.COOLING if ratio >= COOLING * threshold else Pool.IDLE


def _shared(state: NodeState) -> tuple[int, list[str]]:
    """Milli-cores that services share, and the pods that do not run on them, or give way."""
    owners = {uid for uid, pod in state.pods.items() if _has_own_cpus(pod)}
    owned = sum(state.pods[uid].requests.get(CPU, 0) for uid in owners)
    others = [uid for uid, pod in state.pods.items() if uid in owners or pod.qos is QoSClass.BE]
    return state.capacity_cpu_milli - owned, others


def _config(strategy: CPUBurstStrategy, pod: AgentPod) -> CPUBurstConfig:
    """The node's settings, with the pod's own laid over them field by field; malformed ones count as none."""
    own = overlay(CPUBurstConfig(), strategy)
    try:
        return overlay(own, pod_qos.CPU_BURST.read(pod.meta))
    except AnnotationError:
        return own


def _burst_wishes(pod: AgentPod, config: CPUBurstConfig, within_quota: bool, ratio: float | None) -> Iterator[Wish]:
    percent = config.cpu_burst_percent or 0
    limited = {wish.container(pod.uid, container.name): container.limits[CPU] for container in _limited(pod)}
    values = {target: burst_us(limit, percent, within_quota, ratio) for target, limit in limited.items()}
    if values:
        why = f"unused time is saved up to {percent}% of the limit" + (
            ", or one period's quota" if within_quota else ""
        )
        # What is rounded up for each container can be more than the pod's quota.
        most = burst_us(sum(limited.values()), percent, within_quota, ratio)
        together = min(sum(values.values()), most) if within_quota else sum(values.values())
        for target, value in ((wish.pod(pod.uid), together), *values.items()):
            yield Wish(target, CPU_BURST, value, NAME, why)


def _quota_wishes(
    pod: AgentPod,
    config: CPUBurstConfig,
    pool: Pool,
    samples: Samples,
    quotas: Mapping[str, int],
    tokens: Mapping[str, Tokens],
    kept: dict[str, Tokens],
    seed: int,
    now_s: float,
    ratio: float | None,
) -> Iterator[Wish]:
    raised = 0
    for container in _limited(pod):
        held = quotas.get(container.directory, UNLIMITED)
        if held == UNLIMITED:
            continue
        allowed = True
        if _is_limited(config):
            spent = kept[container.id] = _spent(container, config, samples, tokens, seed, now_s)
            allowed = spent.allows
        move = move_of(pool, samples.last(names.container_throttled(container.id), now_s, FRESH_WITHIN_S), allowed)
        own = quota_of_milli(container.limits[CPU])
        base = normalized(own, ratio)
        quota = moved(move, base, held, config.cfs_quota_burst_percent or 100)
        raised += quota - base
        target, why = wish.container(pod.uid, container.name), f"{move.value}; the share pool is {pool.value}"
        yield Wish(target, CPU_QUOTA, quota, NAME, why, own=own)
    own = quota_of_milli(pod.limits.get(CPU, 0))
    if own != UNLIMITED and quotas.get(pod.directory, UNLIMITED) != UNLIMITED:
        # By the wanted value, not by the present one, which another program may have written.
        quota, why = normalized(own, ratio) + raised, "as much more than its limit as its containers have"
        yield Wish(wish.pod(pod.uid), CPU_QUOTA, quota, NAME, why, own=own)


def _limited(pod: AgentPod) -> list[AgentContainer]:
    """Containers that have a limit, which is what there is to exceed."""
    return [container for container in pod.containers if container.directory and container.limits.get(CPU, 0) > 0]


def burst_us(limit_milli: int, percent: int, within_quota: bool, ratio: float | None = None) -> int:
    """Of a container, how much unused time it can save up. Where its quota is the most, the normalised one is."""
    most = normalized(quota_of_milli(limit_milli), ratio) if within_quota else MOST_BURST_US
    return min(limit_milli * percent * PERIOD_US // 100_000, most)


def move_of(pool: Pool, throttled: float | None, allowed: bool) -> Move:
    if not allowed:
        return Move.DOWN
    wished = Move.UP if throttled else Move.REMAIN
    if pool is Pool.OVERLOAD:
        return Move.DOWN
    if wished is Move.UP and pool in (Pool.COOLING, Pool.UNKNOWN):
        return Move.REMAIN
    return wished


def moved(move: Move, base_us: int, held_us: int, most_percent: int) -> int:
    """Within the limit and its multiple."""
    wished = {
        Move.UP: int(held_us * RAISED),
        Move.DOWN: int(held_us * LOWERED),
        Move.REMAIN: held_us,
        Move.RESET: base_us,
    }[move]
    return min(max(wished, base_us), max(base_us * most_percent // 100, base_us))


def _is_limited(config: CPUBurstConfig) -> bool:
    """No period at all (negative) is for ever; one of nothing allows nothing."""
    period = config.cfs_quota_burst_period_seconds
    return period is not None and period >= 0


def _spent(
    container: AgentContainer,
    config: CPUBurstConfig,
    samples: Samples,
    tokens: Mapping[str, Tokens],
    seed: int,
    now_s: float,
) -> Tokens:
    period, percent = config.cfs_quota_burst_period_seconds or 0, config.cfs_quota_burst_percent or 100
    own = tokens.get(container.id)
    if own is None or own.capacity != Tokens.capacity_of(period, percent):
        own = Tokens.fresh(period, percent, seed, container.id, now_s)
    used = samples.last(names.container_cpu(container.id), now_s, FRESH_WITHIN_S)
    # Without a known usage, it neither spent nor earned in that time.
    return own.after(100.0 if used is None else used * 100 / container.limits[CPU], now_s)


@dataclass(frozen=True, slots=True)
class BurstMemory:
    tokens: Mapping[str, Tokens] = field(default_factory=dict)
    "By container."
    quotas: Mapping[str, int] = field(default_factory=dict)
    "By directory, the last values: read seldom where only the agent writes."


def _look(reader: Reader, memory: BurstMemory) -> Mapping[str, int]:
    """The quotas that count."""
    quotas: dict[str, int] = {}
    for directory in reader.state.once(directories):
        cached_quota = None if reader.is_thorough or directory in reader.changed else memory.quotas.get(directory)
        quota = _quota(reader.cgroups, directory) if cached_quota is None else cached_quota
        if quota is not None:
            quotas[directory] = quota
    return quotas


def _quota(cgroups: Cgroups, directory: str) -> int | None:
    try:
        quota = cgroups.get(CPU_QUOTA, directory)
    except FileNotFoundError:
        return None
    return quota if isinstance(quota, int) else None


def _decide(sight: Sight, quotas: Mapping[str, int], memory: BurstMemory) -> Turn[BurstMemory]:
    state = sight.state
    if state.slo is not None and state.is_colocation_off:
        return Turn(NOTHING, BurstMemory())
    ratio = normalization_ratio(state) if state.gates[AgentGate.CPU_NORMALIZATION] else None
    outcome = decide(state, sight.samples, quotas, memory.tokens, sight.seed, sight.now_s, ratio)
    if outcome is None:
        return Turn(None, BurstMemory(memory.tokens, quotas))
    return Turn(outcome.decision, BurstMemory(outcome.tokens, quotas))


STRATEGY: Final = Strategy(NAME, (AgentGate.CPU_BURST,), BurstMemory(), _decide, _look)
