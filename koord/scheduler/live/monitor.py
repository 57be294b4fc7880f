"""Attempts that take too long, and pods taken from the queue that are never tried.

    every 10 s      an attempt that began more than 30 s ago is logged, and counted
    at its end      once more
    after 5 s       a pod that was taken from the queue and is not being handled is put back

Decisions come right after a pod is taken, so only its binding may take long. Waiting because a plugin asked for it does
not count as an attempt. The monitor costs one record for each binding.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from koord.scheduler.core.entity import Attempt, Where
from koord.scheduler.framework.ask import Ask

log = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 10.0
LONGEST_ATTEMPT_S: Final = 30.0
UNATTENDED_S: Final = 5.0


class _UnderWay(NamedTuple):
    ask: Ask
    profile: str
    began_s: float


class _Unattended(NamedTuple):
    attempt: Attempt
    tries: int
    since_s: float


class Monitor:
    """Of one loop. `timed_out` counts what took too long, by profile."""

    def __init__(self, timed_out: Callable[[str], None] = lambda profile: None) -> None:
        self._timed_out = timed_out
        self._under_way: dict[str, _UnderWay] = {}
        self._unattended: dict[str, _Unattended] = {}
        self._looked_s = float("-inf")
        self._searched_s = float("-inf")

    def began(self, ask: Ask, profile: str, now_s: float) -> None:
        """An attempt is in progress: its pod is being bound."""
        self._under_way[ask.meta.uid] = _UnderWay(ask, profile, now_s)

    def ended(self, uid: str, now_s: float) -> None:
        attempt = self._under_way.pop(uid, None)
        if attempt is not None:
            self._warn(attempt, now_s - attempt.began_s)

    def decided(self, ask: Ask, profile: str, seconds: float) -> None:
        """A decision was made, and took `seconds`."""
        if seconds > LONGEST_ATTEMPT_S:
            self._warn(_UnderWay(ask, profile, 0.0), seconds)

    def look(self, now_s: float) -> None:
        """Reports attempts that take too long; checks only every `LOOK_EVERY_S` seconds."""
        if now_s - self._looked_s < LOOK_EVERY_S:
            return
        self._looked_s = now_s
        for attempt in list(self._under_way.values()):
            self._warn(attempt, now_s - attempt.began_s)

    def unattended(self, taken: Iterable[Attempt], attended: Iterable[Attempt], now_s: float) -> list[Attempt]:
        """Attempts taken from the queue that have not been handled for `UNATTENDED_S` seconds, and will not be."""
        if now_s - self._searched_s < UNATTENDED_S:
            return []
        self._searched_s = now_s
        attended_ids = {id(attempt) for attempt in attended}
        before, self._unattended = self._unattended, {}
        late = []
        for attempt in taken:
            if attempt.where is not Where.IN_FLIGHT or id(attempt) in attended_ids:
                continue
            key = attempt.entity.key
            was = before.get(key)
            if was is None or was.attempt is not attempt or was.tries != attempt.tries:
                was = _Unattended(attempt, attempt.tries, now_s)
            if now_s - was.since_s >= UNATTENDED_S:
                log.error("taken from the queue and not being handled: it is put back", extra={"pod": key})
                late.append(attempt)
            else:
                self._unattended[key] = was
        return late

    def _warn(self, attempt: _UnderWay, took_s: float) -> None:
        if took_s <= LONGEST_ATTEMPT_S:
            return
        meta = attempt.ask.meta
        log.warning(
            "!!!CRITICAL TIMEOUT!!! scheduling pod %s/%s(%s) took longer (%.1fs) than the timeout %.0fs",
            meta.namespace,
            meta.name,
            meta.uid,
            took_s,
            LONGEST_ATTEMPT_S,
        )
        self._timed_out(attempt.profile)
