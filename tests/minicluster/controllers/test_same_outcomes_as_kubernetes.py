"""The same manifests under Kubernetes' own controllers and under koord's: the objects that come of it are the same.

Names that are chosen by chance, uids, times, versions and messages for people are left out of the comparison.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import json
import re
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from koord.api.kinds import NAMESPACES
from koord.kube.client import Client
from tests.control_plane import ControlPlane, find_binary, kubernetes_controllers
from tests.minicluster.controllers.cluster_fixtures import Kubelet, controllers
from tests.minicluster.controllers.conftest import EmbeddedPlane, Plane
from tests.minicluster.controllers.test_deployment_on_a_cluster import deployment
from tests.minicluster.controllers.test_job_on_a_cluster import job
from tests.minicluster.controllers.test_nodes_on_a_cluster import ready_node
from tests.minicluster.controllers.test_sets_on_a_cluster import body

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kubectl,
    pytest.mark.skipif(find_binary("kube-controller-manager") is None, reason="no kube-controller-manager"),
]

NAMESPACE = "compared"
KINDS = "deployments,replicasets,statefulsets,daemonsets,jobs,pods,poddisruptionbudgets,persistentvolumeclaims,"
KINDS += "serviceaccounts,controllerrevisions"


def manifests() -> list[dict[str, Any]]:
    storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"metadata": {"name": "data"}, "spec": storage}
    stuck = job("stuck", 1, backoffLimit=0)
    found = [
        ("apps/v1", "Deployment", deployment("web", 3)),
        ("apps/v1", "StatefulSet", body("db", replicas=2, serviceName="db", volumeClaimTemplates=[claim])),
        ("apps/v1", "DaemonSet", body("agent")),
        ("batch/v1", "Job", job("sum", completions=3, parallelism=2)),
        ("batch/v1", "Job", job("rows", completions=2, parallelism=2, completionMode="Indexed")),
        ("batch/v1", "Job", stuck),
        ("policy/v1", "PodDisruptionBudget", {"metadata": {"name": "web"}, "spec": {"maxUnavailable": 1}}),
        ("policy/v1", "PodDisruptionBudget", {"metadata": {"name": "db"}, "spec": {"minAvailable": "50%"}}),
    ]
    for _, kind, made in found:
        if kind == "PodDisruptionBudget":
            made["spec"]["selector"] = {"matchLabels": {"app": made["metadata"]["name"]}}
    return [{"apiVersion": version, "kind": kind, **made} for version, kind, made in found]


@contextlib.asynccontextmanager
async def kubelet_only(plane: ControlPlane, namespace: str) -> AsyncIterator[Client]:
    async with Client.from_config(str(plane.kubeconfig)) as client:
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        kubelet = asyncio.create_task(Kubelet(client, namespace).run())
        try:
            yield client
        finally:
            kubelet.cancel()
            await asyncio.gather(kubelet, return_exceptions=True)


async def outcome(plane: Plane, client: Client) -> list[dict[str, Any]]:
    """What the cluster comes to rest at."""
    await ready_node(client, "node-a")
    text = "\n".join(json.dumps(manifest) for manifest in manifests())
    await asyncio.to_thread(plane.kubectl, "-n", NAMESPACE, "apply", "-f", "-", stdin=text)
    deadline = time.monotonic() + 40
    seen: list[dict[str, Any]] = []
    still_since = time.monotonic()
    while time.monotonic() < deadline:
        done = await asyncio.to_thread(plane.kubectl, "-n", NAMESPACE, "get", KINDS, "-o", "json")
        found = sorted((normal(item) for item in json.loads(done.stdout)["items"]), key=json.dumps)
        if found != seen:
            seen, still_since = found, time.monotonic()
        elif settled(found) and time.monotonic() - still_since > 1.0:
            return seen
        await asyncio.sleep(0.2)
    raise TimeoutError(f"not settled: {json.dumps(seen, indent=1)}")


def settled(found: list[dict[str, Any]]) -> bool:
    ends = [c["type"] for o in found if o["kind"] == "Job" for c in o.get("status", {}).get("conditions", ())]
    budgets = [o["status"].get("disruptionsAllowed") for o in found if o["kind"] == "PodDisruptionBudget"]
    return ends.count("Complete") == 2 and ends.count("Failed") == 1 and budgets == [1, 1]


LEFT_OUT = {
    *("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "message"),
    *(
        "startTime",
        "completionTime",
        "lastTransitionTime",
        "lastUpdateTime",
        "lastProbeTime",
        "startedAt",
        "finishedAt",
    ),
    *("pod-template-hash", "controller-revision-hash", "controller.kubernetes.io/hash"),
    "kubectl.kubernetes.io/last-applied-configuration",
    # Of admission plugins: one that is off in the tests' control plane, one that koord's server does without.
    *("serviceAccount", "serviceAccountName"),
    # Long deprecated, and not read.
    *("pod-template-generation", "deprecated.daemonset.template.generation"),
}
UNORDERED = (".conditions", ".volumes", ".tolerations")
CHOSEN = re.compile(r"\b(web|db|agent|sum|stuck|rows-[01])((?:-[bcdfghjklmnpqrstvwxz2456789]{5,10})+)\b")
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")


def normal(item: Any, path: str = "") -> Any:
    if isinstance(item, dict):
        parts = {k: normal(v, f"{path}.{k}") for k, v in sorted(item.items()) if k not in LEFT_OUT}
        return {k: v for k, v in parts.items() if v not in ({}, ["kubernetes.io/pvc-protection"])}
    if isinstance(item, list):
        items = [normal(value, path) for value in item]
        return sorted(items, key=json.dumps) if path.endswith(UNORDERED) else items
    return UID.sub("*", CHOSEN.sub(r"\1-*", item)) if isinstance(item, str) else item


async def test_objects_come_out_as_under_kubernetes(
    control_plane: ControlPlane, own_control_plane: ControlPlane, embedded_plane: EmbeddedPlane
) -> None:
    with kubernetes_controllers(own_control_plane):
        async with kubelet_only(own_control_plane, NAMESPACE) as client:
            theirs = await outcome(own_control_plane, client)
    for name, plane in (("on Kubernetes", control_plane), ("on its own", embedded_plane)):
        async with controllers(plane, NAMESPACE) as client:
            ours = await outcome(plane, client)
        want, have = (json.dumps(found, indent=1).splitlines() for found in (theirs, ours))
        difference = list(difflib.unified_diff(want, have, "kubernetes", f"koord {name}", n=12, lineterm=""))
        assert not difference, "\n".join(difference)
