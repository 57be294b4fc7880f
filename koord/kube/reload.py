"""Follows the configuration file: what it says now, whenever that is something new.

A file that cannot be read or is faulty is told of once, and what was read before stays in force. Mounted ConfigMaps are
replaced by renaming links, and editors write anew: so the file is looked at, by content, every few seconds.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from typing import Final, TypeVar

from koord.api.machinery.faults import BadInput
from koord.kube.clock import Clock

log = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 2.0
_NEEDS_RESTART: Final = ("leader_election", "client_connection")

C = TypeVar("C")


async def changes(read: Callable[[], C], now: C, clock: Clock, component: str) -> AsyncGenerator[C, None]:
    """The configuration each time that it is another one, of which everything can be put in force. `read` reads the
    file, and raises OSError or BadInput where that cannot be done."""
    complained = ""
    while True:
        await clock.sleep(LOOK_EVERY_S)
        try:
            found = read()
        except (OSError, BadInput) as error:
            if str(error) != complained:
                log.error("the configuration is left as it was: %s", error)
            complained = str(error)
            continue
        complained = ""
        if found == now:
            continue
        for name in needs_restart(now, found):
            log.warning("a change of %s takes effect when the %s is started again", name, component)
        now = found
        yield found


def needs_restart(before: object, now: object) -> list[str]:
    """What has changed that a running component cannot take over."""
    return [name for name in _NEEDS_RESTART if getattr(before, name) != getattr(now, name)]
