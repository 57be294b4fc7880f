"""Nodes that fall silent, drains that a budget limits, pods without a node: on a real API server and koord's own."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from typing import Any

import pytest

from koord.api.kinds import DEPLOYMENTS, LEASES, NAMESPACES, NODES, POD_DISRUPTION_BUDGETS, PODS
from koord.api.text.timestamp import from_seconds, micro_from_seconds
from koord.kube.client import Client
from koord.kube.errors import AlreadyExists, NotFound
from koord_minicluster.controllers.live.run import ControllersOptions
from tests.minicluster.controllers.cluster_fixtures import controllers
from tests.minicluster.controllers.conftest import Plane
from tests.minicluster.controllers.test_deployment_on_a_cluster import deployment, kubectl
from tests.waiting import eventually

pytestmark = pytest.mark.kubectl


async def ready_node(client: Client, name: str, **labels: str) -> None:
    with contextlib.suppress(AlreadyExists):
        await client.create(NODES, {"metadata": {"name": name, "labels": labels}})
    now = from_seconds(time.time())
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now}
    await client.patch(NODES, name, {"status": {"conditions": [ready]}}, type="strategic", subresource="status")


async def renew_lease(client: Client, name: str) -> None:
    lease = {"metadata": {"name": name}, "spec": {"holderIdentity": name, "renewTime": micro_from_seconds(time.time())}}
    try:
        await client.create(LEASES, lease, namespace="kube-node-lease")
    except AlreadyExists:
        await client.patch(LEASES, name, {"spec": lease["spec"]}, namespace="kube-node-lease")


async def taints(client: Client, name: str) -> set[tuple[str, str]]:
    return {(str(t.key), str(t.effect)) for t in (await client.get(NODES, name)).spec.taints}


async def test_a_node_that_falls_silent_is_tainted_and_its_pods_go(plane: Plane) -> None:
    word = uuid.uuid4().hex[:6]
    namespace, node = f"node-{word}", f"node-{word}"
    options = ControllersOptions(node_grace_s=3.0, node_startup_grace_s=3.0, lost_pod_grace_s=0.2)
    async with controllers(plane, namespace, options) as client:
        with contextlib.suppress(AlreadyExists):
            await client.create(NAMESPACES, {"metadata": {"name": "kube-node-lease"}})
        await ready_node(client, node)

        async def clean() -> bool:
            return not await taints(client, node)

        await eventually(clean)
        spec: dict[str, Any] = {"nodeName": node, "containers": [{"name": "app", "image": "app"}]}
        tolerations = [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
            for key in ("not-ready", "unreachable")
        ]
        await client.create(
            PODS, {"metadata": {"name": "soft"}, "spec": {**spec, "tolerations": tolerations}}, namespace=namespace
        )
        forever = [{"operator": "Exists"}]
        await client.create(
            PODS, {"metadata": {"name": "hard"}, "spec": {**spec, "tolerations": forever}}, namespace=namespace
        )

        for _ in range(10):
            await renew_lease(client, node)
            await asyncio.sleep(0.4)
        assert await taints(client, node) == set(), "leases alone keep a node alive"

        async def unreachable() -> bool:
            key = "node.kubernetes.io/unreachable"
            return await taints(client, node) == {(key, "NoSchedule"), (key, "NoExecute")}

        await eventually(unreachable)
        conditions = {str(c.type): c.status for c in (await client.get(NODES, node)).status.conditions}
        assert conditions["Ready"] == "Unknown"

        async def soft_is_gone() -> bool:
            pods = await client.list(PODS, namespace=namespace)
            return [pod.metadata.name for pod in pods] == ["hard"]

        await eventually(soft_is_gone)
        hard = await client.get(PODS, "hard", namespace=namespace)
        ready = hard.status.condition("Ready")
        assert ready is not None
        assert ready.status == "False"

        await client.delete(NODES, node)

        async def hard_is_gone() -> bool:
            return not await client.list(PODS, namespace=namespace)

        await eventually(hard_is_gone)


async def test_a_drain_waits_for_the_disruption_budget(plane: Plane) -> None:
    word = uuid.uuid4().hex[:6]
    # A drain looks at all namespaces, and other tests have pods on this node: the label tells these apart.
    namespace, name = f"drain-{word}", f"web-{word}"
    async with controllers(plane, namespace) as client:
        await ready_node(client, "node-a")
        await client.create(DEPLOYMENTS, deployment(name, 2), namespace=namespace)
        selector = {"matchLabels": {"app": name}}
        budget = {"metadata": {"name": "web"}, "spec": {"maxUnavailable": "50%", "selector": selector}}
        await client.create(POD_DISRUPTION_BUDGETS, budget, namespace=namespace)
        await kubectl(plane, namespace, "rollout", "status", f"deployment/{name}", "--timeout=60s")

        async def one_may_go() -> bool:
            status = (await client.get(POD_DISRUPTION_BUDGETS, "web", namespace=namespace)).status
            return (status.expected_pods, status.current_healthy, status.desired_healthy) == (2, 2, 1) and (
                status.disruptions_allowed == 1
            )

        await eventually(one_may_go)
        before = {pod.metadata.uid for pod in await client.list(PODS, namespace=namespace)}
        # kubectl asks for both at once, is refused the second, and asks again five seconds later.
        said = await kubectl(plane, namespace, "drain", "node-a", "--timeout=60s", f"--pod-selector=app={name}")
        assert "drained" in said
        assert "node.kubernetes.io/unschedulable" in {key for key, _ in await taints(client, "node-a")}
        after = {pod.metadata.uid for pod in await client.list(PODS, namespace=namespace)}
        assert not before & after
        await eventually(one_may_go)
        await client.delete(NODES, "node-a")


async def test_a_pod_deleted_before_it_had_a_node_goes_at_once(plane: Plane) -> None:
    namespace = f"unbound-{uuid.uuid4().hex[:6]}"
    async with controllers(plane, namespace) as client:
        spec = {"containers": [{"name": "app", "image": "app"}], "terminationGracePeriodSeconds": 30}
        body = {"metadata": {"name": "never", "annotations": {"test/stuck": ""}}, "spec": spec}
        await client.create(PODS, body, namespace=namespace)
        await client.delete(PODS, "never", namespace=namespace)

        async def gone() -> bool:
            try:
                await client.get(PODS, "never", namespace=namespace)
            except NotFound:
                return True
            return False

        await eventually(gone)
