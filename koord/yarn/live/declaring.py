"""The word on a Node that it has a NodeManager, for NodeManagers that run as processes of the host."""

from __future__ import annotations

import logging
from typing import Final

from koord.api.kinds import NODES
from koord.api.protocol import names
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.errors import ApiError, Conflict, NotFound
from koord.yarn.amount import NOTHING
from koord.yarn.nodes import WITHDRAWN, claim_patch, condition_patch, node_facts

log = logging.getLogger(__name__)

LOOK_S: Final = 5.0
FIELD_MANAGER: Final = "koord-yarn-nodemanager"
ATTEMPTS: Final = 20


async def keep_declared(client: Client, node: str, node_id: str, clock: Clock, look_s: float = LOOK_S) -> None:
    """Runs until cancelled: a Node that is created again, or late, gets it too."""
    while True:
        try:
            present = await client.get(NODES, node)
            if present.metadata.annotations.get(names.ANNOTATION_YARN_NODE_ID) != node_id:
                patch = {"metadata": {"annotations": {names.ANNOTATION_YARN_NODE_ID: node_id}}}
                await client.patch(NODES, node, patch, field_manager=FIELD_MANAGER)
                log.info("node %s has NodeManager %s", node, node_id)
        except ApiError as error:
            log.info("node %s does not say yet that it has NodeManager %s: %s", node, node_id, error)
        await clock.sleep(look_s)


async def forget_all(client: Client) -> None:
    """Where no YARN runs any more: nodes give back what it had, to Kubernetes."""
    for node in await client.list(NODES):
        if node_facts(node).claim != NOTHING or names.ANNOTATION_YARN_NODE_ID in node.metadata.annotations:
            await _forget(client, node.metadata.name)


async def _forget(client: Client, name: str) -> None:
    for _ in range(ATTEMPTS):
        try:
            node = node_facts(await client.get(NODES, name))
            patch = {"metadata": {"annotations": {names.ANNOTATION_YARN_NODE_ID: None}}}
            await client.patch(NODES, name, patch, field_manager=FIELD_MANAGER)
            withdrawal = condition_patch(node, WITHDRAWN, 0.0)
            await client.patch(
                NODES, name, withdrawal, type="strategic", subresource="status", field_manager=FIELD_MANAGER
            )
            node = node_facts(await client.get(NODES, name))
            await client.patch(NODES, name, claim_patch(node, NOTHING, None), field_manager=FIELD_MANAGER)
        except Conflict:
            continue
        except NotFound:
            return
        else:
            return
