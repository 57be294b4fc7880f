"""What strangers send is bounded: in memory that is kept of it, in time that an answer may wait, in amounts."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from koord.api.text import formats, quantity, yaml
from koord.kube import listening as ports
from koord_minicluster.apiserver.negotiation import negotiate
from koord_minicluster.apiserver.wire import head
from tests.minicluster.apiserver.test_serving import CONFIG_MAPS, Client, served
from tests.waiting import eventually

MB = 1 << 20


def _asked(query: str) -> object:
    return head.parse(f"GET /livez?{query} HTTP/1.1\r\nHost: a".encode())


CACHES: dict[str, tuple[Callable[[str], object], str]] = {
    "queries": (_asked, "a=" + "1" * 60_000),
    "headers": (lambda text: head.parse(f"GET / HTTP/1.1\r\nHost: a\r\nX: {text}".encode()), "x" * 60_000),
    "forms of answers": (lambda text: negotiate(f"application/json;{text}"), "x" * 60_000),
    "quantities": (lambda text: quantity.canonical("1" + "0" * 80 + " " * int(text[-4:])), "x" * 60_000),
    "label values": (formats.label_value, "x" * 60_000),
    "label keys": (formats.label_key, "x" * 60_000),
    "subdomains": (formats.dns_subdomain, "x" * 60_000),
    "strings in YAML": (lambda text: yaml.dump({"a": text}), "x" * 60_000),
}


@pytest.mark.parametrize(("take", "filling"), CACHES.values(), ids=CACHES.keys())
def test_texts_that_strangers_make_up_fill_no_cache(take: Callable[[str], object], filling: str) -> None:
    take(f"{filling}0000")
    gc.collect()
    tracemalloc.start()
    try:
        for i in range(100):
            take(f"{filling}{9000 + i}")
        gc.collect()
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < MB, f"{grown / MB:.0f} MB stay"


def test_a_query_of_more_parameters_than_anyone_needs_is_refused() -> None:
    assert len(head.parse(b"GET /?" + b"&".join([b"a=1"] * 1000) + b" HTTP/1.1\r\nHost: a").query) == 1000
    with pytest.raises(head.BadHead) as refused:
        head.parse(b"GET /?" + b"&".join([b"a=1"] * 1001) + b" HTTP/1.1\r\nHost: a")
    assert refused.value.status == 400


def silent(client: Client, path: str) -> ssl.SSLSocket:
    """Asks, and reads nothing of the answer."""
    host, _, port = client.server.url.removeprefix("https://").rpartition(":")
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
    plain.connect((host, int(port)))
    tls = ssl.create_default_context(cafile=str(client.server.options.data_dir / "pki" / "ca.crt"))
    asking = tls.wrap_socket(plain, server_hostname=host)
    asking.sendall(
        f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer root\r\n\r\n".encode()
    )
    return asking


def has_connection(client: Client, asking: ssl.SSLSocket) -> bool:
    """Whether the server's end is still there. Nothing tells the client that it is gone until it reads."""
    server, own = int(client.server.url.rpartition(":")[2]), asking.getsockname()[1]
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return any(line.split()[1:3] == [f"0100007F:{server:04X}", f"0100007F:{own:04X}"] for line in lines)


def read_to_the_end(asking: ssl.SSLSocket) -> int:
    asking.settimeout(10)
    received = 0
    try:
        while data := asking.recv(MB):
            received += len(data)
    except (ConnectionError, ssl.SSLError):
        pass
    asking.close()
    return received


@pytest.mark.parametrize("query", ["", "?watch=1", "?limit=600"])
async def test_an_answer_that_nobody_reads_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.setattr(ports, "UNREAD_S", 0.3)
    async with served(tmp_path) as client:
        made = [{"metadata": {"name": f"m{i}"}, "data": {"a": "x" * 900_000}} for i in range(12)]
        await asyncio.gather(*(client.ask("POST", CONFIG_MAPS, each) for each in made))
        asking = await asyncio.to_thread(silent, client, f"{CONFIG_MAPS}{query}")
        await eventually(lambda: not has_connection(client, asking))
        assert await asyncio.to_thread(read_to_the_end, asking) < 10 * MB
        assert (await client.ask("GET", "/readyz"))[0] == 200


async def test_a_slow_reader_gets_all_of_its_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "UNREAD_S", 1.0)
    async with served(tmp_path) as client:
        made = [{"metadata": {"name": f"m{i}"}, "data": {"a": "x" * 900_000}} for i in range(6)]
        await asyncio.gather(*(client.ask("POST", CONFIG_MAPS, each) for each in made))
        asking = await asyncio.to_thread(silent, client, f"{CONFIG_MAPS}?timeoutSeconds=1&watch=1")

        def slowly() -> int:
            received, until_s = 0, time.monotonic() + 2 * ports.UNREAD_S
            while time.monotonic() < until_s:
                received += len(asking.recv(16384))
                time.sleep(0.02)
            return received + read_to_the_end(asking)

        assert await asyncio.to_thread(slowly) > 6 * 900_000


def pod(name: str, **requests: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests, "limits": requests}}]},
    }


async def test_huge_amounts_are_refused_or_counted_at_once(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        hard = {"requests.cpu": "1e999", "requests.memory": "4e18"}
        quota = {"metadata": {"name": "q"}, "spec": {"hard": hard}}
        assert (await client.ask("POST", "/api/v1/namespaces/default/resourcequotas", quota))[0] == 201
        status = {"status": {"hard": hard, "used": {"requests.cpu": "0", "requests.memory": "0"}}}
        path = "/api/v1/namespaces/default/resourcequotas/q/status"
        merge = {"Content-Type": "application/merge-patch+json"}
        assert (await client.ask("PATCH", path, status, **merge))[0] == 200
        began_s = time.process_time()
        for cpu, memory, code in (
            ("1e3000000", "1", 400),
            ("1", "1e3000000", 400),
            ("1e998", "1", 201),
            ("1e-3000000", "1", 201),
            ("1", "9223372036854775807", 403),
            ("1", "3e18", 201),
            ("1", "3e18", 403),
        ):
            got, _, body = await client.ask(
                "POST", "/api/v1/namespaces/default/pods", pod(f"p{code}-{time.time_ns()}", cpu=cpu, memory=memory)
            )
            assert got == code, (cpu, memory, body)
        assert time.process_time() - began_s < 2
        used = msgspec.json.decode((await client.ask("GET", path))[2])["status"]["used"]
        assert used["requests.memory"].startswith("3000000000000000002")
