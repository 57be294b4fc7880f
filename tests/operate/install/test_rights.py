"""The rights of manager and agent are enough for what they do, and little more. Of the others: tests/docs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from koord.agent.live.run import AgentOptions
from koord.api import kinds
from koord.api.configuration.features import ManagerGate, parse_gates
from koord.api.protocol import names
from koord.kube.client import Client
from koord.kube.errors import Forbidden
from koord.kube.locate import locate
from koord.manager.live.run import ManagerOptions
from koord.manager.live.webhook_server import WebhookOptions, Webhooks
from koord.manager.rollout.features import feature_of
from koord.manager.rollout.state import Rollout
from koord.operate.install.access import access, rights_of
from koord.operate.install.cluster_objects import webhooks
from koord.operate.install.settings import AGENT, MANAGER, Settings
from koord.operate.live import rollouts
from koord_minicluster.up.bootstrap import bootstrap
from tests.agent.live.test_daemon import NODE, FakeKubelet, batch_pod, host, ready_node, working
from tests.control_plane import ControlPlane
from tests.manager.live.managing import change, configure, make_node, managing, report, until_there
from tests.operate.install.recorded import ELSEWHERE, Recorder, client_with
from tests.scheduler.live.embedded import serving
from tests.waiting import eventually

SETTINGS = Settings(image="koord:1", version="1")
BURST = feature_of("cpu-burst")

UNUSED_BY_THE_MANAGER = ELSEWHERE | {
    # Quotas by profiles, learnt pairs, recommendations, NUMA nodes, labels of nodes: each has stories of its own.
    "create elasticquotas.scheduling.sigs.k8s.io",
    "patch elasticquotas.scheduling.sigs.k8s.io",
    "patch elasticquotaprofiles.quota.koordinator.sh",
    "create interferencepairs.analysis.koordinator.sh",
    "patch interferencepairs.analysis.koordinator.sh",
    "delete interferencepairs.analysis.koordinator.sh",
    "patch recommendations.analysis.koordinator.sh/status",
    "patch noderesourcetopologies.topology.node.k8s.io",
    # A setting that changes.
    "patch nodemetrics.slo.koordinator.sh",
    "patch nodeslos.slo.koordinator.sh",
    # The webhook refuses a configuration that is invalid, so that nothing else need be published.
    "patch configmaps",
    "delete configmaps",
    "create configmaps",
}
UNUSED_BY_THE_AGENT = ELSEWHERE | {
    "create devices.scheduling.koordinator.sh",
    "patch devices.scheduling.koordinator.sh",
    "read devices.scheduling.koordinator.sh",
    "patch noderesourcetopologies.topology.node.k8s.io",
    # Kubelet is asked, and asks the API server whether the agent may.
    "read nodes/configz",
    "read nodes/pods",
    # Evictions.
    "create pods/eviction",
    "patch nodes",
    "patch pods/status",
    "read pods",
}


@asynccontextmanager
async def administrator(kind: str, folder: Path, request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """On koord's own API server, or on a real one."""
    if kind == "embedded":
        async with serving(folder / "api") as client:
            yield client
        return
    plane: ControlPlane = request.getfixturevalue("own_control_plane")
    async with Client(locate(str(plane.kubeconfig))) as client:
        yield client


SERVERS = pytest.mark.parametrize("server", ["embedded", pytest.param("real", marks=pytest.mark.cluster)])


@SERVERS
async def test_a_managers_rights_are_enough_and_little_more(
    server: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    heard = Recorder()
    async with administrator(server, tmp_path, request) as admin:
        await bootstrap(admin)
        await configure(admin, colocation="{broken")
        made = [*webhooks(SETTINGS), *access(MANAGER, SETTINGS)]
        async with await client_with(admin, made, MANAGER.full_name) as client:
            with pytest.raises(Forbidden):
                await client.delete(kinds.NODES, "n1")
            heard.listen(client)
            hooks = Webhooks(parse_gates(ManagerGate, ""), "127.0.0.1:0", WebhookOptions(host="127.0.0.1"))
            options = ManagerOptions(elect=True, beside=(hooks.run,), rollout_look_s=0.1)
            async with managing(client, options=options):
                await eventually(lambda: _is_told(admin))
                await change(admin, "colocation-config", '{"enable": true}')
                await make_node(admin, "n1")
                await until_there(admin, kinds.NODE_METRICS, "n1")
                await until_there(admin, kinds.NODE_SLOS, "n1")
                await report(admin, "n1")
                await eventually(lambda: _lends(admin))
                await rollouts.start(admin, BURST, Rollout(steps=(50, 100), every_seconds=0.2))
                await eventually(lambda: _is_complete(admin))
                await admin.delete(kinds.NODES, "n1")
                await until_there(admin, kinds.NODE_METRICS, "n1", there=False)
    assert heard.refused == []
    assert heard.unused(rights_of(MANAGER, SETTINGS)) - UNUSED_BY_THE_MANAGER == set()


async def _is_told(admin: Client) -> bool:
    """Of a configuration that cannot be read."""
    return any(event.regarding.name == names.CONFIGMAP_SLO_CONTROLLER for event in await admin.list(kinds.EVENTS))


async def _is_complete(admin: Client) -> bool:
    (shown,) = (await rollouts.look(admin, BURST)).rollouts
    return shown.state == "complete" and shown.nodes == ("n1",)


async def _lends(admin: Client) -> bool:
    return "kubernetes.io/batch-cpu" in (await admin.get(kinds.NODES, "n1")).status.allocatable


async def test_an_agents_rights_are_enough_and_little_more(tmp_path: Path) -> None:
    heard = Recorder()
    kubelet = FakeKubelet([batch_pod("old", 250, has_container=False)])
    with host("v2", tmp_path / "host") as machine:
        async with serving(tmp_path / "api") as admin, kubelet.serving() as address:
            await ready_node(admin)
            await admin.create(kinds.NODE_METRICS, {"metadata": {"name": NODE}, "spec": REPORTED_OFTEN})
            async with await client_with(admin, access(AGENT, SETTINGS), AGENT.full_name) as client:
                with pytest.raises(Forbidden):
                    await client.list(kinds.SECRETS)
                heard.listen(client)
                options = AgentOptions(NODE, machine.root, machine.cgroups.root, tmp_path / "state", address)
                async with working(client, options):
                    await eventually(lambda: _reports(admin))
                    await until_there(admin, kinds.NODE_RESOURCE_TOPOLOGIES, NODE)
                    # An event reports an annotation that cannot be read.
                    odd = {"metadata": {"annotations": {"node.koordinator.sh/colocation-strategy": "{"}}}
                    await admin.patch(kinds.NODES, NODE, odd)
                    await eventually(lambda: _hears_of(admin, NODE))
    assert heard.refused == []
    assert heard.unused(rights_of(AGENT, SETTINGS)) - UNUSED_BY_THE_AGENT == set()


REPORTED_OFTEN = {"metricCollectPolicy": {"reportIntervalSeconds": 1, "aggregateDurationSeconds": 10}}


async def _reports(admin: Client) -> bool:
    return bool((await admin.get(kinds.NODE_METRICS, NODE)).status.update_time)


async def _hears_of(admin: Client, name: str) -> bool:
    return any(event.regarding.name == name for event in await admin.list(kinds.EVENTS))
