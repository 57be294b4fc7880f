"""The first objects of a cluster, where the server loses connections."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from koord.api import kinds
from koord.api.protocol import names
from koord.kube.background_task import background_task
from koord.kube.client import Client
from koord.kube.errors import NotFound, Status, Unavailable
from koord_minicluster.up import bootstrap as module
from koord_minicluster.up.bootstrap import bootstrap
from tests.manager.live.webhooks import finalized
from tests.scheduler.live.embedded import serving
from tests.waiting import eventually


async def test_a_lost_connection_is_no_reason_to_give_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create, lost = Client.create, list[str]()

    async def losing(self: Client, kind: Any, obj: Any, **more: Any) -> Any:
        """It does what it is asked, and the answer is lost."""
        made = await create(self, kind, obj, **more)
        if kind is kinds.CUSTOM_RESOURCE_DEFINITIONS and len(lost) < 2:
            lost.append(obj["metadata"]["name"])
            raise Unavailable(Status(message="Server disconnected"), verb="create", maybe_done=True)
        return made

    monkeypatch.setattr(module, "AGAIN_S", 0.01)
    async with serving(tmp_path) as client:
        monkeypatch.setattr(Client, "create", losing)
        await bootstrap(client)
        assert len(lost) == 2
        assert {each.plural for each in kinds.CUSTOM} <= {
            definition.metadata.name.partition(".")[0]
            for definition in await client.list(kinds.CUSTOM_RESOURCE_DEFINITIONS)
        }


async def test_a_namespace_that_is_being_deleted_is_waited_for_and_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.01)
    async with serving(tmp_path) as client:
        before = await bootstrap(client)
        assert before == await bootstrap(client)
        await client.delete(kinds.NAMESPACES, names.NAMESPACE_KOORDINATOR)
        again = asyncio.create_task(bootstrap(client))
        await asyncio.wait({again}, timeout=0.1)
        assert not again.done()
        for name in (names.CONFIGMAP_SLO_CONTROLLER, "kube-root-ca.crt"):
            with suppress(NotFound):
                await client.delete(kinds.CONFIG_MAPS, name, namespace=names.NAMESPACE_KOORDINATOR)
        await finalized(client, names.NAMESPACE_KOORDINATOR)
        async with asyncio.timeout(60):
            after = await again
        place = await client.get(kinds.NAMESPACES, names.NAMESPACE_KOORDINATOR)
        assert place.metadata.uid == after != before
        await client.get(kinds.CONFIG_MAPS, names.CONFIGMAP_SLO_CONTROLLER, namespace=names.NAMESPACE_KOORDINATOR)


async def test_what_somebody_deletes_while_the_cluster_runs_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEEP_S", 0.01)
    async with serving(tmp_path) as client:
        before = await bootstrap(client)
        async with background_task(module.keep(client, before), name="keep"):
            await client.delete(
                kinds.CONFIG_MAPS, names.CONFIGMAP_SLO_CONTROLLER, namespace=names.NAMESPACE_KOORDINATOR
            )
            await client.delete(kinds.NAMESPACES, names.NAMESPACE_KOORDINATOR)
            await finalized(client, names.NAMESPACE_KOORDINATOR)
            await eventually(
                lambda: client.get(
                    kinds.CONFIG_MAPS, names.CONFIGMAP_SLO_CONTROLLER, namespace=names.NAMESPACE_KOORDINATOR
                ),
                retry_on=NotFound,
            )
