"""The configuration file, followed."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from koord.api.configuration.scheduler_config import SchedulerConfiguration, parse
from koord.kube.reload import changes, needs_restart
from tests.kube.manual_clock import ManualClock

ONE = parse({"profiles": [{"schedulerName": "one"}]})
TWO = parse({"profiles": [{"schedulerName": "two"}], "podMaxBackoffSeconds": 20})
LEASED = parse({"profiles": [{"schedulerName": "one"}], "leaderElection": {"resourceName": "mine"}})


async def test_only_what_is_new_is_told_and_what_is_faulty_once(caplog: pytest.LogCaptureFixture) -> None:
    answers: list[SchedulerConfiguration | None] = [ONE, ONE, TWO, None, None, TWO, None, ONE]

    def read() -> SchedulerConfiguration:
        answer = answers.pop(0)
        if answer is None:
            raise FileNotFoundError("scheduler.yaml")
        return answer

    clock, found = ManualClock(), []
    async with aclosing(changes(read, ONE, clock, "scheduler")) as stream:
        async for config in stream:
            found.append(config)
            if len(found) == 2:
                break
    assert found == [TWO, ONE]
    assert len([record for record in caplog.records if "stays unchanged" in record.message]) == 2
    assert len(clock.sleeps) == 8


@pytest.mark.parametrize(("now", "told"), [(TWO, []), (LEASED, ["leader_election"])])
def test_what_a_running_scheduler_cannot_take_over_is_named(now: SchedulerConfiguration, told: list[str]) -> None:
    assert needs_restart(ONE, now) == told
