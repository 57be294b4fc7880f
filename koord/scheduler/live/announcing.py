"""Announces which scheduler names this scheduler decides for, by one lease each, while it decides.

`koord status`, `koord explain` and `koord plan --live` read them. Whatever goes wrong here is logged and never stops
scheduling: a scheduler without the right to write leases works, but cannot be seen. A scheduler that finds another
holder on its lease runs beside another scheduler without an election: both say so on the lease.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from koord.api.kinds import LEASES, NAMESPACES
from koord.api.protocol.announcements import ANNOUNCED, BESIDE, RENEWED_EACH_S, VALID_S, lease_name
from koord.api.protocol.names import NAMESPACE_KOORDINATOR
from koord.api.text.timestamp import micro_from_seconds
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.election import NotLeader
from koord.kube.errors import ApiError, NotFound

log = logging.getLogger(__name__)

FIELD_MANAGER: Final = "koord-scheduler"
TAKEN_BACK_WITHIN_S: Final = 2.0


class Announcing:
    """`run` keeps the leases fresh until cancelled, then takes them back. `names` is asked each time."""

    def __init__(
        self, client: Client, namespace: str, identity: str, names: Callable[[], Iterable[str]], clock: Clock
    ) -> None:
        self._client = client.limited(timeout_s=RENEWED_EACH_S, attempts=1)
        self._namespace, self._identity, self._names, self._clock = namespace, identity, names, clock
        self._told = ""
        self._held: set[str] = set()
        self._beside: dict[str, dict[str, float]] = {}
        "By scheduler name, when other schedulers were last seen to announce it."

    async def run(self) -> None:
        try:
            while True:
                wanted = set(self._names())
                await self._look(wanted & self._held)
                await self._write(dict.fromkeys(wanted, self._identity) | dict.fromkeys(self._held - wanted, ""))
                self._held = wanted
                await self._clock.sleep(RENEWED_EACH_S)
        finally:
            with suppress(TimeoutError, asyncio.CancelledError):
                async with asyncio.timeout(TAKEN_BACK_WITHIN_S):
                    await self._write(dict.fromkeys(self._held, ""))

    async def _look(self, names: Iterable[str]) -> None:
        """A holder that wrote a lease after this scheduler did is another active scheduler."""
        now_s = self._clock.now()
        for name in sorted(names):
            others = {who: s for who, s in self._beside.get(name, {}).items() if now_s - s <= VALID_S}
            with suppress(ApiError, NotLeader, OSError):
                lease = await self._client.get(LEASES, lease_name(name), namespace=self._namespace)
                if (holder := lease.spec.holder_identity) and holder != self._identity:
                    if holder not in others:
                        log.warning(
                            "another scheduler, %s, decides for the name %s too, without an election: they may give "
                            "the same room to two pods; stop one of them, or start both with --leader-elect",
                            holder,
                            name,
                        )
                    others[holder] = now_s
            self._beside[name] = others

    async def _write(self, holders: dict[str, str]) -> None:
        try:
            for name, holder in sorted(holders.items()):
                await self._apply(name, holder)
            self._told = ""
        except (ApiError, NotLeader, OSError) as error:
            if (said := str(error)) != self._told:
                log.warning("could not announce the scheduler names, so koord status cannot see them: %s", said)
                self._told = said

    async def _apply(self, name: str, holder: str) -> None:
        beside = {BESIDE: ",".join(sorted(self._beside[name]))} if holder and self._beside.get(name) else {}
        lease = {
            "metadata": {"labels": {ANNOUNCED: "true"}, **({"annotations": beside} if beside else {})},
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": VALID_S,
                "renewTime": micro_from_seconds(self._clock.now()),
            },
        }
        try:
            await self._send(name, lease)
        except NotFound:
            if self._namespace != NAMESPACE_KOORDINATOR:
                raise
            await self._client.create(NAMESPACES, {"metadata": {"name": self._namespace}})
            await self._send(name, lease)

    async def _send(self, name: str, lease: dict[str, object]) -> None:
        await self._client.patch(
            LEASES,
            lease_name(name),
            lease,
            namespace=self._namespace,
            type="apply",
            field_manager=FIELD_MANAGER,
            force=True,
        )
