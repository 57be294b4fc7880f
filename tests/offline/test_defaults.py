"""Manifests as people write them mean what the API server would have made of them."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.kubernetes.pod import PodSpec
from koord.api.kubernetes.resources import amounts
from koord.api.kubernetes.storage import PersistentVolumeClaim, StorageClass
from koord.api.machinery.codec import convert
from koord.offline import defaults
from tests.offline.test_plan import node, plan_of, pod


def spec(*containers: dict[str, Any], **more: Any) -> PodSpec:
    named = [{"name": f"c{i}", **container} for i, container in enumerate(containers)]
    return convert(PodSpec, {"containers": named, **more})


@pytest.mark.parametrize(
    ("resources", "requests"),
    [
        ({}, {}),
        ({"limits": {"cpu": "2"}}, {"cpu": 2000}),
        ({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}, {"cpu": 1000, "memory": 1 << 30}),
        ({"limits": {"cpu": "2"}, "requests": {"cpu": "0"}}, {"cpu": 0}),
    ],
)
def test_a_request_that_is_left_out_is_the_limit(resources: dict[str, Any], requests: dict[str, int]) -> None:
    pod_spec = defaults.pod_spec(spec({"resources": resources}))
    assert amounts(pod_spec.containers[0].resources.requests) == requests


@pytest.mark.parametrize(
    ("whole", "of_container", "requests"),
    [
        ({"limits": {"cpu": "4"}}, {}, {"cpu": 4000}),
        ({"limits": {"cpu": "4"}, "requests": {"cpu": "3"}}, {}, {"cpu": 3000}),
        ({"limits": {"cpu": "4"}}, {"requests": {"cpu": "1"}}, {"cpu": 1000}),
    ],
)
def test_a_request_of_the_whole_pod_is_what_its_containers_ask_for_else_its_limit(
    whole: dict[str, Any], of_container: dict[str, Any], requests: dict[str, int]
) -> None:
    pod_spec = defaults.pod_spec(spec({"resources": of_container}, resources=whole))
    assert pod_spec.resources is not None
    assert amounts(pod_spec.resources.requests) == requests


def test_on_the_hosts_network_ports_are_the_hosts() -> None:
    container = {"ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081}]}
    on_host = defaults.pod_spec(spec(container, hostNetwork=True))
    assert [port.host_port for port in on_host.containers[0].ports] == [80, 8081]
    inside = defaults.pod_spec(spec(container))
    assert [port.host_port for port in inside.containers[0].ports] == [0, 8081]
    assert defaults.pod_spec(inside) is inside


def test_pods_on_the_hosts_network_with_one_port_keep_off_each_other() -> None:
    containers = [{"name": "c", "ports": [{"containerPort": 80}]}]
    plan = plan_of(
        node("n1"), pod("a", hostNetwork=True, containers=containers), pod("b", hostNetwork=True, containers=containers)
    )
    assert [plan.pods[key].outcome for key in ("shop/a", "shop/b")] == ["scheduled", "unschedulable"]


def storage_class(name: str, default: str = "true", created: str | None = None) -> dict[str, Any]:
    annotations = {defaults.DEFAULT_CLASS_ANNOTATIONS[0]: default}
    metadata = {"name": name, "annotations": annotations, "creationTimestamp": created}
    mode = {"provisioner": "disks.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata, **mode}


CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "namespace": "shop"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
WITH_CLAIM = pod("db", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])


@pytest.mark.parametrize(("default", "outcome"), [("true", "scheduled"), ("false", "unschedulable")])
def test_a_claim_without_a_class_gets_the_default_one(default: str, outcome: str) -> None:
    plan = plan_of(node("n1"), CLAIM, storage_class("disks", default), WITH_CLAIM)
    assert plan.pods["shop/db"].outcome == outcome


def test_of_several_default_classes_the_newest_counts() -> None:
    classes = [("b", "2026-01-01T00:00:00Z"), ("c", "2026-02-01T00:00:00Z"), ("a", "2026-02-01T00:00:00Z")]
    typed = [convert(StorageClass, storage_class(name, created=created)) for name, created in classes]
    claim = defaults.claim(convert(PersistentVolumeClaim, CLAIM), typed)
    assert claim.spec.storage_class_name == "a"


def test_made_up_names_are_taken_by_no_one_else() -> None:
    made_up: dict[str, Any] = {"metadata": {"generateName": "web-", "name": ""}}
    plan = plan_of(node("n1"), pod("a", **made_up), pod("b", **made_up), pod("web-0"))
    assert sorted(plan.pods) == ["shop/web-0", "shop/web-1", "shop/web-2"]
