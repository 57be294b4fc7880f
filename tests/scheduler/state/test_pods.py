"""What pods that were made alike share, and what tells them apart."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.scheduler.framework.ask import Ask
from koord.scheduler.plugins.load_basis import Loads, load_basis_of
from koord.scheduler.plugins.node_ports import PortsInUse
from koord.scheduler.state.cluster import Cluster
from tests.scheduler.build import node, pod
from tests.scheduler.builders import recorded

REPLICA_SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": True}


def ask(name: str, **more: Any) -> Ask:
    return Ask(pod(name, labels={"app": "web"}, owners=[REPLICA_SET], requests={"cpu": "1"}, **more))


def with_token(name: str) -> dict[str, Any]:
    return {"name": f"kube-api-access-{name}", "projected": {"sources": []}}


def test_pods_of_one_template_share_what_is_kept_of_them() -> None:
    first, second = ask("a", on="n1").record(), ask("b", on="n2").record()
    assert first.labels is second.labels
    assert first.owner is second.owner
    assert first.namespace is second.namespace
    assert first.shape is second.shape


def test_pods_of_one_template_share_what_plugins_note_of_them() -> None:
    cluster = Cluster()
    cluster.notes(Loads), cluster.notes(PortsInUse)
    plain = [recorded(cluster, ask(name, on="n1")).notes for name in ("a", "b")]
    assert plain[0] is plain[1], "one note alone"
    ports = [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 8080}]}]
    with_ports = [recorded(cluster, ask(name, on="n1", containers=ports)).notes for name in ("a", "b")]
    assert [name for name, _ in with_ports[0]] == ["LoadAwareScheduling", "NodePorts"]
    assert all(a is b for (_, a), (_, b) in zip(*with_ports, strict=True))


def test_volumes_that_only_differ_in_names_do_not_tell_templates_apart() -> None:
    first, second = (ask(name, volumes=[with_token(name), {"name": "tmp", "emptyDir": {}}]) for name in ("a", "b"))
    assert first.template is second.template
    assert first.shape.of_spec
    assert first.spec.volumes == ()


def test_volumes_that_decide_stay() -> None:
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "disk"}}
    found = ask("a", volumes=[with_token("a"), claim])
    assert [volume.name for volume in found.spec.volumes] == ["data"]
    assert found.claims == ("disk",)


def test_a_pod_with_a_node_is_not_taken_for_one_without() -> None:
    waiting, bound = ask("a"), ask("b", on="n1")
    assert waiting.shape.of_spec
    assert not bound.shape.of_spec
    assert waiting.shape.requests == bound.shape.requests


@pytest.mark.parametrize(("granted", "milli"), [("1", 1000), ("3", 3000)])
def test_what_a_node_has_granted_counts(granted: str, milli: int) -> None:
    resources = {"requests": {"cpu": granted}}
    status = {"containerStatuses": [{"name": "main", "resources": resources, "allocatedResources": {"cpu": granted}}]}
    spec = {"nodeName": "n1", "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}
    resized = Ask(convert(Pod, {"metadata": {"name": "a"}, "spec": spec, "status": status}))
    assert dict(resized.requests)["cpu"] == milli
    assert dict(load_basis_of(resized.pod, resized.template).requests)["cpu"] == 1000


def test_nodes_share_equal_images() -> None:
    cluster = Cluster()
    rows = [cluster.put_node(node(name, images={"shop/web:1": 1000})) for name in ("n1", "n2")]
    first, second = (cluster.nodes[row].status.images[0] for row in rows)
    assert first is second
