"""The learning about lending goes on, minute by minute, and a second agent goes on where a killed one stopped."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

from koord.agent.lending import checkpoint
from koord.agent.lending.learner import Learner
from koord.agent.live.lending import FILE, learning
from koord.agent.series import names
from koord.agent.series.samples import Samples
from koord.agent.state import NodeState
from tests.agent.states import GIB, cpus, node

SLO = {"resourceUsedThresholdWithBE": {"enable": True}, "lendingStrategy": {"cpuSafetyMarkPercent": 85}}


class Minutes:
    """A clock whose sleeps pass at once, for some minutes; the node is sampled while they do."""

    def __init__(self, minutes: int, began_s: float = 1_800_000_000.0) -> None:
        self.samples = Samples()
        self._left, self._uptime_s, self._began_s = minutes, 0.0, began_s

    def now(self) -> float:
        return self._began_s + self._uptime_s

    def monotonic(self) -> float:
        return self._uptime_s

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        if not self._left:
            raise asyncio.CancelledError
        self._left -= 1
        for _ in range(int(seconds)):
            self._uptime_s += 1
            for series, value in {names.SERVICES_CPU: 2_000.0, names.BE_CPU: 900.0, names.NODE_MEMORY: GIB}.items():
                self.samples.add(series, self._uptime_s, value)


async def agent(directory: Path, clock: Minutes, state: NodeState | None) -> Learner:
    """One agent until it is killed."""
    learner = Learner()
    with suppress(asyncio.CancelledError):
        await learning(learner, directory, clock.samples, lambda: state, clock)
    return learner


async def test_a_second_agent_goes_on_where_the_first_one_was_killed(tmp_path: Path) -> None:
    state = node(slo=SLO, topology=cpus(1, 4, 2))
    first = await agent(tmp_path, Minutes(5), state)
    assert first.memory.minutes == 5
    second = await agent(tmp_path, Minutes(3, began_s=1_800_000_400.0), state)
    assert second.memory.minutes == 8
    assert second.memory.hour == (2_000.0,) * 8
    assert second.memory.rises.total > 7


async def test_a_clock_that_was_set_back_by_a_day_loses_no_history(tmp_path: Path) -> None:
    state = node(slo=SLO, topology=cpus(1, 4, 2))
    await agent(tmp_path, Minutes(5), state)
    second = await agent(tmp_path, Minutes(3, began_s=1_799_913_600.0), state)
    assert second.memory.minutes == 8
    assert second.memory.rises.total > 7


async def test_while_the_node_is_not_known_nothing_is_learned_and_nothing_is_lost(tmp_path: Path) -> None:
    await agent(tmp_path, Minutes(5), node(slo=SLO, topology=cpus(1, 4, 2)))
    second = await agent(tmp_path, Minutes(3), None)
    assert second.memory.minutes == 5
    assert checkpoint.memory_in((tmp_path / FILE).read_bytes()).minutes == 5
