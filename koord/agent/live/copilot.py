"""The copilot of YARN on this node, asked each second over its unix socket: which containers there are, and to end one.

Without a socket there is no YARN here. One of another user's is not asked: it could name any cgroup. A copilot that
stops answering leaves its last containers for a while: they run, whether it answers or not. After that none of them is
known, but YARN is still here, and so is what was set for all of it, until the socket is gone.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from typing import Any, Final

import aiohttp
import msgspec

from koord.agent.guests import guests_of
from koord.agent.pods import AgentPod
from koord.api.machinery.codec import DecodeError, decode
from koord.api.machinery.faults import BadInput
from koord.api.protocol.copilot import ContainerInfo
from koord.kube.clock import Clock
from koord.kube.unix_sockets import trusted

log = logging.getLogger(__name__)

ASK_S: Final = 1.0
ANSWER_S: Final = 2.0
STALE_S: Final = 30.0


class CopilotError(Exception):
    """Why the copilot did not do what it was asked to."""


class CopilotClient:
    def __init__(self, socket: str, clock: Clock) -> None:
        self._socket, self._clock = socket, clock
        self._heard_s = float("-inf")
        self._problem = ""
        self.found: dict[str, AgentPod] | None = None
        "None where there is no copilot."
        self.has_looked = False
        "Whether it is known if there is one."

    @property
    def guests(self) -> Mapping[str, AgentPod]:
        return self.found or {}

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.look()
            await self._clock.sleep(ASK_S)

    async def look(self) -> None:
        await self._look()
        self.has_looked = True

    async def _look(self) -> None:
        if not os.path.exists(self._socket):  # noqa: ASYNC240 - instant
            self._forget("", None)
            return
        if why := trusted(self._socket):
            self._forget(f"YARN's copilot at {self._socket} is not asked: {why}", None)
            return
        try:
            listed = decode(list[ContainerInfo], await self._ask("GET", "/v1/containers"))
            guests = guests_of(listed)
        except (CopilotError, DecodeError, BadInput) as error:
            self._forget(f"YARN's copilot at {self._socket}: {error}", {})
            return
        self._heard_s, self._problem = self._clock.monotonic(), ""
        if guests != self.found or list(guests) != list(self.found or ()):
            self.found = guests

    async def kill(self, container_id: str) -> None:
        """Raises CopilotError."""
        await self._ask("POST", "/v1/killContainer", {"containerID": container_id})

    def _forget(self, problem: str, left: dict[str, AgentPod] | None) -> None:
        """`left`: replaces the containers once the last answer is too old."""
        if problem and problem != self._problem:
            log.warning("%s", problem)
        self._problem = problem
        if self.found != left and self._clock.monotonic() - self._heard_s > STALE_S:
            self.found = left

    async def _ask(self, method: str, path: str, body: Any = None) -> bytes:
        try:
            async with (
                asyncio.timeout(ANSWER_S),
                aiohttp.ClientSession(connector=aiohttp.UnixConnector(path=self._socket)) as session,
                session.request(method, f"http://copilot{path}", json=body) as answer,
            ):
                data = await answer.read()
                if answer.status != 200:
                    raise CopilotError(_said(data) or f"it answered {answer.status}")
                return data
        except TimeoutError:
            raise CopilotError(f"it does not answer within {ANSWER_S:g} s") from None
        except (OSError, aiohttp.ClientError) as error:
            raise CopilotError(str(error)) from None


def _said(data: bytes) -> str:
    try:
        said = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return ""
    return said if isinstance(said, str) else ""
