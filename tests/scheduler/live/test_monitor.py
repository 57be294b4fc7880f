"""Attempts that take too long, and attempts that are not made."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from koord.kube.client import Client
from koord.kube.metrics import Metrics
from koord.scheduler.core.entity import Where
from koord.scheduler.live.loop import Loop
from koord.scheduler.live.metrics import SchedulerMetrics
from koord.scheduler.live.monitor import Monitor
from koord.scheduler.live.telling import Telling
from tests.scheduler.builders import ask
from tests.scheduler.core.build import Fed, node, pod


def test_attempts_that_take_too_long_are_reported_while_they_do_and_when_they_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    counted: list[str] = []
    monitor = Monitor(counted.append)
    monitor.began(ask("slow"), "mine", 0.0)
    monitor.began(ask("quick"), "mine", 25.0)
    monitor.look(20.0)
    assert counted == []
    monitor.look(31.0)
    monitor.look(35.0)
    assert counted == ["mine"]
    assert (
        "!!!CRITICAL TIMEOUT!!! scheduling pod shop/slow(slow) took longer (31.0s) than the timeout 30s" in caplog.text
    )
    monitor.look(41.0)
    assert counted == ["mine", "mine"], "every 10 seconds, as long as it lasts"
    monitor.ended("slow", 42.0)
    monitor.ended("quick", 43.0)
    monitor.ended("unknown", 44.0)
    assert counted == ["mine"] * 3
    monitor.look(100.0)
    monitor.decided(ask("late"), "mine", 29.0)
    assert counted == ["mine"] * 3
    monitor.decided(ask("late"), "mine", 31.0)
    assert counted == ["mine"] * 4


def test_a_pod_that_was_taken_and_that_nobody_is_at_is_dropped_after_five_seconds() -> None:
    fed, monitor = Fed(), Monitor()
    fed.put(node("n1"), pod("lost"), pod("held"), pod("waiting", schedulingGates=[{"name": "later"}]))
    queue = fed.feed.queue
    lost, held = queue.pop(0.0), queue.pop(0.0)
    assert lost is not None
    assert held is not None
    assert monitor.unattended(queue, [held], 0.0) == []
    assert monitor.unattended(queue, [held], 4.0) == []
    assert monitor.unattended(queue, [held], 5.0) == [lost]
    queue.failed(lost, 5.0)
    assert queue.where("shop/lost") is Where.BACKOFF
    assert monitor.unattended(queue, [held], 20.0) == []
    # Taken again, its time starts at zero.
    again = queue.pop(25.0)
    assert again is lost
    assert monitor.unattended(queue, [held], 25.0) == []
    assert monitor.unattended(queue, [held, again], 30.0) == []


class Nobody:
    """A client that gets no request, and a teller that gets no message."""

    unwritten = 0

    def limited(self, **given: object) -> Nobody:
        return self

    async def settled(self, uid: str) -> None: ...

    def awaits(self, *given: object) -> None: ...

    def told_to_go(self, *given: object) -> None: ...

    def evicted(self, *given: object) -> None: ...


def test_the_loop_puts_back_whom_nobody_is_at_and_lets_its_place_go() -> None:
    fed, nobody = Fed(), Nobody()
    fed.put(node("n1"), pod("lost"))
    metrics = SchedulerMetrics(Metrics(process=False))
    loop = Loop(
        cast(Client, nobody), fed.core, fed.clock, cast(Telling, nobody), metrics, asyncio.Event(), lambda key: None
    )
    # It is decided, and then not carried out.
    bind = fed.bind()
    fed.core.forget(bind)
    assert fed.placed == {"shop/lost": "n1"}
    for _ in range(2):
        loop._look(fed.clock.monotonic())
        assert fed.placed == {"shop/lost": "n1"}
        fed.clock.advance(3)
    loop._look(fed.clock.monotonic())
    assert fed.placed == {}
    assert fed.feed.queue.where("shop/lost") is Where.BACKOFF
    fed.clock.advance(20)
    assert fed.bind().ask.key == "shop/lost"
