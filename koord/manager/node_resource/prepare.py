"""From what plugins found to what a Node should show.

    batch-cpu shown = ceil(batch-cpu * normalisation ratio, where that is above 1) - what other systems hold

What there was before other systems took their share is told in an annotation, from which they take it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from koord.manager.lending.batch import NAME as BATCH_NAME
from koord.manager.node_resource.outcome import PluginOutcome
from koord.manager.node_resource.state import BATCH, NodeFacts
from koord.manager.node_resource.terms import Figure, Term, continued


class Lending(Struct):
    """Whether a node lends, as its condition tells. A message is told when status or reason change, not before."""

    status: Literal["True", "False"]
    reason: str
    message: str


class Prepared(Struct):
    """What a node should show. What is not named here is left alone."""

    resources: Mapping[str, int | None]
    "In capacity and allocatable; None is not at all."
    annotations: Mapping[str, str | None]
    labels: Mapping[str, str]
    zone_figures: Mapping[str, tuple[Figure, ...]]
    "By NUMA zone."
    figures: tuple[Figure, ...]
    "How the resources came about, to the last step."
    notes: tuple[str, ...] = ()
    lending: Lending | None = None
    "What the node's condition should say; None leaves it as it is."
    pool: Mapping[str, int] = EMPTY
    "Batch resources before other systems took their share."

    @property
    def zones(self) -> Mapping[str, Mapping[str, int]]:
        """Amounts by NUMA zone."""
        return {zone: {each.resource: each.amount for each in found} for zone, found in self.zone_figures.items()}


def prepare(node: NodeFacts, outcomes: Sequence[PluginOutcome]) -> Prepared:
    """What the node should show."""
    resources: dict[str, int | None] = {}
    annotations: dict[str, str | None] = {}
    labels: dict[str, str] = {}
    figures: list[Figure] = []
    notes: list[str] = []
    zones: Mapping[str, tuple[Figure, ...]] = EMPTY
    lending = None
    pool: Mapping[str, int] = EMPTY
    ratio = _ratio(outcomes)
    for outcome in outcomes:
        annotations |= outcome.annotations
        labels |= outcome.labels
        for name in outcome.deleted:
            resources[name] = None
        own = outcome.figures
        if outcome.plugin == BATCH_NAME:
            own, pool, origin = _batch(node, outcome, ratio, notes)
            lending = _lending(node, outcome)
            zones = outcome.zones
            if origin is not None:
                annotations[names.ANNOTATION_ORIGIN_EXTENDED_ALLOCATABLE] = origin
        for each in own:
            resources[each.resource] = each.amount
            figures.append(each)
    return Prepared(
        resources,
        annotations,
        labels,
        shown_zones(node, zones, ratio),
        tuple(figures),
        tuple(notes),
        lending,
        pool,
    )


def normalized(known: Figure, ratio: float) -> Figure:
    """batch-cpu in CPUs of the cluster's reference."""
    if known.resource != names.RESOURCE_BATCH_CPU or ratio <= 1:
        return known
    thousandths = int(known.amount * 1000 * ratio)
    return continued(
        known,
        Term(
            "becomes",
            "normalization",
            -(-thousandths // 1000),
            f"{known.amount} * {ratio:.2f}, what a CPU of this node is worth",
        ),
    )


def shown_zones(
    node: NodeFacts, zones: Mapping[str, tuple[Figure, ...]], ratio: float
) -> Mapping[str, tuple[Figure, ...]]:
    """By NUMA zone. Nobody says in which zone other systems hold their part, so each zone bears its share of it."""
    held = third_parties(node, [])
    share = {name: -(-amount // len(zones)) for name, amount in held.items()} if zones else {}
    return {
        zone: tuple(_less(normalized(each, ratio), share.get(each.resource, 0)) for each in found)
        for zone, found in zones.items()
    }


def _less(known: Figure, held: int) -> Figure:
    """What is left of a figure once other systems have their part."""
    if not held:
        return known
    return continued(
        known,
        Term("minus", "thirdParty", held, "held by other systems (annotation thirdPartyAllocations)"),
        Term("atLeast", "nothing", 0),
    )


def _batch(
    node: NodeFacts, outcome: PluginOutcome, ratio: float, notes: list[str]
) -> tuple[tuple[Figure, ...], Mapping[str, int], str | None]:
    """The batch figures as they are to be shown, their amounts before others took their share, and the annotation
    that tells those."""
    if outcome.deleted:
        nothing: dict[str, int] = dict.fromkeys(BATCH, 0)
        return (), nothing, None if outcome.off and not _was_lent(node) else _origin(nothing)
    figures = tuple(normalized(each, ratio) for each in outcome.figures)
    pool = {each.resource: each.amount for each in figures}
    held = third_parties(node, notes)
    shown = tuple(_less(each, held.get(each.resource, 0)) for each in figures)
    return shown, pool, _origin(pool)


def _was_lent(node: NodeFacts) -> bool:
    """Whether anything of ours is on the node: one on which nothing was ever lent is not to be touched."""
    return names.ANNOTATION_ORIGIN_EXTENDED_ALLOCATABLE in node.annotations or any(
        name in node.allocatable for name in BATCH
    )


def _lending(node: NodeFacts, outcome: PluginOutcome) -> Lending | None:
    if not outcome.deleted:
        return Lending("True", "Reported", "batch and mid resources follow the node's reports")
    if outcome.off and not _was_lent(node):
        return None
    return Lending("False", outcome.reason, f"nothing is lent: {outcome.failed or outcome.note}")


def _origin(amounts: Mapping[str, int]) -> str:
    return ORIGIN_EXTENDED_ALLOCATABLE.render(
        OriginExtendedAllocatable({name: render(name, amount) for name, amount in amounts.items()})
    )


def third_parties(node: NodeFacts, notes: list[str]) -> Mapping[str, int]:
    """What other systems hold of the batch resources. What cannot be read holds nothing, as the protocol has it."""
    if names.ANNOTATION_THIRD_PARTY_ALLOCATIONS not in node.annotations:
        return EMPTY
    total: dict[str, int] = {}
    try:
        for each in THIRD_PARTY_ALLOCATIONS.read(node.meta).allocations:
            if each.priority == PriorityClass.BATCH:
                for name, amount in each.resources.items():
                    if (held := value(amount)) < 0:
                        notes.append(f"thirdPartyAllocations: {each.name} holds {amount} {name} (it counts as 0)")
                    total[name] = total.get(name, 0) + max(held, 0)
    except (AnnotationError, QuantityError) as error:
        notes.append(f"{error} (it is left out)")
        return EMPTY
    return total


def published_pool(node: NodeFacts) -> Mapping[str, int] | None:
    """What the node says was reclaimed, before other systems took their share; None where it cannot be read."""
    try:
        origin = ORIGIN_EXTENDED_ALLOCATABLE.read(node.meta)
        return {} if origin is None else {name: value(amount) for name, amount in origin.resources.items()}
    except (AnnotationError, QuantityError):
        return None


def sold_twice(node: NodeFacts) -> frozenset[str]:
    """Batch resources of which Kubernetes is told more than other systems have left of what was reclaimed."""
    held = third_parties(node, [])
    pool = published_pool(node) if held else None
    if pool is None:
        return frozenset()
    return frozenset(
        name
        for name in BATCH
        if held.get(name) and node.allocatable.get(name, 0) > max(pool.get(name, 0) - held[name], 0)
    )


def pools_held_wholly(node: NodeFacts, prepared: Prepared) -> Mapping[str, tuple[int, int]]:
    """Published and wanted pool of the batch resources that other systems hold wholly: what Kubernetes is told of them
    stays nothing, however the pool changes."""
    pool = published_pool(node) if third_parties(node, []) else None
    if pool is None:
        return EMPTY
    return {
        name: (pool.get(name, 0), wanted)
        for name, wanted in prepared.pool.items()
        if node.allocatable.get(name) == prepared.resources.get(name) == 0
    }


def _ratio(outcomes: Sequence[PluginOutcome]) -> float:
    """The normalisation ratio that was just computed; 0 where there is none."""
    for outcome in outcomes:
        text = outcome.annotations.get(names.ANNOTATION_CPU_NORMALIZATION_RATIO)
        if text is not None:
            return float(text)
    return 0.0
