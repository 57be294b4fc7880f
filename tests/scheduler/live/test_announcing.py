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
from koord.scheduler.live.run import SchedulerOptions
from tests.scheduler.live.embedded import scheduling, serving


async def until_answered(client: Client, *names: str) -> Schedulers:
    async with asyncio.timeout(20):
        while True:
            found = await announced(client, time.time())
            if set(found.answered) == set(names):
                return found
            await asyncio.sleep(0.05)


async def test_a_scheduler_answers_to_its_profiles_while_it_runs(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        async with scheduling(client, options=SchedulerOptions()):
            found = await until_answered(client, "koord-scheduler")
            assert found.nobody("koord-scheduler") == ""
            assert found.nobody("default-scheduler") == "no scheduler answers to the name default-scheduler"
        left = await announced(client, time.time())
        assert "it was stopped" in left.nobody("koord-scheduler")


async def test_a_scheduler_that_is_alone_and_elected_answers_to_the_default_name_too(tmp_path: Path) -> None:
    named = replace(SHIPPED, leader_election=replace(SHIPPED.leader_election, resource_name="my-lease"))
    async with serving(tmp_path) as client, scheduling(client, named, options=SchedulerOptions(elect=True, alone=True)):
        # The lease of the election, my-lease, stands for no scheduler name.
        await until_answered(client, "koord-scheduler", "default-scheduler")
