"""Thresholds out of order, on koord's own API server: they do not come into force, and it is told."""

from __future__ import annotations

import json
from pathlib import Path

from koord.api import kinds
from koord.api.protocol.names import NAMESPACE_KOORDINATOR
from koord.kube.client import Client
from tests.manager.live.managing import change, configure, fresh, make_node, managing, until, until_there
from tests.scheduler.live.embedded import serving

BAD = {"enable": True, "cpuSuppressThresholdPercent": 80, "cpuEvictThresholdPercent": 70,
       "evictEnabledPriorityThreshold": 5999}  # fmt: skip


async def suppressed_at(client: Client, name: str) -> int | None:
    strategy = (await client.get(kinds.NODE_SLOS, name)).spec.resource_used_threshold_with_be
    return None if strategy is None else strategy.cpu_suppress_threshold_percent


async def told(client: Client) -> bool:
    events = await client.list(kinds.EVENTS, namespace=NAMESPACE_KOORDINATOR)
    return any("cpuEvictThresholdPercent (70)" in each.note and each.reason == "SLOCfgInvalid" for each in events)


async def test_what_was_in_order_stays_in_force(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        await fresh(client)
        await change(
            client, "resource-threshold-config", json.dumps({"clusterStrategy": {"cpuSuppressThresholdPercent": 50}})
        )
        await make_node(client, "n1")
        async with managing(client):
            await until_there(client, kinds.NODE_SLOS, "n1")
            await change(client, "resource-threshold-config", json.dumps({"clusterStrategy": BAD}))
            await until(lambda: told(client))
            assert await suppressed_at(client, "n1") == 50


async def test_a_manager_that_starts_with_it_goes_by_the_defaults(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        await fresh(client)
        await configure(client, colocation={"enable": True}, resource_threshold={"clusterStrategy": BAD})
        await make_node(client, "n1")
        async with managing(client):
            await until_there(client, kinds.NODE_SLOS, "n1")
            await until(lambda: told(client))
            assert await suppressed_at(client, "n1") == 65
