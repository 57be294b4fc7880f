"""The way to an API server that can be disturbed, and what a client of koord's makes of it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.kinds import CONFIG_MAPS
from koord.api.kubernetes.core import ConfigMap
from koord.kube.client import Client
from koord.kube.errors import ApiError, Gone
from koord.kube.informer import Informer
from koord.kube.locate import locate
from koord_chaos.faults.live.api_path import SOUND, ApiPath, Manner, reordered
from tests.scheduler.live.embedded import serving
from tests.waiting import always, eventually


@asynccontextmanager
async def disturbed(folder: Path) -> AsyncIterator[tuple[Client, ApiPath, Client]]:
    """An API server's own client, the path, and a client behind it."""
    async with serving(folder / "api") as direct, ApiPath(direct.config, seed=1) as path:
        path.write_kubeconfig(folder / "kubeconfig")
        async with Client(locate(str(folder / "kubeconfig"))) as behind:
            yield direct, path, behind


@asynccontextmanager
async def informed(client: Client) -> AsyncIterator[Informer[ConfigMap]]:
    informer: Informer[ConfigMap] = Informer(client, CONFIG_MAPS, namespace="default")
    task = asyncio.create_task(informer.run())
    try:
        await informer.synced()
        yield informer
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def config_map(name: str) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "default"}, "data": {"a": "1"}}


async def test_a_sound_way_changes_nothing(tmp_path: Path) -> None:
    async with disturbed(tmp_path) as (direct, path, behind):
        await behind.create(CONFIG_MAPS, config_map("x"))
        assert (await direct.get(CONFIG_MAPS, "x", namespace="default")).data == {"a": "1"}
        assert await behind.list(CONFIG_MAPS, namespace="default") == await direct.list(
            CONFIG_MAPS, namespace="default"
        )
        assert path.requests >= 2


@pytest.mark.parametrize("status", [429, 500])
async def test_requests_are_refused_with_a_status(tmp_path: Path, status: int) -> None:
    async with disturbed(tmp_path) as (_, path, behind):
        path.manner = Manner(status=status)
        with pytest.raises(ApiError) as refused:
            async with asyncio.timeout(30):
                await behind.create(CONFIG_MAPS, config_map("x"))
        assert refused.value.code == status
        path.manner = SOUND
        await behind.create(CONFIG_MAPS, config_map("x"))


@pytest.mark.parametrize("manner", [Manner(refuses=True), Manner(expired=True)], ids=["refused", "expired"])
async def test_a_broken_way_fails_and_heals(tmp_path: Path, manner: Manner) -> None:
    async with disturbed(tmp_path) as (_, path, behind):
        await behind.create(CONFIG_MAPS, config_map("x"))
        path.manner = manner
        with pytest.raises(ApiError):
            await behind.create(CONFIG_MAPS, config_map("y"))
        path.manner = SOUND
        await eventually(lambda: behind.list(CONFIG_MAPS), retry_on=ApiError)


async def test_what_waits_at_a_partition_arrives_late(tmp_path: Path) -> None:
    async with disturbed(tmp_path) as (direct, path, behind):
        path.manner = Manner(cut=True)
        waiting = asyncio.create_task(behind.create(CONFIG_MAPS, config_map("x")))
        names = [stored.metadata.name for stored in await direct.list(CONFIG_MAPS, namespace="default")]
        assert "x" not in names
        path.manner = SOUND
        await waiting
        await direct.get(CONFIG_MAPS, "x", namespace="default")


async def test_an_answer_is_lost_and_its_write_is_not(tmp_path: Path) -> None:
    async with disturbed(tmp_path) as (direct, path, behind):
        path.manner = Manner(loses_answers=True)
        with pytest.raises(ApiError):
            await behind.create(CONFIG_MAPS, config_map("x"))
        await direct.get(CONFIG_MAPS, "x", namespace="default")


async def test_pages_expire(tmp_path: Path) -> None:
    async with disturbed(tmp_path) as (direct, path, behind):
        for number in range(4):
            await direct.create(CONFIG_MAPS, config_map(f"x{number}"))
        path.manner = Manner(gone_pages=True)
        with pytest.raises(Gone):
            async for _ in behind.list_pages(CONFIG_MAPS, namespace="default", limit=2):
                pass


@pytest.mark.parametrize(
    "manner",
    [
        Manner(duplicates=True),
        Manner(reorders=True),
        Manner(duplicates=True, reorders=True, delay_s=0.1),
        Manner(gone_watches=True),
        Manner(silent_watches=True),
        Manner(cut=True),
        Manner(refuses=True),
        Manner(status=500, share=0.7),
    ],
    ids=str,
)
async def test_an_informer_knows_what_is_so_once_its_way_is_sound_again(tmp_path: Path, manner: Manner) -> None:
    async with disturbed(tmp_path) as (direct, path, behind), informed(behind) as informer:
        path.manner = manner
        for number in range(6):
            await direct.create(CONFIG_MAPS, config_map(f"x{number}"))
        await direct.delete(CONFIG_MAPS, "x0", namespace="default")
        await direct.patch(CONFIG_MAPS, "x1", {"data": {"a": "2"}}, namespace="default")
        path.manner = SOUND
        wanted = {stored.metadata.key: stored for stored in await direct.list(CONFIG_MAPS, namespace="default")}
        await eventually(lambda: {key: informer.get(key) for key in wanted} == wanted and len(informer) == len(wanted))


async def test_a_silent_watch_says_nothing(tmp_path: Path) -> None:
    async with disturbed(tmp_path) as (direct, path, behind), informed(behind) as informer:
        path.manner = Manner(silent_watches=True)
        before = len(informer)
        await direct.create(CONFIG_MAPS, config_map("x"))
        await always(lambda: len(informer) == before, 0.3)
        path.manner = SOUND
        await eventually(lambda: len(informer) == before + 1)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 99)), max_size=12), st.integers())
@settings(max_examples=40)
def test_events_of_one_object_keep_their_order(changes: list[tuple[str, int]], seed: int) -> None:
    lines = [
        msgspec.json.encode({"type": "MODIFIED", "object": {"metadata": {"name": name}, "n": number}})
        for name, number in changes
    ]
    bookmark = b'{"type": "BOOKMARK", "object": {}}'
    after = reordered([bookmark, *lines], random.Random(seed))
    assert after[-1] == bookmark
    for name in "abc":
        own = f'"name":"{name}"'.encode()
        assert [line for line in after if own in line] == [line for line in lines if own in line]
