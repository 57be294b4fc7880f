"""Measures decisions, and hands them to metrics and diagnoses. The core has no clock; here is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from koord.kube.clock import Clock
from koord.scheduler.core.observer import Observer
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Placement
from koord.scheduler.framework.remedy import Remedy
from koord.scheduler.live.diagnosis import Inspection
from koord.scheduler.live.metrics import Spent
from koord.scheduler.plugins.gangs import JOB
from koord.scheduler.suggestion import Suggestion

SUCCESS: Final = "preempt success"
"""Koordinator's word for a search that found victims."""


class Onlooker(Observer):
    """`for_job` is called with a job, the result of the search for its victims, and how long the search took."""

    def __init__(
        self,
        clock: Clock,
        spent: Spent,
        inspection: Inspection | None = None,
        for_job: Callable[[str, str, float], None] = lambda job, result, took_s: None,
    ) -> None:
        self._clock, self._spent, self._inspection, self._for_job = clock, spent, inspection, for_job
        self._began_s = 0.0

    def placing(self, engine: Engine, asks: Sequence[Ask]) -> None:
        if self._inspection is not None and self._inspection.flags.before_placing:
            for ask in asks:
                self._inspection.before(engine, ask)
        self._began_s = self._clock.monotonic()

    def placed(self, engine: Engine, *, has_place: bool) -> None:
        now_s = self._clock.monotonic()
        self._spent("Filter", "Success" if has_place else "Unschedulable", engine.profile.name, now_s - self._began_s)
        self._began_s = now_s

    def helped(self, engine: Engine, remedy: Remedy, *, job: str = "") -> None:
        makers = engine.profile.at("postFilter", "post_filter")
        # The seconds are one plugin's where there is only one.
        plugin = makers[0][0] if len(makers) == 1 else ""
        took_s = self._clock.monotonic() - self._began_s
        self._spent("PostFilter", "Success" if remedy.helps else "Unschedulable", engine.profile.name, took_s, plugin)
        if job and (remedy.helps or remedy.message):
            self._for_job(job.removeprefix(JOB), SUCCESS if remedy.helps else _why(remedy.message), took_s)

    def nowhere(
        self, engine: Engine, ask: Ask, placement: Placement, remedy: Remedy, suggestion: Suggestion | None
    ) -> None:
        if self._inspection is not None and self._inspection.flags.dumps:
            self._inspection.nowhere(engine, ask, placement, remedy, suggestion)


def _why(message: str) -> str:
    return message.removeprefix("preemption: ")
