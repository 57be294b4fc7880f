"""Follows the configuration file: what it says now, whenever that is something new.

A file that cannot be read or is faulty is told of once, and what was read before stays in force. Mounted ConfigMaps are
replaced by renaming links, and editors write anew: so the file is looked at, by content, every few seconds.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from typing import Final

from koord.api.configuration.scheduler_config import SchedulerConfiguration
from koord.api.machinery.faults import BadInput
from koord.kube.clock import Clock

log = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 2.0
_NEEDS_RESTART: Final = ("leader_election", "client_connection")

Read = Callable[[], SchedulerConfiguration]
"""Reads the file; raises OSError or BadInput where that cannot be done."""


async def changes(
    read: Read, now: SchedulerConfiguration, clock: Clock
) -> AsyncGenerator[SchedulerConfiguration, None]:
    """The configuration each time that it is another one, of which everything can be put in force."""
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
            log.warning("a change of %s takes effect when the scheduler is started again", name)
        now = found
        yield found


def needs_restart(before: SchedulerConfiguration, now: SchedulerConfiguration) -> list[str]:
    """What has changed that a running scheduler cannot take over."""
    return [name for name in _NEEDS_RESTART if getattr(before, name) != getattr(now, name)]
