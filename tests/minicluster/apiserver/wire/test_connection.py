"""Connections: one request after the other, bodies when asked for, answers that the client can read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from koord_minicluster.apiserver.wire import connection as wire
from koord_minicluster.apiserver.wire.answers import TEXT, Answer, Response, Stream
from koord_minicluster.apiserver.wire.connection import Connection, Handler, HttpRequest, TooLarge
from koord_minicluster.apiserver.wire.head import BadHead
from tests.waiting import always, eventually, forever, turns

WITHIN_S = 60.0
LARGE = 1 << 20


async def echo(request: HttpRequest) -> Answer:
    """Answers with the method, the path and the body; `/ignore` reads no body."""
    if request.path == "/ignore":
        return Response(403, b"no", TEXT)
    try:
        body = await request.body(LARGE)
    except TooLarge:
        return Response(413, b"too large", TEXT)
    except BadHead:
        return Response(400, b"malformed", TEXT)
    return Response(200, f"{request.method} {request.path} ".encode() + body, TEXT)


async def streamed(request: HttpRequest) -> Answer:
    stream = Stream(TEXT)
    stream.begin(request)
    for piece in (b"one", b"", b"two"):
        await stream.write(piece)
    await stream.end()
    return stream


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self, *, bodiless: bool = False) -> tuple[int, dict[str, str], bytes]:
        async with asyncio.timeout(WITHIN_S):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
            length = 0 if bodiless else int(headers.get("content-length", 0))
            return int(first.split()[1]), headers, await self.reader.readexactly(length)

    async def rest(self) -> bytes:
        async with asyncio.timeout(WITHIN_S):
            return await self.reader.read()


@asynccontextmanager
async def served(handle: Handler, idle_s: float = 30.0) -> AsyncIterator[tuple[Client, set[Connection]]]:
    connections: set[Connection] = set()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(handle, connections, idle_s), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    try:
        yield Client(reader, writer), connections
    finally:
        writer.close()
        server.close()
        for connection in list(connections):
            connection.abort()
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def _short_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "LINGER_S", 0.2)


def post(body: bytes, path: str = "/a", *more: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *more]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def test_requests_follow_each_other_on_a_connection() -> None:
    async with served(echo) as (client, _):
        for i in range(3):
            client.send(post(b"x" * i))
            assert (await client.answer())[::2] == (200, b"POST /a " + b"x" * i)


async def test_requests_that_were_sent_ahead_are_answered_in_order() -> None:
    async with served(echo) as (client, _):
        client.send(b"".join(post(b"%d" % i) for i in range(50)))
        for i in range(50):
            assert (await client.answer())[2] == b"POST /a %d" % i


async def test_a_request_may_arrive_byte_by_byte() -> None:
    async with served(echo) as (client, _):
        for byte in post(b"body"):
            client.send(bytes([byte]))
            await client.writer.drain()
            await asyncio.sleep(0)
        assert (await client.answer())[2] == b"POST /a body"


async def test_a_body_may_come_in_chunks() -> None:
    async with served(echo) as (client, _):
        client.send(b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        await client.writer.drain()
        await turns()
        client.send(b"2\r\nde\r\n0\r\n\r\n" + post(b"next"))
        assert (await client.answer())[2] == b"POST /a abcde"
        assert (await client.answer())[2] == b"POST /a next"


async def test_a_client_that_waits_for_leave_gets_it_when_the_body_is_wanted() -> None:
    async with served(echo) as (client, _):
        client.send(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
        assert (await client.answer())[0] == 100
        client.send(b"body")
        assert (await client.answer())[2] == b"POST /a body"
        client.send(b"POST /ignore HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
        assert (await client.answer())[0] == 403
        assert await client.rest() == b""


async def test_a_body_that_nobody_reads_is_dropped() -> None:
    async with served(echo) as (client, _):
        client.send(post(b"x" * 100, "/ignore")[:-50])
        assert (await client.answer())[0] == 403
        client.send(b"x" * 50 + post(b"next"))
        assert (await client.answer())[2] == b"POST /a next"


async def test_a_body_that_is_too_large_ends_the_connection_after_the_answer() -> None:
    async with served(echo) as (client, _):
        client.send(post(b"x" * (4 * LARGE)))
        code, headers, _ = await client.answer()
        assert (code, headers["connection"]) == (413, "close")


async def test_chunks_that_are_too_many_end_the_connection_after_the_answer() -> None:
    async with served(echo) as (client, _):
        client.send(b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        client.send((b"10000\r\n" + b"x" * 0x10000 + b"\r\n") * 20)
        assert (await client.answer())[0] == 413


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"hello\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 70_000, 431),
        (b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
    ],
)
async def test_what_is_no_request_is_refused_and_nothing_after_it_is_read(sent: bytes, code: int) -> None:
    async with served(echo) as (client, _):
        client.send(sent)
        assert (await client.answer())[0] == code
        client.send(post(b"smuggled"))
        assert await client.rest() == b""


async def test_a_head_request_gets_the_head_alone() -> None:
    async with served(echo) as (client, _):
        client.send(b"HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n" + post(b""))
        code, headers, _ = await client.answer(bodiless=True)
        assert (code, headers["content-length"]) == (200, str(len(b"HEAD /a ")))
        assert (await client.answer())[2] == b"POST /a "


@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_without_a_body_has_no_length(status: int) -> None:
    async def handle(_request: HttpRequest) -> Answer:
        return Response(status, headers={"ETag": '"x"'})

    async with served(handle) as (client, _):
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        code, headers, _ = await client.answer()
        assert code == status
        assert "content-length" not in headers


@pytest.mark.parametrize(
    ("line", "more"), [("GET / HTTP/1.1", "Connection: close"), ("GET / HTTP/1.0", ""), ("GET / HTTP/1.0", "X: y")]
)
async def test_a_client_that_is_done_finds_the_connection_closed(line: str, more: str) -> None:
    async with served(echo) as (client, _):
        client.send(_lines(line, more))
        assert (await client.answer())[1]["connection"] == "close"
        assert await client.rest() == b""


def _lines(*lines: str) -> bytes:
    return "\r\n".join([lines[0], "Host: x", *filter(None, lines[1:]), "", ""]).encode()


async def test_a_stream_comes_in_chunks_to_new_clients_and_plain_to_old_ones() -> None:
    async with served(streamed) as (client, _):
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        _, headers, _ = await client.answer()
        assert headers["transfer-encoding"] == "chunked"
        assert await client.rest() == b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"
    async with served(streamed) as (client, _):
        client.send(b"GET / HTTP/1.0\r\n\r\n")
        _, headers, _ = await client.answer()
        assert "transfer-encoding" not in headers
        assert await client.rest() == b"onetwo"


async def test_a_stream_ends_when_its_client_goes() -> None:
    ended = asyncio.Event()

    async def endless(request: HttpRequest) -> Answer:
        stream = Stream(TEXT)
        stream.begin(request)
        try:
            await forever()
        finally:
            ended.set()
        return stream

    async with served(endless) as (client, _):
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await client.answer()
        client.writer.close()
        async with asyncio.timeout(WITHIN_S):
            await ended.wait()


async def test_an_answer_under_way_is_finished_when_its_client_goes() -> None:
    begun, finished = asyncio.Event(), asyncio.Event()

    async def slow(_request: HttpRequest) -> Answer:
        begun.set()
        await eventually(lambda: not connections)
        finished.set()
        return Response()

    async with served(slow) as (client, connections):
        client.send(post(b""))
        await begun.wait()
        client.writer.close()
        async with asyncio.timeout(WITHIN_S):
            await finished.wait()


@pytest.mark.parametrize("sent", [b"", b"GET / HTT", post(b"")])
async def test_a_silent_client_is_cut_off(sent: bytes) -> None:
    async with served(echo, idle_s=0.2) as (client, connections):
        client.send(sent)
        if sent.endswith(b"\r\n\r\n"):
            await client.answer()
        with suppress(ConnectionError):
            assert await client.rest() == b""
        assert not connections


async def test_a_client_that_takes_no_answers_is_not_read_from() -> None:
    handled = 0

    async def large(_request: HttpRequest) -> Answer:
        nonlocal handled
        handled += 1
        return Response(200, b"x" * LARGE, TEXT)

    async with served(large) as (client, _):
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _i in range(200):
            client.send(post(b"y" * 10_000))
        await always(lambda: handled < 100, 0.3)


async def test_a_header_of_an_answer_cannot_hold_a_line_break() -> None:
    def split(text: str) -> Handler:
        async def handle(_request: HttpRequest) -> Answer:
            return Response(200, b"", TEXT, {"X": text})

        return handle

    for text in ("a\r\nSet-Cookie: b", "a\nb", "a\rb"):
        async with served(split(text)) as (client, _):
            client.send(post(b""))
            assert b"Set-Cookie" not in await client.rest()


async def test_a_stopping_server_answers_what_was_asked_and_parts() -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    async def held(_request: HttpRequest) -> Answer:
        begun.set()
        await release.wait()
        return Response(200, b"done", TEXT)

    async with served(held) as (client, connections):
        client.send(post(b""))
        await begun.wait()
        for connection in list(connections):
            connection.stop()
        release.set()
        _, headers, body = await client.answer()
        assert (body, headers["connection"]) == (b"done", "close")
        assert await client.rest() == b""
