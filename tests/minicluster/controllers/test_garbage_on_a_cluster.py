"""Owners, dependents and namespaces that go away, on a real API server and on koord's own with kubectl."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

from koord.api.kinds import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    SERVICE_ACCOUNTS,
    Kind,
)
from koord.kube.client import Client
from koord.kube.discovery import Unstructured
from koord.kube.errors import NotFound
from tests.minicluster.controllers.cluster_fixtures import controllers
from tests.minicluster.controllers.conftest import Plane
from tests.minicluster.controllers.test_deployment_on_a_cluster import deployment, kubectl
from tests.waiting import eventually

pytestmark = pytest.mark.kubectl


async def names(client: Client, kind: Kind[Any], namespace: str) -> set[str]:
    return {obj.metadata.name for obj in await client.list(kind, namespace=namespace)}


async def rolled_out(plane: Plane, client: Client, namespace: str, name: str) -> None:
    await client.create(DEPLOYMENTS, deployment(name, 2), namespace=namespace)
    await kubectl(plane, namespace, "rollout", "status", f"deployment/{name}", "--timeout=60s")


@pytest.mark.parametrize("cascade", ["foreground", "background"])
async def test_deleting_a_deployment_takes_its_pods_along(plane: Plane, cascade: str) -> None:
    namespace = f"gc-{uuid.uuid4().hex[:6]}"
    async with controllers(plane, namespace) as client:
        await rolled_out(plane, client, namespace, "web")
        await kubectl(plane, namespace, "delete", "deployment", "web", f"--cascade={cascade}", "--timeout=60s")
        if cascade == "foreground":
            # The owner goes last, so all is gone by the time kubectl returns.
            assert await names(client, REPLICA_SETS, namespace) == set()
            assert await names(client, PODS, namespace) == set()

        async def nothing_left() -> bool:
            return not await names(client, PODS, namespace) and not await names(client, REPLICA_SETS, namespace)

        await eventually(nothing_left)


async def test_orphans_stay_and_forget_their_owner(plane: Plane) -> None:
    namespace = f"gc-{uuid.uuid4().hex[:6]}"
    async with controllers(plane, namespace) as client:
        await rolled_out(plane, client, namespace, "web")
        await kubectl(plane, namespace, "delete", "deployment", "web", "--cascade=orphan", "--timeout=60s")
        (left,) = await client.list(REPLICA_SETS, namespace=namespace)
        assert left.metadata.owner_references == ()
        assert len(await names(client, PODS, namespace)) == 2


async def test_an_object_goes_with_its_last_owner_and_not_before(plane: Plane) -> None:
    namespace = f"gc-{uuid.uuid4().hex[:6]}"

    def owned_by(*owners: tuple[str, str]) -> list[dict[str, str]]:
        return [{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid} for name, uid in owners]

    async with controllers(plane, namespace) as client:
        a = await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, namespace=namespace)
        b = await client.create(CONFIG_MAPS, {"metadata": {"name": "b"}}, namespace=namespace)
        both = owned_by(("a", a.metadata.uid), ("b", b.metadata.uid))
        await client.create(CONFIG_MAPS, {"metadata": {"name": "child", "ownerReferences": both}}, namespace=namespace)
        never = owned_by(("ghost", str(uuid.uuid4())))
        await client.create(CONFIG_MAPS, {"metadata": {"name": "lost", "ownerReferences": never}}, namespace=namespace)

        async def lost_is_gone() -> bool:
            return "lost" not in await names(client, CONFIG_MAPS, namespace)

        await eventually(lost_is_gone)
        await client.delete(CONFIG_MAPS, "a", namespace=namespace)

        async def one_owner_left() -> bool:
            child = await client.get(CONFIG_MAPS, "child", namespace=namespace)
            return [ref.name for ref in child.metadata.owner_references] == ["b"]

        await eventually(one_owner_left)
        await client.delete(CONFIG_MAPS, "b", namespace=namespace)

        async def child_is_gone() -> bool:
            return "child" not in await names(client, CONFIG_MAPS, namespace)

        await eventually(child_is_gone)


async def test_custom_objects_own_and_are_owned(plane: Plane) -> None:
    word = f"w{uuid.uuid4().hex[:6]}"
    namespace = f"gc-{word}"
    group = f"{word}.test"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition = {
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    things: Kind[Unstructured] = Kind(group, "v1", "Thing", "things", True, Unstructured)
    async with controllers(plane, namespace) as client:
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)

        async def created() -> bool:
            try:
                await client.create(things, {"metadata": {"name": "owner"}}, namespace=namespace)
            except NotFound:
                return False
            return True

        await eventually(created)
        owner = await client.get(things, "owner", namespace=namespace)
        ref = {"apiVersion": f"{group}/v1", "kind": "Thing", "name": "owner", "uid": owner.metadata.uid}
        owned = {"metadata": {"name": "owned", "ownerReferences": [ref]}}
        await client.create(CONFIG_MAPS, owned, namespace=namespace)
        await client.delete(things, "owner", namespace=namespace)

        async def gone() -> bool:
            return "owned" not in await names(client, CONFIG_MAPS, namespace)

        await eventually(gone)
        await client.create(things, {"metadata": {"name": "stays"}}, namespace=namespace)
        await asyncio.to_thread(plane.kubectl, "delete", "namespace", namespace, "--timeout=60s")
    async with Client.from_config(str(plane.kubeconfig)) as client:
        await client.delete(CUSTOM_RESOURCE_DEFINITIONS, f"things.{group}")


async def test_a_namespace_goes_with_all_its_content(plane: Plane) -> None:
    namespace = f"gc-{uuid.uuid4().hex[:6]}"
    async with controllers(plane, namespace) as client:

        async def has_account() -> bool:
            return "default" in await names(client, SERVICE_ACCOUNTS, namespace)

        await eventually(has_account)
        await rolled_out(plane, client, namespace, "web")
        held = {"metadata": {"name": "held", "finalizers": ["koord.test/hold"]}}
        await client.create(CONFIG_MAPS, held, namespace=namespace)
        await client.delete(NAMESPACES, namespace)

        async def told() -> bool:
            read = await client.get(NAMESPACES, namespace)
            remaining = [c for c in read.status.conditions if c.type == "NamespaceFinalizersRemaining"]
            return bool(remaining and remaining[0].status == "True" and "koord.test/hold" in remaining[0].message)

        await eventually(told)
        assert await names(client, PODS, namespace) == set()
        await client.patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, namespace=namespace)

        async def gone() -> bool:
            try:
                await client.get(NAMESPACES, namespace)
            except NotFound:
                return True
            return False

        await eventually(gone)
