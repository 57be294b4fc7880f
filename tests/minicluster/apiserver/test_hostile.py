"""Clients that are clumsy or mean: each gets an answer in time, and the others notice nothing."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio

from koord.kube.kubeconfig import parse, resolve
from koord_bench.api_load import Unexpected, encode
from koord_minicluster.apiserver.server import ApiServer, ServeOptions
from koord_minicluster.apiserver.store import StoreLimits
from tests.minicluster.apiserver.server_process import MAPS, Client, ServerProcess

ANSWER_WITHIN_S = 30.0
MB = 1 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("hostile") / "data", "--durability", "fast") as running:
        yield running
        assert running.alive, running.log.read_text()[-3000:]
        assert "request failed" not in running.log.read_text(), "a defect: every refusal is meant"


@pytest_asyncio.fixture
async def client(server: ServerProcess) -> AsyncIterator[Client]:
    connected = await Client.connect(server)
    yield connected
    connected.close()


async def serves_others(server: ServerProcess) -> None:
    client = await asyncio.wait_for(Client.connect(server), ANSWER_WITHIN_S)
    code, _ = await asyncio.wait_for(client.get("/api/v1/namespaces/default"), ANSWER_WITHIN_S)
    client.close()
    assert code == 200


@pytest.mark.parametrize(
    ("method", "path", "content_type"),
    [
        ("POST", MAPS, "application/json"),
        ("POST", MAPS, "application/yaml"),
        ("PUT", f"{MAPS}/a", "application/json"),
        ("PATCH", f"{MAPS}/a", "application/merge-patch+json"),
        ("PATCH", f"{MAPS}/a?fieldManager=x", "application/apply-patch+yaml"),
    ],
)
async def test_a_body_of_10_mb_is_refused(server: ServerProcess, method: str, path: str, content_type: str) -> None:
    client = await Client.connect(server)
    body = json.dumps({"metadata": {"name": "a"}, "data": {"a": "x" * 10 * MB}}).encode()
    # As with the real server, the connection may go before the client has read why.
    with suppress(Unexpected):
        code, answer = await client.ask(method, path, body, content_type)
        assert (code, answer["reason"]) == (413, "RequestEntityTooLarge")
    await serves_others(server)


DEEP = 12_000
DEEP_BODIES = {
    "lists": b'{"metadata":{"name":"a"},"data":' + b"[" * DEEP + b"]" * DEEP + b"}",
    "maps": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "unclosed": b"[" * DEEP,
    "labels": b'{"metadata":{"labels":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}}",
}


@pytest.mark.parametrize("body", DEEP_BODIES.values(), ids=DEEP_BODIES.keys())
@pytest.mark.parametrize(
    ("method", "path", "content_type"),
    [
        ("POST", MAPS, "application/json"),
        ("POST", MAPS, "application/yaml"),
        ("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/json"),
        ("DELETE", f"{MAPS}/kube-root-ca.crt", "application/json"),
        ("PATCH", "/api/v1/namespaces/default", "application/json-patch+json"),
        ("PATCH", "/api/v1/namespaces/default", "application/merge-patch+json"),
        ("PATCH", "/api/v1/namespaces/default", "application/strategic-merge-patch+json"),
        ("PATCH", "/api/v1/namespaces/default?fieldManager=x", "application/apply-patch+yaml"),
    ],
)
async def test_a_body_12000_deep_is_refused(
    client: Client, method: str, path: str, content_type: str, body: bytes
) -> None:
    code, answer = await asyncio.wait_for(client.ask(method, path, body, content_type), ANSWER_WITHIN_S)
    assert code == 400, answer


NAMES = {
    "dots": "%2e%2e",
    "dots and slashes": "..%2f..%2fsecrets%2fx",
    "dot": "%2e",
    "nul": "a%00b",
    "slash": "a%2fb",
    "double encoded": "%252e%252e%252f",
    "long": "a" * 6000,
    "unicode": quote("名前"),
    "bad utf-8": "%ff%fe",
    "half surrogate": "%ed%a0%80",
    "line break": "a%0d%0aSet-Cookie:%20x",
    "percent": "%25",
    "space": "a%20b",
    "upper case": "ABC",
    "quote": "%22%27%3b",
    "right to left": quote("\u202ename"),
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
async def test_a_hostile_name_finds_and_makes_nothing(client: Client, name: str) -> None:
    for method, body, content_type in (
        ("GET", None, ""),
        ("DELETE", None, ""),
        ("PUT", {"metadata": {"name": "x"}}, "application/json"),
        ("PATCH", {"data": {"a": "b"}}, "application/merge-patch+json"),
    ):
        code, answer = await asyncio.wait_for(client.ask(method, f"{MAPS}/{name}", body, content_type), ANSWER_WITHIN_S)
        assert 400 <= code < 500, (method, code, answer)
    code, answer = await client.get(f"/api/v1/namespaces/{name}/configmaps")
    if code == 500:
        # As the real server has it, of keys that cannot be.
        assert answer["message"].startswith("invalid key")
    else:
        assert code in (200, 400, 404)
        assert code != 200 or not answer["items"]


@pytest.mark.parametrize("name", ["..", "a/b", "a\0b", "A", "", "-a", "a" * 254, "名前", "a\n", "\ud800", "a b"])
async def test_an_object_with_a_hostile_name_is_refused(client: Client, name: str) -> None:
    code, answer = await client.ask("POST", MAPS, {"metadata": {"name": name}})
    assert code == 422, answer
    assert answer["reason"] == "Invalid"


QUERIES = {
    "unclosed": "labelSelector=a+in+(",
    "nested": "labelSelector=" + "(" * 3000,
    "many": "labelSelector=" + ",".join(f"a{i}=b" for i in range(600)),
    "long value": "labelSelector=a=" + "b" * 7000,
    "commas": "labelSelector=" + "," * 3000,
    "backtracking": "labelSelector=" + "a" * 3500 + "!",
    "values": "labelSelector=a+in+(" + ",".join("x" * 10 for _ in range(600)) + ")",
    "nul": "labelSelector=a%00=b",
    "unicode": "labelSelector=" + quote("名=前"),
    "bad utf-8": "labelSelector=%ff%fe",
    "bangs": "labelSelector=" + "!" * 3000,
    "unknown field": "fieldSelector=spec.secret=x",
    "no operator": "fieldSelector=metadata.name",
    "many fields": "fieldSelector=" + ",".join(["metadata.name=a"] * 400),
    "escapes": "fieldSelector=metadata.name=" + quote("\\" * 2001),
    "limit": "limit=-1",
    "large limit": "limit=99999999999999999999999",
    "limit text": "limit=1e9",
    "continue": "continue=AAAA",
    "continue unicode": "continue=" + quote("名"),
    "version": "resourceVersion=-1",
    "large version": "resourceVersion=" + "9" * 400,
    "version text": "resourceVersion=x",
    "arabic digits": "resourceVersion=" + quote("١٢"),
    "timeout": "watch=1&timeoutSeconds=x",
    "bool": "watch=perhaps&timeoutSeconds=1",
    "repeated": "&".join(["limit=1"] * 800),
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
async def test_a_hostile_query_is_answered_in_time(client: Client, query: str) -> None:
    began = time.monotonic()
    code, answer = await asyncio.wait_for(client.get(f"{MAPS}?{query}"), 2 * ANSWER_WITHIN_S)
    assert code in (200, 400, 410, 414, 422, 431, 504), (code, answer)
    assert code != 504 or "resourceVersion" in query
    assert time.monotonic() - began < ANSWER_WITHIN_S


HEADS = {
    "no http": b"hello\r\n\r\n",
    "huge header": b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 200_000 + b"\r\n\r\n",
    "many headers": b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
    "bad length": b"POST " + MAPS.encode() + b" HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
    "length and chunks": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
    "bad chunk": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "nul in path": b"GET /api\0 HTTP/1.1\r\nHost: a\r\n\r\n",
    "long path": b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS.keys())
async def test_what_is_no_request_is_refused_or_cut_off(server: ServerProcess, head: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=server.target().tls)
    try:
        writer.write(head)
        answer = await asyncio.wait_for(reader.read(100), ANSWER_WITHIN_S)
        assert answer == b"" or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")), answer
    except ConnectionError:
        pass
    finally:
        writer.close()
    await serves_others(server)


async def test_a_thousand_half_open_connections_keep_nobody_out(server: ServerProcess) -> None:
    """Some say nothing, some stop in the handshake, some in the head of a request."""
    sockets = []
    writers = []
    try:
        for i in range(1000):
            opened = socket.create_connection(("127.0.0.1", server.port), timeout=10)
            sockets.append(opened)
            if i % 2:
                opened.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        for _ in range(50):
            _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=server.target().tls)
            writer.write(b"GET /api/v1/pods HTTP/1.1\r\nHost:")
            writers.append(writer)
        for _ in range(5):
            await serves_others(server)
    finally:
        for opened in sockets:
            opened.close()
        for writer in writers:
            writer.close()
    await serves_others(server)


async def test_a_watcher_that_does_not_read_is_cut_off_and_others_see_everything(tmp_path: Path) -> None:
    async with ApiServer(ServeOptions(tmp_path / "data", durability="fast")) as server:
        server.store.limits = StoreLimits(watch_queue=20)
        config = resolve(parse(server.kubeconfig.read_text(), ""))
        port = int(config.server.rpartition(":")[2])
        process = ServerProcess(tmp_path / "data")
        writer, quick = await Client.connect(process), await stream(port, process)
        slow_socket = await asyncio.to_thread(silent_watch, port, process)
        for i in range(150):
            assert (await writer.put(f"map-{i}", "x" * 200_000))[0] == 201
            event = json.loads(await asyncio.wait_for(quick.readline(), 60))
            assert event["object"]["metadata"]["name"] == f"map-{i}"
        events = await asyncio.to_thread(read_all, slow_socket)
        assert len(events) < 150
        assert [event["type"] for event in events[:-1]] == ["ADDED"] * (len(events) - 1)
        assert (events[-1]["type"], events[-1]["object"]["code"]) == ("ERROR", 410)


async def stream(port: int, process: ServerProcess) -> Lines:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=process.target().tls, limit=4 * MB)
    writer.write(encode("GET", f"{MAPS}?watch=1&resourceVersion=0&fieldSelector=metadata.name!=kube-root-ca.crt"))
    while await reader.readline() != b"\r\n":
        pass
    return Lines(reader, writer)


class Lines:
    """The lines of a chunked answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A writer that is let go closes its connection.
        self._reader, self._writer, self._text = reader, writer, b""

    async def readline(self) -> bytes:
        while b"\n" not in self._text:
            size = int(await self._reader.readline(), 16)
            self._text += (await self._reader.readexactly(size + 2))[:-2]
        line, _, self._text = self._text.partition(b"\n")
        return line


def silent_watch(port: int, process: ServerProcess) -> ssl.SSLSocket:
    """A watch by a client that reads nothing."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
    plain.connect(("127.0.0.1", port))
    wrapped = process.target().tls.wrap_socket(plain, server_hostname="127.0.0.1")
    wrapped.sendall(encode("GET", f"{MAPS}?watch=1&resourceVersion=0&fieldSelector=metadata.name!=kube-root-ca.crt"))
    return wrapped


def read_all(connection: ssl.SSLSocket) -> list[dict[str, Any]]:
    connection.settimeout(20)
    received = b""
    while not received.endswith(b"0\r\n\r\n") and (data := connection.recv(MB)):
        received += data
    body = received.partition(b"\r\n\r\n")[2]
    text, rest = b"", body
    while rest and rest != b"0\r\n\r\n":
        size, _, rest = rest.partition(b"\r\n")
        text, rest = text + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    return [json.loads(line) for line in text.splitlines()]
