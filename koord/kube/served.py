"""Which kinds a server has: custom ones may come late, or never."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import aclosing
from typing import Any

from koord.api.kinds import Kind
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.errors import ApiError, NotFound

log = logging.getLogger(__name__)

FIRST_S = 0.1
LONGEST_S = 30.0
GROWTH = 1.3


async def is_served(client: Client, kind: Kind[Any]) -> bool:
    """Whether the API server has a kind at all. Costs one short answer, however many objects there are."""
    try:
        async with aclosing(client.list_pages(kind, limit=1)) as pages:
            await anext(pages)
    except NotFound:
        return False
    return True


async def asked_until_told(client: Client, kind: Kind[Any], clock: Clock) -> bool:
    """Whether the API server has a kind; a server that cannot say is asked again."""
    wait_s = FIRST_S
    while True:
        try:
            return await is_served(client, kind)
        except ApiError as error:
            log.warning("cannot tell whether %s are served: %s", kind.plural, error)
        await clock.sleep(wait_s)
        wait_s = min(LONGEST_S, wait_s * GROWTH)


async def until_served(client: Client, wanted: Iterable[Kind[Any]], clock: Clock) -> None:
    """Returns when all of these are served. Asked for more and more seldom."""
    wait_s = FIRST_S
    for kind in wanted:
        while not await asked_until_told(client, kind, clock):
            await clock.sleep(wait_s)
            wait_s = min(LONGEST_S, wait_s * GROWTH)
