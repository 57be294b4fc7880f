"""Two workloads that disturb each other: an agent's report becomes a pair, and the scheduler parts them."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from koord.api.kinds import INTERFERENCE_PAIRS, NODE_METRICS, PODS
from koord.api.protocol.crd.interference_pair import PairedWorkload
from koord.api.protocol.slowed_by import Blame, Verdict
from koord.api.text.timestamp import from_seconds
from koord.kube.client import Client
from koord.kube.clock import SystemClock
from koord.kube.errors import Invalid, Status
from koord.kube.metrics import Metrics
from koord.manager.live.metrics import ManagerMetrics
from koord.manager.live.pairs import PairsLoop
from koord.manager.live.run import ManagerOptions
from koord.manager.pairs.learning import HALF_LIFE_S
from koord_minicluster.up.bootstrap import bootstrap
from tests.manager.live.managing import managing
from tests.scheduler.live.embedded import make_nodes, pod_manifest, scheduling, serving, until_bound
from tests.waiting import eventually

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


class Refusing:
    """A client whose API server does not take what is said of one workload."""

    def __init__(self) -> None:
        self.put: list[str] = []

    async def create(self, kind: object, body: dict[str, Any], **_: object) -> None:
        name = body["spec"]["culprit"]["name"]
        if name == "enemy":
            raise Invalid(Status(code=422))
        self.put.append(name)


async def test_a_pair_that_the_api_refuses_keeps_no_other_from_being_written() -> None:
    now_s = time.time()
    web = PairedWorkload("default", "StatefulSet", "web")
    blames = [
        Blame(from_seconds(now_s), Verdict.NAMED, web, PairedWorkload("default", "Job", name))
        for name in ("build", "enemy", "train")
    ]
    told = SimpleNamespace(row=SimpleNamespace(name="node-001"), blames=blames)
    informer = SimpleNamespace(list=lambda: [told], add_handler=lambda *_, **__: None)
    nobody = SimpleNamespace(list=list, add_handler=lambda *_, **__: None)
    sources = SimpleNamespace(metrics=informer, when_there=lambda name, follow: follow(nobody))
    client: Any = Refusing()
    loop = PairsLoop(client, cast("Any", sources), SystemClock(), ManagerMetrics(Metrics(process=False)))
    with pytest.raises(Invalid):
        await loop._reconcile("pairs")
    assert sorted(client.put) == ["build", "train"]


async def weights(client: Client) -> list[int]:
    return [interference_pair.status.weight for interference_pair in await client.list(INTERFERENCE_PAIRS)]


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

                await eventually(learnt, WITHIN_S)
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
            await eventually(forgotten, WITHIN_S)
