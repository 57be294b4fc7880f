from __future__ import annotations

import asyncio
import os
import resource
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import cast

import aiohttp
import pytest
import trustme
from aiohttp import web
from aiohttp.test_utils import TestServer

from koord.api.kinds import Kind
from koord.api.machinery.struct import Struct
from koord.kube.authorize import (
    SUBJECT_ACCESS_REVIEWS,
    TOKEN_REVIEWS,
    Authorizer,
    CallerCredentials,
    Right,
    SubjectAccessReview,
    SubjectAccessReviewStatus,
    TokenReview,
    TokenReviewStatus,
    UserInfo,
)
from koord.kube.client import Client
from koord.kube.errors import Status, Unavailable
from koord.kube.health import Address, HealthServer, examine, parse_address
from koord.kube.metrics import Metrics
from koord.kube.serving_tls import ServingTls
from tests.control_plane import ControlPlane


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def fetch(http: aiohttp.ClientSession, server: HealthServer, path: str, token: str = "") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with http.get(f"http://127.0.0.1:{server.port}{path}", headers=headers) as response:
        return response.status, await response.text()


async def test_a_healthy_process_says_ok(http: aiohttp.ClientSession) -> None:
    async with HealthServer("127.0.0.1:0") as server:
        for path in ("/livez", "/readyz", "/healthz", "/readyz/ping"):
            assert await fetch(http, server, path) == (200, "ok")


async def test_verbose_lists_the_checks_as_kubernetes_does(http: aiohttp.ClientSession) -> None:
    async with HealthServer("127.0.0.1:0") as server:
        server.add_ready("informers", lambda: None)
        assert await fetch(http, server, "/readyz?verbose") == (
            200,
            "[+]ping ok\n[+]informers ok\nreadyz check passed\n",
        )


async def test_a_failing_check_fails_its_path_only_and_may_be_excluded(http: aiohttp.ClientSession) -> None:
    async with HealthServer("127.0.0.1:0") as server:
        server.add_ready("informers", lambda: "pods have not synced")
        assert await fetch(http, server, "/readyz") == (
            500,
            "[+]ping ok\n[-]informers failed: pods have not synced\nreadyz check failed\n",
        )
        assert await fetch(http, server, "/livez") == (200, "ok")
        assert await fetch(http, server, "/readyz?exclude=informers") == (200, "ok")
        assert await fetch(http, server, "/readyz?verbose&exclude=informers&exclude=nothing") == (
            200,
            "[+]ping ok\n[+]informers excluded: ok\n"
            'warn: some health checks cannot be excluded: no matches for "nothing"\nreadyz check passed\n',
        )
        assert await fetch(http, server, "/readyz/informers") == (500, "internal server error: pods have not synced\n")
        assert (await fetch(http, server, "/readyz/unknown"))[0] == 404


def test_strangers_learn_that_a_check_fails_but_not_why() -> None:
    report = examine({"db": lambda: "password wrong"}, reasons=False)
    assert report.lines == ("[-]db failed: reason withheld",)


def test_a_check_that_breaks_counts_as_failed() -> None:
    def broken() -> str | None:
        raise KeyError("x")

    report = examine({"broken": broken, "fine": lambda: None}, reasons=True)
    assert not report.healthy
    assert report.lines == ("[-]broken failed: KeyError: 'x'", "[+]fine ok")


async def test_metrics_are_rendered_off_the_event_loop(http: aiohttp.ClientSession) -> None:
    metrics = Metrics()
    threads: list[threading.Thread] = []

    def note_thread() -> float:
        threads.append(threading.current_thread())
        return 1.0

    metrics.gauge("probe", "Which thread renders").set_function(note_thread)
    authorizer = Authorizer(cast(Client, FakeReviews()))
    async with HealthServer("127.0.0.1:0", metrics=metrics, authorizer=authorizer) as server:
        assert (await fetch(http, server, "/metrics"))[0] == 401
        status, text = await fetch(http, server, "/metrics", "alice-token")
    assert status == 200
    assert "probe 1.0" in text
    assert "process_resident_memory_bytes" in text
    assert threads[0] is not threading.main_thread()


async def test_a_port_in_use_is_a_clear_error() -> None:
    async with HealthServer("127.0.0.1:0") as server:
        with pytest.raises(OSError, match=f"cannot serve health on 127.0.0.1:{server.port}"):
            async with HealthServer(f"127.0.0.1:{server.port}"):
                pass


@pytest.mark.parametrize(
    ("text", "address", "loopback"),
    [
        ("127.0.0.1:8080", Address("127.0.0.1", 8080), True),
        ("localhost:0", Address("localhost", 0), True),
        ("[::1]:80", Address("::1", 80), True),
        (":9090", Address("0.0.0.0", 9090), False),
        ("10.0.0.7:65535", Address("10.0.0.7", 65535), False),
        ("node.example:1", Address("node.example", 1), False),
    ],
)
def test_bind_addresses(text: str, address: Address, loopback: bool) -> None:
    assert parse_address(text) == address
    assert address.loopback is loopback


@pytest.mark.parametrize("text", ["", "8080", "localhost", "::1:80", "a:b", "a:65536", "a:-1", "a:"])
def test_bad_bind_addresses_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="must be host:port"):
        parse_address(text)


class Certificates:
    def __init__(self, folder: Path) -> None:
        self.ca = trustme.CA()
        self.cert, self.key = folder / "tls.crt", folder / "tls.key"
        self.issue()
        self.trust = ssl.create_default_context()
        self.ca.configure_trust(self.trust)

    def issue(self) -> None:
        issued = self.ca.issue_cert("127.0.0.1")
        issued.cert_chain_pems[0].write_to_path(str(self.cert))
        issued.private_key_pem.write_to_path(str(self.key))


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


class FakeReviews:
    """The API server's answers about tokens: alice may, bob may not, others are unknown."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.away = False

    async def create(self, kind: Kind[Struct], body: dict[str, dict[str, object]]) -> Struct:
        if self.away:
            raise Unavailable(Status(message="connection refused"))
        spec = body["spec"]
        if kind is TOKEN_REVIEWS:
            self.asked.append("who")
            known = spec["token"] in ("alice-token", "bob-token")
            user = UserInfo(str(spec["token"]).removesuffix("-token"), groups=("system:authenticated",))
            return TokenReview(TokenReviewStatus(known, user if known else UserInfo()))
        assert kind is SUBJECT_ACCESS_REVIEWS
        self.asked.append("may")
        assert spec["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}
        assert spec["groups"] == ["system:authenticated"]
        return SubjectAccessReview(SubjectAccessReviewStatus(spec["user"] == "alice"))


async def test_off_loopback_metrics_need_a_caller_whom_the_api_server_allows(
    http: aiohttp.ClientSession, certificates: Certificates
) -> None:
    reviews = FakeReviews()
    exposed = HealthServer(
        "0.0.0.0:0",
        metrics=Metrics(process=False),
        tls=ServingTls(str(certificates.cert), str(certificates.key)),
        authorizer=Authorizer(cast(Client, reviews)),
    )
    exposed.add_ready("broken", lambda: "the reason")
    server = TestServer(exposed.app(), host="127.0.0.1", scheme="https")
    assert exposed._tls is not None
    await server.start_server(ssl=exposed._tls.context)

    async def get(path: str, authorization: str = "") -> tuple[int, str]:
        headers = {"Authorization": authorization} if authorization else {}
        async with http.get(server.make_url(path), headers=headers, ssl=certificates.trust) as response:
            return response.status, await response.text()

    try:
        assert (await get("/metrics"))[0] == 401
        assert (await get("/metrics", "Basic alice-token"))[0] == 401
        assert (await get("/metrics", "Bearer unknown"))[0] == 401
        assert (await get("/metrics", "Bearer bob-token"))[0] == 403
        assert reviews.asked == ["who", "who", "may"]
        assert (await get("/metrics", "Bearer alice-token"))[0] == 200
        assert (await get("/metrics", "bearer alice-token"))[0] == 200
        assert reviews.asked == ["who", "who", "may", "who", "may"]
        reviews.away = True
        assert (await get("/metrics", "Bearer carol-token"))[0] == 503
        assert (await get("/metrics", "Bearer alice-token"))[0] == 200
        assert await get("/livez") == (200, "ok")
        assert await get("/readyz") == (500, "[+]ping ok\n[-]broken failed: reason withheld\nreadyz check failed\n")
    finally:
        await server.close()


class Allowing:
    """An API server that lets everybody whom it knows change flags, and nothing else."""

    async def create(self, kind: Kind[Struct], body: dict[str, dict[str, object]]) -> Struct:
        if kind is TOKEN_REVIEWS:
            return TokenReview(TokenReviewStatus(True, UserInfo("alice")))
        wanted = {"path": "/debug/flags/s", "verb": "put"}
        return SubjectAccessReview(SubjectAccessReviewStatus(body["spec"]["nonResourceAttributes"] == wanted))


async def test_off_loopback_further_paths_need_a_caller_whom_the_api_server_allows(
    http: aiohttp.ClientSession, certificates: Certificates
) -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        return web.Response(text="yes")

    tls = ServingTls(str(certificates.cert), str(certificates.key))
    exposed = HealthServer("0.0.0.0:0", tls=tls, authorizer=Authorizer(cast(Client, Allowing())))
    exposed.add_paths(handle)
    closed = HealthServer("0.0.0.0:0", tls=tls)
    closed.add_paths(handle)
    alice = {"Authorization": "Bearer alice-token"}
    expected: tuple[tuple[HealthServer, str, str, dict[str, str], int], ...] = (
        (exposed, "PUT", "/debug/flags/s", {}, 401),
        (exposed, "PUT", "/debug/flags/s", alice, 200),
        (exposed, "GET", "/debug/flags/s", alice, 403),
        (exposed, "GET", "/apis/v1/__services__", alice, 403),
        (closed, "PUT", "/debug/flags/s", alice, 404),
    )
    for health, method, path, headers, status in expected:
        server = TestServer(health.app(), host="127.0.0.1", scheme="https")
        await server.start_server(ssl=tls.context)
        try:
            url = server.make_url(path)
            async with http.request(method, url, headers=headers, ssl=certificates.trust) as response:
                assert response.status == status, (method, path)
        finally:
            await server.close()


def test_off_loopback_without_tls_or_authorizer_is_refused(certificates: Certificates) -> None:
    with pytest.raises(ValueError, match=r"0\.0\.0\.0:8080 needs TLS"):
        HealthServer(":8080")
    tls = ServingTls(str(certificates.cert), str(certificates.key))
    for address in (":8080", "127.0.0.1:8080"):
        with pytest.raises(ValueError, match="needs an authorizer"):
            HealthServer(address, tls=tls, metrics=Metrics(process=False))
    HealthServer(":8080", tls=tls)


async def test_a_rotated_certificate_is_served_without_a_restart(certificates: Certificates) -> None:
    tls = ServingTls(str(certificates.cert), str(certificates.key))

    async def serial(server: HealthServer) -> object:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=certificates.trust)
        writer.close()
        return writer.get_extra_info("peercert")["serialNumber"]

    async with HealthServer("127.0.0.1:0", tls=tls) as server:
        first = await serial(server)
        assert not tls.refresh()
        certificates.issue()
        assert tls.refresh()
        second = await serial(server)
        assert second != first
        certificates.key.write_text("half written")
        assert not tls.refresh()
        assert await serial(server) == second


def test_missing_certificate_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"tls\.crt"):
        ServingTls(str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"))


@pytest.mark.cluster
async def test_a_real_api_server_decides_who_reads_metrics(control_plane: ControlPlane) -> None:
    metrics = Right("get", path="/metrics")
    async with Client.from_config(str(control_plane.kubeconfig)) as client:
        authorizer = Authorizer(client)
        assert await authorizer.verdict(CallerCredentials("admin-token"), metrics) == "allowed"
        assert await authorizer.verdict(CallerCredentials("nobody-token"), metrics) == "forbidden"
        assert await authorizer.verdict(CallerCredentials("made-up"), metrics) == "unauthenticated"
        assert await authorizer.verdict(CallerCredentials(""), metrics) == "unauthenticated"


def test_the_application_has_no_metrics_path_without_metrics() -> None:
    paths = {getattr(route.resource, "canonical", "") for route in HealthServer("127.0.0.1:0").app().router.routes()}
    assert "/metrics" not in paths
    assert "/readyz/{check}" in paths
    assert isinstance(HealthServer("127.0.0.1:0").app(), web.Application)


async def test_a_thousand_half_requests_keep_no_probe_waiting(few_descriptors: int) -> None:
    """Each costs a descriptor; a process often has 1,024 unless it asks for more."""
    async with HealthServer("127.0.0.1:0") as server, aiohttp.ClientSession() as http:
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > few_descriptors
        half = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(few_descriptors)]
        for _, writer in half:
            writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n")
        assert await fetch(http, server, "/livez") == (200, "ok")
        for _, writer in half:
            writer.close()


@pytest.fixture
def few_descriptors() -> Iterator[int]:
    """How many this process may open, until it asks for more."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = len(os.listdir("/proc/self/fd")) + 256
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, limits[1]))
    yield few
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
