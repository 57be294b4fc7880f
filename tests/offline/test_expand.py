"""Workloads in manifests become the pods that their controllers make: the same, on an API server and offline."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from koord.api import kinds
from koord.api.machinery.faults import Invalid
from koord.api.text.manifest import Manifests, parse
from koord.api.text.timestamp import parse_timestamp
from koord.cli.main import run as koord
from koord.kube.client import Client
from koord.offline.arrival import Arrivals
from koord.offline.expand import expand
from koord_minicluster.controllers.live.run import run
from tests.scheduler.live.embedded import serving
from tests.waiting import always, eventually

NOW_S = parse_timestamp("2026-11-15T04:25:02Z")
UIDS = ("controller-uid", "batch.kubernetes.io/controller-uid")


def template(app: str, **spec: Any) -> dict[str, Any]:
    resources = {"limits": {"cpu": "1", "memory": "64Mi"}}
    container = {"name": "app", "image": "example/app:1", "resources": resources}
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container], **spec}}


def workload(kind: str, name: str, api_version: str = "apps/v1", selects: bool = True, **spec: Any) -> dict[str, Any]:
    spec = {"template": template(name), **spec}
    if selects:
        spec["selector"] = {"matchLabels": {"app": name}}
    metadata = {"name": name, "namespace": "shop"}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def node(name: str, **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **more.pop("labels", {})}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, **more}


CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
FAST_ONLY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "fast", "operator": "Exists"}]}]
        }
    }
}
NODES = (
    node("n1", labels={"fast": "yes"}),
    node("n2", labels={"fast": "yes"}, spec={"taints": [{"key": "mine", "effect": "NoSchedule"}]}),
    node("n3"),
)
WORKLOADS: tuple[dict[str, Any], ...] = (
    workload("Deployment", "web", replicas=3),
    workload("ReplicaSet", "old", replicas=2),
    workload(
        "StatefulSet",
        "db",
        replicas=2,
        serviceName="db",
        ordinals={"start": 5},
        podManagementPolicy="Parallel",
        volumeClaimTemplates=[CLAIM],
    ),
    workload("DaemonSet", "log", template=template("log", affinity=FAST_ONLY)),
    workload(
        "Job",
        "sums",
        "batch/v1",
        selects=False,
        completions=5,
        parallelism=3,
        completionMode="Indexed",
        backoffLimitPerIndex=1,
        template=template("sums", restartPolicy="Never"),
    ),
    workload("Job", "once", "batch/v1", selects=False, template=template("once", restartPolicy="Never")),
)


def manifests(*objects: dict[str, Any]) -> Manifests:
    return parse(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}), "input")


def expanded(*objects: dict[str, Any], now_s: float = NOW_S) -> list[dict[str, Any]]:
    """The pods that objects stand for, as an API server would store them."""
    found = expand(manifests(*objects), now_s=now_s).manifests
    arrivals = Arrivals(found.items, ())
    return [arrivals.completed(item.data, "shop") for item in found.items if item.kind is kinds.PODS]


def compared(pod: dict[str, Any]) -> dict[str, Any]:
    """What a controller decides about a pod, without what chance or the server's own uids bring in."""
    meta = pod["metadata"]
    prefix = meta.get("generateName", "")
    (owner,) = meta["ownerReferences"]
    return {
        "name": prefix or meta["name"],
        "labels": {key: value for key, value in meta["labels"].items() if key not in UIDS},
        "annotations": meta.get("annotations") or {},
        "finalizers": meta.get("finalizers") or [],
        "owner": {key: value for key, value in owner.items() if key != "uid"},
        "spec": pod["spec"],
    }


def counted(pods: list[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(compared(pod), sort_keys=True) for pod in pods)


async def stored(client: Client, number: int) -> list[dict[str, Any]]:
    """All pods of the namespace, once there are N and no more for a moment."""

    async def are_there() -> bool:
        return len(await client.list(kinds.PODS, namespace="shop")) == number

    await eventually(are_there)
    await always(are_there, 0.3)
    pods = await client.list(kinds.PODS, namespace="shop")
    return [json.loads(await client.get_bytes(kinds.PODS, p.metadata.name, namespace="shop")) for p in pods]


async def test_controllers_on_an_api_server_make_the_pods_that_a_plan_has(tmp_path: Path) -> None:
    expected = expanded(*NODES, *WORKLOADS)
    async with serving(tmp_path) as client:
        for each in ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}, *NODES, *WORKLOADS):
            kind = kinds.find(each["apiVersion"], each["kind"])
            assert kind is not None
            await client.create(kind, each, namespace=each["metadata"].get("namespace", ""))
        working = asyncio.create_task(run(client))
        try:
            found = await stored(client, len(expected))
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
    assert counted(found) == counted(expected)


def test_each_kind_makes_as_many_pods_as_may_run_together() -> None:
    owners = Counter(pod["metadata"]["ownerReferences"][0]["kind"] for pod in expanded(*NODES, *WORKLOADS))
    assert owners == {"ReplicaSet": 5, "StatefulSet": 2, "DaemonSet": 1, "Job": 4}


def test_a_stateful_set_brings_its_claims_unless_they_are_there() -> None:
    there = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **CLAIM}
    there["metadata"] = {"name": "data-db-5", "namespace": "shop"}
    found = expand(manifests(WORKLOADS[2], there), now_s=NOW_S).manifests
    claims = [item.key for item in found.items if item.kind is kinds.PERSISTENT_VOLUME_CLAIMS]
    assert sorted(claims) == ["shop/data-db-5", "shop/data-db-6"]


def test_a_replication_controller_makes_pods_of_its_labels() -> None:
    given = workload("ReplicationController", "rc", "v1", selects=False, replicas=2)
    pods = expanded(given)
    assert [pod["metadata"]["generateName"] for pod in pods] == ["rc-", "rc-"]
    assert pods[0]["metadata"]["ownerReferences"][0]["kind"] == "ReplicationController"


def test_a_cron_job_stands_for_the_job_of_its_next_time() -> None:
    spec = {"template": template("nightly", restartPolicy="Never"), "parallelism": 2, "completions": 2}
    given = workload("CronJob", "nightly", "batch/v1", selects=False)
    given["spec"] = {"schedule": "30 4 * * *", "jobTemplate": {"spec": spec}}
    pods = expanded(given)
    minutes = int(parse_timestamp("2026-11-15T04:30:00Z")) // 60
    assert [pod["metadata"]["ownerReferences"][0]["name"] for pod in pods] == [f"nightly-{minutes}"] * 2


def test_what_makes_no_pods_for_now_is_noted() -> None:
    paused = workload("Deployment", "web", paused=True)
    suspended = workload("Job", "sums", "batch/v1", selects=False, suspend=True)
    suspended["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    found = expand(manifests(paused, suspended), now_s=NOW_S)
    assert not found.manifests.of(kinds.PODS)
    assert not found.ignored
    assert [note.rpartition(": ")[0].rpartition(" is ")[2] for note in found.notes] == ["paused", "suspended"]


def test_a_workload_of_a_cluster_has_its_pods_there() -> None:
    given = workload("Deployment", "web", replicas=3)
    given["metadata"]["uid"] = "1"
    assert not expanded(given)


def test_a_selector_that_does_not_find_its_pods_is_a_fault_with_its_place() -> None:
    given = workload("Deployment", "web")
    given["spec"]["selector"] = {"matchLabels": {"app": "other"}}
    with pytest.raises(Invalid, match=r"Deployment shop/web: spec\.selector: must match"):
        expand(manifests(given), now_s=NOW_S)


def test_strict_fails_on_an_ignored_object_and_names_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capacity = {"cpu": "8", "memory": "8Gi", "pods": "10"}
    front = {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "front"}}
    objects = [node("n1", status={"capacity": capacity}), workload("Deployment", "web", replicas=2)]
    file = tmp_path / "app.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    assert koord(["plan", "-f", str(file), "--strict"]) == 0
    assert "2 scheduled" in capsys.readouterr().out
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*objects, front]}))
    assert koord(["plan", "-f", str(file)]) == 0
    assert "1 Ingress" in capsys.readouterr().err
    assert koord(["plan", "-f", str(file), "--strict"]) == 1
    said = capsys.readouterr().err
    assert f"{file}, document 1, Ingress front" in said
    assert "koord does not know this kind" in said


def test_a_pod_of_a_workload_can_be_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capacity = {"cpu": "1", "memory": "8Gi", "pods": "10"}
    objects = [node("n1", status={"capacity": capacity}), workload("StatefulSet", "db", replicas=2, serviceName="db")]
    file = tmp_path / "app.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    koord(["explain", "pod/db-1", "-n", "shop", "-f", str(file)])
    assert "Insufficient cpu" in capsys.readouterr().out
