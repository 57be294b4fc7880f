"""What a component shows of its settings beside its health, and lets its operators set.

    GET /configz             the configuration that is in force
    PUT /debug/flags/v       how much is logged: everything from 4 on
    anything else            as the component says

Who may ask is the health server's to say.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from aiohttp import web

CONFIGZ: Final = "/configz"
VERBOSITY: Final = "/debug/flags/v"
LONGEST_BODY: Final = 1024
DETAILED: Final = 4
"""From this verbosity on, everything is logged."""


class SettingsPaths:
    def __init__(self, others: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = None) -> None:
        """`others` answers at all other paths."""
        self._others = others
        self._config: object = {}

    def in_force(self, config: object) -> None:
        """The component uses this configuration from now on."""
        self._config = config

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.path == CONFIGZ:
            return self._configz(request)
        if request.path == VERBOSITY:
            return await _set_verbosity(request)
        if self._others is not None:
            return await self._others(request)
        return _text(f"there is nothing at {request.path}", 404)

    def _configz(self, request: web.Request) -> web.Response:
        from aiohttp import web

        if request.method != "GET":
            return _text(f"{request.method} is not for {CONFIGZ}", 405)
        body = msgspec.json.encode({"componentconfig": self._config}, enc_hook=str)
        return web.Response(body=body, headers={"Content-Type": "application/json"})


async def _set_verbosity(request: web.Request) -> web.Response:
    if request.method != "PUT":
        return _text("unrecognized http method", 406)
    text = (await request.content.read(LONGEST_BODY)).decode(errors="replace").strip()
    if not (text.isascii() and text.isdigit()):
        return _text(f"failed set klog.logging.verbosity {text}: it must be a whole number", 400)
    logging.getLogger("koord").setLevel(logging.DEBUG if int(text) >= DETAILED else logging.INFO)
    return _text(f"successfully set klog.logging.verbosity to {text}")


def _text(text: str, status: int = 200) -> web.Response:
    from aiohttp import web

    return web.Response(text=text, status=status)
