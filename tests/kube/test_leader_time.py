"""Leader election against a lease in memory, with clocks that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import cast

import msgspec
import pytest

from koord.api.kinds import Kind
from koord.api.kubernetes.coordination import Lease, LeaseSpec
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.codec import encode
from koord.kube.client import Client
from koord.kube.election import NotLeader, Timing
from koord.kube.errors import AlreadyExists, Conflict, Forbidden, NotFound, Status
from koord.kube.leader import LeaderElection, run_as_leader, unique_identity
from koord.kube.watch import WatchEvent
from tests.waiting import eventually, forever, turns

QUICK = Timing(lease_duration_s=1, renew_deadline_s=0.5, retry_period_s=0.05)
"""Leadership ends soon without renewals, also where the machine itself stands still so long."""
CALM = Timing(lease_duration_s=60, renew_deadline_s=40, retry_period_s=0.05)


class LeaseServer:
    """One lease under compare-and-swap; `hang` makes every call wait, `watchable` allows watches."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.version = 0
        self.hang = False
        self.renewals = 0
        self.watchable = self.hang_patches = False

    def limited(self, **_: object) -> LeaseServer:
        return self

    def fenced(self, _: object) -> LeaseServer:
        return self

    async def get(self, kind: Kind[Lease], name: str, *, namespace: str) -> Lease:
        await self._answer()
        if self.lease is None:
            raise NotFound(Status(code=404))
        return self.lease

    async def create(self, kind: Kind[Lease], lease: Lease) -> Lease:
        await self._answer()
        if self.lease is not None:
            raise AlreadyExists(Status(code=409))
        return self._keep(lease.spec)

    async def patch(self, kind: Kind[Lease], name: str, patch: dict[str, dict[str, str]], *, namespace: str) -> Lease:
        await (forever() if self.hang_patches else self._answer())
        assert self.lease is not None
        if patch["metadata"]["resourceVersion"] != self.lease.metadata.resource_version:
            raise Conflict(Status(code=409))
        return self._keep(msgspec.convert(patch["spec"], LeaseSpec))

    async def watch(self, kind: Kind[Lease], *, namespace: str, fields: str) -> AsyncGenerator[list[WatchEvent], None]:
        """Each version from the present one on, where watching is allowed."""
        if not self.watchable:
            raise Forbidden(Status(code=403))
        shown = 0
        while True:
            await eventually(lambda shown=shown: self.version > shown)  # type: ignore[misc]
            assert self.lease is not None
            shown = self.version
            yield [WatchEvent("MODIFIED", msgspec.Raw(encode(self.lease)))]

    async def _answer(self) -> None:
        await (forever() if self.hang else turns(1))

    def _keep(self, spec: LeaseSpec) -> Lease:
        self.version += 1
        self.renewals += 1
        self.lease = Lease(ObjectMeta(resource_version=str(self.version)), spec)
        return self.lease


class MovableClock:
    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return asyncio.get_running_loop().time() + self.ahead_s


def candidate(
    server: LeaseServer,
    identity: str,
    clock: MovableClock | None = None,
    on_change: Callable[[bool], None] | None = None,
    timing: Timing = CALM,
) -> LeaderElection:
    return LeaderElection(
        cast(Client, server),
        name="l",
        identity=identity,
        timing=timing,
        boottime=clock or MovableClock(),
        on_change=on_change,
    )


async def test_a_leader_renews_without_reading_and_gives_back_at_the_end() -> None:
    server = LeaseServer()
    async with candidate(server, "a") as leader:
        await leader.acquired()
        await eventually(lambda: server.renewals >= 4)
        assert leader.leading
        assert server.lease is not None
        assert server.lease.spec.holder_identity == "a"
        leader.check()
    assert server.lease.spec.holder_identity == ""


async def test_the_next_candidate_takes_a_released_lease_at_its_next_attempt() -> None:
    server = LeaseServer()
    async with candidate(server, "a") as first, candidate(server, "b") as second:
        await first.acquired()
        await eventually(lambda: second.holder == "a")
        assert not second.leading
        await first.__aexit__(None, None, None)
        await asyncio.wait_for(second.acquired(), 60)
        assert server.lease is not None
        assert server.lease.spec.lease_transitions == 1


RARELY = Timing(lease_duration_s=60, renew_deadline_s=50, retry_period_s=40)


async def test_a_candidate_that_watches_takes_a_released_lease_at_once() -> None:
    server = LeaseServer()
    server.watchable = True
    async with candidate(server, "a", timing=RARELY) as first, candidate(server, "b", timing=RARELY) as second:
        await first.acquired()
        await eventually(lambda: second.holder == "a")
        await first.__aexit__(None, None, None)
        # Its next attempt would come in 40 seconds or more.
        await asyncio.wait_for(second.acquired(), 20)


async def test_a_candidate_takes_a_lease_when_it_runs_out_not_an_attempt_later() -> None:
    server, holder = LeaseServer(), Timing(lease_duration_s=1, renew_deadline_s=0.5, retry_period_s=0.05)
    server.watchable = True
    async with candidate(server, "a", timing=holder) as first, candidate(server, "b", timing=RARELY) as second:
        await first.acquired()
        await eventually(lambda: second.holder == "a")
        server.hang_patches = True
        await first.lost.wait()
        server.hang_patches = False
        await asyncio.wait_for(second.acquired(), 20)


async def test_a_machine_that_was_suspended_knows_at_its_first_write_that_it_no_longer_leads() -> None:
    clock = MovableClock()
    async with candidate(LeaseServer(), "a", clock) as leader:
        await leader.acquired()
        leader.check()
        clock.ahead_s = 90.0  # the loop's own timers did not move
        with pytest.raises(NotLeader, match="nothing was sent"):
            leader.check()
        assert leader.lost.is_set()
        clock.ahead_s = 0.0
        with pytest.raises(NotLeader):
            leader.check()


async def test_leadership_ends_on_time_while_a_renewal_hangs() -> None:
    server = LeaseServer()
    async with candidate(server, "a", timing=QUICK) as leader:
        await leader.acquired()
        server.hang = True
        # The renewal hangs for longer than this.
        await asyncio.wait_for(leader.lost.wait(), 60)
        server.hang = False


async def test_work_is_cancelled_when_leadership_is_lost() -> None:
    server = LeaseServer()
    ended: list[str] = []

    async def work(leader: LeaderElection) -> None:
        server.hang = True
        try:
            await forever()
        finally:
            ended.append("work")
            server.hang = False

    with pytest.raises(NotLeader, match="lost leadership by lease"):
        await asyncio.wait_for(run_as_leader(cast(Client, server), work, name="l", timing=QUICK), 60)
    assert ended == ["work"]


async def test_the_lease_is_kept_until_cancelled_work_has_ended() -> None:
    server = LeaseServer()
    begun = asyncio.Event()
    held: list[str] = []

    async def work(leader: LeaderElection) -> None:
        begun.set()
        try:
            await forever()
        finally:
            await turns()
            assert server.lease is not None
            held.append(server.lease.spec.holder_identity)

    run = asyncio.create_task(run_as_leader(cast(Client, server), work, name="l", identity="a", timing=CALM))
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(run, 60)
    assert held == ["a"]
    assert server.lease is not None
    assert server.lease.spec.holder_identity == ""


async def test_an_error_of_the_work_comes_out_and_the_lease_is_given_back() -> None:
    server = LeaseServer()

    async def work(leader: LeaderElection) -> None:
        raise LookupError("no nodes")

    with pytest.raises(LookupError, match="no nodes"):
        await asyncio.wait_for(run_as_leader(cast(Client, server), work, name="l", timing=CALM), 60)
    assert server.lease is not None
    assert server.lease.spec.holder_identity == ""


async def test_winning_needs_standing() -> None:
    with pytest.raises(RuntimeError, match="must be entered"):
        await candidate(LeaseServer(), "a").acquired()


def test_identities_are_unique() -> None:
    assert len({unique_identity() for _ in range(100)}) == 100


async def test_leadership_ends_on_time_also_where_who_is_told_of_it_fails() -> None:
    server = LeaseServer()

    def told(leading: bool) -> None:
        if not leading and server.hang:
            raise LookupError("no such metric")

    async with candidate(server, "a", on_change=told, timing=QUICK) as leader:
        await leader.acquired()
        server.hang = True
        await asyncio.wait_for(leader.lost.wait(), 60)
        server.hang = False
