"""The loop: decides as long as somebody is ready and the API server keeps up, and rests in between.

It gives way to what informers hear, and has each decision carried out and told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from koord.api.kubernetes.pod import Pod
from koord.kube.client import Client
from koord.scheduler.live.auditing import Auditing
from koord.scheduler.live.binding import Bindings, Outcome
from koord.scheduler.live.cycle import Bind, Cycle, Decision, Nowhere
from koord.scheduler.live.diagnosis import Inspection
from koord.scheduler.live.feed import Feed
from koord.scheduler.live.metrics import ERROR, SCHEDULED, UNSCHEDULABLE, SchedulerMetrics
from koord.scheduler.live.monitor import Monitor
from koord.scheduler.live.preempting import Preempting
from koord.scheduler.live.telling import Telling

BETWEEN_BREATHS: Final = 16
"""After so many decisions in a row, whoever else has something to do is let through."""
LONGEST_REST_S: Final = 1.0


class Loop:
    """Schedules from one feed. `ready` is set by whoever has something new for it."""

    def __init__(
        self,
        client: Client,
        feed: Feed,
        telling: Telling,
        metrics: SchedulerMetrics,
        ready: asyncio.Event,
        pod_of: Callable[[str], Pod | None],
        inspection: Inspection | None = None,
        audit: Auditing | None = None,
    ) -> None:
        self._feed, self._telling, self._metrics, self._ready = feed, telling, metrics, ready
        self._clock, self._audit = feed.clock, audit
        if audit is not None:
            audit.feed = feed
        self._monitor = Monitor(metrics.timed_out)
        self._cycle = Cycle(feed, inspection, metrics.spent)
        self.bindings = Bindings(
            client,
            feed,
            feed.clock,
            told=self._told,
            wake=ready.set,
            settled=telling.settled,
            begun=self._begun,
            awaiting=telling.awaits_volumes,
            spent=metrics.spent,
        )
        self._preempting = Preempting(client, feed, telling, pod_of=pod_of, wake=ready.set, done=metrics.made_room)
        self._began_s: dict[str, float] = {}
        self._stopping = False

    def stop(self) -> None:
        """Decide no more; `run` returns when all that was decided is carried out."""
        self._stopping = True
        self._ready.set()

    async def run(self) -> None:
        """Decides until stopped or cancelled; what is being bound then is let through."""
        try:
            while not self._stopping:
                await self._decide()
                await self._rest()
        except BaseException:
            await self.bindings.finish()
            await self._preempting.finish()
            raise
        await self.bindings.finish(None)
        await self._preempting.finish()

    async def _decide(self) -> None:
        """As long as somebody is ready."""
        decided = 0
        while not self._stopping and not self._is_full:
            began_s = self._clock.monotonic()
            decision = self._cycle.step()
            if decision is None:
                return
            took_s = self._clock.monotonic() - began_s
            self._metrics.decided(took_s)
            self._monitor.decided(decision.ask, decision.profile, took_s)
            self._carry_out(decision, began_s)
            self.bindings.look_after_waiting()
            decided += 1
            if decided % BETWEEN_BREATHS == 0:
                await asyncio.sleep(0)

    def _carry_out(self, decision: Decision, began_s: float) -> None:
        if self._audit is not None:
            self._audit.decided(decision)
        if isinstance(decision, Bind):
            self._began_s[decision.ask.meta.uid] = began_s
            self.bindings.start(decision)
            return
        nowhere = isinstance(decision, Nowhere)
        if isinstance(decision, Nowhere):
            self._telling.nowhere(decision)
            self._preempting.start(decision)
            if decision.remedy.node is not None or decision.remedy.message:
                self._metrics.preempted(len(decision.remedy.victims))
        else:
            self._telling.broken(decision)
        took_s = self._clock.monotonic() - began_s
        self._metrics.attempted(UNSCHEDULABLE if nowhere else ERROR, decision.profile, took_s)

    @property
    def _is_full(self) -> bool:
        return self.bindings.is_full or self._preempting.is_full

    async def _rest(self) -> None:
        """Until something happens, or time alone makes somebody ready."""
        self.bindings.look_after_waiting()
        self._look(self._clock.monotonic())
        rest_s = LONGEST_REST_S
        change_s = None if self._is_full else self._feed.queue.next_change_s()
        if change_s is not None:
            rest_s = min(rest_s, max(0.0, change_s - self._clock.monotonic()))
        if self._stopping:
            return
        self._ready.clear()
        try:
            async with asyncio.timeout(rest_s):
                await self._ready.wait()
        except TimeoutError:
            pass

    def _look(self, now_s: float) -> None:
        """What is to be seen of the whole, now and then."""
        self._metrics.look(self._feed, now_s)
        self._metrics.calls(len(self.bindings), self._telling.unwritten)
        self._monitor.look(now_s)
        if self._audit is not None:
            self._audit.look(now_s)
        queue = self._feed.queue
        for attempt in self._monitor.unattended(queue, self.bindings.attempts, now_s):
            for ask in attempt.entity.pods:
                self._feed.let_go(ask)
            queue.failed(attempt, now_s)

    def _begun(self, bind: Bind) -> None:
        self._monitor.began(bind.ask, bind.profile, self._clock.monotonic())

    def _told(self, bind: Bind, outcome: Outcome, why: str) -> None:
        now_s, uid = self._clock.monotonic(), bind.ask.meta.uid
        took_s = now_s - self._began_s.pop(uid, now_s)
        self._monitor.ended(uid, now_s)
        if outcome == "bound":
            self._telling.bound(bind)
            if self._audit is not None:
                self._audit.bound(bind)
            self._metrics.attempted(SCHEDULED, bind.profile, took_s)
            self._metrics.bound(bind.attempt, now_s - bind.attempt.came_s)
        elif outcome == "failed":
            self._telling.not_bound(bind, why)
            if self._audit is not None:
                self._audit.not_bound(bind)
            self._metrics.attempted(ERROR, bind.profile, took_s)
        else:
            self._telling.forget(uid)
