"""The workload auditor: what it alerts on, and what it does not."""

from __future__ import annotations

from collections import defaultdict

import pytest

from koord.scheduler.auditor import Auditor, AuditOutcome, Measure, Record


class Audited:
    def __init__(self) -> None:
        self.alerts: list[str] = []
        self.measured: dict[Measure, list[float]] = defaultdict(list)
        self.endings: dict[tuple[str, AuditOutcome], dict[Record, int]] = defaultdict(dict)
        self.auditor = Auditor(self.alerts.append, self._measure, self._ended)
        self.auditor.came("p", "shop/p", "koord-prod", 0.0)

    def _measure(self, what: Measure, priority: str, figure: float) -> None:
        assert priority == "koord-prod"
        self.measured[what].append(figure)

    def _ended(self, priority: str, outcome: AuditOutcome, record: Record, times: int) -> None:
        self.endings[priority, outcome][record] = times


@pytest.fixture
def audited() -> Audited:
    return Audited()


def test_a_preemption_whose_victims_do_not_go_is_alerted_on_once_while_it_lasts(audited: Audited) -> None:
    auditor = audited.auditor
    auditor.happened("p", Record.PROMISED, 1.0, ["v1", "v2"])
    auditor.left("v1", 5.0)
    auditor.look(31.0)
    assert audited.alerts == []
    auditor.look(32.0)
    auditor.look(60.0)
    assert audited.alerts == ["shop/p/p: preemption is stuck: 1 of its victims are not gone after 31 s"]
    auditor.left("v2", 61.0)
    assert audited.measured["preemption_to_victim_deleted_seconds"] == [60.0]
    auditor.happened("p", Record.SCHEDULED, 62.0)
    assert audited.measured["victim_reschedule_duration_seconds"] == [1.0]
    assert len(audited.alerts) == 1
    assert len(auditor) == 0
    assert audited.endings["koord-prod", "scheduled"] == {
        Record.CREATED: 1,
        Record.PROMISED: 1,
        Record.VICTIMS_GONE: 1,
        Record.SCHEDULED: 1,
    }


def test_a_preemption_that_goes_well_is_no_news(audited: Audited) -> None:
    auditor = audited.auditor
    auditor.happened("p", Record.PROMISED, 1.0, ["v"])
    for _ in range(3):
        auditor.happened("p", Record.VICTIMS_GOING, 2.0)
    auditor.left("v", 4.0)
    auditor.look(5.0)
    auditor.happened("p", Record.SCHEDULED, 6.0)
    assert audited.alerts == []
    assert audited.measured["preemption_victim_deleting_retries"] == [3]


def test_more_than_five_minutes_without_progress_are_alerted_on_once(audited: Audited) -> None:
    auditor = audited.auditor
    auditor.happened("p", Record.FAILED, 10.0)
    auditor.look(310.0)
    assert audited.alerts == []
    auditor.look(311.0)
    auditor.look(400.0)
    auditor.happened("p", Record.FAILED, 401.0)
    assert audited.alerts == ["shop/p/p: no progress for 301 s"]
    auditor.happened("p", Record.FAILED, 800.0)
    assert audited.alerts[1:] == ["shop/p/p: no progress for 399 s"]
    assert audited.measured["scheduling_event_interval_seconds"] == [10.0, 391.0, 399.0]


def test_gated_time_does_not_count(audited: Audited) -> None:
    auditor = audited.auditor
    auditor.gate("p", 1.0, gated=True)
    auditor.look(1000.0)
    auditor.gate("p", 1000.0, gated=False)
    auditor.gate("p", 1001.0, gated=False)
    auditor.look(1300.0)
    auditor.came("q", "shop/q", "koord-prod", 0.0, gated=True)
    auditor.look(1300.0)
    assert audited.alerts == []
    auditor.left("p", 1300.0)
    counted = audited.endings["koord-prod", "deleted"]
    assert (counted[Record.GATED], counted[Record.ADMITTED]) == (1, 1)


def test_room_that_is_made_again_or_in_vain_is_alerted_on(audited: Audited) -> None:
    auditor = audited.auditor
    auditor.happened("p", Record.PROMISED, 1.0, ["v1"])
    auditor.happened("p", Record.PROMISED, 2.0, ["v2"])
    assert audited.alerts == [
        "shop/p/p: room is made for it for the 2. time",
        "shop/p/p: room was made for it in vain, says preemptNominated",
    ]
    assert audited.measured["preemption_cycle_interrupted_seconds"] == [1.0]
    auditor.left("v1", 3.0)
    assert audited.measured["preemption_to_victim_deleted_seconds"] == []
    auditor.happened("p", Record.NOT_HELPED, 4.0)
    auditor.happened("p", Record.FAILED, 5.0)
    assert audited.alerts[2:] == ["shop/p/p: room was made for it in vain, says preemptFailure"]
    assert audited.measured["preemption_invalidations"] == [1, 1]
    assert audited.measured["repeated_preemptions"] == [1]


def test_room_that_is_free_and_not_taken_is_alerted_on(audited: Audited) -> None:
    auditor = audited.auditor
    auditor.happened("p", Record.PROMISED, 1.0, ["v"])
    auditor.left("v", 2.0)
    auditor.look(12.0)
    assert audited.alerts == []
    auditor.look(13.0)
    auditor.happened("p", Record.SCHEDULED, 20.0)
    assert audited.alerts == ["shop/p/p: its victims have been gone for 11 s, not yet tried"]
    assert audited.measured["victim_reschedule_duration_seconds"] == [18.0]


def test_what_is_not_known_is_left_alone(audited: Audited) -> None:
    audited.auditor.happened("nobody", Record.SCHEDULED, 1.0)
    audited.auditor.gate("nobody", 1.0, gated=True)
    audited.auditor.left("nobody", 1.0)
    assert audited.alerts == []
    assert len(audited.auditor) == 1
