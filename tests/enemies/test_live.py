"""The worst values, stored on an API server: scheduler, descheduler, manager and hollow nodes work on for others."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from koord.api import kinds
from koord.api.kinds import Kind
from koord.kube.client import Client
from tests.descheduler.live.cluster import ask, cluster, deploy, descheduling, ends
from tests.enemies.honest import migration_job, pod, reservation
from tests.manager.live.managing import managing
from tests.scheduler.live.embedded import node_manifest
from tests.waiting import eventually

AFFINITY: Final = "scheduling.koordinator.sh/reservation-affinity"


def worst() -> list[tuple[Kind[Any], dict[str, Any]]]:
    negative = reservation("negative", "bad")
    negative["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "-5"}}
    runs = pod("bad-runs", "default", on="bad", annotations={AFFINITY: "[{"})
    del runs["spec"]["priority"]
    profile = {"selector": {"matchLabels": {"app": "bad"}}, "probability": "9" * 5000 + "%"}
    return [
        (kinds.NODES, node_manifest("bad", cpu="1e18", taints=[{"key": "bad", "effect": "NoSchedule"}])),
        (kinds.PODS, runs),
        (kinds.RESERVATIONS, reservation("endless", "bad", ttl="99999999999h")),
        (kinds.RESERVATIONS, reservation("late", "bad", expires="9999-12-31T23:59:59-23:00")),
        (kinds.RESERVATIONS, negative),
        (kinds.POD_MIGRATION_JOBS, migration_job("before-it-began", "bad") | {"spec": {"podRef": {}, "ttl": "-1h"}}),
        (kinds.CLUSTER_COLOCATION_PROFILES, {"metadata": {"name": "bad"}, "spec": profile}),
    ]


async def store(client: Client) -> None:
    for kind, manifest in worst():
        name, namespace = manifest["metadata"]["name"], manifest["metadata"].get("namespace", "")
        meta = {"name": name, **({"namespace": namespace} if namespace else {})}
        meta |= {key: manifest["metadata"][key] for key in ("labels", "annotations") if key in manifest["metadata"]}
        await client.create(kind, {**manifest, "metadata": meta, "status": manifest.get("status", {})})
        if kind is kinds.RESERVATIONS:
            status = {"phase": "Available", "nodeName": "bad", "allocatable": {"cpu": "1"}}
            await client.patch(kind, name, {"status": status}, subresource="status")


async def test_components_work_for_others_beside_the_worst_values(tmp_path: Path) -> None:
    async with (
        cluster(tmp_path, nodes=2) as client,
        descheduling(client) as descheduler,
        managing(client) as manager,
    ):
        await store(client)
        web = await deploy(client, "web", 2)
        await ask(client, web[0], mode="EvictDirectly")
        assert (await ends(client)).status.phase == "Succeeded"

        async def is_managed() -> bool:
            return {"hollow-0001", "hollow-0002"} <= {
                node_slo.metadata.name for node_slo in await client.list(kinds.NODE_SLOS)
            }

        await eventually(is_managed)
        assert not descheduler.done()
        assert not manager.done()
