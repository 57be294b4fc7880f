"""Nodes whose pods' windows a test says, and that are decided about window by window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from koord.agent.interference.control import Hold, Memory, Node, Outcome, Standing, decide
from koord.agent.interference.episode import Finding, Step
from koord.agent.interference.signals import Dimension, Signal
from koord.agent.interference.window import PodWindow

SERVICE = Standing(is_service=True, is_offline=False, can_move=True)
BATCH = Standing(is_service=False, is_offline=True, can_be_evicted=True, can_be_held=True)
WINDOW_S = 10.0


@dataclass
class Story:
    """A node over time."""

    standings: dict[str, Standing]
    may_act: bool = True
    replicas: dict[str, Mapping[Signal, Sequence[float]]] = field(default_factory=dict)
    direct: dict[str, dict[str, float]] | None = None
    now_s: float = 1000.0
    memory: Memory = field(default_factory=Memory)
    findings: list[Finding] = field(default_factory=list)

    def window(
        self,
        delays: Mapping[str, float],
        cpu: Mapping[str, float],
        signal: Signal = Signal.RUN_QUEUE_DELAY,
        dimension: Dimension = Dimension.CPU,
    ) -> Outcome:
        """One more, with what pods waited and used; nothing where it is not said."""
        return self.put(
            {uid: PodWindow({signal: delays.get(uid, 0.0)}, {dimension: cpu.get(uid, 0.0)}) for uid in self.standings}
        )

    def put(self, windows: Mapping[str, PodWindow]) -> Outcome:
        self.now_s += WINDOW_S
        node = Node(
            self.now_s, WINDOW_S, windows, self.standings, self.replicas, self.direct, may_act=self.may_act
        )  # fmt: skip
        outcome = decide(node, self.memory)
        self.memory = outcome.memory
        self.findings += outcome.findings
        return outcome

    def calm(self, windows: int = 8, cpu: Mapping[str, float] | None = None) -> None:
        for _ in range(windows):
            self.window({"web": 0.5}, cpu or {"web": 300.0, "build": 10.0, "idle": 5.0})

    def held(self, uid: str) -> list[Hold]:
        return [hold for (culprit, _), hold in self.memory.holds.items() if culprit == uid]

    @property
    def steps(self) -> list[tuple[Step, str]]:
        return [(finding.taken.step, finding.taken.uid) for finding in self.findings]
