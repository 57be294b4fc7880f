"""One decision after the other: from the queue to a place, or to the reasons why there is none.

A decision counts at once; the caller carries it out and reports the outcome. Neither an invalid pod nor a fault of a
plugin ends the cycle: the entity is reported, and tried again later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from koord.api.machinery.faults import BadInput
from koord.scheduler.core import patience
from koord.scheduler.core.decision import Bind, Broken, Decision, LetGo, Nowhere, Placed, TriedEnough, Unplaced, Wait
from koord.scheduler.core.entity import Attempt
from koord.scheduler.core.feed import Feed
from koord.scheduler.core.observer import Observer
from koord.scheduler.core.waiting import Waiting
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Placement
from koord.scheduler.framework.jobs import Permit
from koord.scheduler.framework.remedy import Remedy
from koord.scheduler.job_changes import JobHints
from koord.scheduler.message import fits_nowhere, hint_for
from koord.scheduler.smallest import Hints
from koord.scheduler.state.nominations import Nomination
from koord.scheduler.suggestion import suggestion_for


class Cycle:
    """Decides for all profiles, on the one state and the one queue of a feed.

    `hints`: say what would let a pod in that fits nowhere. `scores`: say of every placement how it scored.
    `most_tries`: how often an entity is tried, where there is an end to it.
    """

    def __init__(
        self,
        feed: Feed,
        observer: Observer | None = None,
        *,
        hints: bool = True,
        scores: bool = False,
        most_tries: int | None = None,
    ) -> None:
        self._feed, self._observer, self._scores, self._most_tries = feed, observer or Observer(), scores, most_tries
        self._hints = {engine.profile.name: Hints(engine) for engine in feed.engines.values()} if hints else {}
        self._job_hints = {engine.profile.name: JobHints(engine) for engine in feed.engines.values()} if hints else {}
        self.waiting = Waiting()
        self._out: deque[Decision] = deque()

    def step(self) -> Decision | None:
        """The next decision; None if no entity is ready."""
        self._look_after_waiting()
        if self._out:
            return self._out.popleft()
        feed = self._feed
        feed.ease(idle=False)
        attempt = feed.queue.pop(feed.now.steady_s)
        while attempt is None and feed.ease(idle=True):
            # A pod that may go but is not ready, for example behind a gate, does not keep others waiting.
            attempt = feed.queue.pop(feed.now.steady_s)
        if attempt is None:
            return None
        asks = attempt.entity.pods
        engine = feed.engine_of(asks[0])
        assert engine is not None  # others are not queued
        if self._most_tries is not None and attempt.tries > self._most_tries:
            feed.queue.done(attempt)
            return TriedEnough(attempt, engine.profile.name, asks)
        try:
            return self._decide(attempt, asks, engine)
        except BadInput as error:
            return self._broken(attempt, asks, engine, str(error), None)
        except Exception as error:  # noqa: BLE001 - the decision says what it was
            # The one place that keeps decisions coming, whatever a plugin does. The driver logs the error.
            message = f"a plugin failed: {type(error).__name__}: {error}"
            return self._broken(attempt, asks, engine, message, error)

    def next_change_s(self) -> float | None:
        """When time alone may lead to a decision; None where nothing waits for time."""
        changes = [
            change_s
            for change_s in (self._feed.queue.next_change_s(), self.waiting.next_change_s())
            if change_s is not None
        ]
        return min(changes, default=None)

    def give_up_waiting(self, why: str) -> None:
        """Entities that wait for others give up."""
        for bind in list(self.waiting):
            self.waiting.drop(bind.ask.key)
            self._let_go(bind, why)

    def _decide(self, attempt: Attempt, asks: tuple[Ask, ...], engine: Engine) -> Decision:
        observer = self._observer
        observer.placing(engine, asks)
        nominations = self._feed.cluster.nominations
        promises = {ask.key: nominations.of(ask.key) for ask in asks} if nominations.any else {}
        is_planned = len(asks) == 1 and attempt.entity.is_job and engine.planned(asks) is not None
        if len(asks) == 1 and not is_planned:
            placements = [engine.place(asks[0], explain=self._scores)]
        else:
            placements = engine.place_all(asks, explain=self._scores)
        engine.tried(asks, placements)
        has_place = any(placement.node is not None for placement in placements)
        observer.placed(engine, has_place=has_place)
        if has_place:
            return self._placed(attempt, asks, placements, engine, promises)
        return self._nowhere(attempt, asks, placements, engine)

    def _placed(
        self,
        attempt: Attempt,
        asks: tuple[Ask, ...],
        placements: Sequence[Placement],
        engine: Engine,
        promises: Mapping[str, Nomination | None],
    ) -> Decision:
        feed, row_of = self._feed, self._feed.cluster.table.row_of
        members, unplaced = [], []
        wait, allows, keeps_s = Permit(), list[str](), 0.0
        placed = asks
        if len(asks) > 1:
            placed = tuple(ask for ask, placement in zip(asks, placements, strict=True) if placement.node is not None)
        together = engine.plan_together(placed)
        for ask, placement in zip(asks, placements, strict=True):
            if placement.node is None:
                message = fits_nowhere(placement, len(feed.cluster.table))
                unplaced.append(Unplaced(ask, placement, message))
                continue
            row = row_of[placement.node]
            members.append(Placed(ask, placement.node, engine.plan(ask, row, together), placement))
            permit = engine.permit(ask, row)
            allows += permit.allows
            keeps_s = max(keeps_s, permit.keeps_s)
            if permit.wait_s > wait.wait_s:
                wait = permit
        for member in members:
            feed.assume(member.ask, member.node, promises.get(member.ask.key))
        bind = Bind(attempt, engine.profile.name, tuple(members), tuple(unplaced), keeps_s)
        for group in dict.fromkeys(allows):
            self._out.extend(self._released(bind) for bind in self.waiting.leave(group))
        if wait.wait_s <= 0:
            return bind
        return Wait(bind, self.waiting.add(bind, wait, feed.now.steady_s), wait.wait_s)

    def _nowhere(
        self, attempt: Attempt, asks: tuple[Ask, ...], placements: Sequence[Placement], engine: Engine
    ) -> Decision:
        feed, profile, now_s = self._feed, engine.profile, self._feed.now.steady_s
        ask, placement, is_job = asks[0], placements[0], len(asks) > 1
        if is_job:
            ask, placement = next(
                (pair for pair in zip(asks, placements, strict=True) if pair[1].why_not), (ask, placement)
            )
        if feed.patience.is_over(ask.key, now_s):
            remedy = Remedy(message=patience.MESSAGE, clears=True)
        else:
            remedy = engine.remedy_for_job(asks) if is_job else engine.remedy(ask)
        helped = remedy.helps
        self._observer.helped(engine, remedy, job=attempt.entity.key if attempt.entity.is_job else "")
        # What would help is looked for in the current state, where no member of the job is placed.
        suggestion = None if is_job else suggestion_for(engine, ask, placement, remedy)
        self._observer.nowhere(engine, ask, placement, remedy, suggestion)
        # While room is being made, users need not do anything.
        in_the_making = helped or (suggestion is not None and suggestion.type == "WaitingVictimReleased")
        hint = "" if in_the_making else self._hint(engine, attempt, asks, placements, ask)
        suggested = "" if suggestion is None else suggestion.text
        message = fits_nowhere(placement, len(feed.cluster.table), remedy.message, suggested, hint)
        # Without nodes, no plugin rejected the entity, and any event may help.
        by_whom = {name for placement in placements for name in placement.rejected_by}
        turned_away = by_whom or {plugin.name for plugin in profile.plugins}
        feed.queue.rejected(attempt, turned_away, now_s)
        outbid = self._promise(engine, asks, asks[0], remedy)
        for group in remedy.rejects:
            for bind in self.waiting.leave(group):
                self._let_go(bind, remedy.message or "others that it waited for cannot be placed")
        return Nowhere(attempt, profile.name, asks, placement, remedy, message, suggestion, outbid)

    def _hint(
        self, engine: Engine, attempt: Attempt, asks: Sequence[Ask], placements: Sequence[Placement], ask: Ask
    ) -> str:
        """What would let an entity in that fits nowhere; `ask`: of a job, the first of its pods that found no place."""
        placement = placements[asks.index(ask)]
        if len(asks) > 1:
            of_jobs = self._job_hints.get(engine.profile.name)
            is_told = of_jobs is not None and placement.short_of and not placement.refusal
            return of_jobs.of(attempt.entity.key, asks, placements) if of_jobs is not None and is_told else ""
        hints = self._hints.get(engine.profile.name)
        return "" if hints is None else hint_for(engine, hints, ask, placement)

    def _promise(self, engine: Engine, asks: Sequence[Ask], first: Ask, remedy: Remedy) -> tuple[str, ...]:
        outbid = list(self._feed.nominate(first, engine, remedy))
        if remedy.clears and not remedy.helps:
            for ask in asks:
                if ask is not first:
                    self._feed.nominate(ask, engine, remedy)
        by_key = {ask.key: ask for ask in asks}
        for move in remedy.others:
            outbid += self._feed.nominate(by_key[move.pod], engine, Remedy(move.node, move.victims))
        return tuple(outbid)

    def _broken(
        self, attempt: Attempt, asks: tuple[Ask, ...], engine: Engine, message: str, error: Exception | None
    ) -> Broken:
        feed = self._feed
        for ask in asks:
            if ask.key in feed.cluster.pods and ask.key not in feed.assumed:
                feed.cluster.remove_pod(ask.key)
        feed.queue.failed(attempt, feed.now.steady_s)
        return Broken(attempt, engine.profile.name, asks, message, error)

    def _look_after_waiting(self) -> None:
        """Entities that waited too long, or lost a member, give up."""
        lost, self._feed.lost = self._feed.lost, []
        for key in lost:
            bind = self.waiting.drop(key)
            if bind is not None:
                self._let_go(bind, f"{key} went away, or elsewhere, meanwhile")
        for group in self.waiting.overdue(self._feed.now.steady_s):
            for bind in self.waiting.leave(group):
                self._let_go(bind, "it waited for others in vain")

    def _released(self, bind: Bind) -> Decision:
        """A bind that need not wait any more, if all of its places still stand."""
        if all(self._feed.stands(member.ask, member.node) is not None for member in bind.members):
            return bind
        self._free(bind)
        return LetGo(bind, "a node that it was to go to went away")

    def _let_go(self, bind: Bind, why: str) -> None:
        self._free(bind)
        self._out.append(LetGo(bind, why))

    def _free(self, bind: Bind) -> None:
        for member in bind.members:
            self._feed.let_go(member.ask)
        self._feed.queue.failed(bind.attempt, self._feed.now.steady_s)
