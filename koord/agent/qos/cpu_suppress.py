"""CPU suppress: holds best-effort pods to the CPU that services leave.

By fewer CPUs (`cpuset`) or by less time on them (`cfsQuota`), as the NodeSLO says; to what the suppress threshold
leaves (`cpu_budget`), below the ceiling of the policy `adaptive` (`cpu_ceiling`), or in the box of another system's
policy (`peer_box`). Shrinks at once, grows by at most
a tenth of the node per round, so that a service that comes back does not meet a burst.

Whatever the policy, and also while it is switched off, best effort is kept from exclusive CPUs.

Two habits of the kernel shape the quota. Each write fills up the period that runs, so that best effort gets up to one
period's more: small growth waits a little. And each time that best effort gets new quota, it can keep a service off
its CPU until the next tick, even with the least weight, where it yields at once otherwise. So where it yields, and only
the node's utilisation depends on the quota, it is counted by long periods, by what was used over some seconds, and
decided upon as seldom.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from koord.agent import wish
from koord.agent.cpu_pools import owned_cpus
from koord.agent.host import usage
from koord.agent.host.convert import LONG_PERIOD_US, UNLIMITED
from koord.agent.host.knobs import CPU_PERIOD, CPU_QUOTA, CPU_QUOTA_IN_LONG_PERIODS, CPUSET_CPUS
from koord.agent.lending.learning import LendingMemory
from koord.agent.lending.peers.learned import PeerLearned
from koord.agent.qos import best_effort_cpus
from koord.agent.qos.best_effort_cpus import cpu_wishes, given, kept_away, others, owned_alone
from koord.agent.qos.cpu_budget import cpu_budget
from koord.agent.qos.cpu_ceiling import cpu_ceiling
from koord.agent.qos.cpu_choice import choose
from koord.agent.qos.decision import NOTHING, StrategyDecision
from koord.agent.qos.peer_box import peer_box
from koord.agent.qos.strategy import NEVER, Reader, Sight, Strategy, Turn
from koord.agent.qos.yielding import best_effort_yields
from koord.agent.series.samples import Samples
from koord.agent.state import NodeState
from koord.agent.wish import Wish
from koord.api.configuration.features import AgentGate
from koord.api.configuration.slo_defaults import THRESHOLD_STRATEGY
from koord.api.kubernetes.cgroup import qos_dir
from koord.api.kubernetes.words import KubeQoS
from koord.api.protocol.crd.node_slo import ResourceThresholdStrategy
from koord.api.text.cpuset import NO_CPUS, CPUSet

NAME: Final = best_effort_cpus.NAME
FEWEST_CPUS: Final = 2
LEAST_QUOTA_US: Final = 2000
GROWTH: Final = 10
"""Percent of the node per round."""
SMALL: Final = 5
"""Percent of the node: less can wait until the quota has been the same for a while."""
GROWTH_WAITS_S: Final = 3.0
YIELDING_OVER_S: Final = 5.0
"""By how many seconds' use a quota goes where best effort yields; so often it is decided upon."""
YIELDING_STAYS_S: Final = 3.0
"""For so long it stays whatever changes. A new quota is seen a round after it was written: less than the above."""
YIELDING_GROWTH: Final = GROWTH * round(YIELDING_OVER_S)
YIELDING_WAITS_S: Final = 20.0


class Allowance(Protocol):
    """What best effort may use, in milli-cores; as text, how that came about."""

    @property
    def capacity(self) -> int: ...
    @property
    def allowed(self) -> int: ...


@dataclass(frozen=True, slots=True)
class BestEffortLimits:
    """What best-effort pods have at present."""

    cpus: CPUSet
    quota_us: int
    pod_directories: Sequence[str] = ()
    "Directories of pods below the best-effort one, also foreign ones."
    container_directories: Sequence[str] = ()
    yields: bool = False
    "Whether the kernel gives them only what no other task would use."
    for_s: float = float("inf")
    "For how long the quota has been what it is."


def decide(
    state: NodeState,
    samples: Samples,
    held: BestEffortLimits,
    now_s: float,
    lending: LendingMemory | None = None,
    peer: PeerLearned | None = None,
) -> StrategyDecision | None:
    """`lending`: what the node has learned, for the policy `adaptive`. `peer`: for that of another system."""
    if state.slo is None or state.slo.resource_used_threshold_with_be is None:
        return None
    strategy = state.slo.resource_used_threshold_with_be
    if state.is_colocation_off:
        return NOTHING
    away = kept_away(state, held.pod_directories, held.container_directories)
    if not strategy.enable:
        return StrategyDecision(away)
    over_s = YIELDING_OVER_S if state.holds_back_by_quota and held.yields else 0.0
    budget = _budget(state, strategy, samples, now_s, over_s, lending, peer)
    if budget is None:
        return None
    if state.holds_back_by_quota:
        return StrategyDecision((*_quota_wishes(held, budget), *away))
    return _by_cpus(state, held, budget)


def _budget(
    state: NodeState,
    strategy: ResourceThresholdStrategy,
    samples: Samples,
    now_s: float,
    over_s: float,
    lending: LendingMemory | None,
    peer: PeerLearned | None,
) -> Allowance | None:
    least = strategy.cpu_suppress_min_percent
    if state.peer_policy is not None:
        return peer_box(state, state.peer_policy, peer, samples, least, now_s)
    if state.safety_mark_percent is not None:
        return cpu_ceiling(state, lending or LendingMemory(), samples, least, now_s, over_s)
    threshold = strategy.cpu_suppress_threshold_percent
    if threshold is None:
        threshold = THRESHOLD_STRATEGY.cpu_suppress_threshold_percent or 0
    return cpu_budget(state, samples, threshold, least, now_s, over_s)


def managed(state: NodeState, held: BestEffortLimits) -> StrategyDecision | None:
    """In its place with the BECPUManager gate: what the scheduler gave counts, and no budget."""
    if state.slo is None or state.slo.resource_used_threshold_with_be is None:
        return None
    if state.is_colocation_off:
        return NOTHING
    return StrategyDecision(given(state, held.pod_directories, held.container_directories))


def is_by_cpus(state: NodeState) -> bool:
    """Whether it says on which CPUs, for which every directory below counts."""
    strategy = state.slo.resource_used_threshold_with_be if state.slo else None
    if strategy is None:
        return False
    return (bool(strategy.enable) and strategy.cpu_suppress_policy != "cfsQuota") or bool(owned_alone(state))


def quota_us(budget: Allowance, held: BestEffortLimits) -> int:
    """Small changes are not worth a write; growth is slow, except from no limit at all."""
    wanted = max(budget.allowed * 100, LEAST_QUOTA_US)
    percent = budget.capacity  # a hundredth of the node's quota, in microseconds
    change = wanted - held.quota_us
    if held.quota_us == UNLIMITED or wanted == LEAST_QUOTA_US:
        return wanted
    waits_s = YIELDING_WAITS_S if held.yields else GROWTH_WAITS_S if change > 0 else 0.0
    if abs(change) < (SMALL if held.for_s < waits_s else 1) * percent:
        return held.quota_us
    if held.yields and held.for_s < YIELDING_STAYS_S:
        return held.quota_us
    return held.quota_us + min(change, (YIELDING_GROWTH if held.yields else GROWTH) * percent)


def cpu_count(allowed_milli: int, held: int, cpus: int) -> int:
    wanted = max(FEWEST_CPUS, -(-allowed_milli // 1000))
    return min(wanted, held + -(-cpus * GROWTH // 100))


def _quota_wishes(held: BestEffortLimits, budget: Allowance) -> tuple[Wish, ...]:
    target, value, why = wish.band(KubeQoS.BEST_EFFORT), quota_us(budget, held), str(budget)
    if not held.yields:
        return (Wish(target, CPU_QUOTA, value, NAME, why, is_watched=True),)
    return (
        Wish(target, CPU_PERIOD, LONG_PERIOD_US, NAME, "best effort yields to all others", is_watched=True),
        Wish(target, CPU_QUOTA_IN_LONG_PERIODS, value, NAME, why, is_watched=True),
    )


def _by_cpus(state: NodeState, held: BestEffortLimits, budget: Allowance) -> StrategyDecision | None:
    never = others(state)
    before = held.cpus or state.topology.all
    lsr = owned_cpus(state).lsr
    everything = state.topology.all - never
    # A budget beyond all CPUs of best effort is no reason to let it stay on exclusive CPUs.
    count = min(cpu_count(budget.allowed, len(before), state.cpus), len(everything))
    cpus = choose(count, state.topology, never, lsr)
    if not cpus:
        return None
    # Kubelet's static policy writes the CPUs of pods itself, from its own idea of what is shared.
    above = everything if state.kubelet.cpu_policy == "static" else cpus
    why = f"{budget}: {len(cpus)} CPUs"
    below = [(directory, above) for directory in held.pod_directories] + [
        (directory, cpus) for directory in held.container_directories
    ]
    return StrategyDecision(cpu_wishes(below, above, why))


@dataclass(frozen=True, slots=True)
class QuotaSince:
    """The quota of best effort, and since when it is that: the first that is seen, since ever."""

    quota_us: int | None = None
    since_s: float = NEVER
    state: NodeState | None = None
    decided_s: float = NEVER
    "When it was last decided upon, and for which state."


def _since(before: QuotaSince, quota: int, now_s: float) -> QuotaSince:
    if quota == before.quota_us:
        return before
    return replace(before, quota_us=quota, since_s=NEVER if before.quota_us is None else now_s)


def _look(reader: Reader, memory: QuotaSince) -> BestEffortLimits:
    cgroups, state = reader.cgroups, reader.state
    best_effort = qos_dir(KubeQoS.BEST_EFFORT, state.driver)
    pods, containers = [], []
    if state.gates[AgentGate.BE_CPU_MANAGER] or is_by_cpus(state):
        pods = [f"{best_effort}/{name}" for name in cgroups.children(best_effort, "cpuset")]
        containers = [f"{pod}/{name}" for pod in pods for name in cgroups.children(pod, "cpuset")]
    try:
        cpus = cgroups.configured(CPUSET_CPUS, best_effort)
    except FileNotFoundError:
        cpus = NO_CPUS
    try:
        quota = usage.cpu_quota_us(cgroups, best_effort)
        yields = best_effort_yields(cgroups, state.driver)
    except FileNotFoundError:
        quota, yields = UNLIMITED, False
    return BestEffortLimits(
        cpus if isinstance(cpus, CPUSet) else NO_CPUS,
        quota,
        pods,
        containers,
        yields=yields,
        for_s=reader.now_s - _since(memory, quota, reader.now_s).since_s,
    )


def _decide(sight: Sight, held: BestEffortLimits, memory: QuotaSince) -> Turn[QuotaSince]:
    since = _since(memory, held.quota_us, sight.now_s)
    if sight.state.gates[AgentGate.BE_CPU_MANAGER]:
        return Turn(managed(sight.state, held), since)
    is_patient = held.yields and not is_by_cpus(sight.state) and since.state is sight.state
    if is_patient and sight.now_s - since.decided_s < YIELDING_OVER_S:
        return Turn(None, since)
    decision = decide(sight.state, sight.samples, held, sight.now_s, sight.lending, sight.peer)
    if decision is not None:
        since = replace(since, state=sight.state, decided_s=sight.now_s)
    return Turn(decision, since)


STRATEGY: Final = Strategy(NAME, (AgentGate.BE_CPU_SUPPRESS,), QuotaSince(), _decide, _look)
