"""Asks koord's agent, on its own socket, for the settings of a pod or container."""

from __future__ import annotations

import aiohttp
import msgspec

from koord.agent.adjustment import Adjustment
from koord.agent.announced import Asking
from koord.kube.unix_sockets import trusted


class AgentError(Exception):
    """Why the agent gave no answer."""


class UnknownPod(AgentError):
    """It answers, and does not know the pod."""


class AgentClient:
    def __init__(self, socket: str) -> None:
        self.socket = socket
        self._session: aiohttp.ClientSession | None = None

    async def ask(self, asking: Asking) -> Adjustment:
        """Raises AgentError."""
        if problem := trusted(self.socket):
            raise AgentError(problem)
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.UnixConnector(path=self.socket))
        try:
            async with self._session.post("http://agent/v1/adjustment", data=msgspec.json.encode(asking)) as answer:
                body = await answer.read()
                if answer.status == 404:
                    raise UnknownPod(body.decode(errors="replace").strip())
                if answer.status != 200:
                    raise AgentError(f"{answer.status}: {body.decode(errors='replace').strip()}")
            return msgspec.json.decode(body, type=Adjustment)
        except (OSError, aiohttp.ClientError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise AgentError(str(error) or type(error).__name__) from None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
