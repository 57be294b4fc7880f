"""Pods within the quotas of their teams: which are placed, which wait and for how long."""

from __future__ import annotations

import pytest

from koord.api.configuration.features import SchedulerGate
from koord.api.kinds import NODES
from koord.api.text.timestamp import from_seconds
from koord.scheduler.core.decision import Bind, Nowhere
from koord.scheduler.core.entity import Where
from tests.scheduler.builders import node
from tests.scheduler.quotas import PREFIX, Teams, configured, quota, team_pod

ROOT, DEFAULT, SYSTEM = "koordinator-root-quota", "koordinator-default-quota", "koordinator-system-quota"


def test_a_pod_is_placed_as_long_as_its_quota_has_room() -> None:
    teams = Teams(100)
    teams.put(quota("a", "10", "10"))
    teams.put(*(team_pod(f"p{i}", "a", "2") for i in range(4)))
    assert len(teams.settle()) == 4
    teams.put(team_pod("over", "a", "2001m"))
    assert teams.refusal() == ("Insufficient quotas: quota a may use cpu 10 and uses 8; the pod asks for 2001m")
    teams.put(team_pod("within", "a", "2"))
    assert teams.settle() == {"within"}


def test_a_resource_that_max_does_not_name_is_not_bounded() -> None:
    teams = Teams(100)
    teams.core.put(NODES, node("fpgas", cpu="10", extended={"example.com/fpga": "8"}))
    teams.put(quota("a", "10", "10"), team_pod("p", "a", "2", more={"example.com/fpga": "4"}))
    assert teams.settle() == {"p"}


def test_pods_that_must_not_be_preempted_stay_within_min() -> None:
    teams = Teams(100)
    teams.put(quota("a", "5", "20"))
    teams.put(team_pod("held", "a", "4", fixed=True), team_pod("other", "a", "2"))
    assert teams.settle() == {"held", "other"}
    teams.put(team_pod("fixed", "a", "2", fixed=True))
    assert "pods that must not be preempted may use the min of quota a, cpu 5, and use 4" in teams.refusal()
    teams.put(team_pod("loose", "a", "2"))
    assert teams.settle() == {"loose"}


@pytest.mark.parametrize("checks", [False, True])
def test_parents_are_checked_on_demand(checks: bool) -> None:
    teams = Teams(100, config=configured(enable_check_parent_quota=checks))
    teams.put(quota("p", "12", "12", is_parent=True), quota("leaf", "0", "10", parent="p"))
    teams.put(quota("sister", "0", "10", parent="p"))
    # Shares of a parent add up to its own: only what is used beyond one's share can make the parent short.
    teams.put(team_pod("big", "sister", "9", on="n0"), team_pod("small", "leaf", "2", on="n0"))
    teams.put(quota("p", "11", "11", is_parent=True), team_pod("next", "leaf", "1"))
    assert teams.settle() == (set() if checks else {"next"})
    assert teams.quotas.forest.quotas["p"].used == {"cpu": 11_000 if checks else 12_000}


def test_who_lends_gets_it_back_when_it_asks() -> None:
    teams = Teams(100)
    teams.put(quota("a", "50", "100"), quota("b", "50", "100"))
    teams.put(*(team_pod(f"a{i}", "a", "10") for i in range(10)))
    assert len(teams.settle()) == 10
    assert teams.runtime("a", "b") == [100_000, 0]
    teams.put(*(team_pod(f"b{i}", "b", "10") for i in range(10)))
    assert teams.settle() == set()
    assert teams.runtime("a", "b") == [50_000, 50_000]


def test_a_pod_that_ends_lets_the_next_one_in_and_no_more() -> None:
    teams = Teams(100)
    teams.put(quota("a", "2", "2"), *(team_pod(f"p{i}", "a") for i in range(40)))
    first = teams.settle()
    assert len(first) == 2
    teams.wait(20)
    ended = sorted(first)[0]
    teams.put(team_pod(ended, "a", on="n0", phase="Succeeded"))
    decisions = teams.decide()
    assert sum(isinstance(decision, Bind) for decision in decisions) == 1
    assert len(decisions) <= 3


def test_the_most_important_that_fits_goes_first() -> None:
    teams = Teams(100)
    runs = team_pod("runs", "a", "2", on="n0")
    teams.put(quota("a", "2", "2"), runs)
    teams.put(
        team_pod("low", "a", "2"), team_pod("high", "a", "2", priority=9), team_pod("huge", "a", "3", priority=10)
    )
    assert teams.settle() == set()
    teams.wait(20)
    teams.delete(runs)
    assert teams.settle() == {"high"}


@pytest.mark.parametrize(
    "helps", ["another asks for less", "the cluster grows", "the quota grows", "a pod changes team"]
)
def test_whatever_gives_a_quota_room_wakes_its_pods(helps: str) -> None:
    teams = Teams(10)
    teams.put(quota("a", "5", "10"), quota("b", "5", "10"))
    pending = team_pod("pending", "b", "5", nodeSelector={"nobody": "has-it"})
    runs = team_pod("runs", "a", "5", on="n0")
    teams.put(runs, pending, team_pod("waits", "a", "2"))
    assert teams.settle() == set()
    teams.wait(20)
    if helps == "another asks for less":
        teams.delete(pending)
    elif helps == "the cluster grows":
        teams.core.put(NODES, node("n1", cpu="10"))
    elif helps == "the quota grows":
        teams.put(quota("a", "7", "10"), quota("b", "3", "10"))
    else:
        teams.put(team_pod("pending", "", "5", nodeSelector={"nobody": "has-it"}))
    assert teams.settle() == {"waits"}


def test_a_pod_finds_its_quota_by_label_then_namespace_then_list() -> None:
    teams = Teams(100)
    teams.put(quota("shop", namespace="shop"), quota("lists", namespaces=["shop", "lab"]), quota("named"))
    quota_of = teams.quotas.bucket
    for pod, expected in (
        (team_pod("p", "named"), "named"),
        (team_pod("p"), "shop"),
        (team_pod("p", namespace="lab"), "lists"),
        (team_pod("p", namespace="elsewhere"), DEFAULT),
        (team_pod("p", "unknown", namespace="lab"), DEFAULT),
        (team_pod("p", "system"), SYSTEM),
    ):
        found = quota_of(pod.metadata.labels, pod.metadata.namespace).quota
        assert found is not None
        assert found.name == expected


def test_a_quota_that_lists_the_clusters_own_namespaces_limits_nobody_there() -> None:
    teams = Teams(100)
    teams.put(quota("greedy", "0", "0", namespaces=["kube-system", "lab"]))
    teams.put(team_pod("dns", namespace="kube-system"), team_pod("held", namespace="lab"))
    assert teams.settle() == {"dns"}


def test_pods_move_to_their_quota_once_it_exists() -> None:
    teams = Teams(100)
    teams.put(team_pod("runs", "late", "3", on="n0"), team_pod("waits", "late", "4"))
    assert teams.status(DEFAULT, "koordinator-system").used == {"cpu": 3000}
    late = quota("late", "5", "10")
    teams.put(late)
    assert teams.status("late").used == {"cpu": 3000}
    assert teams.status("late").request == {"cpu": 7000}
    assert teams.status(DEFAULT, "koordinator-system").used == {}
    teams.delete(late)
    assert teams.status(DEFAULT, "koordinator-system").used == {"cpu": 3000}


def test_what_default_and_system_pods_use_is_not_shared() -> None:
    teams = Teams(100)
    teams.put(quota("a", "0", "100"), team_pod("big", "a", "100"))
    teams.put(team_pod("d", "", "10", on="n0"), team_pod("s", SYSTEM, "5", on="n0"))
    assert teams.runtime("a") == [85_000]
    assert teams.status(ROOT, "koordinator-system").runtime["cpu"] == 85_000
    # What they ask for and do not have is no claim.
    teams.put(team_pod("waits", "", "50", nodeSelector={"nobody": "has-it"}))
    assert teams.runtime("a") == [85_000]


def test_the_default_quota_has_a_limit_if_it_is_given_one() -> None:
    teams = Teams(100, config=configured(default_quota_group_max={"cpu": "3"}))
    teams.put(team_pod("p", "", "2"), team_pod("q", "", "2"))
    assert len(teams.settle()) == 1


def test_without_runtime_max_is_the_limit() -> None:
    teams = Teams(10, config=configured(enable_runtime_quota=False))
    teams.put(quota("a", "0", "8"), quota("b", "10", "10", lends=False))
    teams.put(team_pod("p", "a", "8"), team_pod("q", "a", "1"))
    assert len(teams.settle()) == 1


def test_without_a_default_quota_only_labels_count() -> None:
    teams = Teams(100, gates={SchedulerGate.DISABLE_DEFAULT_QUOTA: True})
    teams.put(quota("shop", "0", "1", namespace="shop"), team_pod("free", "", "9"), team_pod("bound", "shop", "9"))
    assert teams.settle() == {"free"}


def test_overhead_counts_unless_it_is_ignored() -> None:
    for ignored, used in ((False, 3000), (True, 2000)):
        teams = Teams(100, gates={SchedulerGate.ELASTIC_QUOTA_IGNORE_POD_OVERHEAD: ignored})
        teams.put(quota("a", "0", "100"), team_pod("p", "a", "2", overhead={"cpu": "1"}))
        assert teams.settle() == {"p"}
        assert teams.status("a").used == {"cpu": used}
        assert teams.status("a").request == {"cpu": used}


def test_terminating_pods_count_unless_they_are_ignored() -> None:
    from msgspec.structs import replace

    runs = team_pod("p", "a", "2", on="n0")
    going = replace(runs, metadata=replace(runs.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
    for ignored, used in ((False, {"cpu": 2000}), (True, {})):
        teams = Teams(100, gates={SchedulerGate.ELASTIC_QUOTA_IMMEDIATE_IGNORE_TERMINATING_POD: ignored})
        teams.put(quota("a", "0", "100"), runs, going)
        assert teams.status("a").used == used
        assert teams.status("a").request == used


def test_a_pod_that_should_be_gone_counts_no_more_and_another_one_gets_its_room() -> None:
    from msgspec.structs import replace

    teams = Teams(100, gates={SchedulerGate.ELASTIC_QUOTA_IGNORE_TERMINATING_POD: True})
    runs, waits = team_pod("p", "a", "2", on="n0"), team_pod("q", "a", "2")
    gone_at = from_seconds(teams.now_s + 30)
    going = replace(runs, metadata=replace(runs.metadata, deletion_timestamp=gone_at))
    teams.put(quota("a", "2", "2"), runs, going, waits)
    assert not teams.settle()
    teams.core.take_writes()
    assert teams.core.writes_in_s() <= 30
    teams.wait(29)
    teams.core.take_writes()
    assert teams.status("a").used == {"cpu": 2000}
    teams.wait(2)
    teams.core.take_writes()
    assert teams.core.writes_in_s() == 0, "a pod may pass"
    assert teams.status("a").used == {}
    # One more event comes before it is gone.
    teams.put(replace(going, status=replace(going.status, phase="Running")))
    assert teams.settle() == {"q"}
    teams.delete(going)
    teams.core.take_writes()
    assert teams.status("a").used == teams.status("a").request == {"cpu": 2000}


def test_a_pod_of_the_same_name_counts_after_one_that_should_have_been_gone() -> None:
    from msgspec.structs import replace

    teams = Teams(100, gates={SchedulerGate.ELASTIC_QUOTA_IGNORE_TERMINATING_POD: True})
    runs = team_pod("p", "a", "2", on="n0")
    going = replace(runs, metadata=replace(runs.metadata, deletion_timestamp="1970-01-01T00:00:01Z"))
    teams.put(quota("a", "0", "10"), going)
    assert teams.status("a").used == {}
    teams.put(replace(runs, metadata=replace(runs.metadata, uid="another")))
    teams.core.take_writes()
    assert teams.status("a").used == {"cpu": 2000}


def test_members_of_a_gang_must_fit_their_quota_together() -> None:
    gang = {"gang.scheduling.koordinator.sh/name": "train", "gang.scheduling.koordinator.sh/min-available": "4"}
    teams = Teams(100)
    blocker = team_pod("blocker", "a", "2", on="n0")
    teams.put(quota("a", "5", "5"), blocker, *(team_pod(f"m{i}", "a", annotations=gang) for i in range(4)))
    decisions = teams.decide()
    assert len(decisions) == 1
    assert isinstance(decisions[0], Nowhere)
    assert "needs 4 pods at once, 3 fit" in decisions[0].message
    assert "Insufficient quotas" in decisions[0].message
    assert teams.status("a").used == {"cpu": 2000}
    teams.wait(20)
    teams.delete(blocker)
    assert teams.settle() == {f"m{i}" for i in range(4)}


GANG = {"gang.scheduling.koordinator.sh/name": "train", "gang.scheduling.koordinator.sh/min-available": "2"}


@pytest.mark.parametrize("gangs", [1, 3])
def test_a_gang_that_cannot_use_what_is_free_lets_the_next_pod_go(gangs: int) -> None:
    teams = Teams(100)
    runs = [team_pod(f"runs{i}", "a", on="n0") for i in range(2)]
    teams.put(quota("a", "2", "2"), *runs)
    for number in range(gangs):
        gang = {**GANG, "gang.scheduling.koordinator.sh/name": f"train{number}"}
        teams.put(*(team_pod(f"g{number}-{i}", "a", annotations=gang) for i in range(2)))
    assert not teams.settle()
    teams.put(team_pod("single", "a"))
    assert not teams.settle()
    teams.wait(20)
    teams.delete(runs[0])
    assert teams.settle() == {"single"}


def test_a_gang_that_is_gated_after_it_was_let_go_lets_the_next_pod_go() -> None:
    teams = Teams(100)
    runs = team_pod("runs", "a", "2", on="n0")
    members = [team_pod(f"g{i}", "a", annotations=GANG) for i in range(2)]
    teams.put(quota("a", "2", "2"), runs, *members)
    assert not teams.settle()
    teams.put(team_pod("single", "a"))
    assert not teams.settle()
    teams.wait(20)
    teams.delete(members[0])
    teams.delete(runs)
    assert teams.settle() == {"single"}


def test_a_large_member_that_is_not_needed_does_not_keep_a_gang_from_going_without_it() -> None:
    teams = Teams(100)
    teams.put(quota("a", "2", "2"), team_pod("large", "a", "2", priority=9, annotations=GANG))
    teams.put(*(team_pod(f"small{i}", "a", "500m", annotations=GANG) for i in range(2)))
    assert teams.settle() == {"small0", "small1"}


def test_a_pod_that_is_refused_while_its_quota_has_more_room_than_before_hides_that_from_nobody() -> None:
    """Several quotas wait to be looked at, so that this one is looked at only after the large pod was refused."""
    teams = Teams(100)
    runs = [team_pod(f"runs{i}", f"q{i}", on="n0") for i in range(6)]
    for i in range(6):
        teams.put(quota(f"q{i}", "1", "1"), runs[i], team_pod(f"waits{i}", f"q{i}"))
    assert not teams.settle()
    teams.wait(20)
    teams.delete(*runs)
    teams.put(*(team_pod(f"large{i}", f"q{i}", "2", priority=9) for i in range(6)))
    assert teams.settle() == {f"waits{i}" for i in range(6)}


def test_a_pod_that_waited_for_room_above_its_quota_waits_for_its_quota_where_that_is_full_by_now() -> None:
    teams = Teams(100, config=configured(enable_check_parent_quota=True))
    mine, other = quota("mine", "0", "2", parent="both"), quota("other", "0", "2", parent="both")
    runs = team_pod("runs", "other", "2", on="n0")
    teams.put(quota("both", "2", "2", is_parent=True), mine, other, runs, team_pod("waits", "mine"))
    assert not teams.settle()
    teams.put(quota("mine", "0", "0", parent="both"))
    teams.wait(20)
    teams.delete(runs)
    assert not teams.settle()
    teams.wait(20)
    teams.put(mine)
    assert teams.settle() == {"waits"}


def test_trees_of_profiles_have_what_their_roots_say() -> None:
    teams = Teams(100, gates={SchedulerGate.MULTI_QUOTA_TREE: True})
    root = quota(
        "gpu-root",
        "40",
        "1000",
        is_parent=True,
        labels={f"{PREFIX}tree-id": "g", f"{PREFIX}is-root": "true"},
        annotations={f"{PREFIX}total-resource": '{"cpu":"40"}'},
    )
    child = quota("lab", "10", "100", parent="gpu-root", labels={f"{PREFIX}tree-id": "g"})
    teams.put(child, quota("a", "0", "100"), team_pod("p", "a", "100"), team_pod("q", "lab", "90"))
    assert teams.runtime("a") == [100_000]
    assert "the quota tree g has no root quota" in teams.status("lab").complaint
    teams.put(root)
    assert teams.runtime("a", "lab") == [60_000, 40_000]
    teams.delete(root)
    assert teams.runtime("a") == [100_000]


def test_a_min_above_max_is_told_on_the_quota_with_all_whose_pods_wait_for_it() -> None:
    teams = Teams(100)
    teams.put(
        quota("top", "20", "10", is_parent=True), quota("a", parent="top", is_parent=True), quota("b", parent="a")
    )
    wrong = "spec.min.cpu: must be at most spec.max.cpu, 10, not 20"
    waits = "so its pods wait, and so do those of the quotas below it: a, b"
    assert teams.status("top").complaint == f"{wrong}; {waits}"
    assert teams.status("b").complaint == f"its parent top cannot be used: {wrong}"
    teams.put(team_pod("p", "b"))
    assert teams.settle() == set()
    teams.put(quota("top", "10", "10", is_parent=True))
    assert [teams.status(name).complaint for name in ("top", "b")] == ["", ""]
    assert teams.settle() == {"p"}


def test_a_quota_that_is_malformed_stands_alone() -> None:
    teams = Teams(100)
    teams.put(
        quota("good", "10", "10"),
        quota("negative", "-1", "10"),
        quota("orphan", parent="nobody"),
        quota("child-of-orphan", parent="orphan"),
        quota("x", parent="y"),
        quota("y", parent="x"),
        quota("greedy", "20", "20", parent="good"),
        quota("one", namespaces=["lab"], made="2026-01-02T00:00:00Z"),
        quota("two", namespaces=["lab"], made="2026-01-01T00:00:00Z"),
        quota("good", "99", "99", namespace="other", made="2026-02-01T00:00:00Z"),
    )
    complaints = {name: teams.status(name).complaint for name in ("good", "negative", "orphan", "child-of-orphan", "x")}
    assert complaints["good"] == ""
    assert "spec.min.cpu: must be 0 or more, not -1" in complaints["negative"]
    assert complaints["orphan"] == "its parent nobody does not exist"
    assert complaints["child-of-orphan"] == "its parent orphan cannot be used: its parent nobody does not exist"
    assert complaints["x"] == "its parents form a circle: x -> y -> x"
    assert "its min (cpu 20) is above that of its parent good" in teams.status("greedy").complaint
    assert teams.status("one").complaint == "namespace lab belongs to the older quota two"
    assert "teams/good has the same name and is older" in teams.status("good", "other").complaint
    teams.put(team_pod("stuck", "x"), team_pod("runs", "good"))
    assert teams.settle() == {"runs"}
    teams.wait(20)
    teams.put(quota("y"))
    assert teams.settle() == {"stuck"}


def test_a_refused_pod_costs_nothing_until_there_is_room() -> None:
    teams = Teams(100)
    teams.put(quota("a", "1", "1"), quota("b", "50", "50"))
    teams.put(team_pod("p", "a"), team_pod("waits", "a"))
    assert teams.settle() == {"p"}
    teams.wait(20)
    teams.put(*(team_pod(f"b{i}", "b") for i in range(20)))
    assert len(teams.settle()) == 20
    assert teams.core.queue.where("shop/waits") is Where.UNSCHEDULABLE


def test_figures_have_the_originals_names_and_go_with_their_quota() -> None:
    teams = Teams(100)
    a = quota("a", "5", "10")
    teams.put(a, team_pod("p", "a", "2", on="n0"))
    controller = next(plugin for plugin in teams.core.profiles.plugins() if plugin.name == "ElasticQuota").controller
    assert controller is not None
    teams.core.take_writes()
    told = {measure.labels["field"]: measure for measure in controller.measures() if measure.labels.get("name") == "a"}
    assert {field: told[field].value for field in ("used", "request", "runtime", "min", "max")} == {
        "used": 2000.0, "request": 2000.0, "runtime": 2000.0, "min": 5000.0, "max": 10000.0,
    }  # fmt: skip
    assert told["used"].name == "scheduler_elastic_quota_status"
    assert told["used"].labels["parent"] == ROOT
    teams.delete(a)
    teams.wait(10)
    teams.core.take_writes()
    assert {measure.value for measure in controller.measures() if measure.labels.get("name") == "a"} == {None}


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param({f"{PREFIX}is-root": "true"}, id="a root without a tree"),
        pytest.param({f"{PREFIX}is-root": "true", f"{PREFIX}parent": "a"}, id="a root without a tree below a quota"),
    ],
)
def test_a_quota_that_says_it_is_a_root_and_names_no_tree_leaves_the_others_alone(labels: dict[str, str]) -> None:
    teams = Teams(100, gates={SchedulerGate.MULTI_QUOTA_TREE: True})
    teams.put(quota("a", "10", "10", is_parent=True), quota("b", "2", "2"))
    teams.put(quota("odd", labels=labels))
    assert None not in [teams.quotas.forest.tree_of(name) for name in ("a", "b")]
    teams.put(*(team_pod(f"p{i}", "b", "2") for i in range(2)))
    assert len(teams.settle()) == 1


def test_the_root_quota_is_above_all_trees_whatever_its_labels_say() -> None:
    teams = Teams(100, gates={SchedulerGate.MULTI_QUOTA_TREE: True})
    for labels in ({f"{PREFIX}parent": "a"}, {f"{PREFIX}tree-id": "t", f"{PREFIX}is-root": "true"}):
        teams.put(quota("a", "10", "10", is_parent=True), quota(ROOT, labels=labels))
        teams.put(quota("b", "2", "2", parent="a"))
    teams.put(*(team_pod(f"p{i}", "b", "2") for i in range(2)))
    assert len(teams.settle()) == 1
