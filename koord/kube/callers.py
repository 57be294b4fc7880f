"""Who calls one of our HTTP endpoints, and what they are told if they may not.

A caller shows a bearer token, or a client certificate that the API server's authority signed (`trust_clients`), as
Kubernetes' own components take them.
"""

from __future__ import annotations

import logging
import ssl
from typing import Final

from aiohttp import web

from koord.api.kinds import CONFIG_MAPS
from koord.kube.authorize import Authorizer, Right, Shown
from koord.kube.client import Client
from koord.kube.errors import ApiError

log = logging.getLogger(__name__)

HEADERS: Final = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache, private"}
AUTHENTICATION: Final = ("kube-system", "extension-apiserver-authentication", "client-ca-file")
"""Where API servers publish the authority of their clients: namespace and name of a ConfigMap, and its key."""


def shown_by(request: web.Request) -> Shown:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return Shown(token=token.strip())
    certificate = request.transport.get_extra_info("peercert") if request.transport is not None else None
    words = [pair for part in (certificate or {}).get("subject", ()) for pair in part]
    names = [value for key, value in words if key == "commonName"]
    groups = tuple(value for key, value in words if key == "organizationName")
    return Shown(user=names[0], groups=groups) if names else Shown()


async def refusal(authorizer: Authorizer, request: web.Request, *rights: Right) -> web.Response | None:
    """What a caller is told who has none of the rights; None for one who may."""
    try:
        verdict = await authorizer.verdict(shown_by(request), *rights)
    except (ApiError, OSError, TimeoutError) as error:
        log.error("cannot ask the API server who is calling: %s", error, extra={"path": request.path})
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
        found = await client.get(CONFIG_MAPS, name, namespace=namespace)
        context.load_verify_locations(cadata=found.data[key])
    except (ApiError, KeyError, ssl.SSLError) as error:
        log.warning("client certificates are not taken, only tokens: %s/%s: %s", namespace, name, error)
        return
    context.verify_mode = ssl.CERT_OPTIONAL


def text(body: str, status: int = 200) -> web.Response:
    return web.Response(text=body, status=status, headers=HEADERS)
