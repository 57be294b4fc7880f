"""One HTTP call to an API server: proof of identity, TLS, limits, retries, and the fence before a write.

`call` gets a whole answer, `stream` an open one; both raise the typed error for a refusal. A call is sent again when
that is known to be harmless: the server said it did not begin (429), it asked for it (Retry-After), nothing was sent
yet, or the call only reads. A write whose answer was lost is never repeated: it ends in `Unavailable`, `maybe_done`.

The fence (`check`) runs in the same step in which the first byte goes to the socket, on every attempt.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Protocol
from urllib.parse import urlencode

from yarl import URL

from koord.kube.auth import credentials_for, impersonation_headers
from koord.kube.clock import Clock, SystemClock
from koord.kube.cluster_config import ClusterConfig, ConfigError
from koord.kube.errors import ApiError, Silent, Status, Unauthorized, error_for, status_from, unreachable
from koord.kube.lean import AbstractStreamWriter, BytesPayload, StreamWriter, aiohttp
from koord.kube.proxy import proxy_for
from koord.kube.rate_limit import RateLimit
from koord.kube.retry import RetryPolicy, retry_after_s
from koord.kube.tls import ClientTls

CONNECT_TIMEOUT_S: Final = 10.0
KEEP_ALIVE_S: Final = 60.0
"""Below the 90 s after which an API server closes an idle connection, so that we never write into a closing one."""
READ_BUFFER_BYTES: Final = 1 << 20
MAX_WARNINGS: Final = 256

log = logging.getLogger(__name__)

Check = Callable[[], None]


class RequestObserver(Protocol):
    """Observes every request: the client's metrics. `code` is None if no answer came."""

    def answered(self, method: str, code: int | None, took_s: float) -> None: ...
    def retried(self, method: str, code: int | None) -> None: ...


@dataclass(frozen=True, slots=True)
class Call:
    """A request to the server. `verb` and `what` are for messages."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    content_type: str = "application/json"
    accept: str = "application/json"
    verb: str = ""
    what: str = ""

    @property
    def safe(self) -> bool:
        """Whether the call changes nothing."""
        return self.method in ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True, slots=True)
class Terms:
    """How patiently a call is made, and what must hold when it is sent."""

    timeout_s: float = 30.0
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    check: Check | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport:
    """The connections to one API server. Opened and closed by its owner."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        user_agent: str,
        qps: float | None = None,
        burst: int | None = None,
        max_in_flight: int = 64,
        clock: Clock | None = None,
        seed: str = "",
    ) -> None:
        self.config = config
        # Agents on a thousand machines make the same calls: they must not retry at the same instant.
        self._seed = seed or f"{user_agent} {socket.gethostname()} {os.getpid()}"
        self._warned: set[str] = set()
        self.clock: Clock = clock or SystemClock()
        self._base = config.server.rstrip("/")
        self._credentials = credentials_for(config, self.clock)
        self._tls = ClientTls(config, self.clock) if self._base.startswith("https:") else None
        self._proxy = proxy_for(config)
        self._limit = RateLimit(qps, burst or max(1, round(qps * 2)), self.clock) if qps else None
        self._in_flight = asyncio.Semaphore(max_in_flight)
        self._headers = (
            ("User-Agent", user_agent),
            # On a LAN, unpacking costs more CPU than the bytes it saves.
            ("Accept-Encoding", "identity"),
            *impersonation_headers(config.impersonation),
        )
        self._session: aiohttp.ClientSession | None = None
        self.observer: RequestObserver | None = None

    async def __aenter__(self) -> Transport:
        if self._tls is not None and self.config.exec is None:
            # Unusable certificates are a fault of the configuration: say so at once, not at the first call.
            self._tls.context()
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S, socket_factory=_socket)
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=READ_BUFFER_BYTES,
        )
        # Whether a lost call is sent again is decided here, by what was sent, and not by its HTTP method.
        self._session._retry_connection = False
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def call(self, call: Call, terms: Terms) -> Answer:
        """The whole answer to `call`, or the typed error."""
        timeout = aiohttp.ClientTimeout(total=terms.timeout_s, sock_connect=min(CONNECT_TIMEOUT_S, terms.timeout_s))
        response, body = await self._answered(call, terms, timeout, whole=True)
        return Answer(response.status, response.headers, body)

    @contextlib.asynccontextmanager
    async def stream(self, call: Call, terms: Terms, *, idle_s: float | None) -> AsyncIterator[aiohttp.ClientResponse]:
        """The open answer to `call`. Reading fails with `Silent` after `idle_s` without a byte."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=idle_s)
        response, _ = await self._answered(call, terms, timeout, whole=False)
        try:
            yield response
        except aiohttp.SocketTimeoutError as fault:
            status = Status(status="Failure", message=f"{self._base}: nothing came for {idle_s:g} s")
            raise Silent(status, verb=call.verb, what=call.what) from fault
        except _NETWORK_FAULTS as fault:
            raise unreachable(f"{self._base}: {_described(fault)}", verb=call.verb, what=call.what) from fault
        finally:
            # Not `release`: what is left of a stream that was not read to its end must not be waited for.
            response.close()

    async def _answered(
        self, call: Call, terms: Terms, timeout: aiohttp.ClientTimeout, *, whole: bool
    ) -> tuple[aiohttp.ClientResponse, bytes]:
        """An answer below 300, with its body where `whole`; attempts as `terms` allow."""
        attempt = 0
        renewed = False
        while True:
            attempt += 1
            if self._limit is not None:
                await self._limit.turn()
            try:
                proof = await self._credentials.current()
                tls = self._tls.context(proof.certificate) if self._tls else False
            except ConfigError as error:
                status = Status(status="Failure", message=str(error))
                raise Unauthorized(status, verb=call.verb, what=call.what) from error
            # What changes something always has a body, if an empty one: the fence is in it.
            payload = None if call.safe else _Body(call.body or b"", call.content_type, terms.check)
            headers = [*self._headers, ("Accept", call.accept), *proof.headers]
            code: int | None = None
            started = self.clock.monotonic()
            try:
                async with self._in_flight:
                    started = self.clock.monotonic()
                    response = await self._send(call, headers, payload, tls, timeout)
                    code = response.status
                    try:
                        body = await response.read() if whole or response.status >= 300 else b""
                    except BaseException:
                        response.close()
                        raise
            except _NETWORK_FAULTS as fault:
                if payload is not None and payload.fenced is not None:
                    raise payload.fenced from None
                refusal: ApiError
                refusal, wait_s = self._lost(call, terms, attempt, payload, fault)
                if wait_s < 0:
                    raise refusal from fault
            else:
                self._pass_on_warnings(response)
                if response.status < 300:
                    return response, body
                if response.status == 401 and not renewed:
                    renewed = True
                    fresh_certificate = self._tls is not None and self._tls.refused(proof.certificate)
                    if await self._credentials.refused(proof) or fresh_certificate:
                        continue
                refusal, wait_s = self._refused(call, terms, attempt, response, body)
                if wait_s < 0:
                    raise refusal
            finally:
                if self.observer is not None and (payload is None or payload.fenced is None):
                    self.observer.answered(call.method, code, self.clock.monotonic() - started)
            if self.observer is not None:
                self.observer.retried(call.method, code)
            log.debug("again in %.2f s: %s", wait_s, refusal)
            await self.clock.sleep(wait_s)

    async def _send(
        self,
        call: Call,
        headers: list[tuple[str, str]],
        payload: _Body | None,
        tls: ssl.SSLContext | bool,
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            raise RuntimeError("the client is not open: use it as `async with Client(...) as client`")
        url = f"{self._base}{call.path}?{urlencode(call.query)}" if call.query else f"{self._base}{call.path}"
        return await self._session.request(
            call.method,
            URL(url, encoded=True),
            data=payload,
            headers=headers,
            ssl=tls,
            server_hostname=self.config.tls_server_name or None,
            proxy=self._proxy,
            timeout=timeout,
            allow_redirects=False,
        )

    def _lost(
        self, call: Call, terms: Terms, attempt: int, payload: _Body | None, fault: BaseException
    ) -> tuple[ApiError, float]:
        """The error for a call without an answer, and the wait before it is sent again (negative: it is not)."""
        maybe_done = payload is not None and payload.sent
        error = unreachable(f"{self._base}: {_described(fault)}", verb=call.verb, what=call.what, maybe_done=maybe_done)
        hopeless = isinstance(fault, aiohttp.ClientConnectorCertificateError | aiohttp.InvalidURL)
        if hopeless or maybe_done or attempt >= terms.retry.attempts:
            return error, -1.0
        return error, terms.retry.delay_s(attempt, self._jitter_key(call))

    def _refused(
        self, call: Call, terms: Terms, attempt: int, response: aiohttp.ClientResponse, body: bytes
    ) -> tuple[ApiError, float]:
        """The error for a refusal, and the wait before another attempt (negative: there is none)."""
        status = status_from(response.status, body)
        error = error_for(status, verb=call.verb, what=call.what)
        asked_s = retry_after_s(response.headers.get("Retry-After"), self.clock.now())
        error.retry_after_s = asked_s or error.retry_after_s
        # A disruption budget's refusal is an answer, not an overload: the caller decides when to ask again.
        budget = any(cause.reason == "DisruptionBudget" for cause in status.details.causes)
        if budget or not terms.retry.again(attempt, response.status, safe=call.safe, retry_after_s=asked_s):
            return error, -1.0
        return error, terms.retry.delay_s(attempt, self._jitter_key(call), asked_s)

    def _jitter_key(self, call: Call) -> str:
        return f"{self._seed} {call.method} {call.path}"

    def _pass_on_warnings(self, response: aiohttp.ClientResponse) -> None:
        """What the server warns of (deprecated versions, doubtful fields), once each."""
        for warning in response.headers.getall("Warning", ()):
            if warning not in self._warned and len(self._warned) < MAX_WARNINGS:
                self._warned.add(warning)
                log.warning("%s: %s", self._base, warning)


_NETWORK_FAULTS: Final = (aiohttp.ClientError, asyncio.TimeoutError, OSError)


class _Body(BytesPayload):
    """A request body that asks the fence right before it, and with it the request's head, goes to the socket."""

    def __init__(self, data: bytes, content_type: str, check: Check | None) -> None:
        super().__init__(data, content_type=content_type)
        self._check = check
        self.sent = False
        self.fenced: Exception | None = None

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        if self._check is not None:
            try:
                self._check()
            except Exception as error:
                self.fenced = error
                raise
        if isinstance(writer, StreamWriter) and (writer.transport is None or writer.transport.is_closing()):
            # The server closed an idle connection when this call took it: nothing was sent.
            raise ConnectionResetError("the connection was closed before the request was sent")
        self.sent = True
        await super().write_with_length(writer, content_length)


_TLS_OBJECT: Final = re.compile(r" ssl:(<[^>]*>|\w+)")
"""The HTTP library names its TLS object in its messages, which does not help users."""


def _described(fault: BaseException) -> str:
    said = _TLS_OBJECT.sub("", str(fault))
    if isinstance(fault, asyncio.TimeoutError):
        return said or "no answer in time"
    return said or type(fault).__name__


_KEEP_ALIVE_OPTIONS: Final = {"TCP_KEEPIDLE": 20, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 4, "TCP_USER_TIMEOUT": 60_000}


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket on which the kernel notices within a minute that the other machine is gone."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEP_ALIVE_OPTIONS.items():
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made
