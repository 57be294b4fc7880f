"""Who may move: never, not yet, or now; how many of a workload; and in which order."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.configuration.descheduler_args import MigrationControllerArgs
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol.annotations.load import JOB_WORKLOAD
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob
from koord.api.text.timestamp import from_seconds
from koord.descheduler.arbitration import MoveRequest, arbitrate, in_order
from koord.descheduler.evictable import is_available, never, not_yet
from koord.descheduler.job_status import is_forgotten
from koord.descheduler.limiter import Limit, wait_s
from koord.descheduler.live.pace import Pace
from koord.descheduler.moves import Moves
from koord.descheduler.rules import Rules
from koord.descheduler.workloads import at_most, workloads_of
from tests.descheduler.build import NOW_S, deployment, job, pod


def args(**given: Any) -> Rules:
    return Rules.of(convert(MigrationControllerArgs, given).completed())


@pytest.mark.parametrize(
    ("configured", "replicas", "limit"),
    [
        (None, 3, 1),
        (None, 4, 2),
        (None, 10, 2),
        (None, 11, 1),
        (None, 20, 2),
        (None, 100, 10),
        ("30%", 7, 2),
        ("1%", 7, 1),
        ("0%", 7, 0),
        (0, 7, 0),
        (9, 7, 7),
    ],
)
def test_how_many_of_a_workload_may_be_away(configured: int | str | None, replicas: int, limit: int) -> None:
    assert at_most(configured, replicas) == limit


@pytest.mark.parametrize(
    ("replicas", "given", "why"),
    [
        (1, {}, "the only replica"),
        (2, {"maxUnavailablePerWorkload": 2}, "would let all 2 replicas"),
        (2, {}, None),
        (1, {"skipCheckExpectedReplicas": True}, None),
        (1, {"skipEvictionGates": ["ExpectedReplicas"]}, None),
    ],
)
def test_a_workload_never_loses_all_its_pods_at_once(replicas: int, given: Any, why: str | None) -> None:
    running = [pod(f"p{i}", "n1") for i in range(replicas)]
    found = never(running[0], args(**given), workloads_of(deployment("web", replicas), running))
    assert found is None if why is None else found is not None and why in found


@pytest.mark.parametrize(
    ("more", "given", "why"),
    [
        ({"owner": ""}, {}, "no owner"),
        ({"owner": ""}, {"evictAllBarePods": True}, None),
        ({"owner": ""}, {"evictFailedBarePods": True}, "has not failed"),
        ({"owner": "DaemonSet log"}, {}, "DaemonSet"),
        ({"priority": 2_000_000_000}, {}, "critical"),
        ({"priority": 2_000_000_000}, {"evictSystemCriticalPods": True}, None),
        ({"priority": 9500}, {"priorityThreshold": {"value": 9500}}, "priorityThreshold"),
        ({"priority": 9499}, {"priorityThreshold": {"value": 9500}}, None),
        ({"volumes": [{"name": "scratch", "emptyDir": {}}]}, {}, "scratch"),
        ({"volumes": [{"name": "scratch", "emptyDir": {}}]}, {"evictLocalStoragePods": True}, None),
        ({"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]}, {"ignorePvcPods": True}, "claim"),
        ({"labels": {"tier": "web"}}, {"labelSelector": {"matchLabels": {"tier": "db"}}}, "labelSelector"),
        ({}, {"namespaces": {"exclude": ["default"]}}, "namespace"),
        ({}, {"namespaces": {"include": ["other"]}}, "namespace"),
        ({"annotations": {"scheduling.koordinator.sh/eviction-cost": "2147483647"}}, {}, "never"),
        ({"annotations": {"kubernetes.io/config.source": "file"}}, {}, "static"),
        ({"owner": "", "annotations": {"descheduler.alpha.kubernetes.io/evict": "true"}}, {}, None),
    ],
)
def test_what_keeps_a_pod_where_it_is(more: Any, given: Any, why: str | None) -> None:
    found = never(pod("p", "n1", **more), args(**given), workloads_of(deployment("web", 5), [pod("p", "n1")]))
    assert found is None if why is None else found is not None and why in found


def test_pods_of_a_workload_wait_for_each_other() -> None:
    running = [pod(f"p{i}", f"n{i}") for i in range(5)]
    workloads = workloads_of(deployment("web", 5), running)
    moves = Moves()
    assert not_yet(running[0], args(), workloads, moves) is None
    moves.add(running[0])
    assert not_yet(running[1], args(), workloads, moves) is None, "two of five may be away"
    moves.add(running[1])
    assert "limit 2" in (not_yet(running[2], args(), workloads, moves) or "")


def test_a_pod_that_is_not_ready_counts_as_away() -> None:
    running = [pod("p0", "n0"), pod("p1", "n1", ready=False), pod("p2", "n2", ready=False)]
    found = not_yet(running[0], args(), workloads_of(deployment("web", 5), running), Moves())
    assert found is not None
    assert "away" in found


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({"updatedReplicas": 3}, "is rolling out"),
        ({"replicas": 7, "updatedReplicas": 7}, "is scaling down"),
        ({}, None),
    ],
)
def test_nothing_moves_while_its_workload_changes(status: dict[str, int], why: str | None) -> None:
    running = [pod(f"p{i}", f"n{i}") for i in range(5)]
    found = not_yet(running[0], args(), workloads_of(deployment("web", 5, **status), running), Moves())
    assert found is None if why is None else found is not None and why in found


def test_one_node_loses_no_more_pods_at_once_than_allowed() -> None:
    running = [pod(f"p{i}", "n1", owner=f"Job j{i}") for i in range(3)]
    workloads = workloads_of([job(f"j{i}") for i in range(3)], running)
    moves = Moves()
    for each in running[:2]:
        assert not_yet(each, args(), workloads, moves) is None
        moves.add(each)
    assert "maxMigratingPerNode: 2" in (not_yet(running[2], args(), workloads, moves) or "")
    assert not_yet(running[2], args(maxMigratingPerNode=0), workloads, moves) is None, "0 is no limit"


def test_moves_of_one_job_stay_together_and_go_on_where_one_has_begun() -> None:
    pods = {
        "j1": pod("j1", "n1", priority=9500),
        "j2": pod("j2", "n1", priority=5500, qos="BE", owner="Job x"),
        "j3": pod("j3", "n1", priority=7500, qos="LS", owner="Job x"),
        "j4": pod("j4", "n1", priority=5400, qos="BE", owner="Job y"),
        "j5": pod("j5", "n1", priority=9000, owner="Job y"),
    }
    skip = args(skipEvictionGates=["MaxMigratingPerWorkload", "MaxUnavailablePerWorkload", "ExpectedReplicas"])
    asked = [MoveRequest(name, NOW_S, pod, skip) for name, pod in pods.items()]
    assert [move_request.name for move_request in in_order(asked, Moves())] == ["j4", "j5", "j2", "j3", "j1"]
    begun = Moves()
    begun.add(pod("j0", "n2", owner="Job x"))
    assert [move_request.name for move_request in in_order(asked, begun)] == ["j2", "j3", "j4", "j5", "j1"]
    workloads = workloads_of([*deployment("web", 5), job("x", 9), job("y", 9)], pods.values())
    rulings = arbitrate(asked, workloads, begun)
    assert [(ruling.request.name, ruling.outcome) for ruling in rulings] == [
        ("j2", "passes"),
        ("j3", "passes"),
        ("j4", "waits"),
        ("j5", "waits"),
        ("j1", "waits"),
    ]


def test_each_job_is_ruled_on_by_the_rules_of_its_own_profile() -> None:
    careful, free = args(maxMigratingPerNode=1), args(maxMigratingPerNode=0, skipCheckExpectedReplicas=True)
    pods = [pod(f"p{number}", "n1", owner=f"Deployment r{number}") for number in range(3)]
    asked = [
        MoveRequest(pod.metadata.name, NOW_S, pod, rules)
        for pod, rules in zip(pods, (careful, free, free), strict=True)
    ]
    begun = Moves()
    begun.add(pod("p9", "n1", owner="Deployment r9"))
    workloads = workloads_of([*deployment("r1", 5), *deployment("r2", 5)], pods)
    rulings = {ruling.request.name: ruling.outcome for ruling in arbitrate(asked, workloads, begun)}
    assert rulings == {"p0": "forbidden", "p1": "passes", "p2": "passes"}


def moved_at(at_s: float, workload: str) -> PodMigrationJob:
    eviction = {"type": "Eviction", "status": "True", "lastTransitionTime": from_seconds(at_s)}
    return convert(
        PodMigrationJob,
        {
            "metadata": {
                "name": "m",
                "uid": "m",
                "creationTimestamp": from_seconds(at_s - 60),
                "annotations": {JOB_WORKLOAD.key: workload},
            },
            "spec": {"podRef": {"namespace": "default", "name": "p"}},
            "status": {"conditions": [eviction], "phase": "Succeeded"},
        },
    )


def test_a_workload_of_twenty_moves_two_pods_in_five_minutes() -> None:
    limit = Limit(at_most(None, 20), 300.0)
    assert wait_s([NOW_S], limit, NOW_S) == 150.0
    assert wait_s([NOW_S], limit, NOW_S + 149) == pytest.approx(1.0)
    assert wait_s([NOW_S], limit, NOW_S + 150) == 0.0
    assert wait_s([NOW_S + 150, NOW_S], limit, NOW_S + 150) == 150.0
    assert wait_s([], limit, NOW_S) == 0.0


def test_a_new_process_knows_from_the_jobs_what_was_moved_lately() -> None:
    limits = {"workload": {"duration": "5m"}, "namespace": {"duration": "10m", "maxMigrating": 2}}
    given = args(objectLimiters=limits).args
    web = workloads_of(deployment("web", 20), [moves := pod("p0", "n1")]).of(moves)
    assert web is not None
    pace = Pace()
    assert pace.wait_s(moves, given, web, NOW_S) == 0.0
    done = moved_at(NOW_S - 30, web.uid)
    pace.written(done)
    pace.written(done)
    assert pace.wait_s(moves, given, web, NOW_S) == 270.0, "one of two in ten minutes has gone, half a minute ago"
    assert pace.wait_s(moves, given, web, NOW_S + 270) == 0.0
    assert is_forgotten(done, given, NOW_S + 570 + 1)
    assert not is_forgotten(done, given, NOW_S + 569), "a limiter still uses it"


def test_pods_of_a_large_workload_are_looked_at_once_however_many_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = [pod(f"p{number}", "a", ready=number > 0) for number in range(300)]
    workloads, looked_at = workloads_of(deployment("web", 300), pods), list[str]()

    def look(each: Pod) -> bool:
        looked_at.append(each.metadata.name)
        return is_available(each)

    monkeypatch.setattr("koord.descheduler.evictable.is_available", look)
    rules = args(maxMigratingPerNode=0, maxUnavailablePerWorkload=2)
    moves = Moves()
    assert not_yet(pods[5], rules, workloads, moves) is None
    moves.add(pods[5])
    for each in pods[6:100]:
        assert "2 pods are away already" in (not_yet(each, rules, workloads, moves) or "")
    assert not_yet(pods[0], rules, workloads, moves) is None, "it is away itself"
    assert len(looked_at) == 300
