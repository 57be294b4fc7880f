"""Follows the configuration file: what it says now, whenever that is something new.

A file that cannot be read or is faulty is reported once, and the last valid configuration stays in force. Mounted
ConfigMaps are replaced by renaming links, and editors replace files: so the file is compared, by content, every few
seconds.
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
    """Each new configuration that can be put in force completely. `read` reads the file, and raises OSError or
    BadInput if it cannot."""
    complained = ""
    while True:
        await clock.sleep(LOOK_EVERY_S)
        try:
            config = read()
        except (OSError, BadInput) as error:
            if str(error) != complained:
                log.error("the configuration stays unchanged: %s", error)
            complained = str(error)
            continue
        complained = ""
        if config == now:
            continue
        for name in needs_restart(now, config):
            log.warning("a change of %s takes effect when the %s is started again", name, component)
        now = config
        yield config


def needs_restart(before: object, now: object) -> list[str]:
    """What has changed that a running component cannot take over."""
    return [name for name in _NEEDS_RESTART if getattr(before, name) != getattr(now, name)]
