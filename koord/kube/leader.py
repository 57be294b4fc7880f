"""Leader election on a Lease: the shell around `koord.kube.election`.

    async def work(leader: LeaderElection) -> None:
        client = leader.client                      # its writes fail with NotLeader once leadership is over
        ...

    await run_as_leader(client, work, name=LEASE_MANAGER)

A candidate watches the lease: it takes it as soon as the holder gives it back or lets it run out, not at its next
attempt. Where it may not watch, it only tries again and again.

The namespace of the lease is made where it is koord's own and missing. Any other may be a slip of the pen, and is asked
for. Ending (return, error, cancellation) releases the lease, after the work has ended. The clock is the one that
also counts while a machine is suspended, so that a leader which slept through its lease knows it at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from koord.api.configuration.component_config import LeaderElection as ElectionSettings
from koord.api.kinds import LEASES, NAMESPACES
from koord.api.kubernetes.coordination import Lease
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.codec import DecodeError, decode
from koord.api.protocol.lease_holders import identity
from koord.api.protocol.names import NAMESPACE_KOORDINATOR
from koord.api.text.duration import parse_duration
from koord.kube.background_task import background_task
from koord.kube.client import Client
from koord.kube.election import Candidacy, Claim, NotLeader, Timing, Wait, release, retry_delay_s
from koord.kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound
from koord.kube.watch import WatchEvent

if TYPE_CHECKING:
    from koord.kube.metrics import Metrics

log = logging.getLogger(__name__)

T = TypeVar("T")

RELEASE_WITHIN_S = 5.0
SLACK_S = 0.01
"""By how much a lease is past its end when it is taken: timers may be early."""


class NoNamespace(Exception):
    """The lease has no place to be."""


def boot_time() -> float:
    """Seconds since boot, those in suspension included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def unique_identity() -> str:
    """A name for this process that no other has, readable in `kubectl get lease`."""
    return identity(os.environ.get("POD_NAME") or socket.gethostname(), str(uuid.uuid4()))


class LeaderElection:
    """One candidate for one term. Entered, it tries to lead; left, it gives the lease back.

    `lost` is set when leadership is over; a new term needs a new LeaderElection (and, as a rule, a new process).
    """

    def __init__(
        self,
        client: Client,
        *,
        name: str,
        namespace: str = NAMESPACE_KOORDINATOR,
        identity: str | None = None,
        timing: Timing | None = None,
        on_change: Callable[[bool], None] | None = None,
        boottime: Callable[[], float] = boot_time,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`on_change` is called with whether this process leads, whenever that changes: for metrics."""
        self.name, self.namespace = name, namespace
        self.identity = identity or unique_identity()
        self.timing = timing or Timing()
        self.lost = asyncio.Event()
        self.client = client.fenced(self.check)
        "The client for the leader's work: its writes are fenced."
        self._candidacy = Candidacy(self.identity, self.timing)
        # One attempt per call: an attempt that takes long is worth less than the next one.
        self._leases = client.limited(timeout_s=self.timing.renew_deadline_s, attempts=1)
        self._watches = client.limited(attempts=1)
        self._news, self._is_free = asyncio.Event(), False
        "Whether a watch has shown something, and whether the lease has no holder."
        self._on_change = on_change or (lambda leading: None)
        self._now, self._wall = boottime, wall
        self._acquired = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._campaigning: AbstractAsyncContextManager[asyncio.Task[None]] | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._fields = {"lease": f"{namespace}/{name}", "identity": self.identity}

    async def __aenter__(self) -> Self:
        self._on_change(False)
        self._campaigning = background_task(self._campaign(), name=f"leader-election/{self.name}")
        self._task = await self._campaigning.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stepped_down("stopped leading")
        assert self._campaigning is not None
        try:
            await self._campaigning.__aexit__(kind, error, trace)
        finally:
            await self._release()

    async def acquired(self) -> None:
        """Returns when this candidate leads."""
        if self._task is None:
            raise RuntimeError("an election must be entered (`async with`) before it can be won")
        winning = asyncio.create_task(self._acquired.wait())
        try:
            await asyncio.wait({winning, self._task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            winning.cancel()
        if self._acquired.is_set():
            return
        if not self._task.cancelled():
            self._task.result()
        raise NotLeader(f"{self.identity} no longer stands for lease {self.namespace}/{self.name}")

    @property
    def leading(self) -> bool:
        return self._candidacy.leads(self._now())

    @property
    def holder(self) -> str:
        """The holder of the lease when it was last read; empty if it had none."""
        return self._candidacy.holder

    def check(self) -> None:
        """The fence: raises NotLeader unless this process may act as leader at this very moment."""
        if not self.leading:
            if self._acquired.is_set():
                # Timers sleep while a machine does: the fence may be the first to notice.
                self._stepped_down("lost leadership: the lease was not renewed in time")
            raise NotLeader(f"{self.identity} does not lead by lease {self.namespace}/{self.name}; nothing was sent")

    def fence(self) -> Callable[[], None]:
        """The check for `client.fenced(...)`."""
        return self.check

    async def _campaign(self) -> None:
        """Tries to get the lease, then to keep it, until leadership is lost."""
        async with background_task(self._follow(), name=f"lease/{self.name}") as following:
            await self._try_on(following)
        self._stepped_down("lost leadership")

    async def _try_on(self, following: asyncio.Task[None]) -> None:
        attempt, said, failure = 0, "", ""
        log.info("waiting for leadership", extra=self._fields)
        while not self._candidacy.lost:
            attempt += 1
            leading = self.leading
            try:
                async with asyncio.timeout(self.timing.renew_deadline_s):
                    await self._attempt()
                failure = ""
            except (ApiError, DecodeError, NoNamespace, OSError, TimeoutError) as error:
                doing, why = "renew" if leading else "get", str(error) or "no answer in time"
                # Who waits for hours need not read the same every other second.
                level = logging.DEBUG if why == failure and not leading else logging.WARNING
                log.log(level, "could not %s the lease: %s", doing, why, extra=self._fields)
                failure = why
            if not self.leading and self.holder != said:
                said = self.holder
                log.info("another leads", extra=self._fields | {"holder": said})
            if self._acquired.is_set():
                following.cancel()
            if not self._candidacy.lost:
                await self._pause(attempt)

    async def _pause(self, attempt: int) -> None:
        """Until the next attempt, but not past the moment when leadership would end, or that of another."""
        if self.leading:
            return await asyncio.sleep(min(self.timing.retry_period_s, self._candidacy.remaining_s(self._now())))
        with suppress(TimeoutError):
            async with asyncio.timeout(retry_delay_s(self.identity, attempt, self.timing, leading=False)):
                await self._free()
        return None

    async def _free(self) -> None:
        """Returns when the holder has given the lease back or let it run out, as far as a watch shows it."""
        while not self._is_free:
            self._news.clear()
            free_in_s = self._candidacy.free_in_s(self._now())
            with suppress(TimeoutError):
                async with asyncio.timeout(free_in_s + SLACK_S if free_in_s else None):
                    await self._news.wait()
                    continue
            break
        self._is_free = False

    async def _follow(self) -> None:
        """Watches the lease of another, as far as that is allowed: attempts find all that a watch does not show."""
        while True:
            only = f"metadata.name={self.name}"
            try:
                async with aclosing(self._watches.watch(LEASES, namespace=self.namespace, fields=only)) as batches:
                    async for batch in batches:
                        for event in batch:
                            self._hear(event)
            except Forbidden:
                return
            except (ApiError, DecodeError, OSError, TimeoutError) as error:
                log.debug("cannot watch the lease: %s", error, extra=self._fields)
            await asyncio.sleep(self.timing.retry_period_s)

    def _hear(self, event: WatchEvent) -> None:
        if event.type in ("ADDED", "MODIFIED"):
            lease = decode(Lease, bytes(event.object))
            self._candidacy.hear(lease, self._now())
            self._is_free = not lease.spec.holder_identity
        elif event.type == "DELETED":
            self._is_free = True
        self._news.set()

    async def _attempt(self) -> None:
        claim = self._candidacy.first_move(self._now(), self._wall())
        if claim is not None:
            try:
                return await self._send(claim)
            except (Conflict, NotFound):
                # Someone touched the lease since we wrote it, or deleted it: look who.
                pass
        move = self._candidacy.after_read(await self._read(), self._now(), self._wall())
        if isinstance(move, Wait) or self._candidacy.lost:
            return None
        return await self._send(move)

    async def _read(self) -> Lease | None:
        try:
            return await self._leases.get(LEASES, self.name, namespace=self.namespace)
        except NotFound:
            return None

    async def _send(self, claim: Claim) -> None:
        started = self._now()
        written = await self._write(claim)
        if self._candidacy.after_claim(written, started, self._now()):
            self._set_expiry()
            if not self._acquired.is_set():
                log.info("leading", extra=self._fields)
                self._acquired.set()
                self._on_change(True)

    async def _write(self, claim: Claim) -> Lease:
        if not claim.version:
            new = Lease(ObjectMeta(name=self.name, namespace=self.namespace), claim.spec)
            try:
                return await self._leases.create(LEASES, new)
            except NotFound:
                await self._make_namespace()
                return await self._leases.create(LEASES, new)
        # The version makes the patch a compare-and-swap. Every field is named, also those that are zero.
        spec = {
            "holderIdentity": claim.spec.holder_identity,
            "leaseDurationSeconds": claim.spec.lease_duration_seconds,
            "acquireTime": claim.spec.acquire_time,
            "renewTime": claim.spec.renew_time,
            "leaseTransitions": claim.spec.lease_transitions,
        }
        patch = {"metadata": {"resourceVersion": claim.version}, "spec": spec}
        return await self._leases.patch(LEASES, self.name, patch, namespace=self.namespace)

    async def _make_namespace(self) -> None:
        missing = f"there is no namespace {self.namespace}"
        if self.namespace != NAMESPACE_KOORDINATOR:
            raise NoNamespace(f"{missing}: make it (kubectl create namespace {self.namespace}), or choose another")
        try:
            await self._leases.create(NAMESPACES, {"metadata": {"name": self.namespace}})
        except AlreadyExists:
            return
        except ApiError as error:
            how = f"kubectl create namespace {self.namespace}"
            raise NoNamespace(
                f"{missing}, and it could not be created: {error}. Create it as an administrator: {how}"
            ) from error
        log.info("made the namespace of the lease", extra=self._fields)

    def _set_expiry(self) -> None:
        """`lost` is set at the moment the fence closes, even while a renewal hangs."""
        if self._expiry:
            self._expiry.cancel()
        remaining_s = self._candidacy.remaining_s(self._now())
        self._expiry = asyncio.get_running_loop().call_later(remaining_s, self._expire)

    def _expire(self) -> None:
        if self.leading:
            self._set_expiry()
        else:
            self._stepped_down("lost leadership: the lease was not renewed in time")

    def _stepped_down(self, why: str) -> None:
        self._candidacy.step_down()
        if self._expiry:
            self._expiry.cancel()
            self._expiry = None
        led = self._acquired.is_set() and not self.lost.is_set()
        # First of all: an observer of the change must not hold it up by failing.
        self.lost.set()
        if led:
            log.log(logging.INFO if why == "stopped leading" else logging.ERROR, why, extra=self._fields)
            self._on_change(False)

    async def _release(self) -> None:
        """Best effort: without it the others wait for the lease's end, no more."""
        try:
            async with asyncio.timeout(RELEASE_WITHIN_S):
                lease = await self._read()
                claim = release(lease, self.identity, self._wall()) if lease is not None else None
                if claim is not None:
                    await self._write(claim)
                    log.info("released the lease", extra=self._fields)
        except (ApiError, DecodeError, OSError, TimeoutError) as error:
            log.warning("could not release the lease: %s", str(error) or "no answer in time", extra=self._fields)


async def run_as_leader(
    client: Client,
    work: Callable[[LeaderElection], Awaitable[T]],
    *,
    name: str,
    namespace: str = NAMESPACE_KOORDINATOR,
    identity: str | None = None,
    timing: Timing | None = None,
    on_change: Callable[[bool], None] | None = None,
) -> T:
    """Waits to lead, then does `work`. When leadership is lost, cancels it, waits for its end and raises NotLeader."""
    election = LeaderElection(
        client, name=name, namespace=namespace, identity=identity, timing=timing, on_change=on_change
    )
    async with election as leader:
        await leader.acquired()
        working = asyncio.ensure_future(work(leader))
        losing = asyncio.create_task(leader.lost.wait())
        try:
            await asyncio.wait({working, losing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            losing.cancel()
            ended_by_itself = working.done()
            if not ended_by_itself:
                # The lease is kept until the work has really ended: only then may another begin.
                working.cancel()
                await asyncio.wait([working])
                if not working.cancelled() and (error := working.exception()):
                    log.error("the work failed while it was ended: %s", error, exc_info=error, extra=leader._fields)
        if ended_by_itself:
            return working.result()
        raise NotLeader(f"{leader.identity} lost leadership by lease {namespace}/{name}")


async def run_elected(
    client: Client,
    work: Callable[[Client, str], Awaitable[None]],
    wanted: ElectionSettings,
    *,
    elect: bool,
    metrics: Metrics,
) -> None:
    """Does `work` with a client and an identity: at once, or where `elect`, while leading as a configuration says, and
    `metrics` say who leads."""
    if not elect:
        await work(client, unique_identity())
        return

    async def lead(leader: LeaderElection) -> None:
        await work(leader.client, leader.identity)

    await run_as_leader(
        client,
        lead,
        name=wanted.resource_name,
        namespace=wanted.resource_namespace,
        timing=Timing(
            max(1, round(parse_duration(wanted.lease_duration))),
            parse_duration(wanted.renew_deadline),
            parse_duration(wanted.retry_period),
        ),
        on_change=metrics.leader(wanted.resource_name).set,
    )
