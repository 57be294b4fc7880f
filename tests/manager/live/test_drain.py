"""`kubectl drain` of a node with batch pods: budgets are kept, no component fights it, and then the node lends."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from koord.api import kinds
from koord.kube.client import Client
from koord.kube.locate import locate
from tests.control_plane import ControlPlane, find_binary
from tests.manager.live.managing import fresh, lent, managing, node_with_metric, report, until_lent
from tests.scheduler.live.embedded import scheduling, serving, until_bound

LENT = 35900


@pytest.fixture(
    params=[pytest.param("embedded", marks=pytest.mark.kubectl), pytest.param("real", marks=pytest.mark.cluster)]
)
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Client, Path]]:
    if request.param == "real":
        plane: ControlPlane = request.getfixturevalue("control_plane")
        async with Client(locate(str(plane.kubeconfig))) as client:
            await fresh(client)
            await _clear(client)
            yield client, plane.kubeconfig
            await _clear(client)
            await client.delete(kinds.POD_DISRUPTION_BUDGETS, "kept", namespace="default")
            for node in await client.list(kinds.NODES):
                await client.delete(kinds.NODES, node.metadata.name)
    else:
        async with serving(tmp_path) as client:
            await fresh(client)
            yield client, tmp_path / "kubeconfig"


def batch_pod(name: str, **spec: Any) -> dict[str, Any]:
    amounts = {"kubernetes.io/batch-cpu": "1000", "kubernetes.io/batch-memory": "1Gi"}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {"koordinator.sh/qosClass": "BE", "app": name}},
        "spec": {
            "schedulerName": "koord-scheduler",
            "containers": [{"name": "app", "image": "app:1", "resources": {"requests": amounts, "limits": amounts}}],
            "priorityClassName": "koord-batch",
            "terminationGracePeriodSeconds": 0,
            **spec,
        },
    }


async def test_a_drain_ends_batch_pods_within_their_budgets_and_nobody_puts_them_back(
    cluster: tuple[Client, Path],
) -> None:
    client, kubeconfig = cluster
    for name in ("n1", "n2"):
        await node_with_metric(client, name, labels={"kubernetes.io/hostname": name})
        # As the cluster's controller does when a node is ready.
        await client.patch(kinds.NODES, name, {"spec": {"taints": None}})
    async with managing(client), scheduling(client):
        for name in ("n1", "n2"):
            await report(client, name)
            await until_lent(client, name, LENT)
        for name in ("free", "kept"):
            await client.create(kinds.PODS, batch_pod(name, nodeSelector={"kubernetes.io/hostname": "n1"}))
        await until_bound(client, "free", "kept")
        # A budget does not count for pods that do not run yet.
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await client.patch(kinds.PODS, "kept", {"status": status}, namespace="default", subresource="status")
        await _budget(client, allowed=0)

        said, code = await _kubectl(kubeconfig, "drain", "n1", "--force", "--timeout=2s")
        assert code != 0
        assert "Cannot evict pod as it would violate the pod's disruption budget" in said
        assert await _pods(client) == {"kept"}
        # The node is unchanged but for new pods: they go elsewhere.
        assert await lent(client, "n1") == LENT
        await client.create(kinds.PODS, batch_pod("next"))
        await until_bound(client, "next")
        assert (await client.get(kinds.PODS, "next", namespace="default")).spec.node_name == "n2"

        await _budget(client, allowed=1)
        said, code = await _kubectl(kubeconfig, "drain", "n1", "--force", "--timeout=60s")
        assert code == 0, said
        assert await _pods(client) == {"next"}
        # It reports and lends on, and once it is uncordoned, batch pods run there again.
        await report(client, "n1", system="2600m")
        await _kubectl(kubeconfig, "uncordon", "n1")
        await client.create(kinds.PODS, batch_pod("again", nodeSelector={"kubernetes.io/hostname": "n1"}))
        await until_bound(client, "again")
        assert await lent(client, "n1") is not None


async def _clear(client: Client) -> None:
    """The server is shared: tests before this one may have left pods behind."""
    for pod in await client.list(kinds.PODS, namespace="default"):
        await client.delete(kinds.PODS, pod.metadata.name, namespace="default", grace_s=0)


async def _budget(client: Client, *, allowed: int) -> None:
    """A budget of the pod `kept`, with the status that the cluster's controller would give it."""
    if not allowed:
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}}
        await client.create(
            kinds.POD_DISRUPTION_BUDGETS, {"metadata": {"name": "kept", "namespace": "default"}, "spec": spec}
        )
    status = {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1 - allowed, "expectedPods": 1}
    patch = {"status": {**status, "observedGeneration": 1}}
    await client.patch(kinds.POD_DISRUPTION_BUDGETS, "kept", patch, namespace="default", subresource="status")


async def _pods(client: Client) -> set[str]:
    pods = await client.list(kinds.PODS, namespace="default")
    return {pod.metadata.name for pod in pods if pod.metadata.deletion_timestamp is None}


async def _kubectl(kubeconfig: Path, *line: str) -> tuple[str, int]:
    binary = find_binary("kubectl")
    assert binary is not None

    def call() -> tuple[str, int]:
        done = subprocess.run(
            [binary, "--kubeconfig", str(kubeconfig), *line], capture_output=True, text=True, timeout=60
        )
        return done.stdout + done.stderr, done.returncode

    return await asyncio.to_thread(call)
