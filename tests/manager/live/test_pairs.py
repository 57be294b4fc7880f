"""Two workloads that disturb each other: an agent's report becomes a pair, and the scheduler parts them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from koord.api.kinds import INTERFERENCE_PAIRS, NODE_METRICS, PODS
from koord.api.text.timestamp import from_seconds
from koord.kube.client import Client
from koord.manager.live.run import ManagerOptions
from koord.manager.pairs.learning import HALF_LIFE_S
from koord.minicluster.up.bootstrap import bootstrap
from tests.manager.live.managing import managing
from tests.scheduler.live.embedded import make_nodes, pod_manifest, scheduling, serving, until, until_bound

pytestmark = pytest.mark.timeout(120)

WITHIN_S = 60.0
ONLY = ManagerOptions(controllers=frozenset({"interferencepair"}))


def made_by(kind: str, name: str, pod: dict[str, Any]) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": kind, "name": name, "uid": name, "controller": True}
    return {**pod, "metadata": {**pod["metadata"], "ownerReferences": [owner]}}


def report(verdict: str, at_s: float) -> dict[str, Any]:
    """Of the agent on the node where web-0 runs."""
    blame = {
        "at": from_seconds(at_s),
        "verdict": verdict,
        "victim": {"namespace": "default", "kind": "StatefulSet", "name": "web"},
        "culprit": {"namespace": "default", "kind": "Job", "name": "build"},
        "signal": "runQueueDelay",
    }
    return {"status": {"podsMetric": [{"namespace": "default", "name": "web-0", "extensions": {"slowedBy": [blame]}}]}}


async def weights(client: Client) -> list[int]:
    return [each.status.weight for each in await client.list(INTERFERENCE_PAIRS)]


async def test_a_pair_is_learnt_from_reports_keeps_pods_apart_and_is_forgotten(tmp_path: Path) -> None:
    now_s = time.time()
    async with serving(tmp_path) as client:
        await bootstrap(client)
        await make_nodes(client, 3)
        await client.create(PODS, made_by("StatefulSet", "web", pod_manifest("web-0", nodeName="node-001")))
        await client.create(NODE_METRICS, {"metadata": {"name": "node-001"}})
        async with managing(client, options=ONLY):
            for number, verdict in enumerate(("named", "helped", "helped")):
                told = report(verdict, now_s - 30 + number)
                await client.patch(NODE_METRICS, "node-001", told, subresource="status")
                expected = [(20,), (44,), (61,)][number]

                async def learnt(wanted: tuple[int, ...] = expected) -> bool:
                    return tuple(await weights(client)) == wanted

                await until(learnt, WITHIN_S)
        (pair,) = await client.list(INTERFERENCE_PAIRS)
        assert (pair.status.seen, pair.status.node, pair.status.signal) == (1, "node-001", "runQueueDelay")
        # node-001 is the emptiest by far, so that only the pair speaks against it.
        for name in ("node-000", "node-002"):
            for number in range(2):
                await client.create(PODS, pod_manifest(f"{name}-{number}", nodeName=name))
        async with scheduling(client):
            await client.create(PODS, made_by("Job", "build", pod_manifest("build-0")))
            await client.create(PODS, made_by("Job", "other", pod_manifest("other-0")))
            found = await until_bound(client, "build-0", "other-0", within_s=WITHIN_S)
        assert found["build-0"] != "node-001"
        assert found["other-0"] == "node-001"

        old = {"status": {"lastSeen": from_seconds(now_s - 10 * HALF_LIFE_S)}}
        await client.patch(INTERFERENCE_PAIRS, pair.metadata.name, old)
        await client.patch(NODE_METRICS, "node-001", {"status": {"podsMetric": []}}, subresource="status")

        async def forgotten() -> bool:
            return await weights(client) == []

        async with managing(client, options=ONLY):
            await until(forgotten, WITHIN_S)
