"""Refusals: pods that are turned away whatever the node, as things are now. What a plugin that refuses pods says.

A team has used up its quota: that changes all the time and says nothing of nodes, so it belongs in no class of pods.
The plugin refuses the pod before any node is looked at, notes it (`tried`), and names the pods that may go (`eased`):
nothing else wakes them. `ElasticQuota` is the example.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from koord.scheduler.framework.placement import Placement
from koord.scheduler.state.pods import PodRecord

if TYPE_CHECKING:
    from koord.scheduler.framework.ask import Ask
    from koord.scheduler.framework.profile import Profile


class Refusals:
    """The refusals of one plugin, for one cluster."""

    def refuses(self, ask: Ask) -> str | None:
        """Why a pod is refused; None: it is not. Called at every attempt."""
        raise NotImplementedError(type(self).__name__)

    def condition(self, ask: Ask) -> str:
        """Condition reason of a refused pod when adding nodes cannot help, or "". Autoscalers add nodes for pods whose
        reason is Unschedulable, and for no others."""
        return ""

    def lets_through(self, asks: Sequence[Ask]) -> int:
        """How many leading pods would pass if placed in order; may underestimate."""
        return 0

    def victims(self, ask: Ask) -> Iterable[PodRecord]:
        """Pods on nodes whose going may let in a refused one: job-level preemption chooses among them."""
        return ()

    def tried(self, asks: Sequence[Ask], placements: Sequence[Placement]) -> None:
        """How an attempt at some pods ended."""

    def eased(self, *, idle: bool) -> Sequence[str]:
        """Keys of refused pods that may be let through now. Called before each decision. `idle`: no other pod is
        ready, so that there is time to look at all of them. Then it is called until a pod is ready or it names none: it
        names no pod twice while nothing changes."""
        return ()


class ProfileRefusals:
    """The plugins of one profile that refuse pods, in their order."""

    def __init__(self, profile: Profile) -> None:
        self._refusing: list[tuple[str, Refusals]] = profile.at("preFilter", "refusals")

    def __bool__(self) -> bool:
        return bool(self._refusing)

    def of(self, ask: Ask) -> tuple[str, str] | None:
        """The plugin that refuses a pod, and why."""
        for name, refusals in self._refusing:
            why = refusals.refuses(ask)
            if why is not None:
                return name, why
        return None

    def condition(self, plugin: str, ask: Ask) -> str:
        """The condition reason of a pod that a plugin refuses, where that has one of its own."""
        return next((refusals.condition(ask) for name, refusals in self._refusing if name == plugin), "")

    def lets_through(self, asks: Sequence[Ask]) -> int:
        """How many leading pods no plugin refuses if they are placed in order."""
        most = len(asks)
        for _, refusals in self._refusing if asks else ():
            most = min(most, refusals.lets_through(asks[:most]))
        return most

    def victims(self, ask: Ask) -> list[PodRecord]:
        """Pods on nodes whose going may let in a refused pod, as the plugins say that refuse it."""
        refusing = [refusals for _, refusals in self._refusing if refusals.refuses(ask) is not None]
        return [record for refusals in refusing for record in refusals.victims(ask)]

    def tried(self, asks: Sequence[Ask], placements: Sequence[Placement]) -> None:
        """An attempt at some pods has ended."""
        for _, refusals in self._refusing:
            refusals.tried(asks, placements)
