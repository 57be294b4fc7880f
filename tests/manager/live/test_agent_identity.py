"""Agents on API servers: each has the token of its own pod, and reaches no other node."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from koord.api.kinds import NODE_METRICS, NODES, PODS
from koord.api.protocol.names import NAMESPACE_KOORDINATOR
from koord.kube.client import Client
from koord.kube.errors import Forbidden
from koord.operate.install.access import access
from koord.operate.install.live.cluster import Cluster
from koord.operate.install.settings import AGENT, Settings
from tests.control_plane import ControlPlane
from tests.manager.live.managing import make_node
from tests.manager.live.webhooks import admitting, forget, pod, prepare
from tests.scheduler.live.embedded import serving

SETTINGS = Settings(image="koord:1", version="1")
GROUP = "slo.koordinator.sh/v1alpha1"


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.cluster)])
async def admin(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Client]:
    if request.param == "real":
        plane: ControlPlane = request.getfixturevalue("own_control_plane")
        async with Client.from_config(str(plane.kubeconfig)) as client:
            await prepare(client, "shop")
            yield client
            await forget(client)
    else:
        async with serving(tmp_path) as client:
            await prepare(client, "shop")
            yield client


async def agent_of(admin: Client, node: str) -> Client:
    """A client with the token that kubelet gives to the agent's pod on a node."""
    body = pod(f"agent-{node}", NAMESPACE_KOORDINATOR, serviceAccountName=AGENT.full_name, nodeName=node)
    made = await admin.create(PODS, body)
    ref = {"kind": "Pod", "apiVersion": "v1", "name": made.metadata.name, "uid": made.metadata.uid}
    path = f"/api/v1/namespaces/{NAMESPACE_KOORDINATOR}/serviceaccounts/{AGENT.full_name}/token"
    wanted: dict[str, Any] = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    wanted["spec"] = {"boundObjectRef": ref}
    _, _, answer = await admin.raw("POST", path, body=json.dumps(wanted).encode())
    token = json.loads(answer)["status"]["token"]
    config = replace(admin.config, token=token, cert_file="", cert_data=b"", key_file="", key_data=b"")
    return Client(config)


async def test_an_agent_reaches_its_own_node_and_the_pods_on_it_alone(admin: Client) -> None:
    for name in ("n1", "n2"):
        await make_node(admin, name)
        await admin.create(NODE_METRICS, {"metadata": {"name": name}})
        await admin.create(PODS, pod(f"web-{name}", "shop", nodeName=name))
    for manifest in access(AGENT, SETTINGS):
        await Cluster(admin).apply(manifest)
    taint = {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}
    reported = {"status": {"updateTime": "2026-01-01T00:00:00Z"}}
    condition = {"status": {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}}

    async with admitting(admin), await agent_of(admin, "n1") as agent:

        async def everything(node: str) -> list[Any]:
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": f"web-{node}"}}
            path = f"/api/v1/namespaces/shop/pods/web-{node}/eviction"
            calls = (
                lambda: agent.patch(NODES, node, taint),
                lambda: agent.patch(NODE_METRICS, node, reported, subresource="status"),
                lambda: agent.patch(PODS, f"web-{node}", condition, namespace="shop", subresource="status"),
                lambda: agent.raw("POST", path, body=json.dumps(eviction).encode()),
            )
            refusals = []
            for call in calls:
                try:
                    await call()
                except Forbidden as error:
                    refusals.append(error.message)
            return refusals

        refusals = await everything("n2")
        assert len(refusals) == 4, refusals
        assert all("node n1, and its agent may write nothing else" in refusal for refusal in refusals), refusals
        assert await everything("n1") == []
    assert "k" not in [taint.key for taint in (await admin.get(NODES, "n2")).spec.taints]
