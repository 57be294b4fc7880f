"""Background tasks have an owner: their errors end what they serve, and come out unchanged."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
import trustme

from koord.api.kubernetes.meta import ObjectReference
from koord.kube.background_task import background_task
from koord.kube.client import Client
from koord.kube.events import EventRecorder
from koord.kube.health import HealthServer
from koord.kube.leader import LeaderElection, run_as_leader
from koord.kube.serving_tls import ServingTls
from koord.kube.shell import run_component
from tests.kube.test_leader_time import CALM, LeaseServer
from tests.waiting import forever, turns

POD = ObjectReference("v1", "Pod", "shop", "web", "u1")


async def fails() -> None:
    await asyncio.sleep(0)
    raise LookupError("a fault of the work")


async def lasts(ended: list[str]) -> None:
    try:
        await forever()
    finally:
        await asyncio.sleep(0)
        ended.append("work")


async def test_the_work_ends_with_its_block() -> None:
    ended: list[str] = []
    async with background_task(lasts(ended), name="work"):
        await asyncio.sleep(0)
    assert ended == ["work"]


async def test_an_error_of_the_work_ends_the_block_and_comes_out_as_it_is() -> None:
    with pytest.raises(LookupError, match="a fault of the work"):
        async with background_task(fails(), name="work"):
            await forever()
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling(), "a caller that catches the error may go on"


async def test_an_error_of_the_block_comes_out_as_it_is_when_the_work_has_ended() -> None:
    ended: list[str] = []
    with pytest.raises(KeyError, match="own"):
        async with background_task(lasts(ended), name="work"):
            await asyncio.sleep(0)
            raise KeyError("own")
    assert ended == ["work"]


async def test_a_cancelled_block_stays_cancelled() -> None:
    ended: list[str] = []

    async def block() -> None:
        async with background_task(lasts(ended), name="work"):
            await forever()

    task = asyncio.create_task(block())
    await turns()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["work"]


async def test_a_recorder_that_fails_ends_its_component() -> None:
    class Broken:
        def limited(self, **_: object) -> Any:
            return self

        async def create(self, *_: object) -> None:
            raise ZeroDivisionError("a fault of the recorder")

    with pytest.raises((ZeroDivisionError, ExceptionGroup)) as raised:
        async with asyncio.timeout(60), EventRecorder(cast(Client, Broken()), controller="koord-test") as events:
            events.record(POD, "Killed", "x")
            await forever()
    assert "a fault of the recorder" in repr(raised.value)


async def test_a_health_server_that_cannot_follow_its_certificate_ends_its_component(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = trustme.CA().issue_cert("127.0.0.1")
    pair.private_key_and_cert_chain_pem.write_to_path(tmp_path / "both.pem")
    tls = ServingTls(str(tmp_path / "both.pem"), str(tmp_path / "both.pem"))
    monkeypatch.setattr(tls, "follow", fails)
    with pytest.raises(LookupError):
        async with asyncio.timeout(60), HealthServer("127.0.0.1:0", tls=tls):
            await forever()


async def test_an_election_that_fails_ends_the_work_at_once_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    server = LeaseServer()
    ended: list[str] = []

    async def work(leader: LeaderElection) -> None:
        monkeypatch.setattr(leader, "_pause", lambda attempt: 1 // 0)
        await lasts(ended)

    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(run_as_leader(cast(Client, server), work, name="l", timing=CALM), 60)
    assert ended == ["work"]
    assert server.lease is not None
    assert server.lease.spec.holder_identity == "", "the next may begin"


def test_a_component_whose_background_work_fails_says_why_and_exits(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with background_task(fails(), name="work"):
            await forever()

    assert run_component(main, name="koord-test") == 1
    assert "LookupError: a fault of the work" in caplog.text
