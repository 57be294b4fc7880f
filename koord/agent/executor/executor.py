"""Carries out what strategies want, once a round.

Each round every strategy that ran says all that it wants; the rest follows. What is already so is not written, what was
verified a moment ago is not even read, a directory that is gone or a knob that this kernel lacks is passed over in
silence, what the kernel refuses is told and tried again next time. What nobody wants any more is put back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from koord.agent.executor.ledger import Entry, Ledger, knob_of, value_of
from koord.agent.executor.order import merged, ordered
from koord.agent.executor.write import Spot, Step, Write
from koord.agent.host.cgroups import Cgroups
from koord.agent.host.knobs import Knob, Value

log = logging.getLogger(__name__)

VERIFIED_FOR_S: Final = 60.0
"""For how long a spot counts as what was last seen there; another writer is noticed after that."""


class Done(NamedTuple):
    """A write that took place, for the audit."""

    write: Write
    old: Value
    value: Value


class Refused(NamedTuple):
    write: Write
    error: str


class _Seen(NamedTuple):
    value: Value
    at_s: float


@dataclass(slots=True)
class Outcome:
    done: list[Done] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    disagreed: list[tuple[Write, Write]] = field(default_factory=list)


class Executor:
    def __init__(
        self,
        cgroups: Cgroups,
        ledger: Ledger,
        save: Callable[[bytes], None] = lambda text: None,
        dry_run: bool = False,
    ) -> None:
        """`save` puts the ledger on disk, before anything is written that it tells of."""
        self._cgroups = cgroups
        self.ledger = ledger
        self._save = save
        self._dry_run = dry_run
        self._seen: dict[Spot, _Seen] = {}

    def apply(self, writes: Iterable[Write], ran: Collection[str], now_s: float) -> Outcome:
        """`ran`: the strategies whose wishes these are; those of others stay as they are."""
        wanted, disagreed = merged(write for write in writes if self._is_possible(write))
        outcome = Outcome(disagreed=disagreed)
        restores = self._restores(self.ledger.unwanted(ran, wanted.keys()))
        everything = {**wanted, **{write.spot: write for write in restores}}
        now = self._values(everything.values(), now_s)
        steps = ordered(everything.values(), now)
        values: dict[Spot, list[Value]] = {}
        for step in steps:
            values.setdefault(step.write.spot, []).append(step.value)
        for spot in values.keys() & wanted.keys():
            self.ledger.intend(wanted[spot], now[spot], values[spot])
        self._keep()
        for step in steps:
            self._carry_out(step, now, outcome, now_s)
        failed = {refusal.write.spot for refusal in outcome.refused}
        for write in restores:
            if write.spot not in failed:
                self.ledger.forget(write.spot)
        self._keep()
        return outcome

    def restore_all(self, now_s: float) -> Outcome:
        """As if the agent had never been here."""
        return self.apply((), {entry.by for entry in self.ledger}, now_s)

    def _is_possible(self, write: Write) -> bool:
        if fault := write.knob.fault(write.value):
            log.error("%s wants what cannot be, in %s: %s", write.by, write.directory, fault)
            return False
        return self._cgroups.has(write.knob, write.directory)

    def _restores(self, entries: Iterable[Entry]) -> list[Write]:
        restores = []
        for entry in entries:
            knob = knob_of(entry)
            held = None if knob is None else self._read(knob, entry.directory)
            # A spot that is gone needs nothing; one that shows another's value is theirs.
            if knob is None or held not in [self._as_shown(knob, value_of(each)) for each in entry.wrote]:
                self.ledger.forget(entry.spot)
            else:
                why = f"{entry.by} no longer wants it"
                restores.append(Write(knob, entry.directory, value_of(entry.found), entry.by, why))
        return restores

    def _as_shown(self, knob: Knob, value: Value) -> Value:
        """What the kernel shows after the value was written: a weight has fewer steps than shares."""
        place = self._cgroups.place(knob)
        return value if place is None else place.form.read(place.form.write(value))

    def _values(self, writes: Iterable[Write], now_s: float) -> dict[Spot, Value]:
        """What the spots hold, in the words of what is wanted: what the kernel would show the same way is the same."""
        values = {}
        for write in writes:
            seen = self._seen.get(write.spot)
            if seen is not None and seen.value == write.value and now_s - seen.at_s < VERIFIED_FOR_S:
                values[write.spot] = seen.value
                continue
            held = self._read(write.knob, write.directory)
            if held is None:
                self._seen.pop(write.spot, None)
                self.ledger.forget(write.spot)
                continue
            if held == self._as_shown(write.knob, write.value):
                held = write.value
                self._seen[write.spot] = _Seen(held, now_s)
            values[write.spot] = held
        return values

    def _read(self, knob: Knob, directory: str) -> Value | None:
        try:
            return self._cgroups.configured(knob, directory)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _carry_out(self, step: Step, now: dict[Spot, Value], outcome: Outcome, now_s: float) -> None:
        write, spot = step.write, step.write.spot
        self._seen.pop(spot, None)
        try:
            if not self._dry_run:
                self._cgroups.set(write.knob, write.directory, step.value)
        except (FileNotFoundError, NotADirectoryError):
            self.ledger.forget(spot)
            return
        except OSError as error:
            outcome.refused.append(Refused(write, f"{step.value}: {error.strerror}"))
            return
        outcome.done.append(Done(write, now[spot], step.value))
        now[spot] = step.value
        if step.is_last and not self._dry_run:
            self._seen[spot] = _Seen(step.value, now_s)
            self.ledger.settle(spot, step.value)

    def _keep(self) -> None:
        if self.ledger.is_dirty and not self._dry_run:
            self._save(self.ledger.text())
            self.ledger.is_dirty = False

    def forget(self, directory: str) -> None:
        """A pod that is gone: nothing of it is remembered."""
        below = directory + "/"
        for spot in [spot for spot in self._seen if spot.directory == directory or spot.directory.startswith(below)]:
            del self._seen[spot]
        for entry in self.ledger:
            if entry.directory == directory or entry.directory.startswith(below):
                self.ledger.forget(entry.spot)
        self._cgroups.forget(directory)
