"""Event ledger: which events must be written now, and with which counts? The rules without I/O or clock.

The first occurrence is written at once. Repeats are counted into the same event as a series, which is written again
after `first_repeat_s`, then at doubling intervals up to `repeat_cap_s`, and is closed when nothing came for `close_s`.
An object gets `burst` events of its own, then one per `refill_s`; what comes beyond that is counted into the last event
with the same reason where there is one, else dropped and counted as dropped. So always

    recorded = written + pending + dropped + failed
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal

import msgspec

from koord.api.kubernetes.core import Event, EventSeries
from koord.api.kubernetes.meta import ObjectMeta, ObjectReference
from koord.kube.election import micro_time
from koord.kube.token_bucket import TokenBucket

EventType = Literal["Normal", "Warning"]
EventOutcome = Literal["scheduled", "counted", "dropped"]

NOTE_BYTES = 1024
WORD_LENGTH = 128
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@dataclass(frozen=True, slots=True)
class EventLimits:
    max_series: int = 1024
    burst: int = 25
    refill_s: float = 300.0
    first_repeat_s: float = 5.0
    repeat_cap_s: float = 300.0
    close_s: float = 360.0
    max_tries: int = 12
    retry_base_s: float = 1.0
    retry_cap_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Something that happened to an object, in words for users."""

    regarding: ObjectReference
    reason: str
    note: str = field(compare=False)
    action: str
    type: EventType = "Normal"
    related: ObjectReference | None = None
    theme: str = ""
    "What the note is about: notes of one theme are one series, with the words that are the newest when it is created."

    @property
    def alike(self) -> tuple[ObjectReference, str, str, str]:
        """What events have in common that differ only in their words."""
        return self.regarding, self.reason, self.action, self.type


@dataclass(frozen=True, slots=True)
class Write:
    """One call to make: create the event, or set its series. `count` is what it will then stand for."""

    key: Occurrence
    event: Event
    create: bool
    count: int

    @property
    def series_patch(self) -> dict[str, object]:
        assert self.event.series is not None
        series = self.event.series
        return {"series": {"count": series.count, "lastObservedTime": series.last_observed_time}}


@dataclass(slots=True)
class Counts:
    recorded: int = 0
    written: int = 0
    dropped: int = 0
    failed: int = 0


@dataclass(slots=True)
class _Series:
    name: str
    first_wall: float
    last_wall: float
    last_seen: float
    due: float
    count: int = 1
    written: int = 0
    created: bool = False
    in_flight: bool = False
    tries: int = 0
    interval_s: float = 0.0

    @property
    def pending(self) -> int:
        return self.count - self.written


class EventLedger:
    """All events of one reporter that may still change."""

    def __init__(self, controller: str, instance: str, limits: EventLimits | None = None) -> None:
        self.controller, self.instance = controller, instance[:WORD_LENGTH]
        self.limits = limits or EventLimits()
        self.counts = Counts()
        self._series: dict[Occurrence, _Series] = {}
        # Each series is in one of these, or under way: what is looked for is then at hand, however many there are.
        self._unwritten: dict[Occurrence, None] = {}
        self._idle: OrderedDict[Occurrence, None] = OrderedDict()
        self._latest: dict[tuple[ObjectReference, str, str, str], Occurrence] = {}
        self._buckets: OrderedDict[ObjectReference, TokenBucket] = OrderedDict()
        self._names = 0

    def __len__(self) -> int:
        return len(self._series)

    @property
    def pending(self) -> int:
        """Occurrences that are not yet written."""
        return sum(series.pending for series in self._series.values())

    def record(self, occurrence: Occurrence, now: float, wall: float) -> EventOutcome:
        """Adds an occurrence: as a new event to write, or to one that is pending."""
        self.counts.recorded += 1
        key = occurrence
        if key not in self._series and not self._may_begin(occurrence, now):
            similar = self._latest.get(occurrence.alike)
            if similar is None:
                self.counts.dropped += 1
                return "dropped"
            key = similar
        series = self._series.get(key)
        if series is None:
            self._series[key] = _Series(self._name(key, wall), wall, wall, now, due=now)
            self._latest[key.alike] = key
            self._unwritten[key] = None
            return "scheduled"
        outcome: EventOutcome = "counted"
        if series.pending == 0:
            series.due = max(series.due, now + self.limits.first_repeat_s)
            outcome = "scheduled"
        series.count += 1
        series.last_wall, series.last_seen = wall, now
        self._sort(key, series)
        return outcome

    def due(self, now: float, *, all_pending: bool = False) -> list[Write]:
        """The calls to make now; each must be answered by `done`, `gone` or `failed`. Also closes what is over."""
        writes = []
        for key in list(self._unwritten):
            series = self._series[key]
            if all_pending or series.due <= now:
                series.in_flight = True
                self._sort(key, series)
                writes.append(self._write(key, series))
        while self._idle and now - self._series[oldest := next(iter(self._idle))].last_seen >= self.limits.close_s:
            self._forget(oldest)
        return writes

    def next_due(self) -> float | None:
        """When `due` should be asked next."""
        return min((self._series[key].due for key in self._unwritten), default=None)

    def done(self, write: Write, now: float, *, existed: bool = False) -> None:
        """The call succeeded. `existed`: an earlier create had, whose answer was lost; its count is not known."""
        series = self._series[write.key]
        series.in_flight, series.created, series.tries = False, True, 0
        if existed and write.count > 1:
            self._sort(write.key, series)
            return
        self.counts.written += write.count - series.written
        series.written = write.count
        series.interval_s = self._next_interval_s(series.interval_s)
        series.due = now + series.interval_s
        self._sort(write.key, series)

    def returned(self, write: Write) -> None:
        """The call was not made, or was cut off: the write stays due."""
        if series := self._series.get(write.key):
            series.in_flight = False
            self._sort(write.key, series)

    def gone(self, write: Write, now: float) -> None:
        """The event to change was no longer there: it is created again, with its full count."""
        series = self._series[write.key]
        series.in_flight, series.created, series.due = False, False, now
        self._sort(write.key, series)

    def failed(self, write: Write, now: float, *, retry: bool) -> float | None:
        """The call failed. Returns when it is tried again; None where it is given up."""
        series = self._series[write.key]
        series.in_flight = False
        series.tries += 1
        if retry and series.tries < self.limits.max_tries:
            delay_s = min(self.limits.retry_cap_s, self.limits.retry_base_s * 2.0 ** (series.tries - 1))
            series.due = now + delay_s
            self._sort(write.key, series)
            return series.due
        self.counts.failed += series.pending
        self._forget(write.key)
        return None

    def give_up(self) -> int:
        """Counts all that is pending as failed: the reporter ends. Returns how many that are."""
        pending = self.pending
        self.counts.failed += pending
        for table in (self._series, self._latest, self._unwritten, self._idle):
            table.clear()
        return pending

    def _write(self, key: Occurrence, series: _Series) -> Write:
        repeated = EventSeries(series.count, micro_time(series.last_wall)) if series.count > 1 else None
        event = Event(
            metadata=ObjectMeta(name=series.name, namespace=key.regarding.namespace or "default"),
            event_time=micro_time(series.first_wall),
            series=repeated,
            reporting_controller=self.controller,
            reporting_instance=self.instance,
            action=key.action,
            reason=key.reason,
            regarding=key.regarding,
            related=key.related,
            note=key.note,
            type=key.type,
        )
        return Write(key, event, create=not series.created, count=series.count)

    def _may_begin(self, occurrence: Occurrence, now: float) -> bool:
        """Whether there is room, and a token of its object, for one more event."""
        if len(self._series) >= self.limits.max_series and not self._make_room():
            return False
        bucket = self._buckets.get(occurrence.regarding)
        if bucket is None:
            bucket = self._buckets[occurrence.regarding] = TokenBucket(1 / self.limits.refill_s, self.limits.burst)
            while len(self._buckets) > 4 * self.limits.max_series:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(occurrence.regarding)
        return bucket.take(now)

    def _make_room(self) -> bool:
        """Forgets the event that was completely written longest ago."""
        if not self._idle:
            return False
        self._forget(next(iter(self._idle)))
        return True

    def _sort(self, key: Occurrence, series: _Series) -> None:
        """A series has changed: where it is looked for."""
        self._unwritten.pop(key, None)
        self._idle.pop(key, None)
        if series.in_flight:
            return
        if series.pending:
            self._unwritten[key] = None
        else:
            self._idle[key] = None

    def _forget(self, key: Occurrence) -> None:
        self._unwritten.pop(key, None)
        self._idle.pop(key, None)
        del self._series[key]
        if self._latest.get(key.alike) == key:
            del self._latest[key.alike]

    def _next_interval_s(self, interval_s: float) -> float:
        return min(self.limits.repeat_cap_s, interval_s * 2) if interval_s else self.limits.first_repeat_s

    def _name(self, key: Occurrence, wall: float) -> str:
        """Unique among this reporter's events, and readable where the object's name allows it."""
        self._names += 1
        digest = blake2b(f"{self.instance}/{wall!r}/{self._names}".encode(), digest_size=8).hexdigest()
        named = key.regarding.name[:230].rstrip(".-")
        return f"{named}.{digest}" if _SUBDOMAIN.fullmatch(named) else f"event.{digest}"


def occurrence(
    regarding: ObjectReference,
    reason: str,
    note: str,
    *,
    action: str = "",
    type: EventType = "Normal",
    related: ObjectReference | None = None,
    theme: str | None = None,
) -> Occurrence:
    """An occurrence that every API server accepts: words and notes cut to their limits, none missing."""
    reason = reason[:WORD_LENGTH] or "Unknown"
    action = action[:WORD_LENGTH] or reason
    about = note if theme is None else theme
    return Occurrence(_whole(regarding), reason, _cut(note), action, type, _whole(related) if related else None, about)


def _whole(reference: ObjectReference) -> ObjectReference:
    """The object, whatever its version: else every change of it would begin a new series."""
    return msgspec.structs.replace(reference, resource_version="") if reference.resource_version else reference


def _cut(note: str) -> str:
    encoded = note.encode("utf-8", "replace")
    if len(encoded) <= NOTE_BYTES:
        return encoded.decode()
    return encoded[: NOTE_BYTES - 3].decode("utf-8", "ignore") + "..."
