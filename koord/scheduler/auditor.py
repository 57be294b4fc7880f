"""The workload auditor: looks on while pods are scheduled, and alerts where that goes badly.

    stuck preemption     the victims of a pod are not gone 30 s after it was promised their room
    no progress          nothing happened to a waiting pod for more than 5 min
    and                  a pod that is promised room again and again, or in vain; victims that are gone, and their room
                         is not taken within 10 s; more than 3 attempts while victims go

Pure: it is told what happens, and when. It alerts as soon as something is late, and once for each time that it is; what
took how long is measured when it is over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal, TypeAlias

Measure: TypeAlias = Literal[
    "repeated_preemptions",
    "preemption_invalidations",
    "victim_reschedule_duration_seconds",
    "preemption_victim_deleting_retries",
    "preemption_to_victim_deleted_seconds",
    "preemption_cycle_interrupted_seconds",
    "scheduling_event_interval_seconds",
]
AuditOutcome: TypeAlias = Literal["scheduled", "deleted"]


class Record(StrEnum):
    """What happens to a pod that waits, in Koordinator's words."""

    CREATED = "create"
    GATED = "gatedByQueueAdmission"
    ADMITTED = "admissionPassed"
    SCHEDULED = "scheduled"
    PROMISED = "preemptNominated"
    VICTIMS_GOING = "preemptVictimDeleting"
    NOT_HELPED = "preemptFailure"
    FAILED = "scheduleFailure"
    VICTIMS_GONE = "victimAllDeleted"


_IN_VAIN: Final = (Record.NOT_HELPED, Record.FAILED)
_RESULTS: Final = (Record.PROMISED, Record.SCHEDULED, *_IN_VAIN)


@dataclass(frozen=True, slots=True)
class AuditLimits:
    victims_s: float = 30.0
    room_s: float = 10.0
    retries: int = 3
    progress_s: float = 300.0


@dataclass(slots=True)
class _Workload:
    key: str
    priority: str
    since_s: float | None
    "When something last happened to it; None while it is gated."
    counts: Counter[Record] = field(default_factory=Counter)
    promised_s: float | None = None
    victims: set[str] = field(default_factory=set)
    retries: int = 0
    gone_s: float | None = None
    "When its victims were gone, until something comes of that."
    in_vain: bool = True
    "Whether the last promise has been found to be in vain; there is none to begin with."
    alerted: set[str] = field(default_factory=set)
    "Alerts that are not to be repeated as long as the same thing lasts."


class Auditor:
    """Of all waiting pods, by uid. `alert` hears sentences; `measure` figures, by the pod's priority class; `ended` how
    often what happened to a pod before it was scheduled or deleted."""

    def __init__(
        self,
        alert: Callable[[str], None],
        measure: Callable[[Measure, str, float], None] = lambda what, priority, figure: None,
        ended: Callable[[str, AuditOutcome, Record, int], None] = lambda priority, outcome, record, times: None,
        limits: AuditLimits | None = None,
    ) -> None:
        self._alert, self._measure, self._ended, self._limits = alert, measure, ended, limits or AuditLimits()
        self._workloads: dict[str, _Workload] = {}
        self._waiting_for: dict[str, set[str]] = {}
        "By victim, the pods that wait for its room."

    def __len__(self) -> int:
        return len(self._workloads)

    def came(self, uid: str, key: str, priority: str, now_s: float, *, gated: bool = False) -> None:
        if uid not in self._workloads:
            workload = self._workloads[uid] = _Workload(f"{key}/{uid}", priority, now_s)
            workload.counts[Record.CREATED] += 1
            self.gate(uid, now_s, gated=gated)

    def gate(self, uid: str, now_s: float, *, gated: bool) -> None:
        """Whether a pod must not be tried: time does not count against it then."""
        workload = self._workloads.get(uid)
        if workload is None or gated == (workload.since_s is None):
            return
        workload.counts[Record.GATED if gated else Record.ADMITTED] += 1
        workload.since_s = None if gated else now_s
        if gated:
            workload.gone_s = None

    def happened(self, uid: str, record: Record, now_s: float, victims: Collection[str] = ()) -> None:
        """An attempt has ended. `victims`: uids of the pods to be preempted for this one."""
        workload = self._workloads.get(uid)
        if workload is None:
            return
        workload.counts[record] += 1
        self._progress(workload, now_s)
        workload.alerted.discard("progress")
        if record in _IN_VAIN:
            self._vain(workload, record)
        if record in _RESULTS:
            if workload.gone_s is not None:
                self._room(workload, now_s - workload.gone_s)
            self._close(uid, workload, now_s, "preemption_cycle_interrupted_seconds")
        if record is Record.PROMISED:
            self._promise(uid, workload, now_s, victims)
        elif record is Record.VICTIMS_GOING:
            workload.retries += 1
        elif record is Record.SCHEDULED:
            self._end(uid, "scheduled")

    def left(self, uid: str, now_s: float) -> None:
        """A pod is gone: one that waited, or one that had to make room."""
        for waiting in self._waiting_for.pop(uid, ()):
            workload = self._workloads.get(waiting)
            if workload is not None:
                workload.victims.discard(uid)
                if not workload.victims and workload.promised_s is not None:
                    workload.counts[Record.VICTIMS_GONE] += 1
                    self._close(waiting, workload, now_s, "preemption_to_victim_deleted_seconds")
                    workload.gone_s = now_s
        workload = self._workloads.get(uid)
        if workload is not None:
            self._close(uid, workload, now_s, "preemption_cycle_interrupted_seconds")
            self._end(uid, "deleted")

    def look(self, now_s: float) -> None:
        """What is late by now."""
        for workload in self._workloads.values():
            if workload.promised_s is not None:
                self._victims(workload, now_s - workload.promised_s)
            if workload.gone_s is not None and now_s - workload.gone_s > self._limits.room_s:
                self._say(
                    workload, "room", f"its victims have been gone for {now_s - workload.gone_s:.0f} s, not yet tried"
                )
            if workload.since_s is not None and now_s - workload.since_s > self._limits.progress_s:
                self._say(workload, "progress", f"no progress for {now_s - workload.since_s:.0f} s")

    def _progress(self, workload: _Workload, now_s: float) -> None:
        if workload.since_s is not None:
            took_s = now_s - workload.since_s
            self._measure("scheduling_event_interval_seconds", workload.priority, took_s)
            if took_s > self._limits.progress_s:
                self._say(workload, "progress", f"no progress for {took_s:.0f} s")
            workload.since_s = now_s

    def _promise(self, uid: str, workload: _Workload, now_s: float, victims: Collection[str]) -> None:
        if workload.counts[Record.PROMISED] > 1:
            self._measure("repeated_preemptions", workload.priority, 1)
            self._say(workload, "", f"room is made for it for the {workload.counts[Record.PROMISED]}. time")
            self._vain(workload, Record.PROMISED)
        workload.in_vain, workload.promised_s, workload.retries, workload.victims = False, now_s, 0, set(victims)
        for victim in workload.victims:
            self._waiting_for.setdefault(victim, set()).add(uid)

    def _vain(self, workload: _Workload, by: Record) -> None:
        if not workload.in_vain:
            workload.in_vain = True
            self._measure("preemption_invalidations", workload.priority, 1)
            self._say(workload, "", f"room was made for it in vain, says {by}")

    def _room(self, workload: _Workload, took_s: float) -> None:
        self._measure("victim_reschedule_duration_seconds", workload.priority, took_s)
        if took_s > self._limits.room_s:
            self._say(workload, "room", f"its victims were gone for {took_s:.0f} s before it was tried")
        workload.gone_s = None
        workload.alerted.discard("room")

    def _victims(self, workload: _Workload, took_s: float) -> None:
        if took_s > self._limits.victims_s:
            left = len(workload.victims)
            self._say(
                workload, "victims", f"preemption is stuck: {left} of its victims are not gone after {took_s:.0f} s"
            )

    def _close(self, uid: str, workload: _Workload, now_s: float, what: Measure) -> None:
        """A promise is kept, or is none any more."""
        if workload.promised_s is None:
            return
        took_s, workload.promised_s = now_s - workload.promised_s, None
        self._measure(what, workload.priority, took_s)
        self._measure("preemption_victim_deleting_retries", workload.priority, workload.retries)
        if workload.retries > self._limits.retries:
            self._say(workload, "", f"it was tried {workload.retries} times while its victims went")
        self._victims(workload, took_s)
        workload.alerted.discard("victims")
        for victim in workload.victims:
            waiting = self._waiting_for.get(victim, set())
            waiting.discard(uid)
            if not waiting:
                self._waiting_for.pop(victim, None)
        workload.victims = set()

    def _end(self, uid: str, outcome: AuditOutcome) -> None:
        workload = self._workloads.pop(uid)
        for record, times in workload.counts.items():
            self._ended(workload.priority, outcome, record, times)

    def _say(self, workload: _Workload, once: str, what: str) -> None:
        """`once`: what it is about, where that lasts."""
        if once:
            if once in workload.alerted:
                return
            workload.alerted.add(once)
        self._alert(f"{workload.key}: {what}")
