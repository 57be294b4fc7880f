"""One episode of one pod's suffering: its start, its signal, the suspects, the actions, and did they help."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Final

from koord.agent.interference.culprits import Suspect, Suspects
from koord.agent.interference.signals import Signal


class Step(StrEnum):
    """What happened in an episode, in the order in which it usually does."""

    SLOWED = "slowed"
    UNCLEAR = "unclear"
    "No neighbour stands out, or two do."
    WORKLOAD = "workload"
    "Its replicas elsewhere are as badly off: no neighbour's fault."
    HELD_BACK = "held-back"
    EVICTED = "evicted"
    MOVE_ASKED = "move-asked"
    "Of the victim, since its culprit is as important."
    BETTER = "better"
    UNDONE = "undone"
    "Holding back did not help: the neighbour has its CPU again, and is spared for a while."
    REFUSED = "refused"
    "Nothing came of an eviction or a move: the API did not let it happen."
    OVER = "over"
    LOST = "lost"
    "The pod is no longer watched: it has ended, or the agent or its interference control was stopped."


class HeldBy(Enum):
    """By what a neighbour is held back."""

    CPU = "CPU"
    NEARLY_ALL_CPU = "nearly all of its CPU"
    MEMORY = "memory"
    DISKS = "disks"

    @property
    def or_stricter(self) -> tuple[HeldBy, ...]:
        """The means that hold it back at least as much."""
        return (HeldBy.CPU, HeldBy.NEARLY_ALL_CPU) if self is HeldBy.CPU else (self,)


BEGINS: Final = frozenset({Step.SLOWED, Step.WORKLOAD})
"""With which an episode begins."""
ENDS: Final = frozenset({Step.OVER, Step.LOST, Step.WORKLOAD})
"""With which it ends."""
POD_SLOWED: Final = "PodSlowed"
"""The reason of events about a pod that suffers: it is sensitive to what its neighbours do."""
NOISY_POD: Final = "NoisyPod"
"""The reason of events about a pod that makes another one suffer."""
ACTIONS: Final = frozenset({Step.HELD_BACK, Step.EVICTED, Step.MOVE_ASKED})


@dataclass(frozen=True, slots=True)
class EpisodeStep:
    step: Step
    at_s: float
    uid: str = ""
    "Of the neighbour that it was about."
    by: HeldBy | None = None
    "Of one that is held back."


@dataclass(frozen=True, slots=True)
class Episode:
    victim: str
    "Its uid."
    signal: Signal
    began_s: float
    "The beginning of the first window in which it was unusual."
    usual: float
    worst: float
    value: float
    "In the last window."
    container: str = ""
    "The one that waited most; empty where that is not known."
    suspects: Suspects = field(default_factory=Suspects)
    steps: tuple[EpisodeStep, ...] = ()
    level: float = 0.0
    "Of the signal, when the last action was taken."
    waits: int = 0
    "Windows since the last action; none is waited for at 0."
    well: int = 0
    "Windows in a row in which it was as usual."
    unseen: int = 0
    "Consecutive windows without the signal."
    named: Suspect | None = None
    "The suspect of the last action, with the figures of that decision."

    @property
    def times(self) -> float:
        """How many times its usual value the signal was, at worst."""
        return self.worst / self.usual if self.usual > 0 else float("inf")

    @property
    def action(self) -> EpisodeStep | None:
        """The last thing that was done, unless nothing came of it."""
        last_step = self.last(*ACTIONS, Step.REFUSED)
        return last_step if last_step is not None and last_step.step in ACTIONS else None

    def last(self, *steps: Step) -> EpisodeStep | None:
        return next((step for step in reversed(self.steps) if step.step in steps), None)


@dataclass(frozen=True, slots=True)
class Finding:
    """A step of an episode, for its readers: the evidence log, events, `koord explain`."""

    taken: EpisodeStep
    episode: Episode
    "As it is after the step."
