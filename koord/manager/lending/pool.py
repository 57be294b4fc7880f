"""The pool of batch resources: what other systems hold of it, and what is left for Kubernetes.

    shown = max(0, pool - held by other systems)

Systems like YARN take their part from the pool that the node's annotation `originExtendedAllocatable` publishes, and
report it in the annotation `thirdPartyAllocations`. The node's Lending condition says whether there is a pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from koord.api.machinery.struct import EMPTY, Struct
from koord.api.protocol import names
from koord.api.protocol.annotations.colocation import (
    ORIGIN_EXTENDED_ALLOCATABLE,
    THIRD_PARTY_ALLOCATIONS,
    OriginExtendedAllocatable,
)
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.priority import PriorityClass
from koord.api.text.quantity import QuantityError, render, value
from koord.manager.figures import Figure, Term, continued
from koord.manager.node_state import BATCH, NodeFacts
from koord.manager.plugin import PluginOutcome


class LendingCondition(Struct):
    """Whether a node lends. A new message alone is not written: only a new status or reason is."""

    status: Literal["True", "False"]
    reason: str
    message: str


class SharedPool(Struct):
    """A pool after other systems took their part."""

    figures: tuple[Figure, ...]
    "What is left for Kubernetes."
    amounts: Mapping[str, int]
    "The pool before other systems took their part."
    origin: str | None
    "The annotation that publishes these amounts; None to leave the annotation alone."
    condition: LendingCondition | None
    "None to leave the condition alone."
    notes: tuple[str, ...] = ()


def shared_pool(node: NodeFacts, outcome: PluginOutcome, figures: tuple[Figure, ...]) -> SharedPool:
    """The pool of a node. `figures`: the outcome's figures, after normalisation."""
    if outcome.deleted:
        nothing: dict[str, int] = dict.fromkeys(BATCH, 0)
        if outcome.off and not _was_lent(node):
            return SharedPool((), nothing, None, None)
        message = f"nothing is lent: {outcome.failed or outcome.note}"
        return SharedPool((), nothing, _origin(nothing), LendingCondition("False", outcome.reason, message))
    notes: list[str] = []
    held = held_by_others(node, notes)
    amounts = {figure.resource: figure.amount for figure in figures}
    return SharedPool(
        tuple(less(figure, held.get(figure.resource, 0)) for figure in figures),
        amounts,
        _origin(amounts),
        LendingCondition("True", "Reported", "batch and mid resources follow the node's reports"),
        tuple(notes),
    )


def less(figure: Figure, held: int) -> Figure:
    """What is left of a figure after other systems took their part."""
    if not held:
        return figure
    return continued(
        figure,
        Term("minus", "thirdParty", held, "held by other systems (annotation thirdPartyAllocations)"),
        Term("atLeast", "nothing", 0),
    )


def held_by_others(node: NodeFacts, notes: list[str] | None = None) -> Mapping[str, int]:
    """What other systems hold of the pool. An unreadable annotation counts as nothing, as in the protocol; `notes`
    receives the reason."""
    if names.ANNOTATION_THIRD_PARTY_ALLOCATIONS not in node.annotations:
        return EMPTY
    notes = [] if notes is None else notes
    total: dict[str, int] = {}
    try:
        for allocation in THIRD_PARTY_ALLOCATIONS.read(node.meta).allocations:
            if allocation.priority == PriorityClass.BATCH:
                for name, amount in allocation.resources.items():
                    if (held := value(amount)) < 0:
                        notes.append(f"thirdPartyAllocations: {allocation.name} holds {amount} {name} (it counts as 0)")
                    total[name] = total.get(name, 0) + max(held, 0)
    except (AnnotationError, QuantityError) as error:
        notes.append(f"{error} (it is left out)")
        return EMPTY
    return total


def published_pool(node: NodeFacts) -> Mapping[str, int] | None:
    """The pool that the node's annotation publishes; None if it cannot be read."""
    try:
        origin = ORIGIN_EXTENDED_ALLOCATABLE.read(node.meta)
        return {} if origin is None else {name: value(amount) for name, amount in origin.resources.items()}
    except (AnnotationError, QuantityError):
        return None


def sold_twice(node: NodeFacts) -> frozenset[str]:
    """Batch resources that Kubernetes and other systems together hold more of than the published pool has."""
    held = held_by_others(node)
    pool = published_pool(node) if held else None
    if pool is None:
        return frozenset()
    return frozenset(
        name
        for name in BATCH
        if held.get(name) and node.allocatable.get(name, 0) > max(pool.get(name, 0) - held[name], 0)
    )


def fully_held_pools(
    node: NodeFacts, shown: Mapping[str, int | None], pool: Mapping[str, int]
) -> Mapping[str, tuple[int, int]]:
    """Published and wanted pool of the batch resources that other systems hold completely. What Kubernetes sees of them
    stays 0 whatever the pool is."""
    published = published_pool(node) if held_by_others(node) else None
    if published is None:
        return EMPTY
    return {
        name: (published.get(name, 0), wanted)
        for name, wanted in pool.items()
        if node.allocatable.get(name) == shown.get(name) == 0
    }


def _was_lent(node: NodeFacts) -> bool:
    """Whether the node shows batch resources. A node that never lent anything must not be changed."""
    return names.ANNOTATION_ORIGIN_EXTENDED_ALLOCATABLE in node.annotations or any(
        name in node.allocatable for name in BATCH
    )


def _origin(amounts: Mapping[str, int]) -> str:
    return ORIGIN_EXTENDED_ALLOCATABLE.render(
        OriginExtendedAllocatable({name: render(name, amount) for name, amount in amounts.items()})
    )
