"""Pods that are counted in their quota at admission get an answer, whenever they come."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from koord.admission.quota_topology import QuotaTopology
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol import names
from koord.api.protocol.crd.elastic_quota import ElasticQuota
from koord.kube.client import Client
from koord.manager.live.quota_counting import QuotaCounting


class Api:
    """A server with one quota, which sets an event as it writes."""

    def __init__(self, quota: ElasticQuota) -> None:
        self.quota, self.writes = quota, asyncio.Event()

    async def get(self, *_: Any, **__: Any) -> ElasticQuota:
        return self.quota

    async def patch(self, *_: Any, **__: Any) -> None:
        self.writes.set()


def pod(name: str) -> Pod:
    meta = {"name": name, "namespace": "shop", "labels": {names.LABEL_QUOTA_NAME: "team"}}
    containers = [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]
    return convert(Pod, {"metadata": meta, "spec": {"containers": containers}})


async def test_a_pod_that_comes_as_the_last_one_is_counted_gets_its_answer() -> None:
    meta = {"name": "team", "namespace": "teams", "uid": "u1"}
    quota = convert(ElasticQuota, {"metadata": meta, "spec": {"max": {"cpu": "10"}}})
    api = Api(quota)
    counting = QuotaCounting(cast(Client, api), QuotaTopology.of([quota]), default=False, overhead=True)

    async def second() -> str:
        await api.writes.wait()
        return await counting.count(pod("second"), "shop")

    waiting = asyncio.create_task(second())
    await asyncio.sleep(0)
    assert await counting.count(pod("first"), "shop") == ""
    async with asyncio.timeout(60):
        assert await waiting == ""
