"""One decision after the other: from the queue to a place, or to the reasons why there is none.

Pure but for what it is given: the time. What is decided counts at once; who carries it out tells the outcome. Nothing
that a pod says, and no fault of a plugin, ends it: such a pod is told of, and tried again later.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from koord.api.machinery.faults import BadInput
from koord.scheduler import patience
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Placement
from koord.scheduler.framework.plugin import Remedy
from koord.scheduler.live.diagnosis import Inspection
from koord.scheduler.live.feed import Feed
from koord.scheduler.live.metrics import Spent, Status, uncounted
from koord.scheduler.message import fits_nowhere, hint_for
from koord.scheduler.queue import Attempt
from koord.scheduler.smallest import Hints
from koord.scheduler.suggestion import suggestion_for

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Bind:
    """A pod has a place, and is to be bound to it."""

    attempt: Attempt
    ask: Ask
    profile: str
    node: str
    patch: Mapping[str, Any]
    "What plugins want written on the pod before, as a merge patch."
    wait_s: float
    "How long it may wait for others first."


@dataclass(frozen=True, slots=True)
class Nowhere:
    """A pod has none."""

    attempt: Attempt
    ask: Ask
    profile: str
    placement: Placement
    remedy: Remedy
    message: str
    outbid: tuple[str, ...] = ()
    "Keys of less important pods that were promised the node which this one is promised now."


@dataclass(frozen=True, slots=True)
class Broken:
    """A pod that cannot be understood, or about which a plugin failed."""

    attempt: Attempt
    ask: Ask
    profile: str
    message: str


Decision = Bind | Nowhere | Broken


class Cycle:
    """Decides for all profiles, on the one state and the one queue of a feed."""

    def __init__(self, feed: Feed, inspection: Inspection | None = None, spent: Spent = uncounted) -> None:
        self._feed, self._inspection, self._spent = feed, inspection or Inspection(), spent
        self._makes_room = {engine.profile.name: _maker(engine) for engine in feed.engines.values()}
        self._hints = {engine.profile.name: Hints(engine) for engine in feed.engines.values()}

    def step(self) -> Decision | None:
        """The next decision; None where nobody is ready."""
        feed = self._feed
        now_s = feed.clock.monotonic()
        attempt = feed.queue.pop(now_s)
        if attempt is None:
            return None
        feed.cluster.now_s = feed.clock.now()
        (ask,) = attempt.entity.pods
        engine = feed.engine_of(ask)
        assert engine is not None  # others are not queued
        try:
            return self._decide(attempt, ask, engine, now_s)
        except BadInput as error:
            return self._broken(attempt, ask, engine, now_s, str(error))
        except Exception as error:
            # The one place that keeps the loop alive, whatever a plugin does.
            log.exception("no decision: a plugin failed", extra={"pod": ask.key})
            return self._broken(attempt, ask, engine, now_s, f"a plugin failed: {type(error).__name__}: {error}")

    def _decide(self, attempt: Attempt, ask: Ask, engine: Engine, now_s: float) -> Decision:
        feed, profile = self._feed, engine.profile
        if self._inspection.flags.before_placing:
            self._inspection.before(engine, ask)
        promise = feed.cluster.nominations.of(ask.key)
        clock, began_s = feed.clock.monotonic, feed.clock.monotonic()
        placement = engine.place(ask)
        placed_s = clock()
        if placement.node is not None:
            self._spent("Filter", "Success", profile.name, placed_s - began_s)
            row = feed.cluster.table.row_of[placement.node]
            patch, wait_s = engine.patch(ask, row), engine.wait_s(ask, row)
            feed.assume(ask, placement.node, promise)
            return Bind(attempt, ask, profile.name, placement.node, patch, wait_s)
        self._spent("Filter", "Unschedulable", profile.name, placed_s - began_s)
        given_up = feed.patience.is_over(ask.key, now_s)
        remedy = Remedy(message=patience.MESSAGE, clears=True) if given_up else engine.remedy(ask)
        helped = remedy.node is not None
        ended: Status = "Success" if helped else "Unschedulable"
        self._spent("PostFilter", ended, profile.name, clock() - placed_s, self._makes_room[profile.name])
        suggestion = suggestion_for(engine, ask, placement, remedy)
        if self._inspection.flags.dumps:
            self._inspection.nowhere(engine, ask, placement, remedy, suggestion)
        # Where room is being made, nobody need do anything.
        in_the_making = helped or (suggestion is not None and suggestion.type == "WaitingVictimReleased")
        hint = "" if in_the_making else hint_for(engine, self._hints[profile.name], ask, placement)
        told = "" if suggestion is None else suggestion.told
        message = fits_nowhere(placement, len(feed.cluster.table), remedy.message, told, hint)
        # Where there are no nodes nobody turned it away, and whatever comes may help.
        turned_away = placement.rejected_by or [plugin.name for plugin in profile.plugins]
        feed.queue.rejected(attempt, turned_away, now_s)
        outbid = feed.nominate(ask, engine, remedy)
        return Nowhere(attempt, ask, profile.name, placement, remedy, message, outbid)

    def _broken(self, attempt: Attempt, ask: Ask, engine: Engine, now_s: float, message: str) -> Broken:
        feed = self._feed
        if ask.key in feed.cluster.pods and ask.key not in feed.assumed:
            feed.cluster.remove_pod(ask.key)
        feed.queue.failed(attempt, now_s)
        return Broken(attempt, ask, engine.profile.name, message)


def _maker(engine: Engine) -> str:
    """The one plugin that makes room for pods which fit nowhere; nothing where there are several."""
    makers = [plugin.name for plugin in engine.profile.plugins if plugin.makes_room]
    return makers[0] if len(makers) == 1 else ""
