"""A service with one replica is moved by two deschedulers in turn, and never is without a pod that is ready."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from koord.api.kinds import DEPLOYMENTS, PODS
from koord.api.kubernetes.pod import Pod
from koord.api.protocol.annotations.notice import SCALE_FIRST, SCALED_FIRST
from koord.descheduler.evictable import is_available
from koord.kube.client import Client
from koord.kube.informers import Informers
from koord.kube.store import Delta
from tests.control_plane import ControlPlane, find_binary, kubernetes_controllers
from tests.descheduler.live.cluster import all_ready, ask, cluster, deploy, descheduling, job, pods_of, populated
from tests.waiting import eventually

PATIENCE_S = 60.0
REAL = (
    pytest.mark.cluster,
    pytest.mark.skipif(find_binary("kube-controller-manager") is None, reason="no kube-controller-manager"),
)


@asynccontextmanager
async def server(which: str, folder: Path) -> AsyncIterator[Client]:
    """Koord's own cluster on one machine, or Kubernetes' API server and controllers."""
    if which == "embedded":
        async with cluster(folder, nodes=2) as client:
            yield client
        return
    with (
        ControlPlane("--disable-admission-plugins=TaintNodesByCondition,ServiceAccount") as plane,
        kubernetes_controllers(plane),
    ):
        async with (
            Client.from_config(str(plane.kubeconfig)) as client,
            populated(client, nodes=2, controllers=False),
        ):
            yield client


@pytest.mark.parametrize("which", ["embedded", pytest.param("real", marks=REAL)])
async def test_a_single_replica_is_replaced_before_it_goes(which: str, tmp_path: Path) -> None:
    async with server(which, tmp_path) as client:
        (old,) = await deploy(client, "web", 1)
        wish = {"metadata": {"annotations": {SCALE_FIRST.key: "true"}}}
        await client.patch(DEPLOYMENTS, "web", wish, namespace="default")
        ready: dict[str, bool] = {}
        fewest = [1]

        def hear(delta: Delta[Pod]) -> None:
            ready[delta.key] = delta.new is not None and is_available(delta.new)
            fewest.append(sum(ready.values()))

        async def is_scaled() -> bool:
            deployment = await client.get(DEPLOYMENTS, "web", namespace="default")
            return SCALED_FIRST.is_on(deployment.metadata)

        async def is_over() -> bool:
            return (await job(client)).is_over

        async with Informers(client) as informers:
            pods = informers.get(PODS, namespace="default", labels="app=web")
            await informers.synced()
            pods.add_handler(hear)
            async with descheduling(client):
                await ask(client, old)
                await eventually(is_scaled, PATIENCE_S)
            async with descheduling(client):
                await eventually(is_over, PATIENCE_S)
            done = await job(client)
            assert (done.status.phase, done.status.status) == ("Succeeded", "Complete"), done.status
            await eventually(lambda: all_ready(client, "web", 1))
            (new,) = await pods_of(client, "web")
            assert new.spec.node_name != old.spec.node_name
            assert done.status.pod_ref is not None
            assert done.status.pod_ref.name == new.metadata.name
            deployment = await client.get(DEPLOYMENTS, "web", namespace="default")
            assert deployment.spec.replicas == 1
            assert not SCALED_FIRST.is_on(deployment.metadata)
            assert min(fewest) == 1
