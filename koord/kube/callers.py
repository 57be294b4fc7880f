"""The caller of an HTTP endpoint, and the answer if it may not call it.

A caller shows a bearer token, or a client certificate that the API server's authority signed (`trust_clients`), as
Kubernetes' own components take them.
"""

from __future__ import annotations

import logging
import ssl
from typing import Final

from aiohttp import web

from koord.api.kinds import CONFIG_MAPS
from koord.kube.authorize import Authorizer, CallerCredentials, Right
from koord.kube.client import Client
from koord.kube.errors import ApiError

log = logging.getLogger(__name__)

HEADERS: Final = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache, private"}
AUTHENTICATION: Final = ("kube-system", "extension-apiserver-authentication", "client-ca-file")
"""Where API servers publish the authority of their clients: namespace and name of a ConfigMap, and its key."""


def shown_by(request: web.Request) -> CallerCredentials:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return CallerCredentials(token=token.strip())
    certificate = request.transport.get_extra_info("peercert") if request.transport is not None else None
    words = [pair for part in (certificate or {}).get("subject", ()) for pair in part]
    names = [value for key, value in words if key == "commonName"]
    groups = tuple(value for key, value in words if key == "organizationName")
    return CallerCredentials(user=names[0], groups=groups) if names else CallerCredentials()


async def refusal(authorizer: Authorizer, request: web.Request, *rights: Right) -> web.Response | None:
    """The answer to a caller without any of the rights; None if it has one."""
    try:
        verdict = await authorizer.verdict(shown_by(request), *rights)
    except (ApiError, OSError, TimeoutError) as error:
        log.error("the API server could not verify the caller: %s", error, extra={"path": request.path})
        return text("the API server could not be asked whether you may do this; try again later\n", 503)
    match verdict:
        case "allowed":
            return None
        case "unauthenticated":
            return text("Unauthorized: send a bearer token that the API server knows\n", 401)
        case "forbidden":
            return text(f"Forbidden: needs {rights[0]}\n", 403)


async def trust_clients(client: Client, context: ssl.SSLContext) -> None:
    """From here on callers may show certificates that the API server takes. Without its word there are only tokens."""
    namespace, name, key = AUTHENTICATION
    try:
        config_map = await client.get(CONFIG_MAPS, name, namespace=namespace)
        context.load_verify_locations(cadata=config_map.data[key])
    except (ApiError, KeyError, ssl.SSLError) as error:
        log.warning("client certificates are not taken, only tokens: %s/%s: %s", namespace, name, error)
        return
    context.verify_mode = ssl.CERT_OPTIONAL


def text(body: str, status: int = 200) -> web.Response:
    return web.Response(text=body, status=status, headers=HEADERS)
