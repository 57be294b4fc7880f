"""What pods that wait say to autoscalers, and what pods that Kueue holds back count in quotas.

Cluster Autoscaler and Karpenter add nodes for pods whose condition PodScheduled has the reason Unschedulable, for no
others. A new node is worth its price where it would let the pod in.
"""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.configuration.features import SchedulerGate
from koord.api.kinds import NODES, PODS
from koord.scheduler.core.decision import Nowhere
from tests.scheduler.builders import node
from tests.scheduler.live.test_telling import Bench, writing
from tests.scheduler.quotas import Teams, configured, quota, team_pod

SAYS_EXCEEDED = {SchedulerGate.QUOTA_EXCEEDED_REASON: True}
KUEUE = [{"name": "kueue.x-k8s.io/admission"}]


async def reasons(*decisions: Nowhere) -> dict[str, str]:
    """By pod, the reason in its condition."""
    bench = Bench()
    async with writing(bench):
        for decision in decisions:
            bench.telling.nowhere(decision)
    asks = {ask.meta.uid: ask.meta.name for decision in decisions for ask in decision.asks}
    return {
        asks[patch["metadata"]["uid"]]: patch["status"]["conditions"][0]["reason"] for patch in bench.client.patches
    }


def waiting(teams: Teams) -> list[Nowhere]:
    return [each for each in teams.decide() if isinstance(each, Nowhere)]


async def test_a_batch_pod_that_fits_nowhere_asks_for_nodes_like_any_other() -> None:
    teams = Teams(10)
    teams.put(team_pod("batch", cpu="0", more={"kubernetes.io/batch-cpu": "4000"}), team_pod("web", cpu="20"))
    assert await reasons(*waiting(teams)) == {"batch": "Unschedulable", "web": "Unschedulable"}


async def test_batch_pods_wait_for_what_the_agent_of_a_new_node_reports() -> None:
    teams = Teams(10)
    teams.put(team_pod("batch", cpu="0", more={"kubernetes.io/batch-cpu": "4000"}))
    assert await reasons(*waiting(teams)) == {"batch": "Unschedulable"}
    teams.core.put(NODES, node("new", cpu="10"))
    assert teams.settle() == set()
    lends = node("new", cpu="10", extended={"kubernetes.io/batch-cpu": "8000"})
    teams.core.put(NODES, lends, node("new", cpu="10"))
    teams.wait(20)
    assert teams.settle() == {"batch"}


@pytest.mark.parametrize("key", ["ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted"])
async def test_no_pod_goes_to_a_node_that_is_taken_away(key: str) -> None:
    teams = Teams()
    teams.core.put(NODES, node("going", taints=[{"key": key, "effect": "NoSchedule"}]))
    teams.put(team_pod("waits"))
    assert await reasons(*waiting(teams)) == {"waits": "Unschedulable"}


def test_a_candidate_for_deletion_is_the_last_choice() -> None:
    soft = [{"key": "DeletionCandidateOfClusterAutoscaler", "effect": "PreferNoSchedule"}]
    teams = Teams()
    teams.core.put(NODES, node("candidate", cpu="4", taints=soft))
    teams.core.put(NODES, node("other", cpu="4"))
    teams.put(team_pod("first", cpu="3"))
    assert teams.settle() == {"first"}
    teams.put(team_pod("second", cpu="3"))
    assert teams.settle() == {"second"}
    placed = {name: teams.known[PODS, f"shop/{name}"].spec.node_name for name in ("first", "second")}
    assert placed == {"first": "other", "second": "candidate"}


@pytest.mark.parametrize(
    ("least", "most", "given", "reason"),
    [
        # 8 of at most 10 are used: no node makes 3 more of it.
        ("10", "10", {"cpu": "3"}, "QuotaExceeded"),
        # The cluster has 10, the quota may have 20: with more nodes its share grows.
        ("10", "20", {"cpu": "3"}, "Unschedulable"),
        ("10", "20", {"cpu": "13"}, "QuotaExceeded"),
        # Beyond its guarantee, for a pod that must not be preempted.
        ("2", "20", {"cpu": "3", "fixed": True}, "Unschedulable"),
        ("2", "9", {"cpu": "3", "fixed": True}, "QuotaExceeded"),
    ],
)
async def test_no_node_is_added_for_a_pod_that_its_quota_holds_back(
    least: str, most: str, given: dict[str, Any], reason: str
) -> None:
    for gates, told in ((SAYS_EXCEEDED, reason), ({}, "Unschedulable")):
        teams = Teams(10, gates=gates)
        teams.put(quota("a", least, most), team_pod("runs", "a", "8", on="n0"))
        teams.put(team_pod("waits", "a", **given))
        assert await reasons(*waiting(teams)) == {"waits": told}


async def test_a_quota_whose_guarantee_is_used_up_by_fixed_pods_needs_no_node() -> None:
    teams = Teams(100, gates=SAYS_EXCEEDED)
    teams.put(quota("a", "5", "20"), team_pod("held", "a", "4", fixed=True, on="n0"))
    teams.put(team_pod("fixed", "a", "2", fixed=True))
    assert await reasons(*waiting(teams)) == {"fixed": "QuotaExceeded"}


async def test_a_parent_that_is_used_up_needs_no_node_either() -> None:
    teams = Teams(100, config=configured(enable_check_parent_quota=True), gates=SAYS_EXCEEDED)
    teams.put(quota("p", "12", "12", is_parent=True), quota("leaf", "0", "10", parent="p"))
    teams.put(quota("sister", "0", "10", parent="p"))
    teams.put(team_pod("big", "sister", "9", on="n0"), team_pod("small", "leaf", "2", on="n0"))
    teams.put(quota("p", "11", "11", is_parent=True), team_pod("next", "leaf", "1"))
    assert await reasons(*waiting(teams)) == {"next": "QuotaExceeded"}


def test_pods_that_kueue_has_not_admitted_take_nothing_of_anybodys_share() -> None:
    teams = Teams(10)
    teams.put(quota("a", "5", "10"), quota("b", "5", "10"))
    gated = team_pod("gated", "b", "5", schedulingGates=KUEUE)
    teams.put(gated, *(team_pod(f"a{i}", "a", "2") for i in range(5)))
    assert len(teams.settle()) == 5
    assert teams.runtime("a", "b") == [10_000, 0]

    teams.put(team_pod("gated", "b", "5"))
    assert teams.runtime("a", "b") == [5_000, 5_000]


def test_a_pod_that_kueue_has_admitted_still_waits_for_its_quota() -> None:
    teams = Teams(100)
    teams.put(quota("b", "4", "4"), team_pod("first", "b", "3", schedulingGates=KUEUE))
    assert teams.settle() == set()
    teams.put(team_pod("first", "b", "3"), team_pod("second", "b", "3"))
    assert len(teams.settle()) == 1
