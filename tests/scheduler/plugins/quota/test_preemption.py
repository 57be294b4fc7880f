"""Victims of preemption: inside a quota for a more important pod, and from a quota that uses more than its share."""

from __future__ import annotations

import pytest

from koord.scheduler.core.decision import Nowhere
from koord.scheduler.framework.writes import Evict
from koord.scheduler.plugins.quota.revoke import Holder, to_revoke
from tests.scheduler.quotas import Teams, configured, quota, team_pod


def preemption(teams: Teams) -> tuple[str | None, tuple[str, ...]]:
    decision = teams.decide()[0]
    assert isinstance(decision, Nowhere)
    return decision.remedy.node, decision.remedy.victims


def test_the_least_important_pods_of_the_same_quota_go() -> None:
    teams = Teams(100)
    teams.put(quota("a", "4", "4"), quota("b", "4", "4"))
    teams.put(
        team_pod("low", "a", "2", on="n0", priority=1),
        team_pod("mid", "a", "2", on="n0", priority=2),
        team_pod("other-team", "b", "2", on="n0", priority=0),
        team_pod("urgent", "a", "2", priority=9),
    )
    assert preemption(teams) == ("n0", ("shop/low",))


def test_who_must_not_be_preempted_stays() -> None:
    teams = Teams(100)
    teams.put(quota("a", "4", "4"), team_pod("fixed", "a", "2", on="n0", fixed=True))
    teams.put(team_pod("low", "a", "2", on="n0", priority=1), team_pod("urgent", "a", "3", priority=9))
    node, victims = preemption(teams)
    assert (node, victims) == (None, ())
    teams.put(team_pod("fits", "a", "2", priority=8))
    assert preemption(teams) == ("n0", ("shop/low",))


def test_nobody_goes_where_that_would_not_give_the_quota_room() -> None:
    teams = Teams(100)
    teams.put(
        quota("a", "4", "4"), team_pod("same", "a", "4", on="n0", priority=5), team_pod("p", "a", "1", priority=5)
    )
    decision = teams.decide()[0]
    assert isinstance(decision, Nowhere)
    assert decision.remedy.victims == ()
    assert "no less important pods of quota a" in decision.message


def test_other_quotas_are_not_preempted_for_a_quota_that_is_full() -> None:
    teams = Teams(8)
    teams.put(quota("a", "2", "2"), quota("b", "4", "8"))
    teams.put(team_pod("b", "b", "6", on="n0"), team_pod("a", "a", "2", on="n0", priority=5))
    teams.put(team_pod("urgent", "a", "2", priority=5))
    assert preemption(teams) == (None, ())


def test_pods_that_must_not_be_preempted_are_never_victims_of_anybody() -> None:
    teams = Teams(4)
    teams.put(team_pod("fixed", "", "4", on="n0", fixed=True), team_pod("urgent", "", "4", priority=9))
    assert preemption(teams) == (None, ())


def test_a_pod_that_may_not_preempt_does_not() -> None:
    teams = Teams(100)
    teams.put(quota("a", "2", "2"), team_pod("low", "a", "2", on="n0"))
    teams.put(team_pod("urgent", "a", "2", priority=9, preemptionPolicy="Never"))
    assert preemption(teams) == (None, ())


def test_the_least_important_go_and_who_still_fits_is_kept() -> None:
    """Runtime 10, used 13: p4 would go, p3 must not, p2 goes; then p4 fits again."""
    pods = [
        Holder("p1", {"cpu": 4}),
        Holder("p2", {"cpu": 3}),
        Holder("p3", {"cpu": 4}, fixed=True),
        Holder("p4", {"cpu": 2}),
    ]
    assert [pod.key for pod in to_revoke(pods, {"cpu": 13}, {"cpu": 10})] == ["p2"]


def test_all_go_where_that_is_not_enough() -> None:
    pods = [Holder("p1", {"cpu": 4}), Holder("fixed", {"cpu": 9}, fixed=True), Holder("p2", {"cpu": 1})]
    assert [pod.key for pod in to_revoke(pods, {"cpu": 14}, {"cpu": 5})] == ["p1", "p2"]


def test_a_pod_that_holds_nothing_of_the_quota_does_not_go() -> None:
    pods = [Holder("p1", {"cpu": 4}), Holder("fixed", {"cpu": 6}, fixed=True), Holder("p2", {"memory": 1})]
    assert [pod.key for pod in to_revoke(pods, {"cpu": 10}, {"cpu": 5})] == ["p1"]


def overused(**args: bool) -> Teams:
    """Team a uses 100 of 100 that it borrowed, and team b asks for its half."""
    teams = Teams(100, config=configured(**args))
    teams.put(quota("a", "50", "100"), quota("b", "50", "100"))
    teams.put(*(team_pod(f"a{i}", "a", "10", on="n0", priority=i) for i in range(10)))
    teams.put(*(team_pod(f"b{i}", "b", "10") for i in range(5)))
    teams.decide()
    return teams


def evicted(teams: Teams) -> list[str]:
    return [write.name for write in teams.core.take_writes() if isinstance(write, Evict)]


@pytest.mark.parametrize("monitors", [False, True])
def test_what_was_lent_is_taken_back_after_a_while_where_that_is_on(monitors: bool) -> None:
    teams = overused(monitor_all_quotas=monitors)
    assert evicted(teams) == []
    teams.wait(119)
    assert evicted(teams) == []
    teams.wait(3)
    assert sorted(evicted(teams)) == ([f"a{i}" for i in range(5)] if monitors else [])
    teams.wait(2)
    assert evicted(teams) == []


def test_over_use_can_be_reported_only() -> None:
    teams = overused(monitor_all_quotas=True, only_report_overuse=True)
    evicted(teams)
    teams.wait(122)
    assert evicted(teams) == []
    assert "these pods would be evicted: shop/a4, shop/a3" in teams.status("a").overuse
    teams.delete(*(team_pod(f"b{i}", "b", "10") for i in range(5)))
    teams.wait(2)
    assert evicted(teams) == []
    assert teams.status("a").overuse == ""
