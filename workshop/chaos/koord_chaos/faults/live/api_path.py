"""The way of one component to the API server, which can be disturbed: a proxy that speaks HTTP over TLS.

`manner` says how it behaves from now on. The component gets a kubeconfig that names the proxy and trusts its authority;
towards the server, the proxy presents the credentials of the original kubeconfig. Requests that wait when a partition
heals are delivered late, as packets are.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import logging
import random
import ssl
from base64 import b64encode
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web
from cryptography.x509.oid import ExtendedKeyUsageOID
from yarl import URL

from koord.kube import (
    lean,  # noqa: F401 - before anything else imports aiohttp
)
from koord.kube.certificates.making import Issuer, certificate, key_pem, name, new_key, pem_of, show
from koord.kube.clock import SystemClock
from koord.kube.cluster_config import ClusterConfig
from koord.kube.tls import ClientTls
from koord_chaos.faults.live.ledger import Ledger

log = logging.getLogger(__name__)
_broken_off = logging.getLogger(f"{__name__}.broken_off")
"""aiohttp's reports of connections that were broken off, which is what happens here."""
_broken_off.setLevel(logging.CRITICAL)

HERE: Final = "127.0.0.1"
LASTS: Final = dt.timedelta(days=30)
HOP_BY_HOP: Final = frozenset({"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "host"})
READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
GATHER_S: Final = 0.3
"""How long events are gathered before they change places."""
GONE: Final = {
    "kind": "Status",
    "apiVersion": "v1",
    "status": "Failure",
    "code": 410,
    "reason": "Expired",
    "message": "too old resource version",
}
REASONS: Final = {429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}


@dataclass(frozen=True, slots=True)
class Manner:
    """How the way behaves. Without arguments it is sound."""

    cut: bool = False
    "No byte passes, and connections stay open."
    refuses: bool = False
    delay_s: float = 0.0
    "The longest delay of an answer or a batch of events."
    status: int = 0
    "The answer to requests, for `share` of them."
    loses_answers: bool = False
    "Writes reach the server; the answer to `share` of them is lost."
    share: float = 1.0
    silent_watches: bool = False
    gone_watches: bool = False
    gone_pages: bool = False
    duplicates: bool = False
    reorders: bool = False
    expired: bool = False
    "The proxy shows a certificate that is no longer valid."


SOUND: Final = Manner()


class ApiPath:
    """One proxy. `async with` it, then `kubeconfig()` is what its component uses."""

    def __init__(
        self, server: ClusterConfig, seed: int = 0, *, component: str = "", ledger: Ledger | None = None
    ) -> None:
        """`ledger`: hears what the component writes."""
        self._server, self._component, self._ledger = server, component, ledger
        self._tls = ClientTls(server, SystemClock())
        self._dice = random.Random(seed)
        self._manner = SOUND
        self._changed = asyncio.Event()
        self.requests = 0
        now = dt.datetime.now(dt.UTC)
        key = new_key()
        self._authority = Issuer(certificate(name("koord-chaos"), key, now, LASTS), key)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    @property
    def manner(self) -> Manner:
        return self._manner

    @manner.setter
    def manner(self, manner: Manner) -> None:
        before, self._manner = self._manner, manner
        if manner.expired != before.expired:
            self._show(expired=manner.expired)
        if manner.expired or manner.refuses or manner.silent_watches or manner.gone_watches:
            # What is open was made under the former manner.
            self._break_off()
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def __aenter__(self) -> ApiPath:
        self._show(expired=False)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )
        self._listening = web.Server(self._handle, access_log=None, logger=_broken_off)
        self._runner = web.ServerRunner(self._listening, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, HERE, 0, ssl_context=self._context)
        await site.start()
        self.port = int(self._runner.addresses[0][1])
        return self

    async def __aexit__(self, *error: object) -> None:
        self.manner = SOUND
        self._break_off()
        await self._runner.cleanup()
        await self._session.close()

    def write_kubeconfig(self, path: Path) -> None:
        authority = b64encode(pem_of(self._authority.certificate)).decode()
        cluster = {"server": f"https://{HERE}:{self.port}", "certificate-authority-data": authority}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "chaos",
            "clusters": [{"name": "chaos", "cluster": cluster}],
            "users": [{"name": "chaos", "user": {}}],
            "contexts": [{"name": "chaos", "context": {"cluster": "chaos", "user": "chaos"}}],
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(config))

    def _break_off(self) -> None:
        for connection in self._listening.connections:
            if isinstance(connection.transport, asyncio.Transport):
                connection.transport.abort()

    def _show(self, *, expired: bool) -> None:
        now, key = dt.datetime.now(dt.UTC), new_key()
        since = now - dt.timedelta(days=2) if expired else now
        lasts = dt.timedelta(days=1) if expired else LASTS
        shown = certificate(
            name(HERE), key, since, lasts, by=self._authority, hosts=[HERE], usage=ExtendedKeyUsageOID.SERVER_AUTH
        )
        show(self._context, pem_of(shown), key_pem(key))

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        if not isinstance(transport, asyncio.Transport):
            raise ConnectionResetError
        self.requests += 1
        try:
            return await self._answer(request)
        except (aiohttp.ClientError, OSError, EOFError) as error:
            log.debug("%s %s is broken off: %s", request.method, request.path_qs, error)
            transport.abort()
            raise ConnectionResetError from error

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._ledger is not None:
            self._ledger.sent(self._component, request.method, request.path)
        body = await request.content.read()
        await self._passed()
        manner = self._manner
        if manner.refuses:
            raise ConnectionResetError("refused")
        await self._late(manner)
        watches = request.query.get("watch") in ("true", "1", "True")
        if manner.status and not watches and self._dice.random() < manner.share:
            return failure(manner.status)
        if manner.gone_pages and request.query.get("continue"):
            return failure(410)
        if manner.gone_watches and watches and request.query.get("resourceVersion"):
            return web.Response(body=event("ERROR", GONE), content_type="application/json")
        async with self._session.request(
            request.method,
            URL(f"{self._server.server}{request.raw_path}", encoded=True),
            headers=headers_of(request, watches=watches),
            data=body or None,
            ssl=self._tls.context(),
            allow_redirects=False,
        ) as answer:
            if self._ledger is not None and request.method not in READS:
                said = await answer.read()
                self._ledger.answered(self._component, request.method, request.path, answer.status, said)
            if manner.loses_answers and request.method not in READS and self._dice.random() < manner.share:
                await answer.read()
                raise ConnectionResetError("the answer is lost")
            await self._passed()
            headers = {key: value for key, value in answer.headers.items() if key.lower() not in HOP_BY_HOP}
            response = web.StreamResponse(status=answer.status, headers=headers)
            if watches:
                response.headers.pop("Content-Length", None)
                await response.prepare(request)
                await self._carry_events(answer, response)
            else:
                whole = await answer.read()
                await self._passed()
                response.content_length = len(whole)
                await response.prepare(request)
                await response.write(whole)
            await response.write_eof()
            return response

    async def _carry_events(self, answer: aiohttp.ClientResponse, response: web.StreamResponse) -> None:
        rest = b""
        while True:
            chunk = await answer.content.readany()
            if chunk and self._manner.reorders:
                await asyncio.sleep(GATHER_S)
                chunk += answer.content.read_nowait()
            await self._passed()
            await self._late(self._manner)
            if self._manner.silent_watches:
                while self._manner.silent_watches:
                    await self._changed.wait()
                raise ConnectionResetError("events were lost")
            if not chunk:
                return
            *lines, rest = (rest + chunk).split(b"\n")
            if self._manner.reorders:
                lines = reordered(lines, self._dice)
            if self._manner.duplicates:
                lines = [line for line in lines for _ in range(2)]
            if lines:
                await response.write(b"\n".join(lines) + b"\n")

    async def _passed(self) -> None:
        """Returns when bytes pass."""
        while self._manner.cut:
            await self._changed.wait()

    async def _late(self, manner: Manner) -> None:
        if manner.delay_s:
            await asyncio.sleep(manner.delay_s * self._dice.random())


def headers_of(request: web.BaseRequest, *, watches: bool) -> list[tuple[str, str]]:
    without = HOP_BY_HOP | {"content-length"} | ({"accept-encoding"} if watches else set())
    headers = [(key, value) for key, value in request.headers.items() if key.lower() not in without]
    return headers if any(key.lower() == "accept-encoding" for key, _ in headers) else [
        *headers,
        ("Accept-Encoding", "identity"),
    ]  # fmt: skip


def failure(code: int) -> web.Response:
    status = GONE if code == 410 else {**GONE, "code": code, "reason": REASONS[code], "message": "koord chaos"}
    headers = {"Retry-After": "1"} if code == 429 else {}
    return web.json_response(status, status=code, headers=headers)


def event(kind: str, thing: Any) -> bytes:
    return json.dumps({"type": kind, "object": thing}).encode() + b"\n"


def reordered(lines: Iterable[bytes], dice: random.Random) -> list[bytes]:
    """Events in another order: those of one object stay in theirs, and bookmarks stay last."""
    queues: dict[str, list[bytes]] = {}
    last: list[bytes] = []
    for line in lines:
        change: dict[str, Any] = {}
        with suppress(json.JSONDecodeError):
            change = json.loads(line)
        if change.get("type") in ("ADDED", "MODIFIED", "DELETED"):
            meta = change["object"]["metadata"]
            queues.setdefault(f"{meta.get('namespace')}/{meta['name']}", []).append(line)
        else:
            last.append(line)
    order = [key for key, queue in queues.items() for _ in queue]
    dice.shuffle(order)
    return [queues[key].pop(0) for key in order] + last
