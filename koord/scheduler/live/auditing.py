"""The running workload auditor: fed by informers and decisions, reports in the log and in metrics.

Alerts begin with `workloadauditor: ALERT:`, as in Koordinator's logs. Off by default.
"""

from __future__ import annotations

import logging
from typing import Final

from koord.api.kubernetes.pod import Pod
from koord.api.protocol.priority import raw_priority_class
from koord.kube.clock import Clock
from koord.kube.metrics import Metrics
from koord.kube.store import Delta
from koord.scheduler.auditor import AuditLimits, Auditor, AuditOutcome, Measure, Record
from koord.scheduler.core.core import Core
from koord.scheduler.core.decision import Broken, Nowhere, Placed
from koord.scheduler.plugins.default_preemption import AWAITED

log = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 1.0
PREFIX: Final = "scheduler_workload_auditor_"
SECONDS: Final = tuple(0.1 * 2**exponent for exponent in range(15))
LONG: Final = tuple(0.1 * 2**exponent for exponent in range(20))
_COUNTED: Final[dict[Measure, str]] = {
    "repeated_preemptions": "Pods for which room was made more than once",
    "preemption_invalidations": "Rooms that were made in vain",
}
_MEASURED: Final[dict[Measure, tuple[str, tuple[float, ...]]]] = {
    "victim_reschedule_duration_seconds": ("Seconds from victims' being gone to the next attempt", SECONDS),
    "preemption_victim_deleting_retries": ("Attempts while victims go", tuple(float(n) for n in range(20))),
    "preemption_to_victim_deleted_seconds": ("Seconds from a promise to victims' being gone", SECONDS),
    "preemption_cycle_interrupted_seconds": ("Seconds from a promise to its end by anything else", SECONDS),
    "scheduling_event_interval_seconds": ("Seconds between what happens to a waiting pod", LONG),
}


class AuditMetrics:
    """Families under Koordinator's names."""

    def __init__(self, metrics: Metrics) -> None:
        self._counters = {
            name: metrics.counter(f"{PREFIX}{name}_total", meaning, "priority") for name, meaning in _COUNTED.items()
        }
        self._histograms = {
            name: metrics.histogram(f"{PREFIX}{name}", meaning, buckets, "priority")
            for name, (meaning, buckets) in _MEASURED.items()
        }
        self._events = metrics.histogram(
            f"{PREFIX}scheduling_events_before_outcome",
            "What happened how often to a pod before it was scheduled or deleted",
            tuple(float(n) for n in range(30)),
            "priority",
            "event_type",
            "outcome",
        )

    def measure(self, what: Measure, priority: str, figure: float) -> None:
        if what in self._counters:
            self._counters[what].labels(priority).inc(figure)
        else:
            self._histograms[what].labels(priority).observe(figure)

    def ended(self, priority: str, outcome: AuditOutcome, record: Record, times: int) -> None:
        self._events.labels(priority, record, outcome).observe(times)


class Auditing:
    """Of one leadership. Whose pods are looked at says the core, which may be another one after a reload."""

    def __init__(self, metrics: AuditMetrics, clock: Clock, limits: AuditLimits) -> None:
        self._clock, self._looked_s = clock, float("-inf")
        self._auditor = Auditor(_alert, metrics.measure, metrics.ended, limits)
        self.core: Core | None = None

    def pod(self, delta: Delta[Pod]) -> None:
        """What informers say."""
        old, new, now_s = delta.old, delta.new, self._clock.monotonic()
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid or new.is_finished):
            self._auditor.left(old.metadata.uid, now_s)
        if new is None or self.core is None or not self.core.feed.is_ours(new):
            return
        uid, gated = new.metadata.uid, bool(new.spec.scheduling_gates)
        priority = raw_priority_class(new.metadata.labels, new.spec.priority)
        self._auditor.came(uid, new.metadata.key, priority, now_s, gated=gated)
        self._auditor.gate(uid, now_s, gated=gated)

    def decided(self, decision: Nowhere | Broken) -> None:
        """It was decided that an entity has no place."""
        record, victims = Record.FAILED, frozenset[tuple[str, str]]()
        if isinstance(decision, Nowhere):
            remedy = decision.remedy
            if any(move.victims for move in decision.moves):
                record = Record.PROMISED
                for move in decision.moves:
                    promise = self.core.cluster.nominations.of(move.pod) if self.core is not None else None
                    victims |= promise.victims if promise is not None else victims
            elif AWAITED in remedy.message:
                record = Record.VICTIMS_GOING
            elif remedy.message:
                record = Record.NOT_HELPED
        uids = {uid for _, uid in victims}
        for ask in decision.asks:
            self._auditor.happened(ask.meta.uid, record, self._clock.monotonic(), uids)

    def bound(self, placed: Placed) -> None:
        self._auditor.happened(placed.ask.meta.uid, Record.SCHEDULED, self._clock.monotonic())

    def not_bound(self, placed: Placed) -> None:
        self._auditor.happened(placed.ask.meta.uid, Record.FAILED, self._clock.monotonic())

    def look(self, now_s: float) -> None:
        if now_s - self._looked_s >= LOOK_EVERY_S:
            self._looked_s = now_s
            self._auditor.look(now_s)


def _alert(what: str) -> None:
    log.warning("workloadauditor: ALERT: %s", what)
