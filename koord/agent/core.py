"""One round of the agent: look at the node, ask every strategy and hook, carry out what they want.

Everything but the clock, the API and kubelet is here, so that a test, a dry run and the daemon do the same. Strategies
are asked in the order below; of two that disagree on a file the later one counts: suppression over a hook's CPUs, burst
over a normalised quota.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from koord.agent.collect.registry import collect
from koord.agent.collect.round import Rates, Round
from koord.agent.executor.executor import Executor, Outcome
from koord.agent.executor.write import Write
from koord.agent.hooks import oom_score
from koord.agent.hooks.ratio import normalization_ratio
from koord.agent.hooks.registry import HOOKS
from koord.agent.hooks.untold import cpus_of_untold
from koord.agent.host import usage
from koord.agent.host.cgroups import Cgroups
from koord.agent.host.convert import UNLIMITED
from koord.agent.host.knobs import CPU_IDLE, CPU_QUOTA, CPUSET_CPUS
from koord.agent.qos import cpu_burst, cpu_evict, cpu_suppress, memory_evict, memory_qos
from koord.agent.qos.burst_tokens import Tokens
from koord.agent.qos.decision import Decision, Eviction
from koord.agent.qos.evicting import PENDING_RELEASE_S, REFUSED_LATELY_S
from koord.agent.series.samples import Samples
from koord.agent.state import NodeState
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.cgroup import qos_dir
from koord.api.kubernetes.words import KubeQoS
from koord.api.machinery.faults import BadInput
from koord.api.text.cpuset import NO_CPUS, CPUSet

log = logging.getLogger(__name__)

RECONCILE_S: Final = 10.0
"""How often hooks look whether pods still are as they should be; a change of anything brings it forward."""

SLOWLY_S: Final = 10.0
"""How often things are looked at that nobody needs to know by the second."""

NEVER: Final = float("-inf")


@dataclass(slots=True)
class Done:
    """What a round did and wants done."""

    outcome: Outcome
    evictions: tuple[Eviction, ...]


@dataclass(slots=True)
class Agent:
    cgroups: Cgroups
    executor: Executor
    seed: int = 0
    started_s: float = NEVER
    samples: Samples = field(default_factory=Samples)
    rates: Rates = field(default_factory=Rates)
    tokens: Mapping[str, Tokens] = field(default_factory=dict)
    evicted_s: dict[str, float] = field(default_factory=dict)
    "By uid, when a pod was evicted."
    refused_s: dict[str, float] = field(default_factory=dict)
    "By uid, when the API did not let a pod go."
    last_release_s: dict[str, float] = field(default_factory=dict)
    "By strategy."
    _quota_since: tuple[int | None, float] = (None, NEVER)
    "The quota of best effort, and since when it is that: the first that is seen, since ever."
    _quotas: dict[str, int] = field(default_factory=dict)
    "Of services, as last seen: where nobody but the agent writes they are read slowly."
    _slow_s: float = NEVER
    _hooked_s: float = NEVER
    _hooked_for: NodeState | None = None

    def round(self, state: NodeState, now_s: float) -> Done:
        is_slow = now_s - self._slow_s >= SLOWLY_S or self.rates.kept_for is not state
        if is_slow:
            self._slow_s = now_s
            self._quotas.clear()
        asks_pressure = is_slow and state.gates[AgentGate.PSI_COLLECTOR]
        collect(Round(self.cgroups, state, self.samples, self.rates, now_s, asks_pressure, is_slow))
        return self.decide(state, now_s)

    def decide(self, state: NodeState, now_s: float) -> Done:
        lost = self.cgroups.lost(state.once(_bands))
        if lost:
            self.executor.look_again(lost)
            self._quotas.clear()
        self.evicted_s = {uid: at_s for uid, at_s in self.evicted_s.items() if now_s - at_s < PENDING_RELEASE_S}
        self.refused_s = {uid: at_s for uid, at_s in self.refused_s.items() if now_s - at_s < REFUSED_LATELY_S}
        ran: set[str] = set()
        writes: list[Write] = []
        evictions: list[Eviction] = []
        for name, gate, decide in self._strategies(state, now_s):
            decision = self._asked(name, decide) if gate else Decision()
            if decision is not None:
                ran.add(name)
                writes += decision.writes
                evictions += decision.evictions
        if now_s - self._hooked_s >= RECONCILE_S or self._hooked_for is not state:
            self._hooked_s, self._hooked_for = now_s, state
            writes = [*self._hook_writes(state, ran), *writes]
            if state.gates[AgentGate.OOM_SCORE_ADJ] and not self.executor.is_dry_run:
                oom_score.apply(state, self.cgroups)
        outcome = self.executor.apply(writes, ran, now_s)
        for each in outcome.done:
            self._quotas.pop(each.write.directory, None)
        return Done(outcome, tuple(evictions))

    def was_evicted(self, eviction: Eviction, now_s: float) -> None:
        """It is on its way: it is not evicted again, and the strategy waits for the effect."""
        self.evicted_s[eviction.pod.uid] = now_s
        strategy = memory_evict.NAME if "Memory" in eviction.by else cpu_evict.NAME
        self.last_release_s[strategy] = now_s

    def was_refused(self, eviction: Eviction, now_s: float) -> None:
        """The next round asks others first."""
        self.refused_s[eviction.pod.uid] = now_s

    def _strategies(self, state: NodeState, now_s: float) -> Iterable[tuple[str, bool, Callable[[], Decision | None]]]:
        gates, samples = state.gates, self.samples
        going, refused = frozenset(self.evicted_s), frozenset(self.refused_s)
        evicts_cpu = any(map(gates.get, _CPU_GATES))
        evicts_memory = any(map(gates.get, _MEMORY_GATES))
        last_cpu = self.last_release_s.get(cpu_evict.NAME, self.started_s)
        last_memory = self.last_release_s.get(memory_evict.NAME, NEVER)
        return (
            (memory_qos.NAME, gates[AgentGate.CGROUP_RECONCILE], lambda: state.once(memory_qos.decide)),
            (cpu_burst.NAME, gates[AgentGate.CPU_BURST], lambda: self._burst(state, now_s)),
            (
                cpu_suppress.NAME,
                gates[AgentGate.BE_CPU_SUPPRESS],
                lambda: self._suppress(state, now_s),
            ),
            (
                cpu_evict.NAME,
                evicts_cpu,
                lambda: cpu_evict.decide(state, samples, gates, going, last_cpu, now_s, refused),
            ),
            (
                memory_evict.NAME,
                evicts_memory,
                lambda: memory_evict.decide(state, samples, gates, going, last_memory, now_s, refused),
            ),
        )

    def _asked(self, name: str, decide: Callable[[], Decision | None]) -> Decision | None:
        """A node whose settings cannot be read is left as it is, and it is told."""
        try:
            return decide()
        except BadInput as error:
            log.error("%s decides nothing: %s", name, error)
            return None

    def _hook_writes(self, state: NodeState, ran: set[str]) -> Iterable[Write]:
        for hook in HOOKS:
            if state.slo is None:
                continue
            writes: Collection[Write] = ()
            if state.gates[hook.gate] and not state.is_colocation_off:
                try:
                    writes = state.once(hook.writes)
                except BadInput as error:
                    log.error("%s wants nothing new: %s", hook.name, error)
                    continue
            ran.add(hook.name)
            yield from writes
            yield from cpus_of_untold(self.cgroups, state, writes)

    def _burst(self, state: NodeState, now_s: float) -> Decision | None:
        directories = state.once(cpu_burst.directories)
        for directory in directories:
            if directory not in self._quotas and (quota := self._quota(directory)) is not None:
                self._quotas[directory] = quota
        ratio = normalization_ratio(state) if state.gates[AgentGate.CPU_NORMALIZATION] else None
        outcome = cpu_burst.decide(state, self.samples, self._quotas, self.tokens, self.seed, now_s, ratio)
        if outcome is None:
            return None
        self.tokens = outcome.tokens
        return outcome.decision

    def _suppress(self, state: NodeState, now_s: float) -> Decision | None:
        held = self._held(state, now_s)
        if state.gates[AgentGate.BE_CPU_MANAGER]:
            return cpu_suppress.managed(state, held)
        return cpu_suppress.decide(state, self.samples, held, now_s)

    def _held(self, state: NodeState, now_s: float) -> cpu_suppress.Held:
        best_effort = qos_dir(KubeQoS.BEST_EFFORT, state.driver)
        pods, containers = [], []
        if state.gates[AgentGate.BE_CPU_MANAGER] or cpu_suppress.is_by_cpus(state):
            pods = [f"{best_effort}/{name}" for name in self.cgroups.children(best_effort, "cpuset")]
            containers = [f"{pod}/{name}" for pod in pods for name in self.cgroups.children(pod, "cpuset")]
        try:
            cpus = self.cgroups.configured(CPUSET_CPUS, best_effort)
        except FileNotFoundError:
            cpus = NO_CPUS
        try:
            quota = usage.cpu_quota_us(self.cgroups, best_effort)
            yields = self._yields(best_effort)
        except FileNotFoundError:
            quota, yields = UNLIMITED, False
        known, _ = self._quota_since
        if quota != known:
            self._quota_since = (quota, NEVER if known is None else now_s)
        return cpu_suppress.Held(
            cpus if isinstance(cpus, CPUSet) else NO_CPUS,
            quota,
            pods,
            containers,
            yields=yields,
            for_s=now_s - self._quota_since[1],
        )

    def _yields(self, best_effort: str) -> bool:
        """In the idle class, best effort takes nothing from others; unless a quota of the whole node is for all."""
        cgroups = self.cgroups
        if not cgroups.has(CPU_IDLE, best_effort) or cgroups.get(CPU_IDLE, best_effort) != 1:
            return False
        return not cgroups.root or usage.cpu_quota_us(cgroups, "") == UNLIMITED

    def _quota(self, directory: str) -> int | None:
        try:
            quota = self.cgroups.get(CPU_QUOTA, directory)
        except FileNotFoundError:
            return None
        return quota if isinstance(quota, int) else None


_CPU_GATES: Final = (AgentGate.BE_CPU_EVICT, AgentGate.CPU_EVICT, AgentGate.CPU_ALLOCATABLE_EVICT)
_MEMORY_GATES: Final = (AgentGate.BE_MEMORY_EVICT, AgentGate.MEMORY_EVICT, AgentGate.MEMORY_ALLOCATABLE_EVICT)


def _bands(state: NodeState) -> tuple[str, ...]:
    """The directories of QoS classes, which no collector reads."""
    return tuple(qos_dir(qos, state.driver) for qos in KubeQoS)
