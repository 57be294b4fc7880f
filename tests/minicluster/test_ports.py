"""Access to the ports of components: with every credential, on every route, on loopback as elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
import trustme
from aiohttp import web

import koord
import koord_minicluster
from koord.api.kinds import SERVICE_ACCOUNTS
from koord.api.kubernetes.pod import Pod
from koord.kube import listening
from koord.kube.authorize import Authorizer
from koord.kube.certificates.own import own_certificate
from koord.kube.client import Client
from koord.kube.clock import SystemClock
from koord.kube.health import HealthServer
from koord.kube.informer import Informer
from koord.kube.metrics import Metrics
from koord.kube.store import Store
from koord_minicluster.hollow.live.kubelet import HollowKubelet
from koord_minicluster.kubelet.live.server import KubeletServer
from koord_minicluster.local.live.server import LocalKubelet
from tests.minicluster.apiserver.server_process import ServerProcess

SERVED = {
    "kube/listening.py": "how the others listen",
    "kube/health.py": "health and metrics of every component",
    "koord_minicluster/kubelet/live/server.py": "kubelets",
    "koord_minicluster/apiserver/listening.py": "the API server, whose own tests ask the same",
    "manager/live/webhook_server.py": "webhooks: open, since API servers show them no credential",
    "console/live/run.py": "the console, whose own tests ask the same",
    "agent/live/asked.py": "no port: a unix socket that only root may open, which the runtimes' own tests check",
    "koord_minicluster/demo/scenario.py": "a pod of the demo, which says hello to anyone, as a service does",
    "yarn/live/copilot.py": "no port: a unix socket that only root may open, which the copilot's own tests check",
}
"""Where ports are opened. Benchmarks are no components."""
OPEN = {f"/{path}{check}" for path in ("livez", "readyz", "healthz") for check in ("", "/{check}")}
"""Health, and nothing else."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    data = tmp_path_factory.mktemp("ports") / "data"
    with ServerProcess(data, "--durability", "fast") as process:
        yield process


class Pods(Store[Pod]):
    list = Store.records


@asynccontextmanager
async def local_port(client: Client) -> AsyncIterator[tuple[web.Application, str]]:
    async with _kubelet(LocalKubelet("here", dict, list), client) as found:
        yield found


@asynccontextmanager
async def hollow_port(client: Client) -> AsyncIterator[tuple[web.Application, str]]:
    pods = cast("Informer[Pod]", Pods(indexes={"node": lambda pod: (pod.spec.node_name,)}))
    async with _kubelet(HollowKubelet(pods, seed=0, clock=SystemClock()), client) as found:
        yield found


@asynccontextmanager
async def _kubelet(own: Any, client: Client) -> AsyncIterator[tuple[web.Application, str]]:
    async with KubeletServer(own, client, own_certificate("test", "127.0.0.1"), SystemClock()) as serving:
        yield serving.app(), f"https://127.0.0.1:{serving.port}"


@asynccontextmanager
async def health_port(client: Client) -> AsyncIterator[tuple[web.Application, str]]:
    async def look_into(request: web.Request) -> web.Response:
        return web.Response(text="yes")

    serving = HealthServer("127.0.0.1:0", metrics=Metrics(process=False), authorizer=Authorizer(client))
    serving.add_paths(look_into)
    async with serving:
        yield serving.app(), f"http://127.0.0.1:{serving.port}"


PORTS = [local_port, hollow_port, health_port]
Port = Callable[[Client], Any]


def asked_for(app: web.Application) -> Iterator[tuple[str, str, bool]]:
    """Every route as method and path, and whether it is open; and paths at which there is nothing."""
    for route in app.router.routes():
        path = route.resource.canonical if route.resource is not None else ""
        method = "POST" if route.method == "*" else route.method
        yield method, re.sub(r"\{(\w+)\}", r"\1", path), path in OPEN
    for path in ("/", "/stats/summary", "/metrics/cadvisor", "/debug/pprof/", "/debug/flags/v", "/logs/", "/events"):
        yield "PUT" if "flags" in path else "GET", path, False


async def status(session: aiohttp.ClientSession, method: str, url: str, token: str, tls: ssl.SSLContext | bool) -> int:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with session.request(method, url, headers=headers, ssl=tls) as answer:
        return answer.status


async def token_of(client: Client, name: str) -> str:
    """A service account that has no rights."""
    await client.create(SERVICE_ACCOUNTS, {"metadata": {"generateName": name, "namespace": "default"}})
    made = [
        service_account.metadata.name for service_account in await client.list(SERVICE_ACCOUNTS, namespace="default")
    ]
    account = next(each for each in made if each.startswith(name))
    path = f"/api/v1/namespaces/default/serviceaccounts/{account}/token"
    _, _, body = await client.raw("POST", path, body=b"{}")
    return str(json.loads(body)["status"]["token"])


@pytest.mark.parametrize("port", PORTS, ids=lambda port: port.__name__)
async def test_every_route_is_closed_to_strangers_and_open_to_those_who_may(server: ServerProcess, port: Port) -> None:
    pki = server.data_dir / "pki"
    admin = (pki / "token-admin").read_text().strip()
    as_api_server = ssl.create_default_context()
    as_api_server.check_hostname, as_api_server.verify_mode = False, ssl.CERT_NONE
    as_api_server.load_cert_chain(pki / "kubelet-client.crt", pki / "kubelet-client.key")
    async with (
        Client.from_config(str(server.data_dir / "kubeconfig")) as client,
        port(client) as (app, base),
        aiohttp.ClientSession() as session,
    ):
        nobody = await token_of(client, "nobody-")
        found = list(asked_for(app))
        assert any(is_open for *_, is_open in found)
        for method, path, is_open in found:
            url, what = base + path, f"{method} {path}"
            may = {await status(session, method, url, admin, False)}
            if base.startswith("https"):
                may.add(await status(session, method, url, "", as_api_server))
            assert not may & {401, 403}, what
            strangers = [await status(session, method, url, token, False) for token in ("", "made-up", nobody)]
            if is_open:
                assert not set(strangers) & {401, 403}, what
            else:
                assert strangers == [401, 401, 403], what


@pytest.mark.parametrize("port", [local_port, hollow_port], ids=lambda port: port.__name__)
async def test_a_certificate_of_another_authority_opens_nothing(
    server: ServerProcess, tmp_path: Path, port: Port
) -> None:
    forged = trustme.CA().issue_cert("admin@test", common_name="admin", organization_name="system:masters")
    forged.private_key_pem.write_to_path(str(tmp_path / "key"))
    forged.cert_chain_pems[0].write_to_path(str(tmp_path / "crt"))
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    async with (
        Client.from_config(str(server.data_dir / "kubeconfig")) as client,
        port(client) as (_, base),
        aiohttp.ClientSession() as session,
    ):
        with pytest.raises((aiohttp.ClientError, OSError)):
            await status(session, "GET", f"{base}/pods", "", context)


@pytest.mark.parametrize("port", PORTS, ids=lambda port: port.__name__)
async def test_half_a_request_head_is_not_waited_for(
    server: ServerProcess, port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "IDLE_WITHIN_S", 0.2)
    async with Client.from_config(str(server.data_dir / "kubeconfig")) as client, port(client) as (_, base):
        scheme, host, number = re.split("://|:", base)
        tls = ssl._create_unverified_context() if scheme == "https" else None
        for begun in (b"", b"GET /livez HTTP/1.1\r\nHost: x\r\n", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /"):
            reader, writer = await asyncio.open_connection(host, int(number), ssl=tls)
            writer.write(begun)
            async with asyncio.timeout(60):
                assert (await reader.read()).count(b"HTTP/1.1 200") == begun.count(b"\r\n\r\n")
            writer.close()


MALFORMED = (
    b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 100_000 + b"\r\n\r\n",
    b"GET /livez HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(2000)) + b"\r\n",
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /livez HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n",
    b"GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    b"POST /livez HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nno request\r\n\r\n",
)


@pytest.mark.parametrize("port", PORTS, ids=lambda port: port.__name__)
async def test_what_is_no_request_is_refused_and_fills_no_log(
    server: ServerProcess, port: Port, caplog: pytest.LogCaptureFixture
) -> None:
    async with Client.from_config(str(server.data_dir / "kubeconfig")) as client, port(client) as (_, base):
        scheme, host, number = re.split("://|:", base)
        tls = ssl._create_unverified_context() if scheme == "https" else None
        for request in MALFORMED:
            reader, writer = await asyncio.open_connection(host, int(number), ssl=tls)
            with contextlib.suppress(ConnectionError):
                writer.write(request)
                async with asyncio.timeout(60):
                    assert b" 400 " in await reader.read() or request.startswith(b"POST")
            writer.close()
    assert [record.getMessage() for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


def test_every_port_that_is_opened_is_asked_about_here() -> None:
    opening = re.compile(
        r"\b(TCPSite|UnixSite|create_server|start_server|HTTPServer)\("
        r"|from koord\.kube\.listening import (listening|serving)\b|from koord\.kube import listening\b"
    )
    product, minicluster = Path(koord.__file__).parent, Path(koord_minicluster.__file__).parent
    relative = {file: file.relative_to(product) for file in product.rglob("*.py")}
    relative |= {file: file.relative_to(minicluster.parent) for file in minicluster.rglob("*.py")}
    assert {str(name) for file, name in relative.items() if opening.search(file.read_text())} == set(SERVED)
