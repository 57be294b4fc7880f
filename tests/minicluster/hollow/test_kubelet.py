"""The kubelet endpoint as an API server asks it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import aiohttp
import pytest

from koord.api.kubernetes.pod import Pod
from koord.api.text.timestamp import from_seconds
from koord.kube.certificates.own import own_certificate
from koord.kube.informer import Informer
from koord.kube.store import Store
from koord_minicluster.hollow.live.kubelet import HollowKubelet
from koord_minicluster.kubelet.live.server import KubeletServer
from tests.allowing import REVIEWS
from tests.kube.manual_clock import ManualClock
from tests.minicluster.hollow.builders import pod

STARTED_S = 1_700_000_000.0
NOW_S = STARTED_S + 19.0  # ten lines, one each two seconds


class Pods(Store[Pod]):
    """What the endpoint asks of an informer."""

    list = Store.records


def running(name: str = "web", **state: Any) -> Pod:
    state = state or {"running": {"startedAt": from_seconds(STARTED_S)}}
    status = {"phase": "Running", "containerStatuses": [{"name": "app", "restartCount": 1, "state": state}]}
    return pod(name, nodeName="n1", status=status)


@asynccontextmanager
async def kubelet(*pods: Pod) -> AsyncIterator[Any]:
    store = Pods(indexes={"node": lambda pod: (pod.spec.node_name,)})
    for each in pods:
        store.put(each)
    clock = ManualClock(NOW_S)
    tls = own_certificate("koord-hollow", "127.0.0.1")
    own = HollowKubelet(cast("Informer[Pod]", store), seed=0, clock=clock)
    serving = KubeletServer(own, REVIEWS, tls, clock)
    headers = {"Authorization": "Bearer allowed"}
    async with serving, aiohttp.ClientSession() as session:

        async def get(path: str) -> tuple[int, str]:
            async with session.get(f"https://127.0.0.1:{serving.port}{path}", ssl=False, headers=headers) as answer:
                return answer.status, await answer.text()

        yield get


@pytest.mark.parametrize(
    ("query", "lines"),
    [
        ("", 10),
        ("?tailLines=3", 3),
        ("?tailLines=0", 0),
        ("?sinceSeconds=5", 3),  # at 14, 16 and 18 s
        (f"?sinceTime={from_seconds(STARTED_S + 16)}", 2),
        ("?previous=true", 11),
    ],
)
async def test_logs_are_cut_as_asked(query: str, lines: int) -> None:
    async with kubelet(running()) as get:
        status, text = await get(f"/containerLogs/shop/web/app{query}")
    assert status == 200
    assert len(text.splitlines()) == lines


async def test_bytes_are_limited_and_lines_stamped_as_asked() -> None:
    async with kubelet(running()) as get:
        assert len((await get("/containerLogs/shop/web/app?limitBytes=10"))[1]) == 10
        _, text = await get("/containerLogs/shop/web/app?timestamps=true&tailLines=1")
    assert text.startswith("2023-11-14T22:13:38.000000000Z ")


@pytest.mark.parametrize(
    ("path", "status", "told"),
    [
        ("/containerLogs/shop/none/app", 404, "none"),
        ("/containerLogs/shop/web/none", 404, "none"),
        ("/containerLogs/shop/wait/app", 400, 'container "app" in pod "wait" is waiting to start: ContainerCreating'),
        ("/containerLogs/shop/web/app?tailLines=x", 400, "tailLines"),
        (f"/containerLogs/shop/web/app?limitBytes={'9' * 5000}", 400, "limitBytes"),
        ("/containerLogs/shop/web/app?sinceTime=x", 400, "sinceTime"),
        ("/exec/shop/web/app?output=1", 501, "it has no processes to run a command beside"),
        ("/exec/shop/none/app?output=1", 404, "none"),
        ("/exec/shop/web/app", 400, "at least one of input, output and error"),
        ("/attach/shop/web/app?output=1", 501, "kubectl logs shows a simulated log"),
        ("/portForward/shop/web", 501, "pod web is only modelled, by hollow node"),
        ("/healthz", 200, "ok"),
    ],
)
async def test_what_cannot_be_answered_is_told(path: str, status: int, told: str) -> None:
    async with kubelet(running(), running("wait", waiting={"reason": "ContainerCreating"})) as get:
        found, text = await get(path)
    assert found == status
    assert told in text


async def test_a_log_that_is_followed_ends_with_its_container() -> None:
    ended = {"startedAt": from_seconds(STARTED_S), "finishedAt": from_seconds(STARTED_S + 4), "exitCode": 0}
    async with kubelet(running(terminated=ended)) as get:
        _, text = await get("/containerLogs/shop/web/app?follow=true")
    assert len(text.splitlines()) == 3


async def test_pods_are_listed_by_node() -> None:
    async with kubelet(running()) as get:
        for path, count in (("/pods", 1), ("/pods?node=n1", 1), ("/pods?node=n2", 0)):
            status, text = await get(path)
            assert (status, len(json.loads(text)["items"])) == (200, count)
