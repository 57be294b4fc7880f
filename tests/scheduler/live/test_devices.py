"""Devices on an API server: chosen, written on the pod, counted again by the next scheduler; and odd objects told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from koord.api.kinds import DEVICES, EVENTS, NODES, PODS
from koord.kube.client import Client
from koord_minicluster.up.bootstrap import bootstrap
from tests.scheduler.live.embedded import node_manifest, pod_manifest, scheduling, serving, until_bound
from tests.scheduler.plugins.devices.machines import ALLOCATED, K, gpu
from tests.waiting import eventually


def asking(name: str, percent: int) -> dict[str, Any]:
    manifest = pod_manifest(name)
    amounts = {f"{K}/gpu-core": str(percent), f"{K}/gpu-memory-ratio": str(percent)}
    manifest["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return manifest


async def minors(client: Client, name: str) -> list[int]:
    pod = await client.get(PODS, name, namespace="default")
    return [each["minor"] for each in json.loads(pod.metadata.annotations[ALLOCATED])["gpu"]]


async def test_devices_are_written_on_pods_and_a_restarted_scheduler_counts_them(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        await bootstrap(client)
        node = node_manifest("n")
        for amounts in node["status"].values():
            amounts |= {f"{K}/gpu-core": "200", f"{K}/gpu-memory-ratio": "200"}
        await client.create(NODES, node)
        twice = [gpu(0), gpu(1), gpu(7), gpu(7)]
        await client.create(DEVICES, {"metadata": {"name": "n"}, "spec": {"devices": twice}})
        async with scheduling(client):
            for name in ("a", "b"):
                await client.create(PODS, asking(name, 60))
            await until_bound(client, "a", "b")
            assert sorted(await minors(client, "a") + await minors(client, "b")) == [0, 1]
            await eventually(lambda: _told(client, "Device", "7 is the minor of 2 gpu devices"))
        async with scheduling(client):
            await client.create(PODS, asking("late", 60))
            await client.create(PODS, asking("small", 40))
            await until_bound(client, "small")
            await eventually(lambda: _told(client, "Pod", "Insufficient gpu devices"))
            await client.delete(PODS, "a", namespace="default")
            where = (await until_bound(client, "late"))["late"]
            assert where == "n"
            assert len(await minors(client, "late")) == 1


async def _told(client: Client, kind: str, words: str) -> bool:
    return any(words in event.note for event in await client.list(EVENTS) if event.regarding.kind == kind)
