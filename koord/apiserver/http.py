"""HTTP: from a request to the part of the server that answers it, and back.

One handler for every path: the API is dynamic (kinds come and go), so there is no routing table. It authenticates,
authorises, reads the body, calls the verb, and writes the answer in the form that was asked for. A `StatusError` from
anywhere below is the answer; anything else that escapes is a defect, logged and answered with 500.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from aiohttp import web

from koord.apiserver.access.authn import Authenticator, UserInfo
from koord.apiserver.access.impersonation import impersonated
from koord.apiserver.access.rbac import Access, Authorizer, refused
from koord.apiserver.negotiation import Form, negotiate
from koord.apiserver.registry import Registry
from koord.apiserver.request_info import RequestInfo, request_info
from koord.apiserver.resource import Resource
from koord.apiserver.status import StatusError

log = logging.getLogger(__name__)

BODY_LIMIT = 3 << 20
PLAIN_404 = b"404 page not found\n"


@dataclass(frozen=True, slots=True)
class Request:
    """A request, as the verbs see it: who asks, for what, how the answer is wanted."""

    http: web.BaseRequest
    info: RequestInfo
    user: UserInfo
    query: Mapping[str, str]
    form: Form

    async def body(self) -> bytes:
        if (self.http.content_length or 0) > BODY_LIMIT:
            raise too_large()
        chunks, size = [], 0
        async for chunk in self.http.content.iter_any():
            size += len(chunk)
            if size > BODY_LIMIT:
                raise too_large()
            chunks.append(chunk)
        return b"".join(chunks)

    @property
    def content_type(self) -> str:
        return str(self.http.headers.get("Content-Type", "application/json"))


Answer = web.StreamResponse
PathHandler = Callable[[Request], Awaitable[Answer]]
ResourceHandler = Callable[[Request, Resource], Awaitable[Answer]]


class HttpApi:
    """The one request handler. `paths` are exact or, with a trailing slash, prefixes; `otherwise` is asked last."""

    def __init__(
        self,
        registry: Registry,
        authenticator: Authenticator,
        authorizer: Authorizer,
        resources: ResourceHandler,
        paths: Mapping[str, PathHandler],
        otherwise: Callable[[Request], Awaitable[Answer | None]],
    ) -> None:
        self._registry, self._authenticator, self._authorizer = registry, authenticator, authorizer
        self._resources, self._paths, self._otherwise = resources, paths, otherwise
        self._prefixes = [(path, handler) for path, handler in paths.items() if path.endswith("/") and path != "/"]

    async def handle(self, http: web.BaseRequest) -> Answer:
        try:
            return await self._answer(http)
        except StatusError as error:
            return refusal(error)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception:
            log.exception("request failed", extra={"method": http.method, "path": http.path})
            return refusal(StatusError(500, "InternalError", "Internal error occurred: see the server's log"))

    async def _answer(self, http: web.BaseRequest) -> Answer:
        query = dict(http.query)
        info = request_info(http.method, http.path, query)
        # The usual roles let strangers see health and version, and nothing else.
        user = self._authenticator.authenticate(http.headers, http.transport) or UserInfo.anonymous()
        user = impersonated(user, http.headers, self._authorizer)
        self._authorize(user, info)
        handler = self._path_handler(info.path)
        if handler is not None:
            # Each of these paths has its own forms of answers.
            return await handler(Request(http, info, user, query, Form()))
        request = Request(http, info, user, query, negotiate(http.headers.get("Accept", "")))
        resource = self._registry.find(info.group, info.version, info.resource) if info.is_resource else None
        if resource is not None:
            return await self._resources(request, resource)
        found = await self._otherwise(request)
        return found or web.Response(status=404, body=PLAIN_404, content_type="text/plain")

    def _authorize(self, user: UserInfo, info: RequestInfo) -> None:
        access = Access(info.verb, info.group, info.resource, info.subresource, info.name, info.namespace, info.path)
        allowed, why = self._authorizer.allowed(user, access)
        if not allowed:
            raise refused(user, access, why)

    def _path_handler(self, path: str) -> PathHandler | None:
        exact = self._paths.get(path.rstrip("/") or "/")
        if exact is not None:
            return exact
        return next((handler for prefix, handler in self._prefixes if path.startswith(prefix)), None)


def too_large() -> StatusError:
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {BODY_LIMIT}", details=False)


def refusal(error: StatusError) -> web.Response:
    headers = {"Retry-After": str(error.retry_after_s)} if error.retry_after_s else None
    return web.Response(
        status=error.code,
        body=msgspec.json.encode(error.body()) + b"\n",
        content_type="application/json",
        headers=headers,
    )


def json_answer(value: object, *, status: int = 200, content_type: str = "application/json") -> web.Response:
    body = value if isinstance(value, bytes) else msgspec.json.encode(value)
    return web.Response(status=status, body=body + b"\n", headers={"Content-Type": content_type})


def warning_headers(warnings: list[str]) -> list[tuple[str, str]]:
    """As RFC 7234 has them: `299 - "text"`, quotes escaped, no control characters."""
    quoted = ("".join(" " if ord(c) < 32 else c for c in w).replace("\\", "\\\\").replace('"', '\\"') for w in warnings)
    return [("Warning", f'299 - "{text}"') for text in quoted]


def details_of(obj: Mapping[str, Any], resource: Resource) -> dict[str, Any]:
    meta = obj["metadata"]
    details = {"name": meta["name"], "group": resource.group, "kind": resource.plural, "uid": meta["uid"]}
    return {key: value for key, value in details.items() if value}
