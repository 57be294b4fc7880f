"""Placements carried out: what becomes of a pod for every answer of the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from koord.api.kinds import PODS
from koord.kube.client import Client
from koord.kube.election import NotLeader
from koord.kube.errors import ApiError, NotFound, Status, error_for, unreachable
from koord.scheduler.core.decision import Bind
from koord.scheduler.core.entity import Where
from koord.scheduler.framework.writes import Patch
from koord.scheduler.live.binding import MOST_AT_ONCE, PATIENCE_S, Bindings
from tests.scheduler.core.build import Fed, changed, node, pod
from tests.waiting import turns

KEY = "shop/a"


def refusal(code: int, reason: str = "") -> ApiError:
    return error_for(Status("Failure", code, reason, "no"))


LOST = unreachable("no answer", maybe_done=True)
AWAY = unreachable("connection refused")
CONFLICT = refusal(409, "Conflict")


class FakeClient:
    """Answers bindings in turn; the last answer stays. `get` answers with `pod`."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.bound: list[tuple[str, str, str]] = []
        self.patched: list[dict[str, Any]] = []
        self.brought: list[dict[str, str]] = []
        "The annotations of each binding."
        self.asked = 0
        self.pod: Any = NotFound(Status("Failure", 404))
        self.before: Callable[[], None] = lambda: None

    def limited(self, **_: Any) -> FakeClient:
        return self

    async def bind(
        self, namespace: str, name: str, to: str, *, uid: str, annotations: Mapping[str, str] | None = None
    ) -> None:
        await asyncio.sleep(0)
        self.brought.append(dict(annotations or {}))
        self.bound.append((f"{namespace}/{name}", to, uid))
        self.before()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is not None:
            raise answer

    async def patch(self, kind: Any, name: str, wanted: dict[str, Any], **_: Any) -> None:
        self.patched.append(wanted)

    async def get(self, kind: Any, name: str, *, namespace: str) -> Any:
        self.asked += 1
        if isinstance(self.pod, Exception):
            raise self.pod
        return self.pod


class Bench:
    def __init__(self, *answers: Exception | None, **more: Any) -> None:
        self.fed = Fed()
        self.client = FakeClient(*answers)
        self.told: list[tuple[str, str, str]] = []
        self.bindings = Bindings(
            cast(Client, self.client),
            self.fed.core,
            self.fed.clock,
            on_outcome=lambda bind, placed, outcome, why: self.told.append((placed.ask.key, outcome, why)),
            wake=lambda: None,
            **more,
        )

    async def carry_out_with(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """Bind a pod on which plugins want this written; the whole patch."""
        bind, body = self.decide(), {"metadata": metadata}
        (placed,) = bind.members
        plan = replace(placed.plan, patch=Patch(PODS, "a", body, "shop"))
        self.bindings.start(replace(bind, members=(replace(placed, plan=plan),)))
        await self.bindings.finish(None)
        return body

    def decide(self) -> Bind:
        self.waiting = pod("a")
        self.fed.put(node("n1"), self.waiting)
        return self.fed.bind()

    async def carry_out(self) -> str:
        bind = self.decide()
        self.bindings.start(bind)
        await self.bindings.finish(None)
        return self.told[0][1]


async def test_a_pod_is_bound_once_and_its_place_is_kept_until_that_is_heard() -> None:
    bench = Bench(None)
    assert await bench.carry_out() == "bound"
    assert bench.client.bound == [(KEY, "n1", "a-uid")]
    assert bench.fed.placed == {KEY: "n1"}
    assert not bench.fed.waiting
    bench.fed.put(changed(bench.waiting, node_name="n1"))
    assert not bench.fed.feed.assumed


@pytest.mark.parametrize(
    "wanted",
    [
        {"annotations": {"k": "v"}, "labels": {"of": "whom"}},
        {"annotations": {"k": "v", "stale": None}},
    ],
)
async def test_what_plugins_want_written_comes_first_and_only_on_that_very_pod(wanted: dict[str, Any]) -> None:
    bench = Bench(None)
    written = await bench.carry_out_with({**wanted, "uid": "a-uid"})
    assert (bench.client.patched, bench.client.brought) == ([written], [{}])


async def test_annotations_alone_come_with_the_binding_in_one_call() -> None:
    bench = Bench(None)
    await bench.carry_out_with({"annotations": {"k": "v"}, "uid": "a-uid"})
    assert (bench.client.patched, bench.client.brought) == ([], [{"k": "v"}])


@pytest.mark.parametrize("lost", [[LOST], [AWAY, LOST, AWAY], [refusal(500)], [refusal(429)], [refusal(504)]])
async def test_a_call_without_an_outcome_is_made_again_and_the_place_kept(lost: list[Exception]) -> None:
    bench = Bench(*lost, None)
    held: list[dict[str, str]] = []
    bench.client.before = lambda: held.append(bench.fed.placed)
    assert await bench.carry_out() == "bound"
    assert held == [{KEY: "n1"}] * (len(lost) + 1)
    assert {to for _, to, _ in bench.client.bound} == {"n1"}, "never to another node while the first may have happened"


async def test_a_lost_answer_whose_call_took_effect_is_a_binding() -> None:
    bench = Bench(LOST, CONFLICT)
    bench.client.pod = pod("a", on="n1")
    assert await bench.carry_out() == "bound"
    assert bench.fed.placed == {KEY: "n1"}


async def test_the_informer_may_tell_the_outcome_first() -> None:
    bench = Bench(LOST)
    bench.client.before = lambda: bench.fed.put(changed(bench.waiting, node_name="n1"))
    assert await bench.carry_out() == "bound"
    assert len(bench.client.bound) == 1
    bench = Bench(LOST)
    bench.client.before = lambda: bench.fed.delete(bench.waiting)
    assert await bench.carry_out() == "refused"
    assert bench.fed.placed == {}


async def test_a_server_that_only_fails_is_not_asked_for_ever() -> None:
    bench = Bench(refusal(500))
    bench.client.pod = pod("a")
    began_s = bench.fed.clock.monotonic()
    assert await bench.carry_out() == "failed"
    assert PATIENCE_S <= bench.fed.clock.monotonic() - began_s < 2 * PATIENCE_S
    assert bench.fed.placed == {}
    assert bench.fed.feed.queue.where(KEY) is Where.BACKOFF


@pytest.mark.parametrize(
    ("found", "outcome", "still_waits"),
    [
        (pod("a"), "failed", True),
        (pod("a", on="n1"), "bound", False),
        (pod("a", on="n9"), "refused", False),
        (pod("a", uid="another"), "refused", False),
        (NotFound(Status("Failure", 404)), "refused", False),
        (AWAY, "failed", True),
    ],
    ids=["unbound", "bound", "elsewhere", "another", "gone", "cannot be asked"],
)
async def test_after_a_conflict_the_api_server_has_the_last_word(found: Any, outcome: str, still_waits: bool) -> None:
    bench = Bench(CONFLICT)
    bench.client.pod = found
    assert await bench.carry_out() == outcome
    assert bench.fed.placed == ({KEY: "n1"} if outcome == "bound" else {})
    assert bench.fed.waiting == ({KEY} if still_waits else set())


@pytest.mark.parametrize("code", [400, 403, 422])
async def test_a_refusal_frees_the_place_and_the_pod_is_tried_again_after_a_backoff(code: int) -> None:
    bench = Bench(refusal(code), None)
    bench.client.pod = pod("a")
    assert await bench.carry_out() == "failed"
    assert bench.fed.placed == {}
    assert bench.fed.step() is None, "it backs off"
    bench.fed.clock.advance(3)
    bench.bindings.start(bench.fed.bind())
    await bench.bindings.finish(None)
    assert bench.told[-1][1] == "bound"


async def test_a_node_that_goes_between_decision_and_binding_is_not_bound_to() -> None:
    bench = Bench(None)
    bind = bench.decide()
    bench.fed.delete(node("n1"))
    bench.bindings.start(bind)
    await bench.bindings.finish(None)
    assert bench.client.bound == []
    assert bench.told[0][1] == "failed"
    assert bench.fed.waiting == {KEY}


async def test_a_pod_that_goes_between_decision_and_binding_is_not_told_of() -> None:
    bench = Bench(None)
    bind = bench.decide()
    bench.fed.delete(bench.waiting)
    bench.bindings.start(bind)
    await bench.bindings.finish(None)
    assert bench.client.bound == []
    assert bench.told[0][1] == "refused"
    assert not bench.fed.waiting


async def test_who_no_longer_leads_gives_the_place_back_and_writes_nothing() -> None:
    bench = Bench(NotLeader("over"))
    assert await bench.carry_out() == "failed"
    assert bench.client.asked == 0
    assert bench.fed.placed == {}


async def test_an_error_that_nobody_expects_loses_no_pod() -> None:
    bench = Bench(KeyError("oh"))
    assert await bench.carry_out() == "failed"
    assert bench.fed.waiting == {KEY}
    assert bench.fed.placed == {}


async def test_what_is_being_written_about_the_pod_comes_first() -> None:
    written = asyncio.Event()

    async def settled(uid: str) -> None:
        assert uid == "a-uid"
        await written.wait()

    bench = Bench(None, settled=settled)
    bench.bindings.start(bench.decide())
    await turns()
    assert bench.client.bound == []
    written.set()
    await bench.bindings.finish(None)
    assert len(bench.client.bound) == 1


async def test_no_more_is_decided_than_the_api_server_can_take() -> None:
    bench = Bench(None)
    bench.fed.put(node("n1", cpu="1000", pods="1000"))
    for number in range(MOST_AT_ONCE):
        assert not bench.bindings.is_full
        bench.fed.put(pod(f"p{number}"))
        bench.bindings.start(bench.fed.bind())
    assert bench.bindings.is_full
    await bench.bindings.finish(None)
    assert not bench.bindings.is_full
