"""Names of other systems for the one pool that batch resources are: what they are worth in its own.

    kubernetes.io/batch-cpu, in milli-cores         kubernetes.io/batch-memory, in bytes
    crane      gocrane.io/cpu, in whole cores       gocrane.io/memory
    caster     caster.io/colocation-cpu             caster.io/colocation-memory
    katalyst   resource.katalyst.kubewharf.io/reclaimed_millicpu, /reclaimed_memory

What pods request by any of these names is counted as batch resources, wherever requests are counted. A node publishes
each name that its configuration lists with the pool less what is allocated through all other names, for readers that
know one name. Readers that know all of them count by the pool itself (`pool_on`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from koord.api.protocol.names import RESOURCE_BATCH_CPU, RESOURCE_BATCH_MEMORY, ResourceName


class PoolNames(NamedTuple):
    cpu: str
    memory: str
    cpu_unit_milli: int = 1


OTHER_NAMES: Final[Mapping[str, PoolNames]] = {
    "crane": PoolNames("gocrane.io/cpu", "gocrane.io/memory", 1000),
    "caster": PoolNames("caster.io/colocation-cpu", "caster.io/colocation-memory"),
    "katalyst": PoolNames(
        "resource.katalyst.kubewharf.io/reclaimed_millicpu", "resource.katalyst.kubewharf.io/reclaimed_memory"
    ),
}
"""By the word that colocation-config uses for them (poolNames)."""


class Alias(NamedTuple):
    of: ResourceName
    unit: int
    "One of it, in the pool's own unit."


ALIASES: Final[Mapping[str, Alias]] = {
    **{names.cpu: Alias(RESOURCE_BATCH_CPU, names.cpu_unit_milli) for names in OTHER_NAMES.values()},
    **{names.memory: Alias(RESOURCE_BATCH_MEMORY, 1) for names in OTHER_NAMES.values()},
}


def in_pool(requests: dict[str, int]) -> dict[str, int]:
    """Requests with all names of the pool as batch resources; the same object where there is none."""
    if ALIASES.keys().isdisjoint(requests):
        return requests
    counted = {name: amount for name, amount in requests.items() if name not in ALIASES}
    for name, (of, unit) in ALIASES.items():
        if name in requests:
            counted[of] = counted.get(of, 0) + requests[name] * unit
    return counted
