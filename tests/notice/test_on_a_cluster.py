"""Notice on API servers, koord's own and Kubernetes': one write each, and never two."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from koord.api.kinds import PODS
from koord.api.kubernetes.pod import Pod
from koord.api.protocol.annotations.notice import EVICTION_ASKED_BY, EVICTION_DEADLINE, EVICTION_NOTICE
from koord.api.protocol.eviction_notice import Go, Tell, Wait
from koord.kube.client import Client
from koord.kube.eviction_notice import ask, withdraw
from koord.kube.locate import locate
from tests.control_plane import ControlPlane
from tests.notice.build import AGENT, DESCHEDULER, SCHEDULER, START_S
from tests.scheduler.live.embedded import pod_manifest, serving


@pytest.fixture
async def own(tmp_path: Path) -> AsyncIterator[Client]:
    async with serving(tmp_path) as client:
        yield client


@pytest.fixture
async def real(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client(locate(str(control_plane.kubeconfig))) as client:
        yield client


async def test_two_who_ask_at_once_on_koords_server(own: Client) -> None:
    await _story(own)


@pytest.mark.cluster
async def test_two_who_ask_at_once_on_kubernetes(real: Client) -> None:
    await _story(real)


async def _story(client: Client) -> None:
    body = pod_manifest("train", nodeName="n1")
    body["metadata"]["annotations"] = {EVICTION_NOTICE.key: "5m"}
    await client.create(PODS, body)
    try:
        status = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        await client.patch(PODS, "train", status, namespace="default", type="strategic", subresource="status")
        before = await _read(client)
        first, second = await asyncio.gather(
            ask(client, before, SCHEDULER, START_S), ask(client, before, DESCHEDULER, START_S + 60)
        )
        assert isinstance(first, Tell)
        assert isinstance(second, Tell)
        pod = await _read(client)
        assert {asked_by.by for asked_by in EVICTION_ASKED_BY.read(pod.metadata)} == {
            "koord-scheduler",
            "koord-descheduler",
        }
        assert EVICTION_DEADLINE.read(pod.metadata) == START_S + 300
        assert {condition.type for condition in pod.status.conditions} >= {"Ready", "DisruptionTarget"}
        assert await ask(client, pod, SCHEDULER, START_S + 200) == Wait(START_S + 300)
        assert await ask(client, before, AGENT, START_S + 300) == Go("deadline")
        assert await withdraw(client, pod, SCHEDULER, START_S + 210)
        assert await withdraw(client, pod, DESCHEDULER, START_S + 210)
        after = await _read(client)
        assert after.metadata.annotations == before.metadata.annotations
        condition = after.status.condition("DisruptionTarget")
        assert condition is not None
        assert (condition.status, condition.reason) == ("False", "EvictionWithdrawn")
    finally:
        await client.delete(PODS, "train", namespace="default", grace_s=0)


async def _read(client: Client) -> Pod:
    return await client.get(PODS, "train", namespace="default")
