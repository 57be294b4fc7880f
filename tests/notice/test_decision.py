"""Notice, one step at a time: which pods get notice, are waited for, and go."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from koord.api.kubernetes.pod import Pod
from koord.api.protocol.annotations.notice import EVICTION_ASKED_BY, EVICTION_DEADLINE
from koord.api.protocol.eviction_notice import STALE_S, Asker, Go, Tell, Wait, asked_by, decide, withdrawal
from koord.api.text.timestamp import from_seconds, parse_timestamp
from tests.notice.build import AGENT, DESCHEDULER, SCHEDULER, START_S, annotated, patched, pod


def told(given: Pod, asker: Asker = SCHEDULER, now_s: float = START_S, at_most_s: float = 3600.0) -> Pod:
    verdict = decide(given, asker, now_s, at_most_s)
    assert isinstance(verdict, Tell)
    return patched(given, verdict.patch)


def deadline_s(given: Pod) -> float:
    return parse_timestamp(given.metadata.annotations[EVICTION_DEADLINE.key])


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (pod(None), "no notice"),
        (pod("a while"), "no notice"),
        (pod("0s"), "no notice"),
        (pod("2h"), "no notice"),
        (pod("5m", phase="Pending"), "not running"),
        (pod("5m", phase="Succeeded"), "not running"),
        (annotated(pod("5m")), "ready"),
    ],
)
def test_these_go_at_once(given: Pod, why: str) -> None:
    assert decide(given, SCHEDULER, START_S) == Go(why)  # type: ignore[arg-type]  # each is one of the words


def test_a_pod_that_asks_is_told_when_it_goes_who_wants_that_and_why() -> None:
    found = told(pod("5m"))
    assert deadline_s(found) == START_S + 300
    (entry,) = EVICTION_ASKED_BY.read(found.metadata)
    assert (entry.by, entry.reason, entry.about) == ("koord-scheduler", "PreemptionByScheduler", "shop/high")
    condition = found.status.condition("DisruptionTarget")
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", "PreemptionByScheduler")
    assert "preempting for a more important pod; it goes at 2027-01-15T08:05:00Z" in condition.message


def test_it_goes_when_it_says_so_or_at_the_deadline_and_not_before() -> None:
    found = told(pod("5m"))
    assert decide(found, SCHEDULER, START_S + 299.9) == Wait(START_S + 300)
    assert decide(found, SCHEDULER, START_S + 300) == Go("deadline")
    assert decide(annotated(found), SCHEDULER, START_S + 10) == Go("ready")
    this_one = annotated(found, text=found.metadata.annotations[EVICTION_DEADLINE.key])
    assert decide(this_one, SCHEDULER, START_S + 10) == Go("ready")


def test_what_it_said_of_an_earlier_notice_does_not_count_for_this_one() -> None:
    given = annotated(pod("5m"), text=from_seconds(START_S - 1000))
    assert isinstance(decide(given, SCHEDULER, START_S), Tell)


def test_whoever_comes_second_is_noted_and_the_first_deadline_stands() -> None:
    first = told(pod("5m"))
    both = told(first, DESCHEDULER, START_S + 100)
    assert deadline_s(both) == START_S + 300
    assert [request.by for request in asked_by(both.metadata, START_S)] == ["koord-scheduler", "koord-descheduler"]
    assert decide(both, DESCHEDULER, START_S + 299) == Wait(START_S + 300)
    assert decide(both, DESCHEDULER, START_S + 300) == Go("deadline")


def test_who_cannot_wait_for_long_brings_the_deadline_forward() -> None:
    both = told(told(pod("5m")), AGENT, START_S + 100, at_most_s=10.0)
    assert deadline_s(both) == START_S + 110
    assert decide(both, AGENT, START_S + 109, 10.0) == Wait(START_S + 110)
    assert decide(both, SCHEDULER, START_S + 110) == Go("deadline")
    assert decide(pod("5m"), AGENT, START_S, 0.0) == Go("no notice")


def test_a_notice_that_is_withdrawn_leaves_nothing_but_the_word() -> None:
    found = annotated(told(pod("5m")), text="2027-01-15T08:05:00Z")
    patch = withdrawal(found, SCHEDULER, START_S + 20)
    assert patch is not None
    after = patched(found, patch)
    assert after.metadata.annotations == pod("5m").metadata.annotations
    condition = after.status.condition("DisruptionTarget")
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "EvictionWithdrawn")
    assert withdrawal(after, SCHEDULER, START_S + 21) is None
    assert deadline_s(told(after, DESCHEDULER, START_S + 50)) == START_S + 350


def test_while_others_want_it_gone_a_pod_stays_told() -> None:
    both = told(told(pod("5m")), DESCHEDULER, START_S + 100)
    patch = withdrawal(both, SCHEDULER, START_S + 120)
    assert patch is not None
    after = patched(both, patch)
    assert deadline_s(after) == START_S + 400
    assert withdrawal(after, AGENT, START_S + 120) is None


def test_another_pod_to_make_room_for_changes_the_word_and_not_the_deadline() -> None:
    found = told(told(pod("5m")), Asker(SCHEDULER.by, SCHEDULER.reason, "for another", "shop/higher"), START_S + 100)
    (entry,) = EVICTION_ASKED_BY.read(found.metadata)
    assert (entry.about, entry.message) == ("shop/higher", "for another")
    assert deadline_s(found) == START_S + 300


def test_a_condition_that_somebody_takes_away_is_written_again() -> None:
    found = told(pod("5m"))
    without = replace(found, status=replace(found.status, conditions=()))
    verdict = decide(without, SCHEDULER, START_S + 130)
    assert isinstance(verdict, Tell)
    assert not verdict.is_new
    assert deadline_s(patched(without, verdict.patch)) == START_S + 300


def test_what_nobody_carried_out_for_an_hour_counts_no_more() -> None:
    found = told(pod("5m"))
    late_s = START_S + 300 + STALE_S
    assert decide(found, DESCHEDULER, late_s) == Go("deadline")
    assert deadline_s(told(found, DESCHEDULER, late_s + 1)) == late_s + 301


def test_a_clock_that_was_set_back_keeps_nobody_waiting_longer() -> None:
    found = told(pod("5m"), now_s=START_S + 7200)
    assert deadline_s(told(found)) == START_S + 300
