"""A cluster is divided into shards in one way at a time.

Schedulers with 2 shards and with 3 would both have a node, and each would give its room. So a leader decides nothing
while a lease of another division is held, as while shards are added in a roll-out. Of two that begin at once, both wait
and both end after a random time, and the first to return goes on.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from koord.api.kinds import LEASES
from koord.api.kubernetes.coordination import Lease
from koord.api.machinery.faults import BadInput
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.errors import ApiError
from koord.scheduler.shards import Shard, is_otherwise

log = logging.getLogger(__name__)

ASK_S: Final = 1.0
ENDS_S: Final = (30.0, 60.0)
"""When a scheduler that waits gives its own lease back: another one may be waiting for that."""


class DividedOtherwise(BadInput):
    """Other schedulers share the cluster in another way."""


@dataclass(slots=True)
class Division:
    """The leases of schedulers. One counts while it is renewed in sight: clocks of machines may differ."""

    base: str
    "The name of the lease of a scheduler without shards."
    shard: Shard | None
    _seen: dict[str, tuple[str, float]] = field(default_factory=dict)
    "By lease, its version, and since when it has that."

    def others(self, leases: Iterable[Lease], now_s: float) -> list[str]:
        """Held leases of another division."""
        held = []
        for lease in leases:
            meta, spec = lease.metadata, lease.spec
            if not spec.holder_identity or not is_otherwise(meta.name, self.base, self.shard):
                continue
            version, since_s = self._seen.get(meta.name, ("", 0.0))
            if version != meta.resource_version:
                since_s = now_s
                self._seen[meta.name] = meta.resource_version, now_s
            if now_s - since_s < spec.lease_duration_seconds:
                held.append(meta.name)
        return sorted(held)


async def until_one_division(client: Client, namespace: str, division: Division, clock: Clock) -> None:
    """Returns when no scheduler of another division leads. Raises DividedOtherwise if that takes long."""
    ends_s = clock.monotonic() + random.uniform(*ENDS_S)
    logged: list[str] = []
    while True:
        try:
            leases = await client.list(LEASES, namespace=namespace)
        except ApiError as error:
            log.warning("cannot tell whether other schedulers divide the cluster otherwise: %s", error)
            return
        others = division.others(leases, clock.monotonic())
        if not others:
            return
        message = f"leases {', '.join(others)} are held: --shard must have the same N in all schedulers of a cluster"
        if clock.monotonic() >= ends_s:
            raise DividedOtherwise(message)
        if others != logged:
            log.warning("waiting for other schedulers to end: %s", message)
        logged = others
        await clock.sleep(ASK_S)
