"""`koord explain deployment/NAME` and other workloads, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from koord.cli.main import run

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
}
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "2"}}}]},
}
DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "uid": "d"},
    "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE},
    "status": {"updatedReplicas": 2, "replicas": 2},
}


def owned(name: str, kind: str, owner: str) -> dict[str, Any]:
    reference = {"apiVersion": "v1", "kind": kind, "name": owner, "uid": owner, "controller": True}
    return {"name": name, "uid": name, "ownerReferences": [reference]}


REPLICA_SET = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": owned("web-1", "Deployment", "web"),
    "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE},
}


def pod(name: str, kind: str = "ReplicaSet", owner: str = "web-1", **more: Any) -> dict[str, Any]:
    spec = {**TEMPLATE["spec"], **more.pop("spec", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": owned(name, kind, owner), "spec": spec, **more}


RUNS: dict[str, Any] = {"spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}
JOB: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "sum", "uid": "j"},
    "spec": {"completions": 3, "parallelism": 1, "template": TEMPLATE},
    "status": {"succeeded": 2},
}


def changed(obj: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return {**obj, **{name: {**obj.get(name, {}), **part} for name, part in parts.items()}}


class Cluster:
    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._file, self._capsys = folder / "cluster.json", capsys

    def explain(self, what: str, *objects: dict[str, Any], output: str = "table") -> str:
        self._file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [NODE, *objects]}))
        assert run(["explain", what, "-f", str(self._file), "-o", output]) == 0
        return self._capsys.readouterr().out


@pytest.fixture
def cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cluster:
    return Cluster(tmp_path, capsys)


def test_a_deployment_whose_pods_are_ready_is_complete(cluster: Cluster) -> None:
    objects = (DEPLOYMENT, REPLICA_SET, pod("web-1-a", **RUNS), pod("web-1-b", **RUNS))
    for word in ("deployment/web", "deployments/web", "deploy/default/web"):
        assert cluster.explain(word, *objects) == "Deployment default/web is complete: 2 of 2 pods ready\n"


def test_a_pod_without_a_node_is_explained(cluster: Cluster) -> None:
    other = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "db"},
        **RUNS,
        "spec": {**TEMPLATE["spec"], "nodeName": "n1"},
    }
    told = cluster.explain("deployment/web", DEPLOYMENT, REPLICA_SET, other, pod("web-1-a", **RUNS), pod("web-1-b"))
    assert told.startswith("Deployment default/web is incomplete: 1 of 2 pods ready\n")
    assert "default/web-1-b fits nowhere" in told
    assert "Insufficient cpu" in told
    assert "WHAT WOULD LET IT IN" in told
    found = json.loads(cluster.explain("deployment/web", DEPLOYMENT, REPLICA_SET, pod("web-1-b"), output="json"))
    assert {name: found[name] for name in ("outcome", "wanted", "pods", "ready")} == {
        "outcome": "incomplete",
        "wanted": 2,
        "pods": 1,
        "ready": 0,
    }
    assert found["pod"]["outcome"] == "fits"
    assert found["reasons"] == ["its controller has made 1 of 2 pods"]


def test_a_container_that_cannot_start_is_named(cluster: Cluster) -> None:
    waiting = {"reason": "CreateContainerConfigError", "message": 'configmap "x" not found'}
    status = {"phase": "Pending", "containerStatuses": [{"name": "c", "state": {"waiting": waiting}}]}
    stuck = pod("web-1-a", spec={"nodeName": "n1"}, status=status)
    told = cluster.explain("deployment/web", DEPLOYMENT, REPLICA_SET, stuck, pod("web-1-b", **RUNS))
    assert 'container c: CreateContainerConfigError: configmap "x" not found' in told


def test_what_its_controller_says_is_told_once(cluster: Cluster) -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "denied: too large"}
    events = [
        {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name},
            "type": "Warning",
            "reason": reason,
            "note": note,
            "regarding": {"kind": kind, "namespace": "default", "name": of},
        }
        for name, reason, note, kind, of in (
            ("e1", "FailedCreate", "denied: too large", "ReplicaSet", "web-1"),
            ("e2", "Odd", "of it", "Deployment", "web"),
            ("e3", "Odd", "of another", "Deployment", "other"),
        )
    ]
    failing = changed(DEPLOYMENT, status={"conditions": [failure], "updatedReplicas": 1, "replicas": 1})
    told = cluster.explain("deployment/web", failing, REPLICA_SET, *events)
    assert told.count("FailedCreate: denied: too large") == 1
    assert "Odd: of it" in told
    assert "of another" not in told
    assert "it is rolling out" in told


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (JOB, "Job default/sum is incomplete: 2 of 3 pods succeeded, 1 running"),
        (changed(JOB, status={"succeeded": 3}), "Job default/sum is complete: 3 of 3 pods succeeded, 1 running"),
        (changed(JOB, spec={"suspend": True}), "spec.suspend must be false"),
        (
            changed(
                JOB, status={"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}
            ),
            "Job default/sum is failed",
        ),
    ],
    ids=["running", "complete", "suspended", "failed"],
)
def test_jobs_are_complete_when_enough_pods_have_succeeded(job: dict[str, Any], said: str, cluster: Cluster) -> None:
    assert said in cluster.explain("job/sum", job, pod("sum-a", "Job", "sum", **RUNS))


def test_a_cron_job_is_judged_by_its_last_job(cluster: Cluster) -> None:
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "night", "uid": "c"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}},
    }
    assert "its next Job is due at " in cluster.explain("cronjob/night", cron)
    job = {**JOB, "metadata": {**owned("night-1", "CronJob", "night"), "creationTimestamp": "2026-11-15T03:00:00Z"}}
    found = json.loads(cluster.explain("cj/night", cron, job, pod("night-1-a", "Job", "night-1"), output="json"))
    assert found["outcome"] == "incomplete"
    assert found["pod"]["pod"] == "default/night-1-a"


def test_a_workload_that_no_cluster_has_yet_is_explained_by_the_pods_that_it_would_have(cluster: Cluster) -> None:
    new = {**DEPLOYMENT, "metadata": {"name": "web"}, "spec": {**DEPLOYMENT["spec"], "replicas": 3}}
    found = json.loads(cluster.explain("deployment/web", new, output="json"))
    assert found["pods"] == 3
    # Two of three fit: the last one is explained.
    assert found["pod"]["outcome"] == "unschedulable"
    assert found["pod"]["placedBefore"] == 2


def test_a_namespace_may_be_called_like_a_kind(cluster: Cluster) -> None:
    report = pod("report", "Job", "report")
    there = {**report, "metadata": {**report["metadata"], "namespace": "jobs"}}
    assert cluster.explain("jobs/report", there).startswith("jobs/report goes to n1")
    assert cluster.explain("jobs/sum", JOB, there).startswith("Job default/sum is incomplete")


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("deployment/wep", "there is no Deployment default/wep; there is default/web"),
        ("job/x", "there is no Job default/x"),
        ("web", "there is no pod default/web, but a Deployment: koord explain deployment/web -n default explains it"),
        ("pod/web", "there is no pod default/web, but a Deployment:"),
        ("service/x", "service is no namespace here, and no kind that koord explains (pod, deployment, replicaset,"),
    ],
)
def test_what_is_not_there_is_told_with_what_would_be(
    what: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "d.json").write_text(json.dumps(DEPLOYMENT))
    assert run(["explain", what, "-f", str(tmp_path)]) == 2
    assert said in capsys.readouterr().err


def test_a_namespace_that_is_given_as_an_option_is_not_taken_for_a_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "d.json").write_text(json.dumps(DEPLOYMENT))
    assert run(["explain", "web-0", "-n", "nope", "-f", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "Error: there is no pod nope/web-0: there is no namespace nope\n"


def test_a_workload_is_known_by_the_replica_set_that_it_owns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cluster is not asked for Deployments where a pod is explained."""
    owned_by_web = {**owned("web-1", "Deployment", "web"), "uid": "u1"}
    replica_set = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": owned_by_web, "spec": DEPLOYMENT["spec"]}
    (tmp_path / "d.json").write_text(json.dumps(replica_set))
    assert run(["explain", "web", "-f", str(tmp_path)]) == 2
    assert "there is no pod default/web, but a Deployment:" in capsys.readouterr().err
