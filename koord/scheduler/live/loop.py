"""The loop: decides while pods are ready and the API server keeps up, and rests in between.

It yields to the informers, and has each decision carried out and reported.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Literal

from koord.api.kinds import PODS
from koord.api.kubernetes.pod import Pod
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.scheduler.core.core import BindingOutcome, Core
from koord.scheduler.core.decision import Bind, Broken, Decision, LetGo, Nowhere, Placed, Wait
from koord.scheduler.framework.writes import Tell
from koord.scheduler.live.auditing import Auditing
from koord.scheduler.live.binding import Bindings
from koord.scheduler.live.handing_over import HandingOver
from koord.scheduler.live.metrics import ERROR, SCHEDULED, UNSCHEDULABLE, SchedulerMetrics
from koord.scheduler.live.monitor import Monitor
from koord.scheduler.live.noticing import UnderNotice
from koord.scheduler.live.preempting import Preempting
from koord.scheduler.live.sources import moment
from koord.scheduler.live.telling import Telling
from koord.scheduler.live.writing import Writing
from koord.scheduler.shards import Shard

log = logging.getLogger(__name__)

BETWEEN_BREATHS: Final = 16
"""The number of decisions in a row after which the loop yields to other tasks."""
LONGEST_REST_S: Final = 1.0
GATED_FOR_S: Final = 1.0
"""After this time, the pods of a job that is not tried say why."""


class Loop:
    """Schedules from one core. Callers that have something new for it set `ready`."""

    def __init__(
        self,
        client: Client,
        core: Core,
        clock: Clock,
        telling: Telling,
        metrics: SchedulerMetrics,
        ready: asyncio.Event,
        pod_of: Callable[[str], Pod | None],
        audit: Auditing | None = None,
        under: UnderNotice | None = None,
        shard: Shard | None = None,
    ) -> None:
        self._client, self._core, self._clock = client, core, clock
        self._telling, self._metrics, self._ready, self._audit = telling, metrics, ready, audit
        telling.subject = core.subject
        if audit is not None:
            audit.core = core
        self._monitor = Monitor(metrics.timed_out)
        self.bindings = Bindings(
            client,
            core,
            clock,
            on_outcome=self._told,
            wake=ready.set,
            settled=telling.settled,
            begun=self._begun,
            awaiting=telling.awaits,
            spent=metrics.spent,
        )
        self._preempting = Preempting(
            client, core, clock, telling, pod_of=pod_of, wake=ready.set, done=metrics.made_room, under=under
        )
        self._handing_over = HandingOver(client, core, shard, clock, pod_of) if shard is not None else None
        self._began_s: dict[str, float] = {}
        self._waits_since_s: dict[str, float] = {}
        "By key of entity, since when it waits for others."
        self._gates: dict[str, tuple[str, float, bool]] = {}
        "By key of a job that must not be tried yet, why not, since when for that reason, and whether it is told."
        self._writing = Writing(
            client,
            clock,
            pod_of,
            under,
            telling.told_to_go,
            telling.evicted,
            metrics.written,
            core.cluster.shield,
        )
        self._stopping = False

    def stop(self) -> None:
        """Decide no more; `run` returns when all that was decided is carried out."""
        self._stopping = True
        self._ready.set()

    async def run(self) -> None:
        """Decide until stopped or cancelled; bindings in progress are then finished."""
        try:
            while not self._stopping:
                await self._decide()
                await self._rest()
        except BaseException:
            await self._finish(grace=True)
            raise
        await self._finish(grace=False)

    async def _finish(self, *, grace: bool) -> None:
        self._core.give_up_waiting("the scheduler is ending")
        while (decision := self._core.decide()) is not None and isinstance(decision, LetGo):
            self._carry_out(decision, self._clock.monotonic())
        await (self.bindings.finish() if grace else self.bindings.finish(None))
        await self._preempting.finish()
        if self._handing_over is not None:
            await self._handing_over.finish()
        self._writing.stop()

    async def _decide(self) -> None:
        """Decides as long as a pod or job is ready."""
        decided = 0
        while not self._stopping and not self._is_full:
            began_s = self._clock.monotonic()
            self._core.at(moment(self._clock))
            decision = self._core.decide()
            if decision is None:
                return
            took_s = self._clock.monotonic() - began_s
            self._metrics.decided(took_s)
            if decision.attempt.entity.is_job:
                placed = isinstance(decision, Bind | Wait)
                self._metrics.decided_job(len(decision.attempt.entity.pods), took_s, placed=placed)
            self._monitor.decided(decision.ask, decision.profile, took_s)
            with self._core.cluster.shield.about("carry out what was decided", PODS, decision.ask.meta):
                self._carry_out(decision, began_s)
            self._write_all()
            decided += 1
            if decided % BETWEEN_BREATHS == 0:
                await asyncio.sleep(0)

    def _carry_out(self, decision: Decision, began_s: float) -> None:
        match decision:
            case Bind():
                self._permitted(decision.attempt.entity.key, decision.profile, "Success")
                self._telling.left_out(decision)
                for placed in decision.members:
                    self._began_s[placed.ask.meta.uid] = began_s
                self.bindings.start(decision)
            case Wait():
                self._waits_since_s[decision.attempt.entity.key] = self._clock.monotonic()
            case LetGo():
                self._permitted(decision.attempt.entity.key, decision.profile, "Unschedulable")
                self._telling.let_go(decision)
                self._attempted(ERROR, decision.profile, began_s)
            case Nowhere() if self._handing_over is not None and self._handing_over.start(decision):
                self._attempted(UNSCHEDULABLE, decision.profile, began_s)
            case Nowhere():
                if self._audit is not None:
                    self._audit.decided(decision)
                self._telling.nowhere(decision)
                if decision.attempt.entity.is_job:
                    reasons = ", ".join(sorted(decision.placement.rejections))
                    self._telling.job(self._core.about(decision.asks), decision.message, reasons)
                self._preempting.start(decision)
                if decision.remedy.helps or decision.remedy.message:
                    self._metrics.preempted(sum(len(move.victims) for move in decision.moves))
                self._attempted(UNSCHEDULABLE, decision.profile, began_s)
            case Broken():
                if decision.error is not None:
                    log.error("no decision: a plugin failed", exc_info=decision.error, extra={"pod": decision.ask.key})
                if self._audit is not None:
                    self._audit.decided(decision)
                self._telling.broken(decision)
                self._attempted(ERROR, decision.profile, began_s)

    def _write_all(self) -> None:
        for write in self._core.take_writes():
            if isinstance(write, Tell):
                self._telling.tell(write)
            else:
                self._writing.put(write)

    def _attempted(self, result: str, profile: str, began_s: float) -> None:
        self._metrics.attempted(result, profile, self._clock.monotonic() - began_s)

    def _permitted(self, entity: str, profile: str, status: Literal["Success", "Unschedulable"]) -> None:
        """An entity waits for others no longer, if it did."""
        since_s = self._waits_since_s.pop(entity, None)
        if since_s is not None:
            self._metrics.spent("Permit", status, profile, self._clock.monotonic() - since_s)

    @property
    def _is_full(self) -> bool:
        return self.bindings.is_full or self._preempting.is_full

    async def _rest(self) -> None:
        """Waits until something happens, or until time alone makes a pod ready."""
        self._write_all()
        self._look(self._clock.monotonic())
        rest_s = min(LONGEST_REST_S, self._core.writes_in_s())
        change_s = None if self._is_full else self._core.next_change_s()
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
        """Updates metrics and the monitor from time to time."""
        shield = self._core.cluster.shield
        with shield.about("measure"):
            self._metrics.look(self._core, now_s)
            self._metrics.calls(len(self.bindings) + self._core.waiting(), self._telling.unwritten)
        self._monitor.look(now_s)
        with shield.about("say why jobs are not tried"):
            self._look_at_gates(now_s)
        with shield.about("look after victims"):
            self._preempting.look()
        with shield.about("look after what is being written"):
            self._writing.look()
        if self._audit is not None:
            with shield.about("audit"):
                self._audit.look(now_s)
        self._core.at(moment(self._clock))
        for attempt in self._monitor.unattended(self._core.queue, self._core.awaited, now_s):
            self._core.unattended(attempt)

    def _look_at_gates(self, now_s: float) -> None:
        """Jobs that are not tried for a while say why. Gates that change all the time are not reported."""
        before, self._gates = self._gates, {}
        for attempt in self._core.queue.gated():
            if not attempt.entity.is_job:
                continue
            key = attempt.entity.key
            text, since_s, is_told = before.get(key, ("", now_s, False))
            if text != attempt.gate:
                since_s, is_told = now_s, False
            if now_s - since_s >= GATED_FOR_S:
                self._telling.gated(attempt.entity.pods, attempt.gate)
                if not is_told:
                    self._telling.job(self._core.about(attempt.entity.pods), attempt.gate)
                    is_told = True
            self._gates[key] = attempt.gate, since_s, is_told

    def _begun(self, bind: Bind, placed: Placed) -> None:
        self._monitor.began(placed.ask, bind.profile, self._clock.monotonic())

    def _told(self, bind: Bind, placed: Placed, outcome: BindingOutcome, why: str) -> None:
        now_s, uid = self._clock.monotonic(), placed.ask.meta.uid
        took_s = now_s - self._began_s.pop(uid, now_s)
        self._monitor.ended(uid, now_s)
        if outcome == "bound":
            self._telling.bound(placed)
            if self._audit is not None:
                self._audit.bound(placed)
            self._metrics.attempted(SCHEDULED, bind.profile, took_s)
            self._metrics.bound(bind.attempt, now_s - bind.attempt.came_s)
        elif outcome in ("failed", "again"):
            self._telling.not_bound(placed, why)
            if bind.attempt.entity.is_job:
                kept = "keeps its place and is bound again" if outcome == "again" else "has given its place back"
                said = f"pod {placed.ask.key} could not be bound to {placed.node}, and {kept}: {why}"
                self._telling.job(self._core.about([placed.ask]), said, f"{placed.ask.key} {kept}")
            if self._audit is not None:
                self._audit.not_bound(placed)
            self._metrics.attempted(ERROR, bind.profile, took_s)
        else:
            self._telling.forget(uid)
