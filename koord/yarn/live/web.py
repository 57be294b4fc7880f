"""Hadoop's web services: one question and its answer, within limits of time and size."""

from __future__ import annotations

import asyncio
import ssl
from functools import cache
from typing import Final

import aiohttp
import msgspec

LONGEST_ANSWER: Final = 256 << 20


class TooLong(aiohttp.ClientError):
    """An answer without an end."""


async def ask(method: str, url: str, answer_s: float, body: object = None) -> tuple[int, bytes]:
    """Status and answer. Raises TimeoutError, OSError and aiohttp.ClientError. Nobody is sent elsewhere."""
    async with (
        asyncio.timeout(answer_s),
        aiohttp.ClientSession(headers={"Accept": "application/json"}) as session,
        session.request(method, url, json=body, allow_redirects=False, ssl=_trusted(url)) as answer,
    ):
        data = bytearray()
        async for some in answer.content.iter_any():
            data += some
            if len(data) > LONGEST_ANSWER:
                raise TooLong(f"its answer is longer than {LONGEST_ANSWER} bytes")
        return answer.status, bytes(data)


def _trusted(url: str) -> ssl.SSLContext | bool:
    """Whom this machine trusts, read where a certificate is looked at: Hadoop's may be signed by anybody."""
    return _machines() if url.startswith("https:") else True


@cache
def _machines() -> ssl.SSLContext:
    return ssl.create_default_context()


def decoded(data: bytes) -> object:
    """What the JSON says; None where it is none."""
    try:
        value: object = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None
    return value
