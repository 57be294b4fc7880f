from __future__ import annotations

import heapq
import random
from collections.abc import Generator
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.kubernetes.coordination import Lease, LeaseSpec
from koord.api.kubernetes.meta import ObjectMeta
from koord.kube.election import Candidacy, Claim, ObservedLease, Timing, Wait, observe, release, retry_delay_s, step

TIMING = Timing()
WALL = 1_793_000_000.0
STAMP = "2026-10-26T07:33:20.000000Z"


def lease(holder: str, *, version: str = "7", duration_s: int = 15, renewed: str = "r0", transitions: int = 3) -> Lease:
    return Lease(ObjectMeta(resource_version=version), LeaseSpec(holder, duration_s, "a0", renewed, transitions))


def test_an_absent_lease_is_created() -> None:
    assert step(None, 0.0, "me", TIMING, WALL) == Claim(LeaseSpec("me", 15, STAMP, STAMP, 0), "")


@pytest.mark.parametrize("age_s", [0.0, 14.9])
def test_anothers_lease_is_respected_until_it_was_seen_unchanged_for_its_duration(age_s: float) -> None:
    assert step(ObservedLease(lease("other"), 100.0), 100.0 + age_s, "me", TIMING, WALL) == Wait("other", 115.0)


def test_an_expired_lease_is_taken_and_the_change_of_leader_counted() -> None:
    taken = step(ObservedLease(lease("other"), 100.0), 115.0, "me", TIMING, WALL)
    assert taken == Claim(LeaseSpec("me", 15, STAMP, STAMP, 4), "7")


def test_the_duration_that_counts_is_the_holders() -> None:
    assert isinstance(step(ObservedLease(lease("other", duration_s=60), 0.0), 59.0, "me", TIMING, WALL), Wait)
    assert isinstance(step(ObservedLease(lease("other", duration_s=1), 0.0), 1.0, "me", TIMING, WALL), Claim)
    assert isinstance(step(ObservedLease(lease("other", duration_s=0), 0.0), 14.0, "me", TIMING, WALL), Wait)


def test_a_released_lease_is_taken_at_once() -> None:
    assert isinstance(step(ObservedLease(lease("", duration_s=1), 100.0), 100.0, "me", TIMING, WALL), Claim)


def test_renewing_keeps_when_it_was_acquired_and_the_count_of_changes() -> None:
    renewed = step(ObservedLease(lease("me"), 100.0), 102.0, "me", TIMING, WALL)
    assert renewed == Claim(LeaseSpec("me", 15, "a0", STAMP, 3), "7")


def test_only_a_change_of_the_record_is_a_sign_of_life() -> None:
    first = observe(lease("other", version="7"), None, 100.0)
    annotated = observe(lease("other", version="8"), first, 110.0)
    assert (annotated.since, annotated.lease.metadata.resource_version) == (100.0, "8")
    assert observe(lease("other", version="9", renewed="r1"), annotated, 111.0).since == 111.0


def test_only_ones_own_lease_is_released() -> None:
    assert release(lease("other"), "me", WALL) is None
    assert release(lease("me"), "me", WALL) == Claim(LeaseSpec("", 1, STAMP, STAMP, 3), "7")


def test_a_leader_acts_from_the_start_of_its_renewal_until_the_renew_deadline() -> None:
    candidacy = Candidacy("me", TIMING)
    assert not candidacy.leads(0.0)
    assert candidacy.after_claim(lease("me"), started=100.0, now=103.0)
    assert candidacy.remaining_s(103.0) == 7.0
    assert candidacy.leads(109.9)
    assert not candidacy.leads(110.0)


def test_leadership_once_lost_is_not_regained_by_a_late_renewal() -> None:
    candidacy = Candidacy("me", TIMING)
    candidacy.after_claim(lease("me"), started=100.0, now=100.0)
    assert not candidacy.after_claim(lease("me"), started=109.0, now=111.0)
    assert candidacy.lost
    assert not candidacy.leads(112.0)


def test_an_answer_that_comes_after_its_own_deadline_gives_no_leadership() -> None:
    candidacy = Candidacy("me", TIMING)
    assert not candidacy.after_claim(lease("me"), started=100.0, now=140.0)


def test_a_leader_that_sees_another_holder_has_lost() -> None:
    candidacy = Candidacy("me", TIMING)
    candidacy.after_claim(lease("me"), started=100.0, now=100.0)
    assert isinstance(candidacy.after_read(lease("other", renewed="r9"), 101.0, WALL), Wait)
    assert not candidacy.leads(101.0)


@pytest.mark.parametrize("times", [(10, 10.0, 2.0), (15, 2.0, 2.0), (15, 10.0, 0.0)])
def test_times_that_cannot_be_safe_are_refused(times: tuple[int, float, float]) -> None:
    with pytest.raises(ValueError, match="leaseDuration > renewDeadline > retryPeriod"):
        Timing(*times)


@given(st.text(max_size=10), st.integers(0, 1000))
def test_followers_retry_within_one_to_just_over_two_periods(me: str, attempt: int) -> None:
    assert 2.0 <= retry_delay_s(me, attempt, TIMING, leading=False) <= 4.4
    assert retry_delay_s(me, attempt, TIMING, leading=True) == 2.0


class Store:
    """A lease under compare-and-swap, as the API server keeps it."""

    def __init__(self) -> None:
        self.version = 0
        self.lease: Lease | None = None

    def write(self, claim: Claim) -> Lease | None:
        present = self.lease.metadata.resource_version if self.lease else ""
        if claim.version != present:
            return None
        self.version += 1
        self.lease = Lease(ObjectMeta(resource_version=str(self.version)), claim.spec)
        return self.lease


@dataclass
class Host:
    """A candidate on its own machine: a clock with its own offset and rate, and pauses at any line."""

    candidacy: Candidacy
    offset_s: float
    rate: float

    def clock(self, at: float) -> float:
        return self.offset_s + at * self.rate

    def acts(self, at: float) -> bool:
        """Whether a write at that instant would pass the fence (looked at without being noticed)."""
        until = self.candidacy._acts_until
        return not self.candidacy.lost and until is not None and self.clock(at) < until


class World:
    def __init__(self, chance: random.Random, hosts: list[Host]) -> None:
        self.chance, self.hosts, self.store = chance, hosts, Store()
        self.now = 0.0
        self.led: set[str] = set()

    def delay_s(self) -> float:
        """Mostly quick, sometimes a stall, rarely a long freeze."""
        scale = self.chance.choices([0.01, 1.0, 6.0, 12.0, 40.0], [60, 20, 8, 7, 5])[0]
        return scale * self.chance.random()

    def life(self, host: Host) -> Generator[float, None, None]:
        """What the shell does; every yield is a pause of that many seconds."""
        candidacy, attempt = host.candidacy, 0
        while True:
            claim = candidacy.first_move(host.clock(self.now), self.now)
            yield self.delay_s()
            if claim is not None:
                conflict = yield from self.send(host, claim)
                claim = None
                if not conflict:
                    attempt += 1
                    yield self.pause(host, attempt)
                    continue
            found = self.store.lease
            yield self.delay_s()
            move = candidacy.after_read(found, host.clock(self.now), self.now)
            yield self.delay_s()
            if isinstance(move, Claim):
                yield from self.send(host, move)
            if candidacy.lost:
                yield self.delay_s()
                if self.chance.random() < 0.5 and self.store.lease is not None:
                    freed = release(self.store.lease, candidacy.me, self.now)
                    yield self.delay_s()
                    if freed is not None:
                        self.store.write(freed)
                # The process ends and another takes its place, under a new identity.
                attempt = 0
                host.candidacy = candidacy = Candidacy(f"{candidacy.me}+", TIMING)
            attempt += 1
            yield self.pause(host, attempt)

    def pause(self, host: Host, attempt: int) -> float:
        now = host.clock(self.now)
        local_s = retry_delay_s(host.candidacy.me, attempt, TIMING, leading=host.candidacy.leads(now))
        return local_s / host.rate

    def send(self, host: Host, claim: Claim) -> Generator[float, None, bool]:
        started = host.clock(self.now)
        yield self.delay_s()
        if self.chance.random() < 0.05:
            return False  # lost on the way
        written = self.store.write(claim)
        yield self.delay_s()
        if self.chance.random() < 0.05:
            return False  # the answer is lost
        if written is not None and host.candidacy.after_claim(written, started, host.clock(self.now)):
            self.led.add(host.candidacy.me)
        return written is None

    def run(self, until: float) -> None:
        lives = [self.life(host) for host in self.hosts]
        agenda = [(self.delay_s(), number) for number in range(len(lives))]
        heapq.heapify(agenda)
        while agenda[0][0] < until:
            self.now, number = heapq.heappop(agenda)
            pause = next(lives[number])
            acting = [host.candidacy.me for host in self.hosts if host.acts(self.now)]
            assert len(acting) <= 1, f"at {self.now:.1f} s these all pass their fence: {acting}"
            heapq.heappush(agenda, (self.now + pause, number))


@settings(max_examples=150)
@given(
    seed=st.integers(0, 2**32),
    clocks=st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(0.9, 1.1)), min_size=2, max_size=5),
)
def test_at_any_instant_at_most_one_candidate_passes_its_fence(seed: int, clocks: list[tuple[float, float]]) -> None:
    hosts = [Host(Candidacy(f"host-{n}", TIMING), offset, rate) for n, (offset, rate) in enumerate(clocks)]
    World(random.Random(seed), hosts).run(until=2000.0)


def test_the_simulated_world_has_many_changes_of_leader() -> None:
    """Else the property above would say nothing."""
    led = 0
    for seed in range(10):
        hosts = [Host(Candidacy(f"host-{number}", TIMING), 100.0 * number, 1.0) for number in range(3)]
        world = World(random.Random(seed), hosts)
        world.run(until=1000.0)
        led += len(world.led)
    assert led > 50
