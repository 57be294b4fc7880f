"""What a node gives of the pool that other systems know by other names.

The node publishes each name less what is allocated through all others, which is late by a write. Here requests of all
names are added up, so what counts is the pool itself: the annotation `originExtendedAllocatable` less what systems
outside of Kubernetes hold. What is sold then never exceeds it, whatever was published when.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from koord.api.kubernetes.node import Node
from koord.api.protocol import names
from koord.api.protocol.annotations.colocation import ORIGIN_EXTENDED_ALLOCATABLE, THIRD_PARTY_ALLOCATIONS
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.pool_names import ALIASES
from koord.api.protocol.priority import PriorityClass
from koord.api.text.quantity import QuantityError, value

POOL: Final = (names.RESOURCE_BATCH_CPU, names.RESOURCE_BATCH_MEMORY)
_KEYS: Final = (names.ANNOTATION_ORIGIN_EXTENDED_ALLOCATABLE, names.ANNOTATION_THIRD_PARTY_ALLOCATIONS)


def has_other_names(resources: Mapping[str, object]) -> bool:
    return not ALIASES.keys().isdisjoint(resources)


def pool_text(node: Node) -> tuple[str, ...]:
    """The annotations that say how large the pool is; empty where it has no other names."""
    if not has_other_names(node.status.allocatable):
        return ()
    return tuple(node.metadata.annotations.get(key, "") for key in _KEYS)


def with_pool(node: Node, has: dict[str, int]) -> dict[str, int]:
    """Amounts of a node with the pool under its own name alone. Where the annotations cannot be read, it is what is
    published under that name: less than the pool."""
    if not has_other_names(has):
        return has
    own = {name: amount for name, amount in has.items() if name not in ALIASES}
    try:
        origin = ORIGIN_EXTENDED_ALLOCATABLE.read(node.metadata)
        allocations = THIRD_PARTY_ALLOCATIONS.read(node.metadata).allocations
        if origin is None:
            return own
        for name in POOL:
            if name in origin.resources:
                held = sum(
                    max(value(allocation.resources.get(name, 0)), 0)
                    for allocation in allocations
                    if allocation.priority == PriorityClass.BATCH
                )
                own[name] = max(0, value(origin.resources[name]) - held)
    except (AnnotationError, QuantityError):
        return {name: amount for name, amount in has.items() if name not in ALIASES}
    return own
