"""Pods that quotas take back: those that ask for notice get it, and stay if the quota is within its share again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from koord.api.kinds import ELASTIC_QUOTAS, RESERVATIONS
from koord.api.kubernetes.pod import Pod
from koord.kube.client import Client
from koord.kube.errors import Forbidden, Status, StatusCause, StatusDetails
from koord.kube.store import Delta
from koord.scheduler.framework.writes import Create, Evict, Patch
from koord.scheduler.live.noticing import UnderNotice
from koord.scheduler.live.writing import Writing
from tests.kube.manual_clock import ManualClock
from tests.notice.build import START_S, annotated, patched, pod
from tests.waiting import turns


class Api:
    """One pod on an API server."""

    def __init__(self, given: Pod) -> None:
        self.pod: Pod | None = given
        self.reasons: list[str] = []

    async def patch(self, kind: Any, name: str, patch: Any, **_: Any) -> None:
        self.reasons.append(patch["status"]["conditions"][0]["reason"])
        if "annotations" in patch["metadata"] and self.pod is not None:
            self.pod = patched(self.pod, patch)

    async def evict(self, namespace: str, name: str, *, uid: str, dry_run: bool = False) -> None:
        if not dry_run:
            self.pod = None


class Story:
    def __init__(self, notice: str | None = "5m") -> None:
        self.clock, self.api, self.is_over, self.told = ManualClock(START_S), Api(pod(notice)), True, 0
        self.under = UnderNotice()
        self.start()

    def start(self) -> None:
        self.writing = Writing(
            cast(Client, self.api), self.clock, lambda key: self.api.pod, self.under, lambda *_: self._tell()
        )

    def _tell(self) -> None:
        self.told += 1

    async def revoke(self) -> None:
        self.writing.put(Evict("shop", "train", "u1", "QuotaOverused", "too much", "team", lambda: self.is_over))
        await self.settle()

    async def settle(self, passes_s: float = 0.0) -> None:
        self.clock.advance(passes_s)
        if self.api.pod is not None:
            self.under.hear(Delta("shop/train", None, self.api.pod))
        self.writing.look()
        await turns()


async def test_a_pod_without_notice_goes_at_once() -> None:
    story = Story(None)
    await story.revoke()
    assert story.api.pod is None
    assert story.told == 0


async def test_a_pod_with_notice_goes_when_it_is_over_and_is_told_once() -> None:
    story = Story()
    for _ in range(3):
        await story.revoke()
    await story.settle(299)
    assert story.api.pod is not None
    assert story.told == 1
    await story.settle(2)
    assert story.api.pod is None


async def test_a_pod_that_is_ready_goes_at_once() -> None:
    story = Story()
    await story.revoke()
    assert story.api.pod is not None
    story.api.pod = annotated(story.api.pod)
    await story.settle()
    assert story.api.pod is None


async def test_a_pod_stays_when_its_quota_is_within_its_share_again() -> None:
    story = Story()
    await story.revoke()
    story.is_over = False
    await story.settle()
    await story.settle(400)
    assert story.api.pod is not None
    assert story.api.pod.metadata.annotations == pod("5m").metadata.annotations
    assert story.api.reasons == ["QuotaOverused", "EvictionWithdrawn"]


async def test_after_a_restart_a_reason_that_is_not_found_again_counts_no_more() -> None:
    story = Story()
    await story.revoke()
    story.start()
    await story.settle(200)
    assert story.api.reasons == ["QuotaOverused"]
    await story.settle(301)
    assert story.api.reasons == ["QuotaOverused", "EvictionWithdrawn"]


class NamespaceGoes:
    """A server whose namespace is being deleted."""

    def __init__(self) -> None:
        self.creations = 0

    async def create(self, kind: Any, body: Any, **_: Any) -> None:
        self.creations += 1
        details = StatusDetails(causes=(StatusCause(reason="NamespaceTerminating"),))
        raise Forbidden(Status("Failure", 403, "Forbidden", "is being terminated", details))


async def test_what_belongs_into_a_namespace_that_is_being_deleted_is_not_retried_but_asked_for_again() -> None:
    """A retry would wait longer each time, and would come long after the namespace is back."""
    server = NamespaceGoes()
    writing = Writing(cast(Client, server), ManualClock(START_S))
    for creations in (1, 2):
        writing.put(Create(ELASTIC_QUOTAS, "root", {}, "koordinator-system"))
        await turns()
        assert (server.creations, len(writing)) == (creations, 0)


class Reservations:
    """A server on which something happens just when it has answered."""

    def __init__(self) -> None:
        self.written: list[Any] = []
        self.then: Callable[[], None] = lambda: None

    async def patch(self, kind: Any, name: str, patch: Any, **_: Any) -> None:
        self.written.append(patch["status"])
        asyncio.get_running_loop().call_soon(self.then)
        self.then = lambda: None


async def test_a_word_that_comes_as_the_last_one_is_written_is_written_too() -> None:
    api = Reservations()
    writing = Writing(cast(Client, api), ManualClock(START_S))
    api.then = lambda: writing.put(Patch(RESERVATIONS, "room", {"status": {"owners": 2}}))
    writing.put(Patch(RESERVATIONS, "room", {"status": {"owners": 1}}))
    await turns()
    assert api.written == [{"owners": 1}, {"owners": 2}]
    assert len(writing) == 0
