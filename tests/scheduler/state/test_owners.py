"""Which pods belong together: Services and controllers, as they come and go."""

from __future__ import annotations

from typing import Any

from koord.api.kubernetes.core import Service
from koord.api.kubernetes.meta import OwnerReference
from koord.api.kubernetes.workloads import ReplicaSet, ReplicationController, StatefulSet
from koord.api.machinery.codec import convert
from koord.scheduler.state.cluster import Cluster

LABELS = {"app": "web", "tier": "front", "rev": "1", "pod-name": "web-0"}


def service(name: str, selector: dict[str, str], namespace: str = "default") -> Service:
    return convert(Service, {"metadata": {"name": name, "namespace": namespace}, "spec": {"selector": selector}})


def workload(type_: Any, selector: dict[str, Any], name: str = "web") -> Any:
    return convert(type_, {"metadata": {"name": name, "namespace": "default"}, "spec": {"selector": selector}})


def selector(cluster: Cluster, kind: str = "", name: str = "web", version: str = "apps/v1") -> str | None:
    owner = OwnerReference(api_version=version, kind=kind, name=name, controller=True) if kind else None
    owner_selector = cluster.owners.selector("default", LABELS, owner)
    return owner_selector.text if owner_selector else None


def test_all_services_that_choose_a_pod_are_asked_together() -> None:
    cluster = Cluster()
    for each in (
        service("by-app", {"app": "web"}),
        service("by-tier", {"tier": "front"}),
        service("other", {"app": "db"}),
        service("none", {}),
        service("away", {"rev": "1"}, "elsewhere"),
    ):
        cluster.put_service(each)
    assert selector(cluster) == "app=web,tier=front"
    cluster.put_service(service("by-tier", {"tier": "back"}))
    assert selector(cluster) == "app=web"
    cluster.remove_service("default", "by-app")
    assert selector(cluster) is None


def test_the_controller_adds_its_selector() -> None:
    cluster = Cluster()
    cluster.put_service(service("s", {"tier": "front"}))
    cluster.put_workload(workload(ReplicaSet, {"matchLabels": {"app": "web", "rev": "1"}}))
    cluster.put_workload(workload(StatefulSet, {"matchExpressions": [{"key": "app", "operator": "Exists"}]}))
    cluster.put_workload(workload(ReplicationController, {"app": "web"}))
    assert selector(cluster) == "tier=front"
    assert selector(cluster, "ReplicaSet") == "tier=front,app=web,rev=1"
    assert selector(cluster, "StatefulSet") == "tier=front,app"
    assert selector(cluster, "ReplicationController", version="v1") == "app=web,tier=front"
    assert selector(cluster, "ReplicaSet", name="other") == "tier=front"
    assert selector(cluster, "ReplicaSet", version="extensions/v1beta1") == "tier=front"
    cluster.remove_workload(workload(ReplicaSet, {}))
    assert selector(cluster, "ReplicaSet") == "tier=front"


def test_a_controller_with_a_bad_selector_says_nothing() -> None:
    cluster = Cluster()
    cluster.put_workload(workload(ReplicaSet, {"matchExpressions": [{"key": "app", "operator": "In"}]}))
    assert selector(cluster, "ReplicaSet") is None
