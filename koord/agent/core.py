"""One round of the agent: look at the node, ask every strategy and hook, carry out what they want.

Everything but the clock, the API and kubelet is here, so that a test, a dry run and the daemon do the same. What is
collected, wanted and decided stands in three lists: `collect.registry`, `hooks.registry`, `qos.registry`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final

from koord.agent.collect.registry import collect
from koord.agent.collect.round import EXPIRES_S, Rates, Round
from koord.agent.collect.samplers import ColdSampling, CpiSampling, SwitchSampling
from koord.agent.collect.task_sums import Waitings
from koord.agent.executor.delivery import Delivery
from koord.agent.executor.executor import Executor, ExecutorOutcome
from koord.agent.hooks.registry import HOOKS, wishes_for
from koord.agent.host.cgroups import Cgroups
from koord.agent.interference.episode import Finding
from koord.agent.interference.hours import Usual
from koord.agent.lending.learner import Learner
from koord.agent.pods import AgentPod
from koord.agent.qos import cpu_burst, resctrl
from koord.agent.qos.decision import NOTHING, Eviction, Move, Problem, StrategyDecision
from koord.agent.qos.evicting import PENDING_RELEASE_S, REFUSED_LATELY_S, WANTED_S
from koord.agent.qos.registry import STRATEGIES
from koord.agent.qos.strategy import NEVER, Departures, M, Reader, Sight, Strategy
from koord.agent.series import names
from koord.agent.series.samples import SLOW_RING, Samples
from koord.agent.state import NodeState
from koord.agent.wish import Wish
from koord.api.configuration.features import AgentGate
from koord.api.kinds import NODES
from koord.api.kubernetes.cgroup import qos_dir
from koord.api.kubernetes.words import KubeQoS
from koord.api.machinery.faults import BadInput

log = logging.getLogger(__name__)

RECONCILE_S: Final = 10.0
"""How often hooks look whether pods still are as they should be; a change of anything brings it forward."""

SLOWLY_S: Final = 10.0
"""The interval of checks that need not run every second."""


@dataclass(slots=True)
class Done:
    """What a round did and wants done."""

    outcome: ExecutorOutcome
    evictions: tuple[Eviction, ...]
    findings: tuple[Finding, ...] = ()
    moves: tuple[Move, ...] = ()
    asks: tuple[AgentPod, ...] = ()
    problems: tuple[Problem, ...] = ()
    usual_signals: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(slots=True)
class Agent:
    cgroups: Cgroups
    executor: Executor
    seed: int = 0
    started_s: float = NEVER
    samples: Samples = field(default_factory=Samples)
    rates: Rates = field(default_factory=Rates)
    waitings: Waitings = field(default_factory=Waitings)
    slowly_s: float = SLOWLY_S
    expires_s: float = EXPIRES_S
    "Samples older than this do not count in what the system uses."
    replicas: dict[str, Mapping[str, tuple[float, ...]]] = field(default_factory=dict)
    "By uid, the signals of a pod's replicas on other nodes, while a decision needs them."
    usual: dict[str, Mapping[str, Usual]] = field(default_factory=dict)
    "By uid, what is usual for a pod's signals at this hour of the day."
    cpi: CpiSampling = field(default_factory=CpiSampling)
    switches: SwitchSampling = field(default_factory=SwitchSampling)
    cold: ColdSampling = field(default_factory=ColdSampling)
    learner: Learner = field(default_factory=Learner)
    complaints: dict[str, str] = field(default_factory=dict)
    "By collector, why it could not look when it was last tried."
    strategies: Sequence[Strategy[Any, Any]] = STRATEGIES
    evicted_s: dict[str, float] = field(default_factory=dict)
    "By uid, when a pod was evicted."
    refused_s: dict[str, float] = field(default_factory=dict)
    "By uid, when the API did not let a pod go."
    told_s: dict[str, float] = field(default_factory=dict)
    "By uid, when a pod that has notice was last wanted gone."
    unmoved_s: dict[str, float] = field(default_factory=dict)
    "By uid, when the move of a pod could not be asked for."
    last_release_s: dict[str, float] = field(default_factory=dict)
    "By strategy."
    _memories: dict[str, Any] = field(default_factory=dict)
    "By strategy, what it remembers."
    _changed: set[str] = field(default_factory=set)
    "The directories that the last round wrote to."
    _complaints: dict[str, str] = field(default_factory=dict)
    "By strategy or hook, what it was last unable to read."
    _slow_s: float = NEVER
    _hooked_s: float = NEVER
    _looks_again: bool = False
    _hooked_for: NodeState | None = None
    _delivery: Delivery = field(init=False)

    def __post_init__(self) -> None:
        self._delivery = Delivery(self.cgroups)

    def round(self, state: NodeState, now_s: float, unanswered: Set[str] = frozenset()) -> Done:
        """`unanswered`: uids of pods whose eviction was requested and not answered yet. They count as on their way."""
        is_slow = now_s - self._slow_s >= self.slowly_s or self.rates.kept_for is not state
        if is_slow:
            self._slow_s = now_s
        asks_pressure = is_slow and state.gates[AgentGate.PSI_COLLECTOR]
        collect(
            Round(
                self.cgroups,
                state,
                self.samples,
                self.rates,
                now_s,
                asks_pressure,
                is_slow,
                self.expires_s,
                self.waitings,
                self.cpi,
                self.switches,
                self.cold,
                self.complaints,
            )
        )
        return self.decide(state, now_s, is_slow, unanswered)

    def decide(
        self, state: NodeState, now_s: float, is_thorough: bool = False, unanswered: Set[str] = frozenset()
    ) -> Done:
        """Without a NodeSLO no hook or strategy runs: all that is set stays."""
        if state.slo is None:
            return Done(ExecutorOutcome(), ())
        if lost := self.cgroups.lost(state.once(_bands)):
            self.executor.look_again(lost)
            is_thorough = True
        is_thorough, self._looks_again = is_thorough or self._looks_again, False
        reader = Reader(self.cgroups, state, now_s, is_thorough, self._changed, self.executor.ledger)
        sight = Sight(
            state,
            self.samples,
            now_s,
            self._departures(now_s, unanswered),
            self.started_s,
            self.seed,
            self.replicas,
            self.usual,
            self.learner.memory,
            self.learner.peer,
            self.switches.held,
        )
        ran: set[str] = set()
        wishes: list[tuple[Wish, ...]] = []
        decisions: list[StrategyDecision] = []
        if now_s - self._hooked_s >= RECONCILE_S or self._hooked_for is not state:
            self._hooked_s, self._hooked_for = now_s, state
            wishes += self._of_hooks(state, ran)
        for strategy in self.strategies:
            decision = self._asked(strategy, reader, sight) if strategy.is_on(state) else self._let_go(strategy)
            if decision is not None:
                ran.add(strategy.name)
                wishes.append(decision.wishes)
                decisions.append(decision)
        for decision in decisions:
            for uid, signals in decision.signals.items():
                for name, value in signals.items():
                    self.samples.add(names.pod_signal(uid, name), now_s, value, SLOW_RING)
        outcome = self.executor.apply(self._delivery.writes(wishes, state), ran, now_s)
        self._changed = {done.write.directory for done in outcome.done}
        if any(done.write.text is not None for done in outcome.done):
            # A hook, or a strategy that runs seldom, may want another value than the one that was restored.
            self._hooked_s, self._looks_again = NEVER, True
        return Done(
            outcome,
            tuple(eviction for decision in decisions for eviction in decision.evictions),
            tuple(finding for decision in decisions for finding in decision.findings),
            tuple(move for decision in decisions for move in decision.moves),
            tuple(ask for decision in decisions for ask in decision.asks),
            tuple(problem for decision in decisions for problem in decision.problems),
            {uid: signals for decision in decisions for uid, signals in decision.usual_signals.items()},
        )

    def made_ready(self, state: NodeState, pod: AgentPod, now_s: float) -> ExecutorOutcome:
        """A pod's own cgroup is set, before it has containers, and its group of resctrl made. Nothing else is looked
        at."""
        wishes = [wishes_for(state, pod), resctrl.group_ahead(state, pod, self.cgroups.files)]
        return self.executor.apply(Delivery(self.cgroups).writes(wishes, state), (), now_s)

    def stood_aside(self, pod: AgentPod, now_s: float) -> ExecutorOutcome:
        """Kubelet changes a pod's CPU limits at this moment: what the kernel would not let it do them for is put
        back."""
        return self.executor.apply((), {cpu_burst.NAME}, now_s, within=pod.directory)

    def remembered(self, strategy: Strategy[M, Any]) -> M:
        """What a strategy remembers of its last round."""
        memory: M = self._memories.get(strategy.name, strategy.memory)
        return memory

    def was_evicted(self, eviction: Eviction, now_s: float) -> None:
        """It is on its way: it is not evicted again, and the strategy waits for the effect."""
        self.evicted_s[eviction.pod.uid] = now_s
        self.last_release_s[eviction.strategy] = now_s

    def was_refused(self, eviction: Eviction, now_s: float) -> None:
        """The next round asks others first."""
        self.refused_s[eviction.pod.uid] = now_s

    def was_told(self, eviction: Eviction, now_s: float) -> None:
        """It has notice: as long as the reason lasts it is chosen before others."""
        self.told_s[eviction.pod.uid] = now_s

    def was_not_moved(self, pod: AgentPod, now_s: float) -> None:
        """Nobody could be asked to move it."""
        self.unmoved_s[pod.uid] = now_s

    def _departures(self, now_s: float, unanswered: Set[str]) -> Departures:
        self.evicted_s = {uid: at_s for uid, at_s in self.evicted_s.items() if now_s - at_s < PENDING_RELEASE_S}
        self.refused_s = {uid: at_s for uid, at_s in self.refused_s.items() if now_s - at_s < REFUSED_LATELY_S}
        self.told_s = {uid: at_s for uid, at_s in self.told_s.items() if now_s - at_s < WANTED_S}
        self.unmoved_s = {uid: at_s for uid, at_s in self.unmoved_s.items() if now_s - at_s < REFUSED_LATELY_S}
        return Departures(
            self.evicted_s.keys() | unanswered,
            self.refused_s.keys(),
            self.told_s.keys(),
            self.last_release_s,
            self.unmoved_s.keys(),
        )

    def _asked(self, strategy: Strategy[Any, Any], reader: Reader, sight: Sight) -> StrategyDecision | None:
        """Settings that cannot be read change nothing."""
        memory = self._memories.get(strategy.name, strategy.memory)
        try:
            decision, memory = strategy.decide(sight, strategy.look(reader, memory), memory)
        except BadInput as error:
            self._complain(strategy.name, f"decides nothing: {error}")
            return None
        except Exception as error:  # noqa: BLE001 - the shield tells, and other strategies decide
            sight.state.shield.failed(f"decide by {strategy.name}", error, NODES, sight.state.node.metadata)
            return None
        self._complaints.pop(strategy.name, None)
        self._memories[strategy.name] = memory
        return decision

    def _let_go(self, strategy: Strategy[Any, Any]) -> StrategyDecision:
        """A strategy that is off wants nothing. Switched on again, it starts without its old state."""
        self._memories.pop(strategy.name, None)
        return NOTHING

    def _of_hooks(self, state: NodeState, ran: set[str]) -> Iterable[tuple[Wish, ...]]:
        for hook in HOOKS:
            wishes: tuple[Wish, ...] = ()
            if hook.is_on(state):
                try:
                    wishes = state.once(hook.wishes)
                except BadInput as error:
                    self._complain(hook.name, f"wants nothing new: {error}")
                    continue
                except Exception as error:  # noqa: BLE001 - the shield tells, and other hooks want what they want
                    state.shield.failed(f"apply {hook.name}", error, NODES, state.node.metadata)
                    continue
            self._complaints.pop(hook.name, None)
            ran.add(hook.name)
            yield wishes

    def _complain(self, name: str, text: str) -> None:
        """Once, as long as it stays the same: rounds come each second."""
        if self._complaints.get(name) != text:
            self._complaints[name] = text
            log.error("%s %s", name, text)


def _bands(state: NodeState) -> tuple[str, ...]:
    """The directories of QoS classes, which no collector reads."""
    return tuple(qos_dir(qos, state.driver) for qos in KubeQoS)
