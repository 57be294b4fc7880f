"""Posting reviews to webhooks over TLS.

Failures read as the real server's do, since people look for them: `failed to call webhook: Post "https://...": ...`.
A service reference is resolved to an address by the server's resolver, while TLS still checks the service's name.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit, urlunsplit

import msgspec

from koord_minicluster.apiserver.admission.webhook_rules import Hook, ServiceRef
from koord_minicluster.apiserver.status import shown

if TYPE_CHECKING:
    # The import takes a tenth of a second, and a server without webhooks does not need it.
    import aiohttp

ANSWER_LIMIT: Final = 16 << 20
_CONNECTIONS_PER_HOST: Final = 25
_NOT_JSON: Final = (
    "couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type "
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
)

Resolver = Callable[[ServiceRef], tuple[str, int]]
"""Where a service is reached: (host, port). Raises LookupError with the reason."""


class CallFailed(Exception):
    """The webhook could not be asked, or gave no usable answer."""


class WebhookClient:
    """Calls webhooks. Connections are kept; close it at the end."""

    def __init__(self, resolve: Resolver) -> None:
        self._resolve = resolve
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def post(self, hook: Hook, body: object) -> object:
        """The hook's answer, decoded. Raises CallFailed."""
        import aiohttp

        if not hook.url:
            raise CallFailed("could not get REST client: webhook configuration must have either service or URL")
        url = f"{hook.url}{'&' if '?' in hook.url else '?'}timeout={hook.timeout_s}s"
        failed = f'failed to call webhook: Post "{url}": '
        try:
            async with asyncio.timeout(hook.timeout_s):
                status, content_type, answer = await self._send(hook, url, msgspec.json.encode(body))
        except TimeoutError as error:
            raise CallFailed(failed + "context deadline exceeded") from error
        except (aiohttp.ClientError, OSError, ValueError, LookupError) as error:
            raise CallFailed(failed + cause_of(error)) from error
        if not 200 <= status < 300:
            raise CallFailed("failed to call webhook: " + _refusal(status, answer))
        if not answer:
            detail = f"0-length response with status code: {status} and content type: {content_type}"
            raise CallFailed(f"failed to call webhook: {detail}")
        try:
            return msgspec.json.decode(answer)
        except msgspec.DecodeError as error:
            raise CallFailed(f"failed to call webhook: {_NOT_JSON}") from error

    async def _send(self, hook: Hook, url: str, body: bytes) -> tuple[int, str, bytes]:
        import aiohttp
        from yarl import URL

        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, limit_per_host=_CONNECTIONS_PER_HOST, ttl_dns_cache=10)
            self._session = aiohttp.ClientSession(connector=connector, auto_decompress=True)
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, */*",
            "User-Agent": "koord-apiserver",
        }
        server_name = None
        if hook.service is not None:
            parts = urlsplit(url)
            host, port = self._resolve(hook.service)
            headers["Host"] = parts.netloc
            server_name = parts.hostname
            url = urlunsplit(parts._replace(netloc=f"[{host}]:{port}" if ":" in host else f"{host}:{port}"))
        async with self._session.post(
            URL(url, encoded=True),
            data=body,
            headers=headers,
            ssl=hook.tls(),
            server_hostname=server_name,
            allow_redirects=False,
        ) as response:
            chunks, size = [], 0
            async for chunk in response.content.iter_any():
                size += len(chunk)
                if size > ANSWER_LIMIT:
                    raise ValueError(f"the answer is larger than {ANSWER_LIMIT} bytes")
                chunks.append(chunk)
            return response.status, response.headers.get("Content-Type", ""), b"".join(chunks)


def cause_of(error: Exception) -> str:
    """A failure to reach a server, as Go tells it."""
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "tls: failed to verify certificate: x509: " + _certificate_fault(error.certificate_error)
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
        if isinstance(cause, ssl.SSLCertVerificationError):
            return "tls: failed to verify certificate: x509: " + _certificate_fault(cause)
        if isinstance(cause, ConnectionRefusedError):
            return f"dial tcp {error.host}:{error.port}: connect: connection refused"
        return f"dial tcp {error.host}:{error.port}: {cause.strerror or cause}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    return str(error) or type(error).__name__


def _certificate_fault(error: Exception) -> str:
    text = getattr(error, "verify_message", "") or str(error)
    if "self-signed" in text or "unable to get local issuer" in text:
        return "certificate signed by unknown authority"
    if "expired" in text:
        return "certificate has expired or is not yet valid"
    return text


def _refusal(status: int, answer: bytes) -> str:
    """What client libraries say of a status that came without an explanation."""
    text = answer[:2048].decode(errors="replace").strip()
    reasons = {
        400: "the server rejected our request for an unknown reason",
        401: "the server has asked for the client to provide credentials",
        403: text or "forbidden",
        404: "the server could not find the requested resource",
        405: text or "the server does not allow this method on the requested resource",
        503: text or "the server is currently unable to handle the request",
    }
    if status in reasons:
        return reasons[status]
    if status >= 500:
        return f"an error on the server ({shown(text)}) has prevented the request from succeeding"
    return f"the server responded with the status code {status} but did not return more information"
