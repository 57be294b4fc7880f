"""Measures decisions, and hands them to those who look into the scheduler. The core has no clock; here is one."""

from __future__ import annotations

from collections.abc import Sequence

from koord.kube.clock import Clock
from koord.scheduler.core.observer import Observer
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Placement
from koord.scheduler.framework.plugin import Remedy
from koord.scheduler.live.diagnosis import Inspection
from koord.scheduler.live.metrics import Spent
from koord.scheduler.suggestion import Suggestion


class Onlooker(Observer):
    def __init__(self, clock: Clock, spent: Spent, inspection: Inspection | None = None) -> None:
        self._clock, self._spent, self._inspection = clock, spent, inspection
        self._began_s = 0.0

    def placing(self, engine: Engine, asks: Sequence[Ask]) -> None:
        if self._inspection is not None and self._inspection.flags.before_placing:
            for ask in asks:
                self._inspection.before(engine, ask)
        self._began_s = self._clock.monotonic()

    def placed(self, engine: Engine, *, found: bool) -> None:
        now_s = self._clock.monotonic()
        self._spent("Filter", "Success" if found else "Unschedulable", engine.profile.name, now_s - self._began_s)
        self._began_s = now_s

    def helped(self, engine: Engine, *, found: bool) -> None:
        makers = engine.profile.at("postFilter", "post_filter")
        # The seconds are one plugin's where there is only one.
        plugin = makers[0].name if len(makers) == 1 else ""
        took_s = self._clock.monotonic() - self._began_s
        self._spent("PostFilter", "Success" if found else "Unschedulable", engine.profile.name, took_s, plugin)

    def nowhere(
        self, engine: Engine, ask: Ask, placement: Placement, remedy: Remedy, suggestion: Suggestion | None
    ) -> None:
        if self._inspection is not None and self._inspection.flags.dumps:
            self._inspection.nowhere(engine, ask, placement, remedy, suggestion)
