"""Claims that wait for their pod's node: what is written for them, and what is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from koord.api.configuration.scheduler_config import SHIPPED, SchedulerConfiguration, parse
from koord.api.kinds import EVENTS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES
from koord.kube.client import Client
from koord.scheduler.framework import writes
from koord.scheduler.state.storage import SELECTED_NODE_ANNOTATION
from tests.scheduler.live.embedded import make_nodes, pod_manifest, scheduling, serving, until_bound
from tests.waiting import eventually


@asynccontextmanager
async def cluster(
    folder: Path,
    provisioner: str,
    mode: str = "WaitForFirstConsumer",
    config: SchedulerConfiguration = SHIPPED,
) -> AsyncIterator[Client]:
    async with serving(folder) as client:
        await make_nodes(client, 2)
        await client.create(
            STORAGE_CLASSES,
            {"metadata": {"name": "late"}, "provisioner": provisioner, "volumeBindingMode": mode},
        )
        claim = {
            "storageClassName": "late",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
        await client.create(
            PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "data", "namespace": "default"}, "spec": claim}
        )
        async with scheduling(client, config):
            mounted = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
            await client.create(PODS, pod_manifest("db", volumes=mounted))
            yield client


async def says(client: Client, words: str) -> None:
    """Waits until the pod's condition says so."""

    async def told() -> bool:
        pod_condition = (await client.get(PODS, "db", namespace="default")).status.condition("PodScheduled")
        return pod_condition is not None and words in pod_condition.message

    await eventually(told)


async def bind_claim(client: Client, volume: str) -> None:
    """What the controller of volumes does."""
    annotations = {"pv.kubernetes.io/bind-completed": "yes"}
    patch = {"metadata": {"annotations": annotations}, "spec": {"volumeName": volume}}
    await client.patch(PERSISTENT_VOLUME_CLAIMS, "data", patch, namespace="default")


def volume(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "late",
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": "/d"},
        },
    }


async def node_of_claim(client: Client) -> str:
    claim = await client.get(PERSISTENT_VOLUME_CLAIMS, "data", namespace="default")
    return claim.metadata.annotations.get(SELECTED_NODE_ANNOTATION, "")


async def test_a_volume_is_asked_for_on_the_pods_node_and_waited_for(tmp_path: Path) -> None:
    async with cluster(tmp_path, "example.com/disks") as client:

        async def selected() -> bool:
            return bool(await node_of_claim(client))

        await eventually(selected)
        # Others do not wait for it.
        await client.create(PODS, pod_manifest("web"))
        await until_bound(client, "web")
        assert not (await client.get(PODS, "db", namespace="default")).spec.node_name
        await client.create(PERSISTENT_VOLUMES, volume("made"))
        await bind_claim(client, "made")
        assert (await until_bound(client, "db"))["db"] == await node_of_claim(client)


async def test_a_node_on_which_no_volume_can_be_made_is_given_up(tmp_path: Path) -> None:
    async with cluster(tmp_path, "example.com/disks") as client:

        async def selected() -> bool:
            return bool(await node_of_claim(client))

        await eventually(selected)
        await asyncio.sleep(0.5)
        remove = {"metadata": {"annotations": {SELECTED_NODE_ANNOTATION: None}}}
        await client.patch(PERSISTENT_VOLUME_CLAIMS, "data", remove, namespace="default")

        await says(client, "no volume can be made for the claim default/data")
        await eventually(selected)


async def test_a_free_volume_is_given_to_the_claim(tmp_path: Path) -> None:
    async with cluster(tmp_path, "kubernetes.io/no-provisioner") as client:
        await client.create(PERSISTENT_VOLUMES, volume("free"))
        await client.patch(PERSISTENT_VOLUMES, "free", {"status": {"phase": "Available"}}, subresource="status")

        async def given() -> bool:
            found = await client.get(PERSISTENT_VOLUMES, "free")
            return found.spec.claim_ref is not None and found.spec.claim_ref.name == "data"

        await eventually(given)
        await bind_claim(client, "free")
        await until_bound(client, "db")


MAKER = "The claim default/data waits for example.com/disks, the provisioner of its StorageClass late, to make a volume"


async def test_who_is_to_make_a_volume_is_said_where_nobody_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writes, "LATE_S", 0.3)
    async with cluster(tmp_path, "example.com/disks") as client:
        found: list[str] = []

        async def told() -> bool:
            events = await client.list(EVENTS, namespace="default")
            found.extend(event.note for event in events if event.reason == "WaitingForVolumes")
            return bool(found)

        await eventually(told)
        node = await node_of_claim(client)
        assert found[0] == f"It will go to {node} and waits for its volumes. {MAKER} on {node}."


async def test_claims_that_are_bound_at_once_and_have_no_volume_are_explained(tmp_path: Path) -> None:
    async with cluster(tmp_path, "example.com/disks", "Immediate") as client:
        await says(client, f"pod has unbound immediate PersistentVolumeClaims. {_NO_HELP} {MAKER}.")


_NO_HELP = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."


async def test_volumes_are_waited_for_as_long_as_the_profile_says(tmp_path: Path) -> None:
    args = [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 1}}]
    config = parse({"profiles": [{"schedulerName": "koord-scheduler", "pluginConfig": args}]})
    async with cluster(tmp_path, "example.com/disks", config=config) as client:
        await says(client, f"no volume for default/data within 1 s. {MAKER} on ")
        # It is tried again, and goes on once the volume is there.
        await client.create(PERSISTENT_VOLUMES, volume("made"))
        await bind_claim(client, "made")
        await until_bound(client, "db")
