"""Carries out what strategies want, once a round.

Each round every strategy that ran says all that it wants; the rest follows. What is already so is not written, what was
verified a moment ago is not even read, a directory that is gone or a knob that this kernel lacks is passed over in
silence, what the kernel refuses is reported and tried again in the next round. A setting that no strategy wants any
more is put back.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from koord.agent.executor.fitting import fitted
from koord.agent.executor.ledger import Entry, Ledger, knob_of
from koord.agent.executor.order import merged, ordered
from koord.agent.executor.write import Spot, Write, WriteStep
from koord.agent.host import idle_class, processes, usage
from koord.agent.host.cgroups import Cgroups, Version
from koord.agent.host.convert import UNLIMITED
from koord.agent.host.knobs import CPU_IDLE, CPU_SHARES, CPUSET_CPUS, MEMORY_LIMIT, Knob, Place, Value

log = logging.getLogger(__name__)

VERIFIED_FOR_S: Final = 60.0
"""For how long a spot counts as what was last seen there; another writer is noticed after that."""

QUIET_FOR_S: Final = 5.0
"""For how long nothing is done about wishes that are the same as before, when all was as they want it."""


class DoneWrite(NamedTuple):
    """A write that took place, for the audit."""

    write: Write
    old: str
    text: str
    "Both as the file shows them."


class RefusedWrite(NamedTuple):
    write: Write
    error: str


class _SpotReading(NamedTuple):
    value: Value
    text: str
    at_s: float


class _Quiet(NamedTuple):
    """A round after which all settings had the wanted values."""

    writes: Sequence[Write]
    ran: Collection[str]
    until_s: float


@dataclass(slots=True)
class ExecutorOutcome:
    done: list[DoneWrite] = field(default_factory=list)
    refused: list[RefusedWrite] = field(default_factory=list)
    disagreed: list[tuple[Write, Write]] = field(default_factory=list)


class Executor:
    def __init__(
        self,
        cgroups: Cgroups,
        ledger: Ledger,
        save: Callable[[bytes], None] = lambda text: None,
        dry_run: bool = False,
    ) -> None:
        """`save` stores the ledger on disk, before any write that it records."""
        self._cgroups = cgroups
        self.ledger = ledger
        self._save = save
        self.is_dry_run = dry_run
        self._seen: dict[Spot, _SpotReading] = {}
        self._absent: dict[Spot, float] = {}
        "Until when a spot counts as one that this kernel does not have."
        self._awaits = False
        "Whether something is wanted of a directory that is not there: it may come at any moment."
        self._quiet: _Quiet | None = None

    def apply(self, writes: Iterable[Write], ran: Collection[str], now_s: float, within: str = "") -> ExecutorOutcome:
        """`ran`: the strategies whose wishes these are; those of others do not change, and where `within` names a
        directory, so does all outside of it."""
        self._cgroups.read_now.clear()
        writes, quiet, self._quiet = list(writes), self._quiet, None
        if quiet is not None and now_s < quiet.until_s and quiet.ran == ran and quiet.writes == writes:
            self._quiet = quiet
            return ExecutorOutcome()
        self._awaits = False
        wanted, disagreed = merged(write for write in writes if self._is_possible(write, now_s))
        if self._cgroups.version is Version.V1:
            wanted = fitted(wanted, self.ledger, ran)
        outcome = ExecutorOutcome(disagreed=disagreed)
        self._pass_over_shares(wanted)
        self._heed_specs(wanted.values())
        unwanted = self.ledger.unwanted(ran, wanted.keys())
        restores = self._restores(
            (entry for entry in unwanted if not within or _is_in(entry.directory, (within,))), outcome
        )
        everything = {**wanted, **{write.spot: write for write in restores}}
        now = self._otherwise(everything.values(), outcome, now_s)
        for spot in [spot for spot, seen in now.items() if self._would_kill(everything[spot], seen.value, outcome)]:
            del now[spot]
        steps = ordered([everything[spot] for spot in now], {spot: seen.value for spot, seen in now.items()})
        texts: dict[Spot, list[str]] = {}
        for step in steps:
            texts.setdefault(step.write.spot, []).append(self._text(step))
        for spot in texts.keys() & wanted.keys():
            self._intend(wanted[spot], texts[spot])
        self._keep()
        for step in steps:
            self._carry_out(step, now, outcome, now_s)
        failed = {refusal.write.spot for refusal in outcome.refused}
        for write in restores:
            if write.spot not in failed:
                self.ledger.forget(write.spot)
        self._keep()
        is_quiet = not (steps or restores or outcome.refused or disagreed or within)
        if is_quiet and not self._awaits and not any(write.is_watched for write in writes):
            oldest_s = min((seen.at_s for spot in wanted if (seen := self._seen.get(spot))), default=now_s)
            self._quiet = _Quiet(writes, set(ran), min(now_s + QUIET_FOR_S, oldest_s + VERIFIED_FOR_S))
        return outcome

    def restore_all(self, now_s: float) -> ExecutorOutcome:
        """As if the agent had never been here."""
        return self.apply((), {entry.by for entry in self.ledger}, now_s)

    def _is_possible(self, write: Write, now_s: float) -> bool:
        seen = self._seen.get(write.spot)
        if seen is not None and seen.value == write.value:
            return True
        if self._absent.get(write.spot, now_s) > now_s:
            return False
        if fault := write.knob.fault(write.value):
            log.error("%s wants what cannot be, in %s: %s", write.by, write.directory, fault)
            return False
        if seen is not None or self._cgroups.has(write.knob, write.directory):
            return True
        if self._cgroups.is_there(write.directory, write.knob):
            self._absent[write.spot] = now_s + VERIFIED_FOR_S
        else:
            self._awaits = True
        return False

    def _pass_over_shares(self, wanted: dict[Spot, Write]) -> None:
        """Of what is in the idle class or enters it: the kernel takes none there, and shows none that could be kept.

        What leaves it has those that it had, and is given others in the next round.
        """
        for spot in [spot for spot in wanted if spot.knob == CPU_SHARES.name]:
            idle = Spot(CPU_IDLE.name, spot.directory)
            if idle in wanted or idle in self.ledger:
                del wanted[spot]

    def _restores(self, entries: Iterable[Entry], outcome: ExecutorOutcome) -> list[Write]:
        """The writes that restore these entries. An entry that cannot be read now is kept and reported."""
        restores = []
        for entry in entries:
            knob = knob_of(entry)
            place = None if knob is None else self._cgroups.place(knob)
            if knob is None or place is None:
                self._let_go(entry)
                continue
            why, original = f"{entry.by} no longer wants it", entry.found
            write = partial(Write, knob, entry.directory, by=entry.by, why=why, text=original, process=entry.process)
            try:
                if self._is_ours(entry, knob, place):
                    restores.append(write(value=place.form.read(original)))
                else:
                    self._let_go(entry)
            except OSError as error:
                outcome.refused.append(RefusedWrite(write(value=original), f"{original}: {error.strerror}"))
        return restores

    def _let_go(self, entry: Entry) -> None:
        self._seen.pop(entry.spot, None)
        self.ledger.forget(entry.spot)

    def _is_ours(self, entry: Entry, knob: Knob, place: Place) -> bool:
        """A spot that is gone needs nothing; one that shows another's value is theirs."""
        held = self._read(knob, entry.spot)
        return held is not None and _is_ours(place, entry, held)

    def _would_kill(self, write: Write, held: Value, outcome: ExecutorOutcome) -> bool:
        """Reported like a write that the kernel refuses, and retried: usage may fall."""
        if write.knob is not MEMORY_LIMIT or not write.knob.is_tighter(write.value, than=held):
            return False
        in_use = self.in_use_above(write.directory, write.value)
        if in_use is not None:
            outcome.refused.append(RefusedWrite(write, f"{write.value}: {in_use} bytes are in use there"))
        return in_use is not None

    def in_use_above(self, directory: str, limit: Value) -> int | None:
        """On v2 a memory limit below what is in use has processes killed, where v1 refuses it: then, how many bytes."""
        if self._cgroups.version is Version.V1 or not isinstance(limit, int) or limit == UNLIMITED:
            return None
        try:
            in_use = usage.memory(self._cgroups, directory).without_page_cache
        except FileNotFoundError:
            return None
        return in_use if in_use > limit else None

    def _intend(self, write: Write, texts: Iterable[str]) -> None:
        """What the spot shows is put back one day: what was there first, or what another wrote there since."""
        shown = self._read(write.knob, write.spot)
        if shown is None:
            return
        shares = self.ledger.get(Spot(CPU_SHARES.name, write.directory)) if write.knob is CPU_IDLE else None
        if shares is not None:
            # Those are put back in the same round.
            shown = idle_class.weighing(shown, shares.found)
        entry, place = self.ledger.get(write.spot), self._cgroups.place(write.knob)
        is_ours = entry is not None and place is not None and _is_ours(place, entry, shown)
        self.ledger.intend(write, entry.found if entry is not None and is_ours else shown, texts)

    def _heed_specs(self, writes: Iterable[Write]) -> None:
        """Kubelet's value of a spec that changed may equal ours, which a read of the spot cannot tell."""
        for write in writes:
            if write.own is None:
                continue
            entry = self.ledger.get(write.spot)
            if entry is not None and entry.own != write.own:
                place = self._cgroups.place(write.knob)
                assert place is not None, "only what this kernel has is wanted"
                self.ledger.give_own(write.spot, write.own, place.form.write(write.own))

    def _text(self, step: WriteStep) -> str:
        if step.write.text is not None and step.value == step.write.value:
            return step.write.text
        place = self._cgroups.place(step.write.knob)
        assert place is not None, "only what this kernel has is written"
        return place.form.write(step.value)

    def _otherwise(self, writes: Iterable[Write], outcome: ExecutorOutcome, now_s: float) -> dict[Spot, _SpotReading]:
        """The values of existing spots that differ from the wanted ones. A spot without a value is reported."""
        values = {}
        for write in writes:
            seen = None if write.is_watched else self._seen.get(write.spot)
            is_fresh = seen is not None and now_s - seen.at_s < VERIFIED_FOR_S
            if seen is not None and is_fresh and write.text is None and seen.value == write.value:
                continue
            place = self._cgroups.place(write.knob)
            assert place is not None, "only what this kernel has is wanted"
            wanted = write.text or place.form.write(write.value)
            if seen is not None and is_fresh and seen.text == wanted:
                continue
            try:
                text = self._read(write.knob, write.spot)
            except OSError as error:
                outcome.refused.append(RefusedWrite(write, f"{write.value}: {error.strerror}"))
                continue
            if text is None:
                self._seen.pop(write.spot, None)
                self.ledger.forget(write.spot)
                self._awaits = True
                continue
            try:
                held, is_so = place.form.read(text), place.form.same(text, wanted)
            except ValueError:
                outcome.refused.append(RefusedWrite(write, f"{write.value}: the file shows {text!r}"))
                continue
            if is_so:
                if write.spot not in self._seen:
                    self._inherit(write, text)
                if not write.process:
                    self._seen[write.spot] = _SpotReading(write.value, wanted, now_s)
            else:
                values[write.spot] = _SpotReading(held, text, now_s)
        return values

    def _inherit(self, write: Write, text: str) -> None:
        """A value inherited from the agent's is put back like the value it was inherited from.

        On v1 a directory made below one with fewer CPUs for now has those; a process has its parent's settings.
        """
        if write.spot in self.ledger:
            return
        above = None
        if write.process:
            above = self.ledger.any_in(write.knob.name, write.directory)
        elif self._cgroups.version is Version.V1 and write.knob is CPUSET_CPUS:
            above = self.ledger.get(Spot(write.knob.name, write.directory.rpartition("/")[0]))
        if above is not None:
            self.ledger.intend(write, above.found, [text])

    def _read(self, knob: Knob, spot: Spot) -> str | None:
        try:
            if spot.process:
                return processes.text(self._cgroups.files, spot.process, knob.name)
            return self._cgroups.text(knob, spot.directory, self._wrote(spot))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _put(self, write: Write, text: str) -> None:
        if write.process:
            processes.put(self._cgroups.files, write.process, write.knob.name, text)
        else:
            self._cgroups.put(write.knob, write.directory, text, self._wrote(write.spot))

    def _wrote(self, spot: Spot) -> Collection[str]:
        entry = self.ledger.get(spot)
        return () if entry is None else entry.wrote

    def file(self, write: Write) -> str:
        """Where it is written, below the host root."""
        if write.process:
            return processes.file_of(write.process, write.knob.name)
        return self._cgroups.file(write.knob, write.directory)

    def _carry_out(
        self, step: WriteStep, now: dict[Spot, _SpotReading], outcome: ExecutorOutcome, now_s: float
    ) -> None:
        write, spot, text = step.write, step.write.spot, self._text(step)
        self._seen.pop(spot, None)
        try:
            if not self.is_dry_run:
                self._put(write, text)
        except (FileNotFoundError, NotADirectoryError):
            self.ledger.forget(spot)
            return
        except OSError as error:
            if error.errno == errno.ENODEV:
                # A disk that was taken out: there is nothing to put back.
                self.ledger.forget(spot)
            outcome.refused.append(RefusedWrite(write, f"{step.value}: {error.strerror}"))
            return
        outcome.done.append(DoneWrite(write, now[spot].text, text))
        now[spot] = _SpotReading(step.value, text, now_s)
        if step.is_last and not self.is_dry_run:
            if not write.process:
                self._seen[spot] = now[spot]
            self.ledger.settle(spot, text)

    def _keep(self) -> None:
        if self.ledger.is_dirty and not self.is_dry_run:
            self._save(self.ledger.text())
            self.ledger.is_dirty = False

    def look_again(self, directories: Collection[str]) -> None:
        """Directories that may have been created again: forget the values that were read there and below."""
        known_spots = [spot for spot in (*self._seen, *self._absent) if _is_in(spot.directory, directories)]
        for spot in known_spots:
            self._seen.pop(spot, None)
            self._absent.pop(spot, None)
        self._quiet = None

    def forget(self, directory: str) -> None:
        """Drops what was seen in the directory of a pod that is gone. The ledger keeps its entries: if the directory
        outlives the pod, they are put back."""
        for spot in {*self._seen, *self._absent}:
            if f"{spot.directory}/".startswith(f"{directory}/"):
                self._seen.pop(spot, None)
                self._absent.pop(spot, None)
        self._cgroups.forget(directory)
        self._quiet = None


def _is_ours(place: Place, entry: Entry, text: str) -> bool:
    """Whether a spot shows one of the values that the agent wrote."""
    if place.means is not None:
        return place.means.is_ours(entry.found, entry.wrote, text)
    try:
        return any(place.form.same(text, own_text) for own_text in entry.wrote)
    except ValueError:
        return False


def _is_in(directory: str, others: Collection[str]) -> bool:
    """Whether it is one of the others, or lies below one."""
    return directory in others or any(directory.startswith(f"{other}/") for other in others if other)
