"""Objects of kinds that nothing acts on say so themselves."""

from __future__ import annotations

import asyncio
from pathlib import Path

from koord.api.kinds import EVENTS, NAMESPACES
from koord.api.protocol.unacted import REASON, UNACTED
from koord.kube.client import Client
from koord.kube.clock import SystemClock
from koord.kube.events import EventRecorder
from koord.kube.informers import Informers
from koord.manager.live.unacted import UnactedTeller
from koord_minicluster.up.bootstrap import bootstrap
from tests.scheduler.live.embedded import serving
from tests.waiting import eventually

SPECS: dict[str, dict[str, object]] = {
    "PodMigrationJob": {"podRef": {"namespace": "shop", "name": "web"}},
    "Recommendation": {
        "target": {"type": "workload", "workload": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}}
    },
}
"""What the definitions of these kinds require."""


async def told(client: Client, number: int) -> dict[str, str]:
    async def notes() -> dict[str, str] | None:
        events = [event for event in await client.list(EVENTS) if event.reason == REASON]
        return {event.regarding.kind: event.note for event in events} if len(events) >= number else None

    return await eventually(notes) or {}


async def test_each_object_that_nothing_acts_on_gets_an_event(tmp_path: Path) -> None:
    rows = [each for each in UNACTED if each.kind is not None]
    async with serving(tmp_path) as client:
        await bootstrap(client)
        await client.create(NAMESPACES, {"metadata": {"name": "shop"}})
        for row in rows:
            assert row.kind is not None
            body = {"metadata": {"name": "one"}, "spec": SPECS.get(row.kind.kind, {})}
            await client.create(row.kind, body, namespace="shop" if row.kind.namespaced else "")
        async with (
            Informers(client) as informers,
            EventRecorder(client, controller="test") as events,
            asyncio.TaskGroup() as tasks,
        ):
            teller = tasks.create_task(UnactedTeller(client, informers, events, SystemClock()).run())
            assert await told(client, len(rows)) == {row.kind.kind: row.message for row in rows if row.kind}
            teller.cancel()
