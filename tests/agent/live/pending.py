"""Requests that a test has answered when it wants them to be."""

from __future__ import annotations

from koord.agent.live.api_requests import ApiRequests, Key, Request


class Pending(ApiRequests):
    def __init__(self) -> None:
        super().__init__()
        self.requests: dict[Key, Request] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self.requests

    def put(self, key: Key, request: Request) -> bool:
        self.requests[key] = request
        return True

    async def answered(self) -> None:
        while self.requests:
            await self.requests.pop(next(iter(self.requests)))()
