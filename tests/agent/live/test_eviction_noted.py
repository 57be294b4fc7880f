"""Before the agent evicts, it notes that on its Node: the scheduler sends no pod there for a while."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from koord.agent.executor.audit import Audit
from koord.agent.live.evicting import NOTED_AGAIN_S, REFUSED_NOTED_AGAIN_S, Evictor
from koord.agent.qos.decision import Eviction
from koord.api.kubernetes.node import Node
from koord.api.machinery.codec import convert
from koord.api.text.timestamp import from_seconds
from koord.kube.errors import ApiError, Status, TooManyRequests
from tests.agent.live.pending import Pending
from tests.agent.states import pod

KEY = "node.koordinator.sh/last-evictions"
NOW_S = 1_800_000_000.0
FREE = {"koord-free": from_seconds(NOW_S - 1000)}


class NoEvents:
    def record(self, regarding: object, reason: str, note: str, **more: Any) -> None:
        """Whatever is told."""


class Time:
    now_s = NOW_S

    def now(self) -> float:
        return self.now_s

    def monotonic(self) -> float:
        return self.now_s


class Api:
    """Remembers what it was asked, in order."""

    def __init__(self, *, evicts: bool = True, patches: bool = True) -> None:
        self.evicts, self.patches = evicts, patches
        self.asked: list[str] = []
        self.noted: list[dict[str, str]] = []

    async def evict(self, namespace: str, name: str, *, uid: str) -> None:
        self.asked.append(f"evict {name}")
        if not self.evicts:
            raise TooManyRequests(Status(message="a budget forbids it", code=429), verb="evict", what=name)

    async def patch(self, kind: object, name: str, patch: Mapping[str, Any], **more: Any) -> None:
        self.asked.append(f"patch {name}")
        if not self.patches:
            raise ApiError(Status(message="forbidden", code=403), verb="patch", what=name)
        self.noted.append(json.loads(patch["metadata"]["annotations"][KEY]))


class Evicting:
    """An evictor whose requests are answered at once."""

    def __init__(self, api: Api, time: Time, node: Node | None = None) -> None:
        self.requests = Pending()
        self.evictor = evictor(api, time, self.requests, node)

    async def evict(self, eviction: Eviction) -> None:
        self.evictor.evict(eviction)
        await self.requests.answered()


def evictor(api: Api, time: Time, requests: Pending, node: Node | None = None) -> Evictor:
    shown = node or convert(Node, {"metadata": {"name": "n1", "annotations": {KEY: json.dumps(FREE)}}})
    client, told, clock = cast(Any, api), cast(Any, NoEvents()), cast(Any, time)
    return Evictor(client, requests, told, Audit(), clock, cast(Any, None), lambda eviction: None, lambda: shown)


def eviction(name: str = "job") -> Eviction:
    return Eviction(pod(name, "BE"), "memory_evict", "BEMemoryEvict", "memory is short")


async def test_it_is_noted_first_by_band_and_what_else_is_noted_stays() -> None:
    api, time = Api(), Time()
    await Evicting(api, time).evict(eviction())
    assert api.asked == ["patch n1", "evict job"]
    assert api.noted == [{**FREE, "koord-batch": from_seconds(NOW_S)}]


async def test_evictions_that_follow_closely_are_noted_once() -> None:
    api, time = Api(), Time()
    evicts = Evicting(api, time)
    for name, after_s in (("a", 0.0), ("b", NOTED_AGAIN_S - 1), ("c", NOTED_AGAIN_S)):
        time.now_s = NOW_S + after_s
        await evicts.evict(eviction(name))
    assert api.asked == ["patch n1", "evict a", "evict b", "patch n1", "evict c"]


async def test_a_pod_whose_eviction_is_refused_again_and_again_is_not_noted_each_time() -> None:
    api, time = Api(evicts=False), Time()
    evicts = Evicting(api, time)
    for second in range(int(REFUSED_NOTED_AGAIN_S) + 1):
        time.now_s = NOW_S + second
        await evicts.evict(eviction())
    assert api.asked.count("patch n1") == 2


async def test_who_must_go_goes_also_where_nothing_can_be_noted() -> None:
    api, time = Api(patches=False), Time()
    await Evicting(api, time).evict(eviction())
    assert api.asked == ["patch n1", "evict job"]
