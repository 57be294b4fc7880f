from __future__ import annotations

import asyncio
import json
from typing import cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from koord.api.kinds import EVENTS, PODS, Kind
from koord.api.kubernetes.core import Event
from koord.api.kubernetes.meta import ObjectMeta, ObjectReference
from koord.api.kubernetes.pod import Pod
from koord.kube.client import Client
from koord.kube.clock import SystemClock
from koord.kube.errors import AlreadyExists, Forbidden, NotFound, Status, TooManyRequests, Unavailable
from koord.kube.event_ledger import EventLedger, EventLimits, Occurrence, Write, occurrence
from koord.kube.events import EventRecorder, reference
from koord.kube.metrics import Metrics
from tests.control_plane import ControlPlane
from tests.waiting import eventually, forever

WALL = 1_793_000_000.0
POD = ObjectReference("v1", "Pod", "shop", "web", "u1")


def happened(reason: str = "Killed", note: str = "again", pod: str = "web") -> Occurrence:
    return occurrence(ObjectReference("v1", "Pod", "shop", pod, f"uid-{pod}"), reason, note)


def ledger(**limits: float) -> EventLedger:
    return EventLedger("koord-test", "koord-test-1", EventLimits(**limits))  # type: ignore[arg-type]  # a table's numbers


def write_due(book: EventLedger, now: float) -> list[Write]:
    writes = book.due(now)
    for write in writes:
        book.done(write, now)
    return writes


def test_notes_of_one_theme_are_one_series_with_the_words_that_are_the_newest_when_it_is_written() -> None:
    book = ledger()
    for number in range(3):
        what = occurrence(POD, "FailedScheduling", f"0/{number} nodes are available", theme="cpu")
        book.record(what, float(number), 1000.0 + number)
    book.record(occurrence(POD, "FailedScheduling", "0/3 nodes are available", theme="taints"), 3.0, 1003.0)
    counts = {write.event.note: write.count for write in book.due(100.0)}
    assert counts == {"0/2 nodes are available": 3, "0/3 nodes are available": 1}


def test_the_first_occurrence_is_written_at_once_and_alone() -> None:
    book = ledger()
    book.record(happened(), 0.0, WALL)
    (write,) = write_due(book, 0.0)
    event = write.event
    assert write.create
    assert event.series is None
    assert (event.metadata.namespace, event.regarding.name) == ("shop", "web")
    assert (event.reporting_controller, event.reporting_instance) == ("koord-test", "koord-test-1")
    assert (event.type, event.reason, event.action, event.note) == ("Normal", "Killed", "Killed", "again")
    assert event.event_time == "2026-10-26T07:33:20.000000Z"
    assert event.metadata.name.startswith("web.")


def test_repeats_become_a_series_written_ever_more_rarely() -> None:
    book = ledger()
    written_at: list[tuple[int, int]] = []
    for second in range(1300):
        book.record(happened(), float(second), WALL + second)
        for write in write_due(book, float(second)):
            written_at.append((second, write.count))
    # 5 s after the first repeat (at 1 s), then 10, 20, ... 160, then every 300 s.
    assert written_at == [
        (0, 1), (6, 7), (16, 17), (36, 37), (76, 77), (156, 157), (316, 317), (616, 617), (916, 917), (1216, 1217),
    ]  # fmt: skip


def test_a_series_says_how_often_and_when_last() -> None:
    book = ledger()
    book.record(happened(), 0.0, WALL)
    write_due(book, 0.0)
    book.record(happened(), 1.0, WALL + 1)
    book.record(happened(), 2.0, WALL + 2)
    assert write_due(book, 4.0) == []
    (write,) = write_due(book, 6.0)
    assert not write.create
    assert write.series_patch == {"series": {"count": 3, "lastObservedTime": "2026-10-26T07:33:22.000000Z"}}


def test_repeats_before_the_first_write_are_in_it() -> None:
    book = ledger()
    for _ in range(3):
        book.record(happened(), 0.0, WALL)
    (write,) = book.due(0.0)
    assert write.create
    assert write.event.series is not None
    assert write.event.series.count == 3


def test_a_series_is_closed_after_six_quiet_minutes() -> None:
    book = ledger()
    book.record(happened(), 0.0, WALL)
    (first,) = write_due(book, 0.0)
    assert write_due(book, 359.0) == []
    assert len(book) == 1
    write_due(book, 360.0)
    assert len(book) == 0
    book.record(happened(), 361.0, WALL)
    (second,) = write_due(book, 361.0)
    assert second.create
    assert second.event.metadata.name != first.event.metadata.name


def test_an_object_gets_25_events_and_then_one_each_five_minutes() -> None:
    book = ledger()
    outcomes = [book.record(happened(reason=f"Reason{number}"), 0.0, WALL) for number in range(30)]
    assert outcomes.count("scheduled") == 25
    assert book.counts.dropped == 5
    assert book.record(happened(reason="Later"), 299.0, WALL) == "dropped"
    assert book.record(happened(reason="Later"), 301.0, WALL) == "scheduled"
    assert book.record(happened(reason="Reason0", pod="other"), 0.0, WALL) == "scheduled"


def test_beyond_its_limit_a_new_note_counts_into_the_last_event_of_that_reason() -> None:
    book = ledger()
    for number in range(100):
        book.record(happened(note=f"usage {number} %"), 0.0, WALL)
    writes = write_due(book, 0.0)
    assert len(writes) == 25
    assert sum(write.count for write in writes) == 100
    assert book.counts.dropped == 0


def test_an_event_that_was_deleted_meanwhile_is_created_again_with_its_count() -> None:
    book = ledger()
    book.record(happened(), 0.0, WALL)
    write_due(book, 0.0)
    book.record(happened(), 1.0, WALL)
    (patch,) = book.due(10.0)
    book.gone(patch, 10.0)
    (create,) = book.due(10.0)
    assert create.create
    assert create.event.series is not None
    assert create.event.series.count == 2


def test_a_full_ledger_forgets_what_is_written_before_it_drops() -> None:
    book = ledger(max_series=2)
    book.record(happened(pod="a"), 0.0, WALL)
    write_due(book, 0.0)
    book.record(happened(pod="b"), 1.0, WALL)
    assert book.record(happened(pod="c"), 2.0, WALL) == "scheduled"
    assert book.record(happened(pod="d"), 3.0, WALL) == "dropped"
    assert len(book) == 2


@pytest.mark.parametrize(
    ("name", "prefix"),
    [("web-0", "web-0."), ("Not_A_Subdomain", "event."), ("", "event."), ("x" * 253, "x" * 230 + ".")],
)
def test_event_names_are_valid_whatever_the_objects_name(name: str, prefix: str) -> None:
    book = ledger()
    book.record(occurrence(ObjectReference("v1", "Node", "", name), "R", "n"), 0.0, WALL)
    (write,) = book.due(0.0)
    assert write.event.metadata.name.startswith(prefix)
    assert len(write.event.metadata.name) <= 253
    assert write.event.metadata.namespace == "default"


def test_words_and_notes_are_cut_to_what_a_server_accepts() -> None:
    what = occurrence(POD, "R" * 200, "ü" * 1000, action="")
    assert len(what.reason) == len(what.action) == 128
    assert len(what.note.encode()) <= 1024
    assert what.note.endswith("ü...")
    assert occurrence(POD, "", "").reason == "Unknown"


def test_another_version_of_an_object_is_the_same_object() -> None:
    pods = [Pod(metadata=ObjectMeta(name="web", namespace="shop", uid="u", resource_version=v)) for v in ("1", "2")]
    assert reference(PODS, pods[0]) == reference(PODS, pods[1])


class LedgerMachine(RuleBasedStateMachine):
    """However calls end, no occurrence is lost or counted twice."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.book = ledger(max_series=4, burst=3, max_tries=3)
        self.in_flight: list[Write] = []
        self.server: dict[str, int] = {}
        self.deleted = 0

    @rule(
        pod=st.sampled_from(["a", "b", "c"]),
        reason=st.sampled_from(["X", "Y"]),
        note=st.sampled_from(["n1", "n2"]),
        times=st.integers(1, 5),
    )
    def record(self, pod: str, reason: str, note: str, times: int) -> None:
        for _ in range(times):
            self.book.record(happened(reason, note, pod), self.now, WALL + self.now)

    @rule(seconds=st.sampled_from([0.5, 5.0, 60.0, 400.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule(everything=st.booleans())
    def due(self, everything: bool) -> None:
        self.in_flight += self.book.due(self.now, all_pending=everything)

    @precondition(lambda self: self.in_flight)
    @rule(how=st.sampled_from(["done", "done", "done", "gone", "retry", "refused", "returned"]))
    def answer(self, how: str) -> None:
        write = self.in_flight.pop()
        if write.event.series is not None:
            assert write.event.series.count == write.count >= 2
        match how:
            case "done":
                self.server[write.event.metadata.name] = write.count
                self.book.done(write, self.now)
            case "gone":
                self.book.gone(write, self.now)
            case "returned":
                self.book.returned(write)
            case _:
                self.book.failed(write, self.now, retry=how == "retry")

    @invariant()
    def every_occurrence_is_somewhere(self) -> None:
        counts = self.book.counts
        assert counts.recorded == counts.written + self.book.pending + counts.dropped + counts.failed
        assert counts.written == sum(self.server.values())
        assert len(self.book) <= 4


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(max_examples=80, stateful_step_count=40)


class FakeClient:
    """Keeps events as a server would, and fails on command."""

    def __init__(self) -> None:
        self.events: dict[str, int] = {}
        self.fail_with: list[Exception] = []
        self.answer_lost = False
        self.hang = False
        self.calls = 0

    def limited(self, **_: object) -> FakeClient:
        return self

    async def create(self, kind: Kind[Event], event: Event) -> None:
        assert kind is EVENTS
        await self._call()
        if event.metadata.name in self.events:
            raise AlreadyExists(Status(code=409))
        self.events[event.metadata.name] = event.series.count if event.series else 1
        if self.answer_lost:
            self.answer_lost = False
            raise Unavailable(Status(), maybe_done=True)

    async def patch(self, kind: Kind[Event], name: str, patch: dict[str, dict[str, int]], *, namespace: str) -> None:
        await self._call()
        if name not in self.events:
            raise NotFound(Status(code=404))
        self.events[name] = patch["series"]["count"]

    async def _call(self) -> None:
        self.calls += 1
        if self.hang:
            await forever()
        if self.fail_with:
            raise self.fail_with.pop(0)


QUICK = EventLimits(first_repeat_s=0.02, retry_base_s=0.01)


def recorder(client: FakeClient, limits: EventLimits = QUICK, metrics: Metrics | None = None) -> EventRecorder:
    observer = metrics.events() if metrics else None
    return EventRecorder(cast(Client, client), controller="koord-test", limits=limits, observer=observer)


async def test_recorded_events_are_written_and_repeats_counted() -> None:
    client, metrics = FakeClient(), Metrics(process=False)
    async with recorder(client, metrics=metrics) as events:
        events.record(POD, "Killed", "out of memory", type="Warning")
        await eventually(lambda: list(client.events.values()) == [1])
        for _ in range(9):
            events.record(POD, "Killed", "out of memory", type="Warning")
        await eventually(lambda: list(client.events.values()) == [10])
    assert client.calls <= 4
    assert 'koord_events_total{outcome="written"} 10.0' in metrics.render().decode()


async def test_a_burst_is_written_by_several_calls_at_once_and_each_event_once() -> None:
    client, metrics = FakeClient(), Metrics(process=False)
    events = EventRecorder(
        cast(Client, client), controller="koord-test", limits=QUICK, observer=metrics.events(), at_once=8
    )
    pods = [ObjectReference("v1", "Pod", "shop", f"web-{number}", f"u{number}") for number in range(100)]
    async with events:
        for pod in pods:
            events.record(pod, "Scheduled", "it has a node")
        await eventually(lambda: len(client.events) == 100)
    assert client.calls == 100
    assert set(client.events.values()) == {1}
    assert 'koord_events_total{outcome="written"} 100.0' in metrics.render().decode()


async def test_leaving_writes_what_is_pending() -> None:
    client = FakeClient()
    async with recorder(client, EventLimits(first_repeat_s=600)) as events:
        events.record(POD, "Killed", "x")
        await eventually(lambda: len(client.events) == 1)
        events.record(POD, "Killed", "x")
        events.record(POD, "Stopped", "y")
    assert sorted(client.events.values()) == [1, 2]
    assert events.counts == (3, 3, 0, 0)


async def test_a_server_that_is_away_gets_the_events_later() -> None:
    client = FakeClient()
    client.fail_with = [Unavailable(Status()), OSError("reset")]
    async with recorder(client) as events:
        events.record(POD, "Killed", "x")
        await eventually(lambda: len(client.events) == 1)
    assert events.counts == (1, 1, 0, 0)


async def test_a_busy_server_gets_the_events_when_it_asked_for_them() -> None:
    client, clock = FakeClient(), SystemClock()
    busy = TooManyRequests(Status(code=429))
    busy.retry_after_s = 0.4
    client.fail_with = [busy]
    async with recorder(client) as events:
        began = clock.monotonic()
        events.record(POD, "Killed", "x")
        await eventually(lambda: len(client.events) == 1)
        assert clock.monotonic() - began >= 0.4


async def test_a_lost_answer_does_not_make_two_events() -> None:
    client = FakeClient()
    client.answer_lost = True
    async with recorder(client) as events:
        events.record(POD, "Killed", "x")
        await eventually(lambda: client.calls == 1)
        events.record(POD, "Killed", "x")
        await eventually(lambda: list(client.events.values()) == [2])
    assert events.counts == (2, 2, 0, 0)


async def test_a_refused_event_is_counted_and_others_go_on() -> None:
    client = FakeClient()
    client.fail_with = [Forbidden(Status(code=403))]
    async with recorder(client) as events:
        events.record(POD, "Killed", "x")
        events.record(POD, "Stopped", "x")
        await eventually(lambda: len(client.events) == 1)
    assert events.counts == (2, 1, 0, 1)


async def test_leaving_does_not_wait_for_a_server_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koord.kube.events.FLUSH_S", 0.05)
    client = FakeClient()
    client.hang = True
    async with asyncio.timeout(60):
        async with recorder(client) as events:
            events.record(POD, "Killed", "x")
            await eventually(lambda: client.calls == 1)
    assert events.counts == (1, 0, 0, 1)


@pytest.mark.cluster
@pytest.mark.kubectl
async def test_kubectl_shows_events_and_how_often_they_came(control_plane: ControlPlane) -> None:
    namespace = "events-test"
    control_plane.kubectl("create", "namespace", namespace)
    pod = ObjectReference("v1", "Pod", namespace, "web", "u1")
    node = ObjectReference("v1", "Node", "", "worker-1")
    async with (
        Client.from_config(str(control_plane.kubeconfig)) as client,
        EventRecorder(client, controller="koordinator.sh/koord-test", limits=EventLimits(first_repeat_s=0.2)) as events,
    ):
        for number in range(7):
            events.record(pod, "Suppressed", "batch pods may use 3 CPUs", action="Suppress", type="Warning")
            await asyncio.sleep(0.05 * number)
        events.record(node, "Cordoned", "ü" * 2000, related=pod)
    assert events.counts == (8, 8, 0, 0)

    shown = control_plane.kubectl("get", "events.v1.events.k8s.io", "-n", namespace, "-o", "json").stdout
    (event,) = json.loads(shown)["items"]
    assert event["series"]["count"] == 7
    assert event["series"]["lastObservedTime"] > event["eventTime"]
    assert event["action"] == "Suppress"
    assert event["reportingController"] == "koordinator.sh/koord-test"
    assert event["regarding"] == {"apiVersion": "v1", "kind": "Pod", "name": "web", "namespace": namespace, "uid": "u1"}
    table = control_plane.kubectl("get", "events", "-n", namespace).stdout
    assert "Warning   Suppressed   pod/web" in table
    assert "batch pods may use 3 CPUs" in table
    of_nodes = control_plane.kubectl("get", "events", "-n", "default", "--field-selector", "reason=Cordoned").stdout
    assert "node/worker-1" in of_nodes


@pytest.mark.cluster
async def test_an_event_deleted_by_others_comes_back_with_its_count(control_plane: ControlPlane) -> None:
    pod = ObjectReference("v1", "Pod", "default", "deleted-events", "u1")
    async with Client.from_config(str(control_plane.kubeconfig)) as client:

        async def found() -> list[Event]:
            return await client.list(EVENTS, namespace="default", fields="regarding.name=deleted-events")

        async with EventRecorder(client, controller="koord-test", limits=EventLimits(first_repeat_s=0.1)) as events:
            events.record(pod, "Killed", "x")
            await eventually(lambda: events.counts[1] == 1)
            (event,) = await found()
            await client.delete(EVENTS, event.metadata.name, namespace="default")
            events.record(pod, "Killed", "x")
            await eventually(lambda: events.counts[1] == 2)
        (event,) = await found()
        assert event.series is not None
        assert event.series.count == 2
