"""What the server does around requests: figures, health, bounds, patience, and its end."""

from __future__ import annotations

import asyncio
import http.client
import sqlite3
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from yarl import URL

from koord.api.kubernetes.access import MASTERS, UserInfo
from koord.kube import listening as ports
from koord_minicluster.apiserver import http as http_api
from koord_minicluster.apiserver.in_flight import Bounds, InFlight
from koord_minicluster.apiserver.request_info import request_info
from koord_minicluster.apiserver.revision_log import Row
from koord_minicluster.apiserver.server import ApiServer, ServeOptions
from koord_minicluster.apiserver.status import StatusError
from koord_minicluster.apiserver.store import Change, Index, Store, WriteFailed
from koord_minicluster.apiserver.watching import Watch
from tests.crowd import crowd
from tests.waiting import eventually

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
TOKENS = {"root": UserInfo("root", groups=(MASTERS,)), "nobody": UserInfo("nobody")}


class Client:
    """A user of a running server."""

    def __init__(self, server: ApiServer, session: aiohttp.ClientSession) -> None:
        self.server, self.session = server, session

    async def ask(
        self, method: str, path: str, body: Any = None, token: str = "root", **headers: str
    ) -> tuple[int, Mapping[str, str], bytes]:
        sent = {"Authorization": f"Bearer {token}", **headers}
        async with self.session.request(method, self.server.url + path, json=body, headers=sent) as answer:
            return answer.status, answer.headers, await answer.read()


@asynccontextmanager
async def served(data_dir: Path) -> AsyncIterator[Client]:
    async with ApiServer(ServeOptions(data_dir, durability="fast", tokens=TOKENS)) as server:
        connector = aiohttp.TCPConnector(ssl=tls(data_dir))
        async with aiohttp.ClientSession(connector=connector) as session:
            yield Client(server, session)


def tls(data_dir: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(data_dir / "pki" / "ca.crt"))


def config_map(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def figure(text: bytes, name: str, **labels: str) -> float:
    """The one value under that name whose labels include these."""
    found = []
    for line in text.decode().splitlines():
        series, _, value = line.rpartition(" ")
        if series.partition("{")[0] == name and all(f'{key}="{wanted}"' in series for key, wanted in labels.items()):
            found.append(float(value))
    assert len(found) == 1, (name, labels, found)
    return found[0]


async def test_requests_objects_watches_and_commits_are_counted(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        await client.ask("POST", CONFIG_MAPS, config_map("a"))
        await client.ask("POST", CONFIG_MAPS, config_map("a"))
        await client.ask("GET", f"{CONFIG_MAPS}/absent")
        for i in range(30):
            await client.ask("GET", f"/api/v1/invented{i}")
        watch = f"{client.server.url}{CONFIG_MAPS}?watch=true"
        async with client.session.get(watch, headers={"Authorization": "Bearer root"}) as open_watch:
            await open_watch.content.readline()
            _, headers, text = await client.ask("GET", "/metrics")
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert list(text_string_to_metric_families(text.decode()))
    requests = {"resource": "configmaps", "group": "", "version": "v1", "subresource": ""}
    assert figure(text, "apiserver_request_total", verb="POST", code="201", **requests) == 1
    assert figure(text, "apiserver_request_total", verb="POST", code="409", **requests) == 1
    assert figure(text, "apiserver_request_total", verb="GET", code="404", **requests) == 1
    assert figure(text, "apiserver_request_duration_seconds_count", verb="POST", **requests) == 2
    assert figure(text, "apiserver_request_duration_seconds_bucket", verb="POST", le="60.0", **requests) == 2
    # The one that was made, and the one in which the server publishes the authority of its clients.
    assert figure(text, "apiserver_storage_objects", resource="configmaps") == 2
    assert figure(text, "apiserver_longrunning_requests", resource="configmaps") == 1
    assert figure(text, "apiserver_current_inflight_requests", request_kind="readOnly") == 0
    assert figure(text, "koord_apiserver_store_commit_duration_seconds_count") > 0
    assert b"invented" not in text, "what clients make up must not become labels"


async def test_figures_are_for_those_who_may_see_them(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        code, _, body = await client.ask("GET", "/metrics", token="nobody")
    assert code == 403
    assert b'cannot get path \\"/metrics\\"' in body


async def test_readiness_goes_with_the_disk_and_comes_back_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("koord_minicluster.apiserver.store.PROBE_EVERY_S", 0.02)
    async with served(tmp_path) as client:
        log = client.server.store.log

        def full(*_rows: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        with monkeypatch.context() as broken:
            broken.setattr(log, "commit", full)
            broken.setattr(log, "probe", full)
            assert (await client.ask("POST", CONFIG_MAPS, config_map("a")))[0] == 500
            code, _, body = await client.ask("GET", "/readyz")
            assert code == 500
            assert b"[-]store failed: the disk refused the last write: database or disk is full" in body
            assert (await client.ask("GET", CONFIG_MAPS))[0] == 200, "reads go on"

        async def answer() -> bytes:
            code, _, body = await client.ask("GET", "/readyz")
            return body if code == 200 else b""

        assert await eventually(answer) == b"ok"


@pytest.mark.parametrize(
    ("method", "path", "slot"),
    [
        ("GET", "/api/v1/pods", "readOnly"),
        ("GET", "/api/v1/pods?watch=true", ""),
        ("GET", "/api/v1/namespaces/a/pods/b/log", ""),
        ("POST", "/api/v1/namespaces/a/pods", "mutating"),
        ("DELETE", "/api/v1/namespaces/a/pods", "mutating"),
        ("GET", "/readyz", ""),
    ],
)
def test_reads_and_writes_are_bounded_apart_and_what_lasts_is_not(method: str, path: str, slot: str) -> None:
    path, _, query = path.partition("?")
    info = request_info(method, path, dict([query.split("=")]) if query else {})
    in_flight = InFlight(Bounds(mutating=2, read_only=2))
    assert [in_flight.enter(info) for _ in range(2)] == [slot, slot]
    if slot:
        with pytest.raises(StatusError) as refused:
            in_flight.enter(info)
        assert refused.value.code == 429
        in_flight.leave("mutating" if slot == "mutating" else "readOnly")
    in_flight.enter(info)


async def test_a_request_too_many_is_told_when_to_come_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koord_minicluster.apiserver.server.InFlight", lambda: InFlight(Bounds(mutating=0)))
    async with served(tmp_path) as client:
        code, headers, body = await client.ask("POST", CONFIG_MAPS, config_map("a"))
        assert (code, headers["Retry-After"]) == (429, "1")
        assert b'"retryAfterSeconds":1' in body
        assert (await client.ask("GET", CONFIG_MAPS))[0] == 200
        assert (await client.ask("GET", "/readyz"))[0] == 200


async def test_a_thousand_silent_clients_keep_nobody_waiting_and_are_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "HANDSHAKE_WITHIN_S", 5.0)
    monkeypatch.setattr(ports, "IDLE_WITHIN_S", 5.0)
    async with served(tmp_path) as client:
        host, port = client.server.url.removeprefix("https://").split(":")
        mute = [await asyncio.open_connection(host, int(port)) for _ in range(1000)]
        begun = await asyncio.open_connection(host, int(port), ssl=tls(tmp_path))
        begun[1].write(b"GET /readyz HTTP/1.1\r\nHost: x\r\n")
        began_s = asyncio.get_running_loop().time()
        for i in range(10):
            assert (await client.ask("POST", CONFIG_MAPS, config_map(f"a{i}")))[0] == 201
        assert asyncio.get_running_loop().time() - began_s < 5 * crowd()
        async with asyncio.timeout(60):
            for reader, writer in [*mute, begun]:
                with suppress(ConnectionError):
                    assert await reader.read() == b""
                writer.close()


async def test_a_body_that_does_not_come_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_api, "BODY_WITHIN_S", 0.1)
    async with served(tmp_path) as client:
        host, port = client.server.url.removeprefix("https://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), ssl=tls(tmp_path))
        head = f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer root\r\nContent-Length: 100\r\n\r\n{{"
        writer.write(head.encode())
        assert await reader.readline() == b"HTTP/1.1 408 Request Timeout\r\n"
        writer.close()


async def test_a_server_that_stops_ends_its_watches_in_good_order(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        await client.ask("POST", CONFIG_MAPS, config_map("a"))
        host, port = client.server.url.removeprefix("https://").split(":")
        context = tls(tmp_path)

        def watch() -> bytes:
            connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=20)
            connection.request("GET", f"{CONFIG_MAPS}?watch=true", headers={"Authorization": "Bearer root"})
            answer = connection.getresponse()
            # Raises IncompleteRead where the stream breaks off.
            return answer.read()

        watching = asyncio.create_task(asyncio.to_thread(watch))
        await eventually(lambda: client.server.collection("configmaps").subscriptions)
    assert (await watching).count(b"\n") == 1


async def test_json_is_indented_for_people(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        _, _, asked = await client.ask("GET", f"{CONFIG_MAPS}?pretty=true")
        _, _, by_hand = await client.ask("GET", CONFIG_MAPS, **{"User-Agent": "curl/8.0"})
        _, _, not_asked = await client.ask("GET", f"{CONFIG_MAPS}?pretty=false", **{"User-Agent": "curl/8.0"})
        _, _, plain = await client.ask("GET", CONFIG_MAPS)
    assert asked.startswith(b'{\n  "kind": "ConfigMapList",\n  "apiVersion": "v1",\n  "metadata": {\n')
    assert by_hand == asked
    assert not_asked == plain
    assert plain.count(b"\n") == 1


@pytest.mark.parametrize(
    ("method", "path", "what"),
    [
        ("GET", "/api/v1/namespaces/default/pods/p/proxy/index.html", "pods/proxy"),
        ("GET", "/api/v1/namespaces/default/services/s/proxy/", "services/proxy"),
        ("GET", "/api/v1/nodes/n/proxy/healthz", "nodes/proxy"),
    ],
)
async def test_what_is_left_out_says_so(tmp_path: Path, method: str, path: str, what: str) -> None:
    async with served(tmp_path) as client:
        code, _, body = await client.ask(method, path)
    assert code == 501
    assert f"{what} is left out of koord's API server: ".encode() in body


@pytest.mark.parametrize("token", ["root", "nobody"])
@pytest.mark.parametrize(
    "path",
    ["/%ff", "/api/%ff", "/api/v1/%ff", "/apis/%ff/v1/x", "/api/v1/nodes/%ff/%fe", "/api/v1/namespaces/%ff/pods/%c3"],
)
async def test_bytes_that_are_no_text_are_refused_in_text(tmp_path: Path, path: str, token: str) -> None:
    async with served(tmp_path) as client:
        for method in ("GET", "PUT", "DELETE"):
            url = URL(client.server.url + path, encoded=True)
            async with client.session.request(method, url, headers={"Authorization": f"Bearer {token}"}) as answer:
                assert 400 <= answer.status < 500
                await answer.text(encoding="utf-8", errors="strict")


async def test_no_answer_is_compressed_or_cached(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        code, headers, _ = await client.ask("GET", CONFIG_MAPS, **{"Accept-Encoding": "gzip"})
    assert code == 200
    assert "Content-Encoding" not in headers
    assert headers["Cache-Control"] == "no-cache, private"


async def test_a_server_on_another_port_moves_the_kubernetes_service(tmp_path: Path) -> None:
    seen = []
    for _ in range(2):
        async with served(tmp_path) as client:
            code, _, body = await client.ask("GET", "/api/v1/namespaces/default/services/kubernetes")
            assert code == 200
            seen.append((body, client.server.url.rpartition(":")[2]))
    for body, port in seen:
        assert f'"targetPort":{port}'.encode() in body


async def test_a_watch_that_fails_ends_and_harms_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path) as client:
        headers = {"Authorization": "Bearer root"}
        async with client.session.get(f"{client.server.url}{CONFIG_MAPS}?watch=true", headers=headers) as watch:
            assert watch.status == 200

            def defect(_watch: Watch, _event: Change) -> bytes:
                raise KeyError("no such form")

            monkeypatch.setattr(Watch, "frame", defect)
            assert (await client.ask("POST", CONFIG_MAPS, config_map("a")))[0] == 201
            # Cut off in the middle: nothing that could be taken for an event, or for another answer.
            with pytest.raises(aiohttp.ClientError):
                async with asyncio.timeout(60):
                    await watch.read()
        assert (await client.ask("GET", f"{CONFIG_MAPS}/a"))[0] == 200


async def test_a_pod_without_grace_is_marked_and_removed_in_one_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Watchers see the mark and the removal, and a server that is killed leaves no pod with the mark alone."""
    async with served(tmp_path) as client:
        pods, log = client.server.collection("pods"), client.server.store.log
        groups: list[list[bool]] = []
        events: list[str] = []
        commit = log.commit

        def committed(rows: Sequence[Row]) -> None:
            commit(rows)
            groups.append([row.deleted for row in rows])

        monkeypatch.setattr(log, "commit", committed)
        pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        path = "/api/v1/namespaces/default/pods"
        assert (await client.ask("POST", path, pod))[0] == 201
        pods.listeners.append(lambda event: events.append(event.type))
        groups.clear()
        status, _, body = await client.ask("DELETE", f"{path}/a", {"gracePeriodSeconds": 0})
        assert (status, msgspec.json.decode(body)["metadata"]["name"]) == (200, "a")
        assert (groups, events) == ([[False, True]], ["MODIFIED", "DELETED"])
        assert (await client.ask("GET", f"{path}/a"))[0] == 404


@pytest.mark.parametrize(
    ("data", "code", "reason"),
    [
        ({"owned": "other"}, 409, b'conflict with \\"first\\"'),
        ({"free": "x"}, 400, b"the name of the object (b) does not match the name on the URL (a)"),
    ],
)
async def test_an_apply_that_names_another_object_reports_a_conflict_first(
    tmp_path: Path, data: dict[str, str], code: int, reason: bytes
) -> None:
    def applied(name: str, said: dict[str, str]) -> dict[str, Any]:
        return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}, "data": said}

    apply = {"Content-Type": "application/apply-patch+yaml"}
    async with served(tmp_path) as client:
        path = f"{CONFIG_MAPS}/a?fieldManager="
        assert (await client.ask("PATCH", f"{path}first", applied("a", {"owned": "first"}), **apply))[0] == 201
        refused = await client.ask("PATCH", f"{path}second", applied("b", data), **apply)
        names = [
            item["metadata"]["name"] for item in msgspec.json.decode((await client.ask("GET", CONFIG_MAPS))[2])["items"]
        ]
    assert refused[0] == code
    assert reason in refused[2]
    assert "b" not in names


async def test_an_error_in_the_stores_writer_answers_those_who_wait_and_ends_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_rows: object) -> None:
        raise RuntimeError("a defect")

    answered: list[int] = []
    with pytest.raises(RuntimeError, match="a defect"):
        async with asyncio.timeout(60), served(tmp_path) as client:
            monkeypatch.setattr(client.server.store, "_publish", broken)
            answered.append((await client.ask("POST", CONFIG_MAPS, config_map("a")))[0])
            answered.append((await client.ask("POST", CONFIG_MAPS, config_map("b")))[0])
            await asyncio.Event().wait()
    assert all(code == 500 for code in answered)


async def test_a_request_that_waits_for_a_failed_writer_is_refused_and_readiness_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await Store.open(tmp_path, "fast")
    monkeypatch.setattr(store, "_publish", lambda _group: 1 / 0)
    running = asyncio.create_task(store.run())
    things = store.collection("things", lambda _value: Index({}, {}, ""))
    with pytest.raises(WriteFailed, match="writer has failed"):
        await asyncio.wait_for(things.put("a", 0, lambda _rev: b"{}", Index({}, {}, "")), 60)
    with pytest.raises(WriteFailed, match="writer has failed"):
        await asyncio.wait_for(things.put("b", 0, lambda _rev: b"{}", Index({}, {}, "")), 60)
    assert "ZeroDivisionError" in store.fault
    with pytest.raises(ZeroDivisionError):
        await running
    store.close()
