"""What to do when the name of a new revision is taken."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from koord.api.kinds import CONTROLLER_REVISIONS, Kind
from koord.api.workloads.template_hash import canonical
from koord.kube.errors import AlreadyExists, Conflict, NotFound
from koord_minicluster.controllers.actions import Action, Create
from koord_minicluster.controllers.live.cluster import Cluster
from koord_minicluster.controllers.ownership import HasMetadata
from koord_minicluster.controllers.status_patch import status_patch


async def collided(
    cluster: Cluster,
    kind: Kind[Any],
    owner: HasMetadata,
    collisions: int | None,
    actions: Iterable[Action],
    error: AlreadyExists,
) -> None:
    """Increments the collision count, which changes the name, if another revision has the name of the new one.

    In any other case the next event is enough.
    """
    create = next((a for a in actions if isinstance(a, Create) and a.kind is CONTROLLER_REVISIONS), None)
    if create is None or error.status.details.name != create.body["metadata"]["name"]:
        return
    with suppress(NotFound, Conflict):
        name = str(create.body["metadata"]["name"])
        existing = await cluster.client.get(CONTROLLER_REVISIONS, name, namespace=create.namespace)
        manager = existing.metadata.controller
        ours = manager is not None and manager.uid == owner.metadata.uid
        if not ours or canonical(existing.data) != canonical(create.body["data"]):
            change = {"collisionCount": (collisions or 0) + 1}
            for patch in status_patch(kind, owner.metadata, change, locked=True):
                await cluster.writer.patch(patch)
