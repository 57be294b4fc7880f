"""Rounds of faults, one after the other, while load runs: inject, heal, wait for recovery, judge."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from koord.kube.background_task import background_task
from koord.kube.errors import ApiError
from koord_chaos.faults.drawing import Fault, Round
from koord_chaos.faults.kinds import Target
from koord_chaos.faults.live.checks import (
    Judge,
    excessive_memory,
    resident_mib,
    until_it_works,
    until_recovered,
)
from koord_chaos.faults.live.clusters import AnyCluster, LocalCluster
from koord_chaos.faults.live.injectors import injected
from koord_chaos.faults.live.load import Load
from koord_chaos.faults.live.own_cluster import OwnCluster
from koord_chaos.faults.live.places import watching
from koord_chaos.faults.live.virtual_cluster import VirtualCluster
from koord_chaos.faults.recovery import Recovery

log = logging.getLogger(__name__)

WITHIN_S: Final = 120.0
"""Recovery that takes longer is a violation."""
REST_WITHIN_S: Final = 150.0
"""Longer than any backoff and the time of a migration, and shorter than the pause until a scheduler tries every pod
again."""
JUDGE_TRIES: Final = 5


class Outcome(msgspec.Struct, frozen=True):
    """What became of one round."""

    number: int
    faults: Round
    recoveries: tuple[Recovery, ...]
    works_after_s: float | None
    "From the last recovery until a new pod ran."
    violations: tuple[str, ...]
    memory_mib: Mapping[str, int] = {}
    "What each component uses at the end of the round."
    seed: int = 0
    virtual: bool = False


class Chaos:
    """One run on one cluster."""

    def __init__(self, cluster: AnyCluster, judge: Judge, load: Load, say: Callable[[str], None]) -> None:
        self._cluster, self._judge, self.load, self._say = cluster, judge, load, say
        self._memory_mib: dict[str, list[int]] = {}
        "By component, after each round."

    async def round(self, number: int, faults: Round) -> Outcome:
        """Injects the faults of a round, and waits until the cluster works again."""
        for fault in faults:
            self._say(f"round {number}: {fault}")
        recoveries = await asyncio.gather(*(self._one(fault) for fault in faults))
        violations = [
            f"{recovery.target} is not ready {WITHIN_S:.0f} s after {recovery.kind}"
            for recovery in recoveries
            if recovery.seconds is None
        ]
        works_after_s, why = await until_it_works(self._cluster, WITHIN_S)
        if works_after_s is None:
            violations.append(f"the cluster does not work {WITHIN_S:.0f} s after the last fault: {why}")
        violations += await self._judged()
        return Outcome(
            number,
            faults,
            tuple(recoveries),
            works_after_s,
            tuple(violations),
            await self._memory(),
            self.load.seed,
            isinstance(self._cluster, VirtualCluster),
        )

    async def _one(self, fault: Fault) -> Recovery:
        await asyncio.sleep(fault.at_s)
        async with injected(self._cluster, fault):
            await asyncio.sleep(fault.for_s)
        return Recovery(fault.kind, fault.target, await until_recovered(self._cluster, fault, WITHIN_S))

    async def _memory(self) -> dict[str, int]:
        if not isinstance(self._cluster, LocalCluster):
            return {}
        components = (await self._cluster.targets())[Target.PROCESS]
        memory = {name: resident_mib(self._cluster.pid(name)) for name in components}
        for name, amount in memory.items():
            self._memory_mib.setdefault(name, []).append(amount)
        return memory

    async def at_rest(self) -> list[str]:
        """What is broken in the end, once the load has stopped."""
        self._say("waiting until nothing is left to do")
        self.load.stop()
        broken = await self._judge.at_rest(REST_WITHIN_S) + excessive_memory(self._memory_mib)
        if isinstance(self._cluster, OwnCluster):
            broken += await self._judge.stale_figures(self._cluster, WITHIN_S)
        return broken

    async def _judged(self) -> list[str]:
        for _ in range(JUDGE_TRIES - 1):
            try:
                return await self._judge.violations()
            except (ApiError, OSError) as error:
                log.info("the cluster cannot be read: %s", error)
                await asyncio.sleep(1)
        return await self._judge.violations()


@asynccontextmanager
async def chaos(cluster: AnyCluster, seed: int, say: Callable[[str], None]) -> AsyncIterator[Chaos]:
    """Load runs, and pods are watched, as long as the block."""
    load = Load(cluster.client, seed)
    await load.prepare()
    ledger = cluster.ledger if isinstance(cluster, OwnCluster) else None
    async with watching(cluster.client, ledger) as places, background_task(load.run(), name="load"):
        yield Chaos(cluster, Judge(cluster.client, places, load, ledger), load, say)


async def run(
    cluster: AnyCluster,
    rounds: Sequence[tuple[int, Round]],
    seed: int,
    say: Callable[[str], None],
    noted: Callable[[Outcome], None],
    until_s: float | None = None,
) -> list[str]:
    """All rounds until the first violation, then a rest; the violations. No round begins after `until_s`, a monotonic
    time."""
    async with chaos(cluster, seed, say) as running:
        for number, faults in rounds:
            if until_s is not None and time.monotonic() >= until_s:
                break
            outcome = await running.round(number, faults)
            noted(outcome)
            if outcome.violations:
                return list(outcome.violations)
        violations = await running.at_rest()
        if violations:
            noted(Outcome(len(rounds), (), (), None, tuple(violations), {}, seed, isinstance(cluster, VirtualCluster)))
        return violations
