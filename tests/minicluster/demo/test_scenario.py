from __future__ import annotations

import json
from typing import Any

import pytest

from koord.api.kinds import DEPLOYMENTS, DEVICES, ELASTIC_QUOTAS
from koord_minicluster.demo.scenario import (
    CHAT,
    ENCODE,
    GPUS,
    REPORT,
    SERVICES,
    TRAIN,
    TUNE,
    JobShape,
    RealNode,
    Scenario,
    service_pods,
)
from koord_minicluster.demo.story import RESEARCH_JOBS, ROUND_S, Submission, due, numbers_after, times
from koord_minicluster.hollow.machine import LABEL_FLEET
from koord_minicluster.hollow.phases import ANNOTATION_DURATION


def container(manifest: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = manifest["spec"]["template"]["spec"]["containers"][0]
    return found


def test_the_same_seed_gives_the_same_scenario_and_another_one_other_jobs() -> None:
    def runs(seed: int) -> list[str]:
        jobs = [Scenario(seed=seed).job(ENCODE, number) for number in range(5)]
        return [job["spec"]["template"]["metadata"]["annotations"][ANNOTATION_DURATION] for job in jobs]

    assert Scenario(seed=3).foundation() == Scenario(seed=3).foundation()
    assert runs(3) == runs(3) != runs(4)


def test_services_ask_for_most_of_the_cluster_and_leave_room_for_pods_that_move() -> None:
    pools = list(Scenario().pools().values())
    slots = pools.count("general") * 32 // 8  # each pod of a service asks for 8 cores, each node has 32
    wanted = sum(service.replicas for service in SERVICES)
    assert {service.cpu for service in SERVICES} == {8}
    assert 0.9 * slots < wanted <= slots - 4


@pytest.mark.parametrize("nodes", [10, 25, 50, 100])
def test_a_cluster_of_another_size_has_as_many_services_as_fit(nodes: int) -> None:
    scenario = Scenario(nodes)
    slots = list(scenario.pools().values()).count("general") * 4
    made = [m["spec"]["replicas"] for kind, m in scenario.foundation() if kind is DEPLOYMENTS]
    assert sum(made) == service_pods(scenario)
    assert 0.7 * slots < sum(made) - CHAT <= slots - 2


def test_nothing_in_a_batch_job_speaks_of_co_location() -> None:
    for shape in (ENCODE, REPORT):
        text = json.dumps(Scenario().job(shape, 1))
        assert "koordinator.sh" not in text
        assert "kubernetes.io/batch" not in text


def test_the_gang_wants_all_the_gpus_that_the_job_before_it_has() -> None:
    pools = Scenario().pools()
    training = sum(pool == "training" for pool in pools.values()) * GPUS * 100
    for shape in (TUNE, TRAIN):
        job = Scenario().job(shape, 1)
        asked = int(container(job)["resources"]["requests"]["koordinator.sh/gpu"]) * job["spec"]["completions"]
        assert asked == training
    devices = [manifest for kind, manifest in Scenario().foundation() if kind is DEVICES]
    assert {device["metadata"]["name"] for device in devices} == {
        name for name, pool in pools.items() if pool != "general"
    }


def test_pods_of_a_real_node_have_commands_and_all_others_stay_away_from_it() -> None:
    here = RealNode("local", "/usr/bin/python3", 18080)
    made = [manifest for kind, manifest in Scenario(local=here).foundation() if kind is DEPLOYMENTS]
    for each in made:
        selector = each["spec"]["template"]["spec"]["nodeSelector"]
        assert ("command" in container(each)) == (selector.get("kubernetes.io/hostname") == "local")
    assert sum("command" in container(each) for each in made) == 2
    assert all("command" not in container(m) for kind, m in Scenario().foundation() if kind is DEPLOYMENTS)
    assert LABEL_FLEET in Scenario(local=here).job(ENCODE, 1)["spec"]["template"]["spec"]["nodeSelector"]


def test_both_tenants_are_guaranteed_a_part_and_may_borrow() -> None:
    quotas = [manifest for kind, manifest in Scenario().foundation() if kind is ELASTIC_QUOTAS]
    assert {quota["metadata"]["namespace"] for quota in quotas} == {"research", "analytics"}
    for quota in quotas:
        least, most = (int(quota["spec"][what]["kubernetes.io/batch-cpu"]) for what in ("min", "max"))
        assert 0 < least < most


@pytest.mark.parametrize(
    ("elapsed_s", "expected"),
    [
        (0.0, {TUNE: 0, TRAIN: 0, REPORT: 0}),
        (10.0, {TUNE: 1, TRAIN: 1, REPORT: 0}),
        (40.0, {TUNE: 1, TRAIN: 1, REPORT: 1}),
        (ROUND_S + 3.0, {TUNE: 2, TRAIN: 1, REPORT: 1}),
    ],
)
def test_timed_jobs_come_once_in_each_round(elapsed_s: float, expected: dict[JobShape, int]) -> None:
    assert times(elapsed_s) == expected


def test_what_was_submitted_is_not_submitted_again() -> None:
    submitted: dict[JobShape, int] = {}
    names: list[str] = []
    for second in range(200):
        active = sum(name.startswith("encode-") for name in names)
        for submission in due(float(second), submitted, active, {}):
            submitted[submission.shape] = submitted.get(submission.shape, 0) + 1
            names.append(submission.name)
    assert len(names) == len(set(names))
    assert submitted == {ENCODE: RESEARCH_JOBS, TUNE: 2, TRAIN: 2, REPORT: 2}


def test_research_gets_a_new_job_for_each_that_is_done() -> None:
    every = {TUNE: 1, TRAIN: 1, REPORT: 1, ENCODE: 23}
    assert due(60.0, every, RESEARCH_JOBS - 2, {}) == [Submission(ENCODE, 24), Submission(ENCODE, 25)]
    assert due(60.0, every, RESEARCH_JOBS, {}) == []


def test_a_cluster_that_has_jobs_from_before_numbers_on() -> None:
    first = numbers_after(["encode-7", "encode-12", "train-1", "report", "other-99", "tune-x"])
    assert first == {ENCODE: 13, REPORT: 1, TRAIN: 2, TUNE: 1}
    assert due(3.0, {}, 0, first)[:2] == [Submission(TUNE, 1), Submission(ENCODE, 13)]
