"""Thresholds out of order, on koord's own API server: a change does not come into force, what is stored runs safely."""

from __future__ import annotations

import json
from pathlib import Path

from koord.api import kinds
from koord.api.protocol.names import CONFIGMAP_SLO_CONTROLLER, NAMESPACE_KOORDINATOR
from koord.kube.client import Client
from tests.manager.live.managing import (
    change,
    configure,
    fresh,
    make_node,
    managing,
    node_with_metric,
    report,
    until_lent,
    until_there,
)
from tests.scheduler.live.embedded import serving
from tests.waiting import eventually

BAD = {"enable": True, "cpuSuppressThresholdPercent": 80, "cpuEvictThresholdPercent": 70,
       "evictEnabledPriorityThreshold": 5999}  # fmt: skip


async def suppressed_at(client: Client, name: str) -> int | None:
    strategy = (await client.get(kinds.NODE_SLOS, name)).spec.resource_used_threshold_with_be
    return None if strategy is None else strategy.cpu_suppress_threshold_percent


async def told(client: Client, reason: str = "SLOCfgInvalid") -> bool:
    events = await client.list(kinds.EVENTS, namespace=NAMESPACE_KOORDINATOR)
    return any("cpuEvictThresholdPercent (70)" in event.note and event.reason == reason for event in events)


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
            await eventually(lambda: told(client))
            assert await suppressed_at(client, "n1") == 50


async def test_a_manager_that_starts_with_it_acts_in_the_nearest_safe_order(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        await fresh(client)
        await configure(client, colocation={"enable": True}, resource_threshold={"clusterStrategy": BAD})
        await make_node(client, "n1")
        async with managing(client):
            await until_there(client, kinds.NODE_SLOS, "n1")
            await eventually(lambda: told(client, "SLOCfgOutOfOrder"))
            assert await suppressed_at(client, "n1") == 69


async def test_a_cluster_that_changes_over_with_thresholds_out_of_order_lends(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        await fresh(client)
        suppress = {"clusterStrategy": {"enable": True, "cpuSuppressThresholdPercent": 60}}
        lending = {"enable": True, "cpuReclaimThresholdPercent": 70}
        await configure(client, colocation=lending, resource_threshold=suppress)
        await node_with_metric(client, "n1")
        async with managing(client):
            await report(client, "n1")
            # 59% of 64 cores, less 2.5 that the system uses.
            await until_lent(client, "n1", 35_260)
            await eventually(lambda: _is_told(client))


async def _is_told(client: Client) -> bool:
    """In an event and in a condition, each with both numbers."""
    config = await client.get(kinds.CONFIG_MAPS, CONFIGMAP_SLO_CONTROLLER, namespace=NAMESPACE_KOORDINATOR)
    condition = config.metadata.annotations.get("koordinator.sh/config-conditions", "")
    events = await client.list(kinds.EVENTS, namespace=NAMESPACE_KOORDINATOR)
    notes = [event.note for event in events if event.reason == "ColocationCfgOutOfOrder"]
    return all("cpuSuppressThresholdPercent (60), not 70" in text for text in (condition, *(notes or [""])))
