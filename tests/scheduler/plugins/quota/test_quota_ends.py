"""What becomes of pods when their quotas go or move, in the middle of things."""

from __future__ import annotations

from msgspec.structs import replace

from tests.scheduler.quotas import PREFIX, Teams, configured, quota, team_pod


def test_a_quota_that_is_deleted_leaves_its_pods_to_the_default_quota_and_gets_them_back() -> None:
    teams = Teams(10)
    team = quota("a", "2", "2")
    teams.put(team, quota("b", "0", "10"), team_pod("runs", "a", "2", on="n0"), team_pod("waits", "a", "2"))
    assert not teams.settle()
    teams.delete(team)
    # Nothing bounds the default quota, so that pods that waited for room in the deleted one go.
    assert teams.settle() == {"waits"}
    assert teams.quotas.forest.quotas.keys() >= {"b"}
    assert "a" not in teams.quotas.forest.quotas
    teams.put(team)
    assert teams.status("a").used == {"cpu": 4000}
    teams.put(team_pod("more", "a", "1"))
    assert not teams.settle()


def test_a_quota_whose_parent_changes_takes_its_pods_along_and_wakes_those_who_waited() -> None:
    teams = Teams(10)
    small, large = quota("small", "1", "1", is_parent=True), quota("large", "9", "9", is_parent=True)
    team = quota("team", "0", "9", parent="small")
    teams.put(small, large, team, team_pod("one", "team", "1"), team_pod("two", "team", "4"))
    assert teams.settle() == {"one"}
    moved = replace(team, metadata=replace(team.metadata, labels={**team.metadata.labels, f"{PREFIX}parent": "large"}))
    teams.put(moved)
    assert teams.settle() == {"two"}
    assert teams.status("small").used == {}
    assert teams.status("large").used == teams.status("team").used == {"cpu": 5000}


def test_a_quota_that_comes_takes_its_pods_over_from_the_default_quota_which_had_no_room_for_them() -> None:
    teams = Teams(10, config=configured(default_quota_group_max={"cpu": "1"}))
    teams.put(quota("b", "0", "9"), team_pod("runs", on="n0"), team_pod("waits", "a"), team_pod("alone"))
    assert not teams.settle()
    teams.wait(20)
    teams.put(quota("a", "0", "9"))
    assert teams.settle() == {"waits"}


def test_a_parent_that_is_deleted_isolates_what_is_below_and_nobody_else() -> None:
    teams = Teams(10)
    parent, other = quota("p", "5", "5", is_parent=True), quota("other", "5", "5")
    teams.put(parent, other, quota("below", "0", "5", parent="p"), team_pod("runs", "below", "1", on="n0"))
    teams.delete(parent)
    teams.put(team_pod("waits", "below", "1"), team_pod("goes", "other", "1"))
    assert teams.settle() == {"goes"}
    assert "parent p does not exist" in teams.status("below").complaint
    teams.put(parent)
    assert teams.settle() == {"waits"}
    assert teams.status("p").used == {"cpu": 2000}


def test_a_max_that_is_lowered_below_what_is_used_lets_nobody_in_and_evicts_nobody() -> None:
    teams = Teams(10)
    teams.put(quota("a", "0", "4"), *(team_pod(f"p{i}", "a", "1") for i in range(3)))
    assert len(teams.settle()) == 3
    teams.put(quota("a", "0", "2"), team_pod("late", "a", "1"))
    assert not teams.settle()
    teams.wait(600)
    assert not [write for write in teams.core.take_writes() if type(write).__name__ == "Evict"]
    assert teams.status("a").used == {"cpu": 3000}


def test_a_second_scheduler_finds_the_same_quotas_as_the_one_before_it() -> None:
    first = Teams(10)
    things = [quota("p", "4", "8", is_parent=True), quota("a", "2", "8", parent="p"), quota("b", "2", "8", parent="p")]
    first.put(*things, *(team_pod(f"p{i}", "ab"[i % 2], "3") for i in range(4)))
    first.settle()
    second = Teams(10)
    second.put(*list(first.known.values())[::-1])
    for name in ("p", "a", "b"):
        assert second.status(name) == first.status(name)
    assert not second.settle()


def test_who_waits_in_a_quota_that_loses_its_parent_is_told_so() -> None:
    teams = Teams(10)
    parent = quota("top", "5", "5", is_parent=True)
    teams.put(parent, quota("team", "0", "2", parent="top"), team_pod("runs", "team", "2", on="n0"))
    teams.put(team_pod("waits", "team", "1"))
    assert "quota team may use cpu 2 and uses 2" in teams.refusal()
    teams.wait(20)
    teams.delete(parent)
    assert teams.refusal() == "quota team cannot be used: its parent top does not exist"
    teams.wait(20)
    teams.put(parent)
    assert "quota team may use cpu 2 and uses 2" in teams.refusal()
