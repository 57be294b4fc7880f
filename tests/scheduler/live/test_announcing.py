"""A scheduler says which names it schedules for, where others can read it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from msgspec.structs import replace

from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.protocol.announcements import Schedulers
from koord.kube.announced import announced
from koord.kube.client import Client
from koord.kube.clock import SystemClock
from koord.scheduler.live.announcing import Announcing
from koord.scheduler.live.run import SchedulerOptions
from tests.scheduler.live.embedded import scheduling, serving
from tests.waiting import eventually


async def until_answered(client: Client, *names: str) -> Schedulers:
    async def answered() -> Schedulers | None:
        schedulers = await announced(client, time.time())
        return schedulers if set(schedulers.answered) == set(names) else None

    schedulers = await eventually(answered)
    assert schedulers is not None
    return schedulers


async def test_a_scheduler_answers_to_its_profiles_while_it_runs(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        async with scheduling(client, options=SchedulerOptions()):
            schedulers = await until_answered(client, "koord-scheduler")
            assert schedulers.nobody("koord-scheduler") == ""
            assert schedulers.nobody("default-scheduler") == "no scheduler answers to the name default-scheduler"
        left = await announced(client, time.time())
        assert "it was stopped" in left.nobody("koord-scheduler")


async def test_a_scheduler_that_is_alone_and_elected_answers_to_the_default_name_too(tmp_path: Path) -> None:
    named = replace(SHIPPED, leader_election=replace(SHIPPED.leader_election, resource_name="my-lease"))
    async with serving(tmp_path) as client, scheduling(client, named, options=SchedulerOptions(elect=True, alone=True)):
        # The lease of the election, my-lease, stands for no scheduler name.
        await until_answered(client, "koord-scheduler", "default-scheduler")


class Hurried(SystemClock):
    """Renews at once."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 1000)


async def test_schedulers_that_decide_side_by_side_without_an_election_are_seen(tmp_path: Path) -> None:
    def announcing(who: str) -> asyncio.Task[None]:
        names = ["koord-scheduler"]
        announcing = Announcing(client, "koordinator-system", who, lambda: names, Hurried())
        return asyncio.create_task(announcing.run())

    async def until_seen(*who: str, at_least: int) -> None:
        """Schedulers that write in a fixed order see only the one before them, so a look names two of several."""

        async def are_seen() -> bool:
            held = (await announced(client, time.time())).by_name.get("koord-scheduler")
            names = {held.holder, *held.beside} if held is not None and held.fresh else set()
            return names <= set(who) and len(names) >= at_least

        await eventually(are_seen)

    async with serving(tmp_path) as client:
        tasks = [announcing("a")]
        try:
            await until_seen("a", at_least=1)
            tasks += [announcing("b"), announcing("c")]
            await until_seen("a", "b", "c", at_least=2)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
