"""A token of a service account, asked for with other credentials, and renewed before it expires."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import msgspec

from koord.kube.client import Client

TOKEN_S: Final = 3600


class AccountToken:
    def __init__(self, client: Client, namespace: str, name: str, now_s: Callable[[], float] = time.monotonic) -> None:
        self._client, self._now_s = client, now_s
        self._path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        self._token, self._until_s = "", float("-inf")

    async def valid(self) -> str:
        """Raises ApiError if the server gives none."""
        if self._now_s() >= self._until_s:
            body = msgspec.json.encode({"spec": {"expirationSeconds": TOKEN_S}})
            _, _, answer = await self._client.raw("POST", self._path, body=body)
            self._token = msgspec.json.decode(answer)["status"]["token"]
            self._until_s = self._now_s() + TOKEN_S / 2
        return self._token
