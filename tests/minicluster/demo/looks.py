"""Small builders for looks at a cluster of 100 cores."""

from __future__ import annotations

from koord_minicluster.demo.ledger import ClusterSample, Ledger


def look(
    time_s: float,
    *,
    prod: int = 0,
    batch: int = 0,
    lent: int = 0,
    held: int = 0,
    short: int = 0,
    ready: int = 10,
    services: int = 10,
) -> ClusterSample:
    """Amounts in cores."""
    return ClusterSample(
        time_s=time_s,
        capacity=100_000,
        used={"prod": prod * 1000, "batch": batch * 1000, "system": 2000},
        lent=lent * 1000,
        held_back=held * 1000,
        services_short=short * 1000,
        services_ready=ready,
        services=services,
    )


def ledger(*looks: ClusterSample) -> Ledger:
    return Ledger(began_s=looks[0].time_s, looks=list(looks))
