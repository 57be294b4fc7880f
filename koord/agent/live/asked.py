"""Container runtimes ask here, over a unix socket of root's, for the settings of a new pod or container.

    POST /v1/adjustment {"pod": {"uid": ..., "annotations": {...}, ...}, "container": "main", "by": "runtime-proxy"}

A pod is announced before its first container: then its own cgroup is set at once, since a container's quota must fit
into its pod's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from koord.agent.adjustment import Adjustment
from koord.agent.announced import Asking
from koord.api.machinery.codec import DecodeError, decode
from koord.kube.unix_sockets import root_only

if TYPE_CHECKING:
    from aiohttp import web

log = logging.getLogger(__name__)

PATH: Final = "/v1/adjustment"
MOST_BYTES: Final = 8 << 20


class NotYet(Exception):
    """Nothing is known of this node so far."""


class Unknown(Exception):
    """The pod is not on this node."""


async def serve(socket: Path, answer: Callable[[Asking], Adjustment]) -> web.AppRunner:
    """Serves until the runner is cleaned up. `answer` raises NotYet, Unknown, or ValueError for a pod that cannot
    be."""
    # Imported only here: most agents have no callers, and the server costs them memory.
    from aiohttp import web

    async def ask(request: web.Request) -> web.Response:
        try:
            adjustment = answer(decode(Asking, await request.read()))
            return web.Response(body=msgspec.json.encode(adjustment), content_type="application/json")
        except NotYet as error:
            return web.Response(status=503, text=f"{error}\n")
        except Unknown as error:
            return web.Response(status=404, text=f"{error}\n")
        except (DecodeError, ValueError) as error:
            return web.Response(status=400, text=f"{error}\n")

    app = web.Application(client_max_size=MOST_BYTES)
    app.router.add_post(PATH, ask)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.UnixSite(runner, str(socket))
    with root_only(socket):
        await site.start()
    log.info("container runtimes are answered on %s", socket)
    return runner
