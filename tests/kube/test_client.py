"""The client against a server that misbehaves, over real sockets and TLS."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
from collections.abc import Callable
from dataclasses import replace

import aiohttp
import msgspec
import pytest
from aiohttp.connector import Connection
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.kinds import CONFIG_MAPS, NODES, PODS
from koord.api.machinery.codec import DecodeError
from koord.kube.client import Client
from koord.kube.cluster_config import ClusterConfig, Impersonation
from koord.kube.errors import (
    ApiError,
    Conflict,
    EvictionRefused,
    Gone,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from tests.kube.manual_clock import ManualClock
from tests.kube.raw_server import HANG, RESET, Answer, RawServer, Request, answer, chunked, refusal
from tests.waiting import eventually

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "d"}, "data": {"k": "v"}}


def page(*names: str, token: str = "") -> bytes:
    items = [{"metadata": {"name": name, "namespace": "d"}} for name in names]
    return answer({"kind": "ConfigMapList", "metadata": {"resourceVersion": "7", "continue": token}, "items": items})


def client(server: RawServer, clock: ManualClock | None = None) -> Client:
    return Client(server.config, clock=clock or ManualClock())


@pytest.mark.parametrize(
    ("first", "waits_at_least"),
    [
        (refusal(429, "TooManyRequests", Retry_After="3"), 3.0),
        (refusal(503, "ServiceUnavailable", Retry_After="2"), 2.0),
        (refusal(504, "Timeout", Retry_After="1"), 1.0),
        (refusal(500, "InternalError", Retry_After="1"), 1.0),
        (refusal(429, "TooManyRequests"), 0.0),
    ],
)
async def test_a_write_that_the_server_asks_to_repeat_is_repeated_after_the_time_asked_for(
    first: bytes, waits_at_least: float
) -> None:
    clock = ManualClock()
    async with RawServer(first, answer(CONFIG_MAP)) as server, client(server, clock) as c:
        made = await c.create(CONFIG_MAPS, CONFIG_MAP)
    assert made.metadata.name == "a"
    assert [request.method for request in server.requests] == ["POST", "POST"]
    assert len(clock.sleeps) == 1
    assert clock.sleeps[0] >= waits_at_least


@pytest.mark.parametrize("code", [500, 502, 503, 504])
async def test_without_retry_after_a_server_error_is_retried_for_reads_only(code: int) -> None:
    async with RawServer(refusal(code), answer(CONFIG_MAP)) as server, client(server) as c:
        await c.get(CONFIG_MAPS, "a", namespace="d")
    async with RawServer(refusal(code), answer(CONFIG_MAP)) as server, client(server) as c:
        with pytest.raises(ServerError):
            await c.create(CONFIG_MAPS, CONFIG_MAP)
    assert len(server.requests) == 1


async def test_a_server_that_stays_busy_gives_its_own_error_after_the_last_attempt() -> None:
    clock = ManualClock()
    async with (
        RawServer(refusal(429, "TooManyRequests", "busy", Retry_After="1")) as server,
        client(server, clock) as c,
    ):
        with pytest.raises(TooManyRequests, match=r"get ConfigMap d/a: busy \(429 TooManyRequests\)"):
            await c.limited(attempts=3).get(CONFIG_MAPS, "a", namespace="d")
    assert len(server.requests) == 3
    assert len(clock.sleeps) == 2


async def test_waits_grow_and_are_the_same_when_replayed() -> None:
    waits = []
    for _ in range(2):
        clock = ManualClock()
        async with RawServer(refusal(503)) as server, client(server, clock) as c:
            with pytest.raises(Unavailable):
                await c.get(NODES, "n")
        waits.append(clock.sleeps)
    assert waits[0] == waits[1]
    assert all(later > earlier for earlier, later in zip(waits[0][:-1], waits[0][1:], strict=True))


async def test_a_reset_in_the_middle_of_a_list_is_repeated_for_that_page_alone() -> None:
    cut = page("a", "b", token="t2")[:-20]
    async with RawServer(page("a", "b", token="t2"), [cut, RESET], page("c")) as server, client(server) as c:
        listed = await c.list(CONFIG_MAPS, limit=2)
    assert [item.metadata.name for item in listed] == ["a", "b", "c"]
    assert ["continue=t2" in request.target for request in server.requests] == [False, True, True]


async def test_a_list_whose_pages_expire_is_fetched_again_in_one() -> None:
    script = [page("a", token="t2"), refusal(410, "Expired"), page("a", "b")]
    async with RawServer(*script) as server, client(server) as c:
        listed = await c.list(CONFIG_MAPS, limit=1, labels="x=y")
    assert [item.metadata.name for item in listed] == ["a", "b"]
    assert "limit" not in server.requests[2].target
    assert "labelSelector=x%3Dy" in server.requests[2].target


async def test_pages_keep_the_selectors_but_not_the_version_which_their_token_has() -> None:
    async with RawServer(page("a", token="t+/="), page("b")) as server, client(server) as c:
        pages = [p async for p in c.list_pages(CONFIG_MAPS, namespace="d", fields="a=b", limit=9, resource_version="5")]
    assert [len(p.items) for p in pages] == [1, 1]
    assert pages[0].metadata.resource_version == "7"
    assert server.requests[0].target == "/api/v1/namespaces/d/configmaps?fieldSelector=a%3Db&resourceVersion=5&limit=9"
    assert (
        server.requests[1].target == "/api/v1/namespaces/d/configmaps?fieldSelector=a%3Db&continue=t%2B%2F%3D&limit=9"
    )


async def test_a_malformed_object_in_a_list_is_named() -> None:
    bad = {"metadata": {"name": "bad", "namespace": "d"}, "data": {"k": 5}}
    body = {"metadata": {}, "items": [{"metadata": {"name": "good"}}, bad]}
    async with RawServer(answer(body)) as server, client(server) as c:
        with pytest.raises(DecodeError, match=r"^ConfigMap d/bad: data"):
            await c.list(CONFIG_MAPS)


async def test_nulls_in_a_list_count_as_absent() -> None:
    body = {"metadata": {}, "items": [{"metadata": {"name": "a", "labels": None}, "data": None}]}
    async with RawServer(answer(body), answer({"metadata": {}, "items": None})) as server, client(server) as c:
        assert [item.metadata.name for item in await c.list(CONFIG_MAPS)] == ["a"]
        assert await c.list(CONFIG_MAPS) == []


async def test_a_write_whose_answer_was_lost_is_not_repeated_and_says_so() -> None:
    async with RawServer(RESET) as server, client(server) as c:
        with pytest.raises(Unavailable) as caught:
            await c.patch(CONFIG_MAPS, "a", {"data": {}}, namespace="d")
    assert caught.value.maybe_done
    assert len(server.requests) == 1


@pytest.mark.parametrize("verb", ["delete", "update"])
async def test_idempotent_http_methods_are_writes_too_and_not_repeated(verb: str) -> None:
    async with RawServer(answer(CONFIG_MAP), RESET, answer(CONFIG_MAP)) as server, client(server) as c:
        await c.get(CONFIG_MAPS, "a", namespace="d")  # leaves a connection to be reused
        with pytest.raises(Unavailable):
            if verb == "delete":
                await c.delete(CONFIG_MAPS, "a", namespace="d")
            else:
                await c.update(CONFIG_MAPS, CONFIG_MAP)
    assert len(server.requests) == 2


async def test_a_write_that_could_not_be_sent_is_tried_until_the_server_is_there() -> None:
    server = RawServer(answer(CONFIG_MAP))
    async with server:
        pass  # the port is known, and nothing listens

    class ServerComesBack(ManualClock):
        async def sleep(self, seconds: float) -> None:
            if len(self.sleeps) == 1:
                await server.__aenter__()
            await super().sleep(seconds)

    clock = ServerComesBack()
    async with Client(server.config, clock=clock) as c:
        made = await c.create(CONFIG_MAPS, CONFIG_MAP)
    await server.__aexit__(None, None, None)
    assert made.metadata.name == "a"
    assert len(clock.sleeps) == 2


async def test_a_server_that_is_not_there_is_unavailable_and_named() -> None:
    server = RawServer(b"")
    async with server:
        pass
    async with client(server) as c:
        with pytest.raises(Unavailable, match=rf"get Node n: https://127.0.0.1:{server.port}: .*[Cc]onnect") as caught:
            await c.get(NODES, "n")
    assert not caught.value.maybe_done


async def test_a_server_that_does_not_answer_in_time_is_unavailable() -> None:
    async with RawServer(HANG) as server, client(server) as c:
        with pytest.raises(Unavailable, match="no answer in time"):
            await c.limited(timeout_s=0.2, attempts=1).get(NODES, "n")


async def test_an_answer_that_a_proxy_packed_though_nobody_asked_is_read() -> None:
    page = gzip.compress(b'{"metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":"a","namespace":"n"}}]}')
    async with RawServer(answer(page, Content_Encoding="gzip")) as server, Client(server.config) as client:
        assert [obj.metadata.name for obj in await client.list(CONFIG_MAPS)] == ["a"]


async def test_whole_objects_are_taken_where_a_server_cannot_send_metadata_alone() -> None:
    whole = {"kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}, "data": {"big": "x" * 1000}}

    def script(request: Request) -> Answer:
        plain = "application/json" in request.headers["accept"].split(",")
        return answer(whole) if plain else refusal(406, "NotAcceptable")

    async with RawServer(script) as server, Client(server.config) as client:
        assert (await client.metadata_only().get(CONFIG_MAPS, "a", namespace="n")).metadata.name == "a"


async def test_text_from_a_proxy_becomes_the_message() -> None:
    async with RawServer(answer(b"<h1>go\n away</h1>  ", 403)) as server, client(server) as c:
        with pytest.raises(ApiError, match=r"get Node n: <h1>go away</h1> \(403\)"):
            await c.get(NODES, "n")


async def test_redirects_are_not_followed_because_the_token_would_go_along() -> None:
    moved = b"HTTP/1.1 302 X\r\nLocation: https://elsewhere.test/\r\nContent-Length: 0\r\n\r\n"
    async with RawServer(moved) as server, client(server) as c:
        with pytest.raises(ApiError, match="302"):
            await c.get(NODES, "n")
    assert len(server.requests) == 1


async def test_who_is_calling_and_as_whom_goes_with_every_request() -> None:
    who = Impersonation("jane", "u1", ("dev", "ops"), {"example.org/Scope x": ("a", "b")})
    async with (
        RawServer(answer(CONFIG_MAP)) as server,
        Client(replace(server.config, impersonation=who), user_agent="koord-test/1") as c,
    ):
        await c.get(CONFIG_MAPS, "a", namespace="d")
    sent = server.requests[0].every_header
    assert ("Authorization", "Bearer t") in sent
    assert ("User-Agent", "koord-test/1") in sent
    assert ("Accept-Encoding", "identity") in sent
    assert [value for name, value in sent if name == "Impersonate-Group"] == ["dev", "ops"]
    assert ("Impersonate-User", "jane") in sent
    assert ("Impersonate-Uid", "u1") in sent
    assert [value for name, value in sent if name == "Impersonate-Extra-example.org%2FScope%20x"] == ["a", "b"]


async def test_a_call_that_lacks_a_name_or_namespace_is_refused_before_it_hits_the_collection() -> None:
    async with RawServer(answer(CONFIG_MAP)) as server, client(server) as c:
        for namespace, name in (("d", ""), ("", "a")):
            with pytest.raises(ValueError, match="needs"):
                await c.delete(CONFIG_MAPS, name, namespace=namespace)
    assert server.requests == []


async def test_a_fence_that_closes_lets_nothing_out_and_its_error_comes_through() -> None:
    class NoLongerLeader(OSError):
        pass

    def check() -> None:
        raise NoLongerLeader

    async with RawServer(answer(CONFIG_MAP)) as server, client(server) as c:
        fenced = c.fenced(check)
        writes: list[Callable[[], object]] = [
            lambda: fenced.create(CONFIG_MAPS, CONFIG_MAP),
            lambda: fenced.update(CONFIG_MAPS, CONFIG_MAP),
            lambda: fenced.patch(CONFIG_MAPS, "a", {}, namespace="d"),
            lambda: fenced.delete(CONFIG_MAPS, "a", namespace="d"),
            lambda: fenced.delete_collection(CONFIG_MAPS, namespace="d"),
            lambda: fenced.bind("d", "p", "n"),
            lambda: fenced.evict("d", "p"),
            lambda: fenced.raw("DELETE", "/x"),
            lambda: fenced.limited(attempts=1).raw("POST", "/x"),
        ]
        for write in writes:
            with pytest.raises(NoLongerLeader):
                await write()  # type: ignore[misc]  # each is a coroutine of another type
        await fenced.get(CONFIG_MAPS, "a", namespace="d")
    assert [request.method for request in server.requests] == ["GET"]


async def test_the_fence_is_asked_again_before_every_attempt() -> None:
    asked = []

    def check() -> None:
        asked.append(len(server.requests))
        if len(asked) == 3:
            raise RuntimeError("lease lost while backing off")

    async with RawServer(refusal(429, Retry_After="1")) as server, client(server) as c:
        with pytest.raises(RuntimeError, match="lease lost"):
            await c.fenced(check).create(CONFIG_MAPS, CONFIG_MAP)
    assert asked == [0, 1, 2]
    assert len(server.requests) == 2


async def test_a_disruption_budgets_refusal_is_told_at_once_with_the_servers_words() -> None:
    status = {
        "status": "Failure",
        "code": 429,
        "reason": "TooManyRequests",
        "message": "Cannot evict pod as it would violate the pod's disruption budget.",
        "details": {"causes": [{"reason": "DisruptionBudget", "message": "needs 2 healthy pods and has 2 currently"}]},
    }
    async with RawServer(answer(status, 429, Retry_After="10")) as server, client(server) as c:
        with pytest.raises(EvictionRefused, match="evict Pod d/web: Cannot evict pod") as caught:
            await c.evict("d", "web", uid="u", grace_s=5)
    assert caught.value.status.details.causes[0].message == "needs 2 healthy pods and has 2 currently"
    assert len(server.requests) == 1
    sent = json.loads(server.requests[0].body)
    assert sent["deleteOptions"]["preconditions"] == {"uid": "u"}
    assert sent["deleteOptions"]["gracePeriodSeconds"] == 5


async def test_an_overloaded_server_is_not_mistaken_for_a_disruption_budget() -> None:
    async with (
        RawServer(refusal(429, "TooManyRequests", Retry_After="1"), answer({}, 201)) as server,
        client(server) as c,
    ):
        await c.evict("d", "web")
    assert len(server.requests) == 2


async def test_conflict_is_not_retried() -> None:
    async with RawServer(refusal(409, "Conflict")) as server, client(server) as c:
        with pytest.raises(Conflict):
            await c.update(CONFIG_MAPS, CONFIG_MAP)
    assert len(server.requests) == 1


def event(type_: str, obj: object) -> bytes:
    return json.dumps({"type": type_, "object": obj}, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


async def watched(server: RawServer, **options: object) -> list[tuple[str, object]]:
    async with client(server) as c:
        return [
            (watch_event.type, msgspec.json.decode(watch_event.object))
            async for batch in c.watch(PODS, resource_version="5", **options)  # type: ignore[arg-type]  # by name
            for watch_event in batch
        ]


@given(st.data())
@settings(max_examples=25)
def test_events_arrive_whole_however_the_stream_is_cut(data: st.DataObject) -> None:
    texts = data.draw(st.lists(st.text(max_size=30), min_size=1, max_size=6))
    sent = [("ADDED", {"metadata": {"name": f"p{i}"}, "text": text}) for i, text in enumerate(texts)]
    stream = b"".join(event(type_, obj) for type_, obj in sent)
    cuts = sorted(data.draw(st.lists(st.integers(1, len(stream)), max_size=12)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True) if a < b]

    async def run() -> list[tuple[str, object]]:
        async with RawServer(chunked(*pieces)) as server:
            return await watched(server)

    assert asyncio.run(run()) == sent


async def test_an_event_of_many_megabytes_arrives_whole() -> None:
    big = {"metadata": {"name": "big"}, "blob": "é" * 3_000_000}
    line = event("MODIFIED", big)
    pieces = [line[i : i + 100_001] for i in range(0, len(line), 100_001)]
    async with RawServer(chunked(*pieces, event("DELETED", {"metadata": {}}))) as server:
        found = await watched(server)
    assert found == [("MODIFIED", big), ("DELETED", {"metadata": {}})]


async def test_a_watch_asks_for_bookmarks_and_initial_events_and_says_from_where() -> None:
    async with RawServer(chunked()) as server:
        assert await watched(server, namespace="d", labels="a=b", timeout_s=60) == []
        assert await watched(server, send_initial_events=True, bookmarks=True) == []
    assert server.requests[0].target == (
        "/api/v1/namespaces/d/pods?watch=true&labelSelector=a%3Db&resourceVersion=5"
        "&allowWatchBookmarks=true&timeoutSeconds=60"
    )
    assert "sendInitialEvents=true" in server.requests[1].target
    assert "resourceVersionMatch=NotOlderThan" in server.requests[1].target


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ({"code": 410, "reason": "Expired", "message": "too old resource version: 5 (9)"}, Gone),
        ({"code": 410, "reason": "Gone"}, Gone),
        ({"code": 500, "reason": "InternalError", "message": "etcd"}, ServerError),
        ({"code": 404, "reason": "NotFound"}, NotFound),
        ({"code": None}, ApiError),
    ],
)
async def test_an_error_event_is_raised_after_the_events_before_it(status: object, error: type[ApiError]) -> None:
    stream = event("ADDED", {"metadata": {"name": "a"}}) + event("ERROR", status)
    seen = []
    async with RawServer(chunked(stream)) as server, client(server) as c:
        with pytest.raises(error):
            async for batch in c.watch(PODS):
                seen += batch
    assert [watch_event.type for watch_event in seen] == ["ADDED"]


async def test_a_version_too_old_is_gone_also_as_an_http_status() -> None:
    async with RawServer(refusal(410, "Expired")) as server:
        with pytest.raises(Gone, match="watch pods"):
            await watched(server)


async def test_a_watch_on_which_nothing_comes_is_given_up() -> None:
    head = chunked()[0]
    async with RawServer([head, HANG]) as server:
        with pytest.raises(Unavailable, match="watch pods"):
            await watched(server, idle_s=0.2)


async def test_a_watch_that_breaks_off_in_the_middle_of_an_event_is_unavailable() -> None:
    pieces = chunked(event("ADDED", {"metadata": {}})[:10])[:-1]
    async with RawServer([*pieces, RESET]) as server:
        with pytest.raises(Unavailable):
            await watched(server)


async def test_garbage_on_a_watch_is_a_named_fault() -> None:
    for garbage in (b"not json\n", b'{"type":5,"object":{}}\n', b'{"object":{}}\n', b"[]\n", b'{"type":"ADDED"}\n'):
        async with RawServer(chunked(garbage)) as server:
            with pytest.raises(DecodeError, match="watch of pods"):
                await watched(server)


async def test_leaving_a_watch_closes_its_connection() -> None:
    pieces = chunked(event("ADDED", {"metadata": {}}))[:-1]
    async with RawServer([*pieces, HANG]) as server, client(server) as c:
        async with contextlib.aclosing(c.watch(PODS)) as watch:
            async for batch in watch:
                if batch:
                    break
        await eventually(lambda: server.closed_connections == 1)


async def test_watches_do_not_take_the_places_of_other_calls() -> None:
    head = chunked()[0]

    def script(request: Request) -> Answer:
        return [head, HANG] if "watch=true" in request.target else answer(CONFIG_MAP)

    async with RawServer(script) as server, client(server) as c, contextlib.AsyncExitStack() as stack:
        for _ in range(70):
            watch = await stack.enter_async_context(contextlib.aclosing(c.watch(PODS)))
            assert await anext(watch) == []
        async with asyncio.timeout(60):
            await c.get(CONFIG_MAPS, "a", namespace="d")


async def test_connections_are_reused() -> None:
    async with RawServer(answer(CONFIG_MAP)) as server, client(server) as c:
        for _ in range(5):
            await c.get(CONFIG_MAPS, "a", namespace="d")
        await c.patch(CONFIG_MAPS, "a", {}, namespace="d")
    assert server.connections == 1


async def test_calls_beyond_the_rate_wait_their_turn() -> None:
    clock = ManualClock()
    async with RawServer(answer(CONFIG_MAP)) as server, Client(server.config, qps=10, burst=2, clock=clock) as c:
        for _ in range(4):
            await c.get(CONFIG_MAPS, "a", namespace="d")
    assert clock.sleeps == pytest.approx([0.1, 0.1])


async def test_warnings_of_the_server_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    warned = answer(CONFIG_MAP, Warning='299 - "v1beta1 is going away"')
    async with RawServer(warned) as server, client(server) as c:
        for _ in range(3):
            await c.get(CONFIG_MAPS, "a", namespace="d")
    assert caplog.text.count("v1beta1 is going away") == 1


async def test_a_patch_says_its_type_and_an_apply_who_owns_the_fields() -> None:
    async with RawServer(answer(CONFIG_MAP)) as server, client(server) as c:
        await c.patch(CONFIG_MAPS, "a", [{"op": "remove", "path": "/data"}], namespace="d", type="json", dry_run=True)
        await c.patch(CONFIG_MAPS, "a", {"data": {}}, namespace="d", type="apply", field_manager="m", force=True)
        await c.patch(CONFIG_MAPS, "a", {}, namespace="d", type="strategic", subresource="status")
        with pytest.raises(ValueError, match="field_manager"):
            await c.patch(CONFIG_MAPS, "a", {}, namespace="d", type="apply")
    types = [request.headers["content-type"] for request in server.requests]
    assert types == [
        "application/json-patch+json",
        "application/apply-patch+yaml",
        "application/strategic-merge-patch+json",
    ]
    assert server.requests[0].target.endswith("/configmaps/a?dryRun=All")
    assert server.requests[1].target.endswith("/configmaps/a?fieldManager=m&force=true")
    assert json.loads(server.requests[1].body) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a"},
        "data": {},
    }
    assert server.requests[2].target.endswith("/configmaps/a/status")


async def test_a_fixed_token_that_is_refused_is_unauthorized_without_a_second_attempt() -> None:
    async with RawServer(refusal(401, "Unauthorized")) as server, client(server) as c:
        with pytest.raises(Unauthorized):
            await c.get(NODES, "n")
    assert len(server.requests) == 1


async def test_over_plain_http_no_credentials_are_sent() -> None:
    got: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer(CONFIG_MAP))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with Client(ClusterConfig(server=f"http://127.0.0.1:{port}", token="secret")) as c:
        await c.get(CONFIG_MAPS, "a", namespace="d")
    server.close()
    assert b"secret" not in got[0]


async def test_a_server_below_a_path_is_reached_there() -> None:
    async with RawServer(answer(CONFIG_MAP)) as server:
        below = replace(server.config, server=server.config.server + "/k8s/clusters/c1/")
        async with Client(below) as c:
            await c.get(CONFIG_MAPS, "a", namespace="d")
    assert server.requests[0].target == "/k8s/clusters/c1/api/v1/namespaces/d/configmaps/a"


async def test_a_write_that_met_a_connection_closed_meanwhile_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server may close an idle connection in the instant in which it is taken from the pool."""
    closes = [True]
    original = aiohttp.ClientRequest.send

    async def send(request: aiohttp.ClientRequest, connection: Connection) -> aiohttp.ClientResponse:
        if closes and request.method == "POST":
            closes.clear()
            assert connection.transport is not None
            connection.transport.abort()
        return await original(request, connection)

    monkeypatch.setattr(aiohttp.ClientRequest, "send", send)
    async with RawServer(answer(CONFIG_MAP)) as server, client(server) as c:
        await c.get(CONFIG_MAPS, "a", namespace="d")
        made = await c.create(CONFIG_MAPS, CONFIG_MAP)
    assert made.metadata.name == "a"
    assert closes == []
    assert [request.method for request in server.requests] == ["GET", "POST"]
