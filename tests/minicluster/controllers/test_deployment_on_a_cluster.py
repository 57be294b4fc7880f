"""Deployments and ReplicaSets on a real API server and on koord's own, driven with kubectl as a user would."""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import Any

import pytest

from koord.api.kinds import DEPLOYMENTS, PODS, REPLICA_SETS
from tests.minicluster.controllers.cluster_fixtures import controllers
from tests.minicluster.controllers.conftest import Plane
from tests.waiting import eventually

pytestmark = pytest.mark.kubectl


def deployment(name: str, replicas: int = 3, **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    pod = {"containers": [{"name": "app", "image": "app:1"}], "terminationGracePeriodSeconds": 1}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
            **spec,
        },
    }


async def kubectl(plane: Plane, namespace: str, *args: str) -> str:
    done = await asyncio.to_thread(plane.kubectl, "-n", namespace, *args)
    return done.stdout


async def test_a_rollout_an_undo_and_a_scale(plane: Plane) -> None:
    namespace = f"rollout-{uuid.uuid4().hex[:6]}"
    async with controllers(plane, namespace) as client:
        await client.create(DEPLOYMENTS, deployment("web"), namespace=namespace)
        said = await kubectl(plane, namespace, "rollout", "status", "deployment/web", "--timeout=60s")
        assert "successfully rolled out" in said

        await kubectl(plane, namespace, "set", "image", "deployment/web", "app=app:2")
        await kubectl(plane, namespace, "rollout", "status", "deployment/web", "--timeout=60s")
        pods = await client.list(PODS, namespace=namespace, labels="app=web")
        alive = [p for p in pods if p.metadata.deletion_timestamp is None]
        assert sorted(p.spec.containers[0].image for p in alive) == ["app:2"] * 3
        sets = await client.list(REPLICA_SETS, namespace=namespace)
        assert sorted(rs.spec.replicas for rs in sets) == [0, 3]

        await kubectl(plane, namespace, "rollout", "undo", "deployment/web")
        await kubectl(plane, namespace, "rollout", "status", "deployment/web", "--timeout=60s")
        history = await kubectl(plane, namespace, "rollout", "history", "deployment/web")
        assert [line.split()[0] for line in history.splitlines()[2:] if line] == ["2", "3"]

        await kubectl(plane, namespace, "scale", "deployment/web", "--replicas=5")
        await kubectl(plane, namespace, "rollout", "status", "deployment/web", "--timeout=60s")
        read = json.loads(await kubectl(plane, namespace, "get", "deployment", "web", "-o", "json"))
        assert read["status"]["availableReplicas"] == 5
        conditions = {c["type"]: (c["status"], c["reason"]) for c in read["status"]["conditions"]}
        assert conditions == {
            "Available": ("True", "MinimumReplicasAvailable"),
            "Progressing": ("True", "NewReplicaSetAvailable"),
        }


async def test_recreate_starts_new_pods_only_when_all_old_ones_have_ended(plane: Plane) -> None:
    namespace = f"recreate-{uuid.uuid4().hex[:6]}"
    async with controllers(plane, namespace) as client:
        await client.create(DEPLOYMENTS, deployment("db", strategy={"type": "Recreate"}), namespace=namespace)
        await kubectl(plane, namespace, "rollout", "status", "deployment/db", "--timeout=60s")
        await kubectl(plane, namespace, "set", "image", "deployment/db", "app=app:2")
        await kubectl(plane, namespace, "rollout", "status", "deployment/db", "--timeout=60s")
        pods = await client.list(PODS, namespace=namespace)
        assert {p.spec.containers[0].image for p in pods} == {"app:2"}


async def test_an_orphan_is_taken_in_and_a_relabelled_pod_let_go(plane: Plane) -> None:
    namespace = f"adopt-{uuid.uuid4().hex[:6]}"
    async with controllers(plane, namespace) as client:
        template = deployment("web")["spec"]["template"]
        orphan = {"metadata": {"name": "orphan", "labels": {"app": "web"}}, "spec": template["spec"]}
        await client.create(PODS, orphan, namespace=namespace)
        spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        made = await client.create(REPLICA_SETS, {"metadata": {"name": "web"}, "spec": spec}, namespace=namespace)

        async def two_ready() -> bool:
            return (await client.get(REPLICA_SETS, "web", namespace=namespace)).status.available_replicas == 2

        await eventually(two_ready)
        pods = await client.list(PODS, namespace=namespace)
        assert len(pods) == 2
        assert all(p.metadata.controller and p.metadata.controller.uid == made.metadata.uid for p in pods)

        await client.patch(PODS, "orphan", {"metadata": {"labels": {"app": "other"}}}, namespace=namespace)

        async def replaced() -> bool:
            pods = await client.list(PODS, namespace=namespace, labels="app=web")
            free = await client.get(PODS, "orphan", namespace=namespace)
            return len(pods) == 2 and free.metadata.controller is None

        await eventually(replaced)
