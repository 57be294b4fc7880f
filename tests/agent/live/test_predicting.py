"""The daemon predicts peaks, reports them, and a second one goes on where the first one ended without a word."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

from koord.agent.host.cgroups import Version
from koord.agent.live.run import AgentOptions
from koord.agent.predict.model import PredictionSettings
from koord.api.kinds import NODE_METRICS
from koord.api.kubernetes.cgroup import pod_dir
from koord.api.kubernetes.resources import amounts
from koord.api.kubernetes.words import KubeQoS
from koord.api.protocol.crd.node_metric import NodeMetricStatus
from koord.api.text.timestamp import from_seconds
from koord.kube.client import Client
from tests.agent.live.test_daemon import DRIVER, NODE, FakeKubelet, ready_node, working
from tests.agent.trees import Tree
from tests.scheduler.live.embedded import serving
from tests.waiting import eventually

FAST = PredictionSettings(cold_start_s=0, train_every_s=0.2, save_every_s=0)
NEVER_TRAINED = PredictionSettings(cold_start_s=0, train_every_s=3600)


async def status(client: Client) -> NodeMetricStatus:
    return (await client.get(NODE_METRICS, NODE)).status


async def test_prod_reclaimable_is_reported_and_survives_a_killed_agent(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "host", Version("v2"), DRIVER)
    tree.cgroup(pod_dir("web", KubeQoS.BURSTABLE, DRIVER))
    web = {
        "metadata": {
            "namespace": "ns",
            "name": "web",
            "uid": "web",
            "creationTimestamp": from_seconds(time.time() - 9),
        },
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}], "priority": 9500},
        "status": {"phase": "Running"},
    }
    kubelet = FakeKubelet([web])
    async with serving(tmp_path / "api") as client, kubelet.serving() as address:
        await ready_node(client)
        await client.create(NODE_METRICS, {"metadata": {"name": NODE}, "spec": {}})

        def agent(prediction: PredictionSettings) -> AgentOptions:
            root, state = str(tmp_path / "host"), tmp_path / "state"
            return AgentOptions(NODE, root, tree.cgroups.root, state, address, round_s=0.1, prediction=prediction)

        async with working(client, agent(FAST)):
            await eventually(partial(_is_there, tmp_path / "state/predictions/web.json"))
        # Whatever the report said by then, a new one is made of the files alone.
        nothing = {"status": {"updateTime": None, "prodReclaimableMetric": None, "prodPeakMetric": None}}
        await client.patch(NODE_METRICS, NODE, nothing, subresource="status")
        async with working(client, agent(NEVER_TRAINED)):
            await eventually(partial(_is_told, client))
        node_metric_status = await status(client)
        assert node_metric_status.prod_reclaimable_metric is not None
        assert amounts(node_metric_status.prod_reclaimable_metric.resource.resources)["cpu"] > 0


async def _is_told(client: Client) -> bool:
    return (await status(client)).prod_reclaimable_metric is not None


async def _is_there(file: Path) -> bool:
    return os.path.exists(file)  # noqa: ASYNC240 - a look, not a read
