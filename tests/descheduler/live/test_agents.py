"""Marks of the descheduler beside the thresholds of the nodes' agents, which may change while it runs."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from koord.api.kinds import CONFIG_MAPS
from koord.api.machinery.faults import Invalid
from koord.descheduler.live import agents
from koord.kube.client import Client
from koord_minicluster.up.bootstrap import bootstrap
from tests.descheduler.live.cluster import descheduling
from tests.scheduler.live.embedded import serving
from tests.waiting import eventually

CONFIG = """
deschedulingInterval: 100ms
profiles:
- name: p
  plugins: {balance: {enabled: [{name: LowNodeLoad}]}}
  pluginConfig:
  - {name: LowNodeLoad, args: {lowThresholds: {memory: 40}, highThresholds: {memory: 75}}}
"""


async def agents_evict_at(client: Client, percent: int) -> None:
    strategy = {"clusterStrategy": {"enable": True, "memoryEvictThresholdPercent": percent}}
    data = {"resource-threshold-config": json.dumps(strategy)}
    await client.patch(CONFIG_MAPS, "slo-controller-config", {"data": data}, namespace="koordinator-system")


async def test_marks_that_agents_would_undo_are_refused_and_end_the_rounds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "KNOWN_FOR_S", 0.0)
    async with serving(tmp_path) as client:
        await bootstrap(client)
        await agents_evict_at(client, 70)
        with pytest.raises(Invalid) as refused:
            async with descheduling(client, CONFIG):
                pass
        assert "highThresholds.memory" in str(refused.value)
        assert "memoryEvictThresholdPercent (70)" in str(refused.value)
        assert "not 75" in str(refused.value)
        await agents_evict_at(client, 80)
        caplog.set_level(logging.ERROR)
        async with descheduling(client, CONFIG):
            assert "no rounds" not in caplog.text
            await agents_evict_at(client, 75)

            async def is_told() -> bool:
                return "no rounds until" in caplog.text and "(75)" in caplog.text

            await eventually(is_told)
