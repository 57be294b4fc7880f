"""Publishes the GPUs of modelled nodes."""

from __future__ import annotations

from contextlib import suppress

from koord.api.kinds import DEVICE_CLASSES, NODES, RESOURCE_SLICES
from koord.kube.client import Client
from koord.kube.errors import AlreadyExists
from koord_minicluster.hollow.devices import device_class, slice_of
from koord_minicluster.hollow.live.machines import FIELD_MANAGER
from koord_minicluster.hollow.machine import LABEL_FLEET
from koord_minicluster.kubelet.live.parallel import for_each
from koord_minicluster.kubelet.live.registry import AT_ONCE


async def publish(client: Client, fleet: str, gpus: int) -> None:
    """Returns when all nodes of a fleet have their slices. `gpus`: of each node."""
    with suppress(AlreadyExists):
        await client.create(DEVICE_CLASSES, device_class(), field_manager=FIELD_MANAGER)
    nodes = {node.metadata.name: node for node in await client.list(NODES, labels=f"{LABEL_FLEET}={fleet}")}

    async def put(name: str) -> None:
        body = slice_of(nodes[name], gpus)
        try:
            await client.create(RESOURCE_SLICES, body, field_manager=FIELD_MANAGER)
        except AlreadyExists:
            await client.patch(RESOURCE_SLICES, body["metadata"]["name"], body, field_manager=FIELD_MANAGER)

    await for_each(list(nodes), put, at_once=AT_ONCE)
