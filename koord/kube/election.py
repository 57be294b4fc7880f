"""Election: may this candidate claim the lease, and until when may it act as leader? The rules without I/O or clock.

The lease is one record that candidates change by compare-and-swap. Nobody trusts another's clock: a candidate takes
the lease over when *it has seen* the record unchanged for the lease's duration on its own clock. A leader acts until

    start of its last acknowledged renewal + renew_deadline_s        (< the lease's duration)

so it has stopped before anyone else can begin, even if it was frozen in between. Leadership once lost stays lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b

from koord.api.kubernetes.coordination import Lease, LeaseSpec

RELEASED_LEASE_S = 1
JITTER = 1.2


class NotLeader(Exception):
    """This process does not lead, or may no longer act on having led."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Kubernetes' usual election times. A lease that is not given back is taken over lease_duration_s after its last
    renewal."""

    lease_duration_s: int = 15
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0

    def __post_init__(self) -> None:
        if not self.lease_duration_s > self.renew_deadline_s > self.retry_period_s * JITTER > 0:
            raise ValueError(
                "leader election needs leaseDuration > renewDeadline > retryPeriod * 1.2 > 0, not "
                f"{self.lease_duration_s}, {self.renew_deadline_s:g}, {self.retry_period_s:g}"
            )


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """A lease as last read, and when (on our clock) its record was first seen like that."""

    lease: Lease
    since: float


@dataclass(frozen=True, slots=True)
class Claim:
    """Write `spec`, provided that the lease still has `version`; with no version, provided that there is none."""

    spec: LeaseSpec
    version: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    """Another holds the lease; it cannot be taken before `until` unless it is released."""

    holder: str
    until: float


def observe(lease: Lease, before: ObservedLease | None, now: float) -> ObservedLease:
    """What is known after reading `lease`. Only a change of the record itself counts as a sign of life."""
    if before is not None and before.lease.spec == lease.spec:
        return ObservedLease(lease, before.since)
    return ObservedLease(lease, now)


def step(observed: ObservedLease | None, now: float, me: str, timing: Timing, wall: float) -> Claim | Wait:
    """What a candidate does, given the lease as just read (None: there is none)."""
    stamp = micro_time(wall)
    duration_s = timing.lease_duration_s
    if observed is None:
        return Claim(LeaseSpec(me, duration_s, stamp, stamp, 0))
    spec, version = observed.lease.spec, observed.lease.metadata.resource_version
    if spec.holder_identity == me:
        return Claim(LeaseSpec(me, duration_s, spec.acquire_time, stamp, spec.lease_transitions), version)
    # A record without a duration promises nothing; to wait our own is the safe reading.
    until = observed.since + (spec.lease_duration_seconds or duration_s)
    if spec.holder_identity and now < until:
        return Wait(spec.holder_identity, until)
    return Claim(LeaseSpec(me, duration_s, stamp, stamp, spec.lease_transitions + 1), version)


def release(lease: Lease, me: str, wall: float) -> Claim | None:
    """How to give `lease` back so that others need not wait for its end; None where it is not ours to give."""
    if lease.spec.holder_identity != me:
        return None
    stamp = micro_time(wall)
    spec = LeaseSpec("", RELEASED_LEASE_S, stamp, stamp, lease.spec.lease_transitions)
    return Claim(spec, lease.metadata.resource_version)


@dataclass(slots=True)
class Candidacy:
    """One candidate's course: what it has seen, whether it leads, and until when it may act.

    Driven by a shell: `first_move`, then `after_read` or `after_claim` with what the server answered.
    """

    me: str
    timing: Timing
    observed: ObservedLease | None = None
    lost: bool = False
    _acts_until: float | None = field(default=None)

    def first_move(self, now: float, wall: float) -> Claim | None:
        """A leader renews on what it wrote last, without reading. None: the lease must be read first."""
        if self.leads(now) and self.observed is not None and self.observed.lease.spec.holder_identity == self.me:
            move = step(self.observed, now, self.me, self.timing, wall)
            return move if isinstance(move, Claim) else None
        return None

    def after_read(self, lease: Lease | None, now: float, wall: float) -> Claim | Wait:
        self.observed = observe(lease, self.observed, now) if lease is not None else None
        move = step(self.observed, now, self.me, self.timing, wall)
        if isinstance(move, Wait) and self._acts_until is not None:
            self.lost = True
        return move

    def hear(self, lease: Lease, now: float) -> None:
        """The record as a watch showed it: a follower knows to the moment when the holder last renewed it."""
        self.observed = observe(lease, self.observed, now)

    def free_in_s(self, now: float) -> float:
        """Seconds until the lease may be taken unless it is renewed; 0 if it may be taken, or is not known."""
        if self.observed is None or not self.holder or self.holder == self.me:
            return 0.0
        duration_s = self.observed.lease.spec.lease_duration_seconds or self.timing.lease_duration_s
        return max(0.0, self.observed.since + duration_s - now)

    def after_claim(self, lease: Lease, started: float, now: float) -> bool:
        """The server took our claim, which was sent no earlier than `started`. Whether we lead now."""
        self.observed = ObservedLease(lease, now)
        if self._acts_until is not None and now >= self._acts_until:
            self.lost = True
        if not self.lost:
            self._acts_until = started + self.timing.renew_deadline_s
        return self.leads(now)

    def leads(self, now: float) -> bool:
        """Whether this candidate may act as leader at `now`. Noticing the end of that makes it final."""
        if self._acts_until is None or self.lost:
            return False
        if now >= self._acts_until:
            self.lost = True
        return not self.lost

    def remaining_s(self, now: float) -> float:
        """Seconds for which it may still act without another renewal."""
        return max(0.0, (self._acts_until or now) - now) if self.leads(now) else 0.0

    def step_down(self) -> None:
        """It acts no more, whatever the lease says."""
        self.lost = True

    @property
    def holder(self) -> str:
        """The holder of the lease when it was last read."""
        return self.observed.lease.spec.holder_identity if self.observed else ""


def retry_delay_s(me: str, attempt: int, timing: Timing, *, leading: bool) -> float:
    """The pause before the next attempt. Followers spread out, so that they do not all claim at once."""
    if leading:
        return timing.retry_period_s
    digest = blake2b(f"{me}/{attempt}".encode(), digest_size=4).digest()
    return timing.retry_period_s * (1.0 + JITTER * int.from_bytes(digest, "big") / 2**32)


def micro_time(wall: float) -> str:
    """Seconds since the epoch as Kubernetes writes a MicroTime."""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
