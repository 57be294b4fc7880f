"""Asks a cluster who schedules for which scheduler name."""

from __future__ import annotations

import asyncio

from koord.api.kinds import LEASES
from koord.api.protocol.announcements import ANNOUNCED, Schedulers, schedulers
from koord.api.protocol.names import NAMESPACE_KOORDINATOR, NAMESPACE_KUBE_SYSTEM
from koord.kube.client import Client


async def announced(client: Client, now_s: float) -> Schedulers:
    """Reads the leases of both system namespaces, where elections are held, and the announcements of any namespace."""
    elections = (
        client.list(LEASES, namespace=namespace) for namespace in (NAMESPACE_KUBE_SYSTEM, NAMESPACE_KOORDINATOR)
    )
    election_leases = await asyncio.gather(*elections, client.list(LEASES, labels=ANNOUNCED))
    by_key = {lease.metadata.key: lease for leases in election_leases for lease in leases}
    return schedulers(by_key.values(), now_s)
