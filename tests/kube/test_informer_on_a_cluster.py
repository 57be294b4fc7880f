"""Informers on a real API server: at every quiet moment their state equals a fresh list.

Thousands of objects change at random while the server is killed and restarted, its history is compacted, and its
storage is lost. One informer follows by WatchList, one by pages; both are checked, and so are their deltas, replayed.
KOORD_OBJECTS=10000 makes N; the usual number is a few pages.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator
from contextlib import asynccontextmanager

import pytest

from koord.api.kinds import CONFIG_MAPS
from koord.api.kubernetes.core import ConfigMap
from koord.kube import informer as informer_module
from koord.kube.client import Client
from koord.kube.informer import Informer
from koord.kube.store import Delta
from tests.control_plane import STREAMS_LISTS, ControlPlane
from tests.waiting import eventually

pytestmark = pytest.mark.cluster

OBJECTS = int(os.environ.get("KOORD_OBJECTS", "2500"))
AT_ONCE = 32
NAMESPACE = "default"
LABEL = "koord.test/informer"
QUIET_WITHIN_S = 60.0

State = dict[str, tuple[str, str]]


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane of this module's own, filled once: its tests kill it."""
    with ControlPlane() as plane:
        asyncio.run(_fill(plane))
        yield plane


async def _fill(plane: ControlPlane) -> None:
    async with Client.from_config(str(plane.kubeconfig)) as client:
        await in_parallel(client.create(CONFIG_MAPS, config_map(f"c{number}")) for number in range(OBJECTS))


def config_map(name: str, value: str = "") -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": NAMESPACE, "labels": {LABEL: "yes"}}, "data": {"value": value}}


async def in_parallel(calls: Iterable[Awaitable[object]]) -> None:
    """All calls, a few at a time. The iterable is shared, so that thousands of them need no thousands of tasks."""
    pending = iter(calls)

    async def work() -> None:
        for call in pending:
            await call

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(work())


class Followed:
    """An informer and the state that its deltas alone add up to."""

    def __init__(self, client: Client, *, watch_list: bool) -> None:
        self.informer: Informer[ConfigMap] = Informer(client, CONFIG_MAPS, labels=LABEL, watch_list=watch_list)
        self.replayed: State = {}
        self.deltas: list[str] = []
        self.informer.add_handler(self._hear)
        self.task: asyncio.Task[None] | None = None

    def _hear(self, delta: Delta[ConfigMap]) -> None:
        self.deltas.append(delta.type)
        assert self.replayed.get(delta.key) == (_version(delta.old) if delta.old else None)
        if delta.new is None:
            del self.replayed[delta.key]
        else:
            self.replayed[delta.key] = _version(delta.new)

    def state(self) -> State:
        return {record.metadata.key: _version(record) for record in self.informer.list()}

    def start(self) -> None:
        self.task = asyncio.create_task(self.informer.run())

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)


def _version(record: ConfigMap) -> tuple[str, str]:
    return record.metadata.uid, record.metadata.resource_version


@asynccontextmanager
async def following(client: Client) -> AsyncIterator[list[Followed]]:
    both = [Followed(client, watch_list=True), Followed(client, watch_list=False)]
    for followed in both:
        followed.start()
    try:
        for followed in both:
            await asyncio.wait_for(followed.informer.synced(), QUIET_WITHIN_S)
        yield both
    finally:
        for followed in both:
            await followed.stop()


async def assert_equal_to_a_fresh_list(client: Client, both: list[Followed]) -> State:
    """Nothing changes at this moment: all must come to be the same, and the deltas must say so too."""
    fresh = {obj.metadata.key: _version(obj) for obj in await client.list(CONFIG_MAPS, labels=LABEL)}
    for followed in both:
        try:
            await eventually(lambda: followed.state() == fresh, QUIET_WITHIN_S)  # noqa: B023 - called in this round
        except TimeoutError:
            odd = [key for key in fresh | followed.state() if fresh.get(key) != followed.state().get(key)]
            raise AssertionError(f"{len(odd)} objects differ: {odd[:3]}; {followed.informer.last_error}") from None
        assert followed.replayed == fresh
        assert followed.informer.handler_failures == 0
    return fresh


async def change_at_random(client: Client, seed: int, changes: int) -> None:
    """Updates, deletions, creations, and new objects under old names."""
    chance = random.Random(seed)
    names = [obj.metadata.name for obj in await client.list(CONFIG_MAPS, labels=LABEL)]
    chance.shuffle(names)

    async def change(number: int, name: str) -> None:
        match chance.randrange(6):
            case 0 | 1 | 2:
                await client.patch(CONFIG_MAPS, name, {"data": {"value": f"{seed}-{number}"}}, namespace=NAMESPACE)
            case 3:
                await client.delete(CONFIG_MAPS, name, namespace=NAMESPACE)
            case 4:
                await client.delete(CONFIG_MAPS, name, namespace=NAMESPACE)
                await client.create(CONFIG_MAPS, config_map(name, "again"))
            case _:
                await client.create(CONFIG_MAPS, config_map(f"n{seed}-{number}"))

    await in_parallel(change(number, name) for number, name in enumerate(names[:changes]))


async def test_a_quiet_moment_after_random_changes_equals_a_fresh_list(plane: ControlPlane) -> None:
    async with Client.from_config(str(plane.kubeconfig)) as client, following(client) as both:
        assert len(await assert_equal_to_a_fresh_list(client, both)) >= OBJECTS
        assert both[0].informer.watch_list is STREAMS_LISTS
        for seed in range(3):
            await change_at_random(client, seed, 700)
            await assert_equal_to_a_fresh_list(client, both)
        assert [followed.informer.relists for followed in both] == [1, 1]


async def test_killed_and_restarted_server_is_followed_again(plane: ControlPlane) -> None:
    async with Client.from_config(str(plane.kubeconfig)) as client, following(client) as both:
        before = await assert_equal_to_a_fresh_list(client, both)
        for followed in both:
            followed.deltas.clear()
        plane.stop_apiserver(kill=True)
        await asyncio.to_thread(plane.start_apiserver)
        await client.create(CONFIG_MAPS, config_map("after-the-kill"))
        after = await assert_equal_to_a_fresh_list(client, both)
        assert len(after) == len(before) + 1
        for followed in both:
            assert followed.deltas == ["added"], "the others did not change, and that is what was told"
        await change_at_random(client, 100, 500)
        await assert_equal_to_a_fresh_list(client, both)


async def test_compacted_history_costs_a_list_and_tells_the_differences(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(informer_module, "RESUME_WITHIN_S", 600.0)
    async with Client.from_config(str(plane.kubeconfig)) as client, following(client) as both:
        before = await assert_equal_to_a_fresh_list(client, both)
        for followed in both:
            await followed.stop()
            followed.deltas.clear()
        await change_at_random(client, 200, 500)
        plane.compact_etcd()
        # A server that has only just started remembers no change from before, and must ask the compacted etcd.
        plane.stop_apiserver(kill=True)
        await asyncio.to_thread(plane.start_apiserver)
        with caplog.at_level(logging.INFO, "koord.kube.informer"):
            for followed in both:
                followed.start()
            after = await assert_equal_to_a_fresh_list(client, both)
        assert caplog.text.count("must list again") == 2, "the server answered 410 to each"
        differing = sum(before.get(key) != after.get(key) for key in before | after)
        replaced = sum(key in before and key in after and before[key][0] != after[key][0] for key in before | after)
        for followed in both:
            assert followed.informer.relists == 2
            assert len(followed.deltas) == differing + replaced


async def test_a_server_that_lost_its_storage_is_believed(plane: ControlPlane) -> None:
    async with Client.from_config(str(plane.kubeconfig)) as client, following(client) as both:
        await assert_equal_to_a_fresh_list(client, both)
        plane.stop_apiserver(kill=True)
        plane.lose_etcd()
        await asyncio.to_thread(plane.start_apiserver)
        await in_parallel(client.create(CONFIG_MAPS, config_map(f"fresh{number}")) for number in range(50))
        assert len(await assert_equal_to_a_fresh_list(client, both)) == 50
        await change_at_random(client, 300, 50)
        await assert_equal_to_a_fresh_list(client, both)
