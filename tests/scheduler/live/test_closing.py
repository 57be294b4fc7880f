"""Nodes that are closed to a band, on koord's own API server: which pods wait, with which words, and until when."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from koord.api import kinds
from koord.api.configuration.scheduler_config import SchedulerConfiguration, parse
from koord.api.machinery.faults import Invalid
from koord.api.text.timestamp import from_seconds
from koord.kube.client import Client
from koord.scheduler.live.run import run
from koord_minicluster.up.bootstrap import bootstrap
from tests.scheduler.live.embedded import node_manifest, scheduling, serving, until_bound
from tests.waiting import eventually

LENT = {"kubernetes.io/batch-cpu": "4000", "kubernetes.io/batch-memory": "8Gi"}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with serving(tmp_path) as client:
        await bootstrap(client)
        node = node_manifest("n1")
        for amounts in node["status"].values():
            amounts.update(LENT)
        await client.create(kinds.NODES, node)
        yield client


async def protect(client: Client, **strategy: Any) -> None:
    spec = {"resourceUsedThresholdWithBE": {"enable": True, **strategy}}
    await client.create(kinds.NODE_SLOS, {"metadata": {"name": "n1"}, "spec": spec})


async def report(client: Client, cpu: str) -> None:
    status = {
        "updateTime": from_seconds(time.time()),
        "nodeMetric": {"nodeUsage": {"resources": {"cpu": cpu, "memory": "1Gi"}}},
    }
    await client.patch(kinds.NODE_METRICS, "n1", {"status": status}, subresource="status")


async def make_batch_pod(client: Client, name: str) -> None:
    asked = {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "1Gi"}
    body = {
        "metadata": {"name": name, "namespace": "default", "labels": {"koordinator.sh/qosClass": "BE"}},
        "spec": {
            "priorityClassName": "koord-batch",
            "containers": [{"name": "app", "image": "app:1", "resources": {"requests": asked, "limits": asked}}],
        },
    }
    await client.create(kinds.PODS, body, namespace="default")


async def until_waiting(client: Client, name: str, words: str) -> None:
    async def waits() -> bool:
        pod = await client.get(kinds.PODS, name, namespace="default")
        assert not pod.spec.node_name
        return any(words in condition.message for condition in pod.status.conditions)

    await eventually(waits)


async def test_a_pod_waits_while_the_node_holds_its_band_back_and_goes_on_with_the_report_that_says_otherwise(
    client: Client,
) -> None:
    await client.create(kinds.NODE_METRICS, {"metadata": {"name": "n1"}})
    await protect(client, cpuSuppressThresholdPercent=60)
    await report(client, "3")
    async with scheduling(client):
        await make_batch_pod(client, "job")
        await until_waiting(client, "job", "node(s) hold batch pods back for too much cpu usage")
        await until_waiting(client, "job", "cpu usage below 60% there (it is 75%)")
        await report(client, "1")
        await until_bound(client, "job")


async def test_a_pod_goes_on_when_the_node_no_longer_protects_itself_so(client: Client) -> None:
    await client.create(kinds.NODE_METRICS, {"metadata": {"name": "n1"}})
    await protect(client)
    await report(client, "3")
    async with scheduling(client):
        await make_batch_pod(client, "job")
        await until_waiting(client, "job", "hold batch pods back")
        off = {"spec": {"resourceUsedThresholdWithBE": {"enable": False}}}
        await client.patch(kinds.NODE_SLOS, "n1", off)
        await until_bound(client, "job")


async def test_a_pod_waits_after_an_eviction_and_is_told_for_how_long(client: Client) -> None:
    said = {"node.koordinator.sh/last-evictions": json.dumps({"koord-batch": from_seconds(time.time() - 100)})}
    await client.patch(kinds.NODES, "n1", {"metadata": {"annotations": said}})
    async with scheduling(client):
        await make_batch_pod(client, "job")
        await until_waiting(client, "job", "node(s) evicted batch pods a short time ago")
        await until_waiting(client, "job", "s more since it evicted pods")
        await client.patch(
            kinds.NODES,
            "n1",
            {"metadata": {"annotations": {"node.koordinator.sh/usage-note": "x"}}},
        )
        await until_waiting(client, "job", "evicted batch pods")


def limited(cpu: int) -> SchedulerConfiguration:
    args = {"name": "LoadAwareScheduling", "args": {"usageThresholds": {"cpu": cpu}}}
    look = {"filter": {"enabled": [{"name": "LoadAwareScheduling"}]}}
    return parse({"profiles": [{"schedulerName": "koord-scheduler", "plugins": look, "pluginConfig": [args]}]})


async def test_a_scheduler_does_not_start_with_a_limit_above_where_agents_act(client: Client) -> None:
    await protect(client, cpuSuppressThresholdPercent=60)
    with pytest.raises(Invalid) as refused:
        await run(client, limited(80))
    assert "usageThresholds.cpu" in str(refused.value)
    assert "NodeSLO n1 spec.resourceUsedThresholdWithBE.cpuSuppressThresholdPercent (60)" in str(refused.value)
    async with scheduling(client, limited(50)):
        pass


async def test_a_default_in_the_way_is_mended_with_one_warning(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    await protect(client)
    async with scheduling(client, limited(80)):
        warned = [record.message for record in caplog.records if "usageThresholds.cpu" in record.getMessage()]
        assert len(warned) == 1
        assert "it counts as 64" in warned[0]


async def test_the_command_says_what_is_wrong_and_ends(client: Client, tmp_path: Path) -> None:
    await protect(client, cpuSuppressThresholdPercent=60)
    config = tmp_path / "scheduler.json"
    config.write_text(json.dumps(limited(80).manifest()))
    where = ("--kubeconfig", str(tmp_path / "kubeconfig"), "--no-leader-elect", "--metrics-address", "127.0.0.1:0")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "koord", "scheduler", "--config", str(config), *where,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, errors = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 2, errors
    assert b"Traceback" not in errors
    assert b"cpuSuppressThresholdPercent (60)" in errors
