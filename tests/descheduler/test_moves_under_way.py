"""Limits of moves count every move until its job ends, read from pods, workloads and jobs alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from koord.api.configuration.descheduler_args import MigrationControllerArgs
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.workloads import Deployment, Job, StatefulSet
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob
from koord.api.text.timestamp import from_seconds
from koord.descheduler.arbitration import Ruling, arbitrate
from koord.descheduler.evictable import may_not_leave, not_yet
from koord.descheduler.job_request import sorted_out
from koord.descheduler.job_status import awaits_leave, starts_to_leave
from koord.descheduler.migration import step
from koord.descheduler.migration_step import EvictPod, MigrationState
from koord.descheduler.moves import Moves, moves_of
from koord.descheduler.rules import Rules
from koord.descheduler.workloads import Known, workloads_of
from tests.descheduler.build import NOW_S, deployment, pod

FREE = {"maxMigratingPerNode": 0, "maxMigratingPerWorkload": 50, "maxUnavailablePerWorkload": 50}


def args(**given: Any) -> Rules:
    return Rules.of(convert(MigrationControllerArgs, {**FREE, **given}).completed())


def asked(moved: Pod, **more: Any) -> PodMigrationJob:
    meta = moved.metadata
    reference = {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid}
    head = {"name": f"move-{meta.name}", "uid": f"move-{meta.uid}", "creationTimestamp": from_seconds(NOW_S)}
    return convert(PodMigrationJob, {"metadata": {**head, **more}, "spec": {"podRef": reference}})


def begun(moved: Pod, workload: str = "deployment-web") -> PodMigrationJob:
    """A job that has started, as its first step writes it."""
    passed = asked(moved, annotations={"descheduler.koordinator.sh/passed-arbitration": "true"})
    return step(passed, MigrationState(moved, workload=workload), MigrationControllerArgs().completed(), NOW_S).job


def rulings(
    jobs: Sequence[PodMigrationJob], pods: Sequence[Pod], workloads: Sequence[Known], rules: Rules
) -> dict[str, Ruling]:
    by_key = {pod.metadata.key: pod for pod in pods}
    waiting, moves = sorted_out(jobs, by_key.get, NOW_S, lambda _: rules)
    ruled = arbitrate(waiting, workloads_of(workloads, pods), moves)
    return {ruling.request.name.removeprefix("move-"): ruling for ruling in ruled}


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        ({"maxMigratingGlobally": 1}, "in the cluster, 1 pod is moving already (maxMigratingGlobally: 1)"),
        ({"maxMigratingPerNode": 1}, "on n1, 1 pod is moving already (maxMigratingPerNode: 1)"),
        ({"maxMigratingPerNamespace": 1}, "in the namespace default, 1 pod is moving"),
        ({"maxMigratingPerWorkload": 1}, "of Deployment default/web, 1 pod is moving already (limit 1)"),
    ],
)
def test_a_move_counts_until_its_job_ends_although_its_old_pod_is_gone(limit: dict[str, int], why: str) -> None:
    old, next_ = pod("a", "n1"), pod("b", "n1")
    replacement = pod("c", "n2", ready=False)
    (ruling,) = rulings(
        [begun(old), asked(next_)], [next_, replacement], deployment("web", 100), args(**limit)
    ).values()
    assert ruling.outcome == "waits"
    assert why in ruling.why


def test_another_pod_of_the_same_name_does_not_end_a_move() -> None:
    """A StatefulSet gives its new pod the name of the old one."""
    old, other = pod("db-0", "n1", owner="StatefulSet db"), pod("web", "n3")
    new = convert(Pod, {"metadata": {"name": "db-0", "namespace": "default", "uid": "new"}})
    found = rulings(
        [begun(old, "db"), asked(other)], [new, other], deployment("web", 100), args(maxMigratingGlobally=1)
    )
    assert found["web"].outcome == "waits"


def test_pods_without_a_node_share_no_limit_of_a_node() -> None:
    pods = [pod(f"p{number}", "", ready=False) for number in range(3)]
    rules = args(maxMigratingPerNode=1)
    found = rulings([asked(pod) for pod in pods], pods, deployment("web", 100), rules)
    assert {ruling.outcome for ruling in found.values()} == {"passes"}


def stateful_set(replicas: int) -> StatefulSet:
    metadata = {"name": "db", "namespace": "default", "uid": "statefulset-db"}
    return convert(StatefulSet, {"metadata": metadata, "spec": {"replicas": replicas}})


def finished(given: Pod, phase: str = "Failed") -> Pod:
    return convert(Pod, {"metadata": given.metadata, "spec": given.spec, "status": {"phase": phase}})


@pytest.mark.parametrize("skip", [{"skipCheckExpectedReplicas": True}, {"skipEvictionGates": ["ExpectedReplicas"]}])
def test_a_pod_whose_workload_is_not_known_stays(skip: dict[str, Any]) -> None:
    pods = [pod(f"p{number}", f"n{number}", owner="Deployment gone") for number in range(4)]
    found = rulings([asked(pod) for pod in pods], pods, [], args(**skip))
    assert {ruling.outcome for ruling in found.values()} == {"forbidden"}
    assert "its owner is not known, or gone" in found["p0"].why
    gates = ["ExpectedReplicas", "MaxMigratingPerWorkload", "MaxUnavailablePerWorkload"]
    found = rulings([asked(each) for each in pods], pods, [], args(skipEvictionGates=gates))
    assert {ruling.outcome for ruling in found.values()} == {"passes"}, (
        "a profile without limits for workloads moves them"
    )


def why_waits(moved: Pod, pods: Sequence[Pod], workloads: Sequence[Known], **given: Any) -> str | None:
    return not_yet(moved, args(**given), workloads_of(workloads, pods, has_all_pods=True), Moves())


ONE = {"maxUnavailablePerWorkload": 1, "maxMigratingPerWorkload": 1}


def test_replicas_that_are_missing_are_away() -> None:
    pods = [pod(f"p{number}", f"n{number}") for number in range(5)]
    assert why_waits(pods[0], pods, deployment("web", 5), **ONE) is None
    assert why_waits(pods[0], pods[:4], deployment("web", 5), **ONE) == (
        "of Deployment default/web, 1 pod is away already (limit 1)"
    )
    assert "3 pods are away already" in (why_waits(pods[0], pods[:2], deployment("web", 5), **ONE) or "")
    files = workloads_of(deployment("web", 5), pods[:2])
    assert not_yet(pods[0], args(**ONE), files, Moves()) is None, "files need not tell of all pods"


def test_a_replacement_that_is_not_ready_and_the_pod_that_it_replaces_are_one_replica() -> None:
    """Of five, two may be away: one move under way leaves room for another."""
    old, pods = pod("old", "n0"), [pod(f"p{number}", f"n{number}") for number in range(4)]
    replacement, rules = pod("new", "n5", ready=False), args(maxUnavailablePerWorkload=2, maxMigratingPerWorkload=3)
    for present in ([*pods, replacement], pods):
        workloads = workloads_of(deployment("web", 5), present, has_all_pods=True)
        by_key = {pod.metadata.key: pod for pod in present}
        waiting, moves = sorted_out([begun(old), asked(pods[0])], by_key.get, NOW_S, lambda _: rules)
        assert [ruling.outcome for ruling in arbitrate(waiting, workloads, moves)] == ["passes"]
        assert "2 pods are away already" in (not_yet(pods[1], rules, workloads, moves) or "")


@pytest.mark.parametrize("missing", [[], [1]])
def test_a_failed_pod_of_a_stateful_set_is_a_missing_one(missing: list[int]) -> None:
    """Nobody makes the pod of an ordinal while its failed one is there. Of Deployments, another is there already."""
    pods = [pod(f"db-{number}", f"n{number}", owner="StatefulSet db") for number in range(4)]
    present = [finished(pod) if i == 1 else pod for i, pod in enumerate(pods) if i not in missing]
    assert "1 pod is away already" in (why_waits(pods[0], present, [stateful_set(4)], **ONE) or "")
    assert why_waits(finished(pods[1]), present, [stateful_set(4)], **ONE) is None, "the failed one takes nothing away"
    web = [*(pod(f"p{number}", f"n{number}") for number in range(5)), finished(pod("p5", "n5"))]
    assert why_waits(web[0], web, deployment("web", 5), **ONE) is None


def test_a_pod_that_is_not_ready_does_not_wait_for_itself() -> None:
    pods = [pod(f"p{number}", f"n{number}", ready=number > 0) for number in range(5)]
    assert why_waits(pods[0], pods, deployment("web", 5), **ONE) is None
    assert "1 pod is away" in (why_waits(pods[1], pods, deployment("web", 5), **ONE) or "")


@pytest.mark.parametrize(
    ("spec", "status", "why"),
    [
        ({"parallelism": 8}, {}, "6 pods are away"),
        ({"parallelism": 8, "completions": 20}, {"succeeded": 18}, None),
        ({"parallelism": 8, "completions": 20}, {"succeeded": 17}, "1 pod is away"),
        ({"parallelism": 8}, {"succeeded": 1, "active": 2}, None),
        ({"parallelism": 8, "suspend": True}, {}, None),
    ],
)
def test_a_job_misses_no_pods_that_it_no_longer_needs(spec: Any, status: Any, why: str | None) -> None:
    pods = [pod(f"p{number}", f"n{number}", owner="Job sum") for number in range(2)]
    metadata = {"name": "sum", "namespace": "default", "uid": "job-sum"}
    found = why_waits(pods[0], pods, [convert(Job, {"metadata": metadata, "spec": spec, "status": status})], **ONE)
    assert found is None if why is None else found is not None and why in found


def test_a_paused_deployment_that_is_whole_may_lose_a_pod_and_one_amid_a_rollout_may_not() -> None:
    pods = [pod(f"p{number}", f"n{number}") for number in range(5)]
    (web, made) = deployment("web", 5)
    assert isinstance(web, Deployment)
    paused = [msgspec.structs.replace(web, spec=msgspec.structs.replace(web.spec, paused=True)), made]
    assert why_waits(pods[0], pods, paused, **ONE) is None
    assert "is rolling out" in (why_waits(pods[0], pods, deployment("web", 5, updatedReplicas=2), **ONE) or "")


def leaves(moved: Pod, jobs: Sequence[PodMigrationJob], pods: Sequence[Pod], **given: Any) -> str | None:
    by_key = {pod.metadata.key: pod for pod in pods}
    workloads = workloads_of(deployment("web", 5), pods, has_all_pods=True)
    return may_not_leave(moved, args(**given), workloads, moves_of(jobs, by_key.get, NOW_S))


def test_a_pod_that_was_let_through_stays_while_too_many_others_have_become_unavailable_since() -> None:
    pods = [pod(f"p{number}", f"n{number}") for number in range(5)]
    two = {"maxUnavailablePerWorkload": 2, "maxMigratingPerWorkload": 2}
    both = [begun(pods[0]), begun(pods[1])]
    assert leaves(pods[0], both, pods, **two) is None
    sick = [*pods[:4], pod("p4", "n4", ready=False)]
    assert leaves(pods[0], both, sick, **two) is None, "both were let through: neither waits for the other"
    first = evicting(both[0], pods[0])
    assert "2 pods are away" in (leaves(pods[1], [first, both[1]], sick, **two) or ""), "the first is leaving"
    asks = pod("p0", "n0", annotations={"descheduler.alpha.kubernetes.io/evict": "true"})
    assert leaves(asks, both, [asks, pods[1]], **two) is None
    assert leaves(pods[0], both, pods[:2], skipEvictionGates=["MaxUnavailablePerWorkload"]) is None


def evicting(running: PodMigrationJob, moved: Pod) -> PodMigrationJob:
    """A job that has started to evict its pod."""
    direct = msgspec.structs.replace(running, spec=msgspec.structs.replace(running.spec, mode="EvictDirectly"))
    after = step(direct, MigrationState(moved), MigrationControllerArgs().completed(), NOW_S).job
    assert starts_to_leave(direct, after)
    return after


def test_a_job_whose_pod_must_stay_waits_and_says_why() -> None:
    moved = pod("p0", "n0")
    running = begun(moved)
    direct = msgspec.structs.replace(running, spec=msgspec.structs.replace(running.spec, mode="EvictDirectly"))
    taken = step(
        direct, MigrationState(moved, must_stay="too many are away"), MigrationControllerArgs().completed(), NOW_S
    )
    assert (taken.job.status.reason, taken.job.status.message) == ("Waiting", "too many are away")
    assert not taken.actions
    assert awaits_leave(taken.job)
    late = MigrationState(moved, must_stay="too many are away")
    gone_on = step(evicting(running, moved), late, MigrationControllerArgs().completed(), NOW_S)
    assert [type(action) for action in gone_on.actions] == [EvictPod], "what has started is not taken back"
