"""The first objects of a cluster, where the server loses connections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from koord.api import kinds
from koord.kube.client import Client
from koord.kube.errors import Status, Unavailable
from koord.minicluster.up import bootstrap as module
from koord.minicluster.up.bootstrap import bootstrap
from tests.scheduler.live.embedded import serving


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
            each.metadata.name.partition(".")[0] for each in await client.list(kinds.CUSTOM_RESOURCE_DEFINITIONS)
        }
