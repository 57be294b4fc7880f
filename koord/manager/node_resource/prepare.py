"""What a Node should show, from the outcomes of all plugins.

    batch-cpu shown = ceil(batch-cpu * normalisation ratio, if above 1) - held by other systems

No plugin is known by name here: a plugin says in its outcome which factors apply and whether its resources are the pool
that other systems share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from koord.api.machinery.struct import EMPTY, Struct
from koord.api.protocol import names
from koord.api.protocol.pool_names import ALIASES
from koord.manager.figures import Figure, Term, continued
from koord.manager.lending.other_names import by_name
from koord.manager.lending.pool import LendingCondition, held_by_others, less, shared_pool
from koord.manager.node_state import NodeFacts
from koord.manager.plugin import PluginOutcome


class Prepared(Struct):
    """What a node should show. Anything that is not named here is left alone."""

    resources: Mapping[str, int | None]
    "In capacity and allocatable; None removes a resource."
    annotations: Mapping[str, str | None]
    labels: Mapping[str, str]
    zone_figures: Mapping[str, tuple[Figure, ...]]
    "By NUMA zone."
    figures: tuple[Figure, ...]
    "How the resources were computed, to the last step."
    notes: tuple[str, ...] = ()
    lending: LendingCondition | None = None
    "The node's Lending condition; None leaves it unchanged."
    pool: Mapping[str, int] = EMPTY
    "Batch resources before other systems took their part."

    @property
    def zones(self) -> Mapping[str, Mapping[str, int]]:
        """Amounts by NUMA zone."""
        return {
            zone: {figure.resource: figure.amount for figure in figures} for zone, figures in self.zone_figures.items()
        }


def prepare(node: NodeFacts, outcomes: Sequence[PluginOutcome]) -> Prepared:
    """What the node should show."""
    resources: dict[str, int | None] = {}
    annotations: dict[str, str | None] = {}
    labels: dict[str, str] = {}
    figures: list[Figure] = []
    notes: tuple[str, ...] = ()
    zones: dict[str, tuple[Figure, ...]] = {}
    lending = None
    amounts: Mapping[str, int] = EMPTY
    factors = {name: factor for outcome in outcomes for name, factor in outcome.factors.items()}
    for outcome in outcomes:
        annotations |= outcome.annotations
        labels |= outcome.labels
        zones |= outcome.zones
        resources |= dict.fromkeys(outcome.deleted)
        shown = tuple(normalized(figure, factors) for figure in outcome.figures)
        if outcome.is_pool:
            pool = shared_pool(node, outcome, shown)
            shown, amounts, lending, notes = pool.figures, pool.amounts, pool.condition, pool.notes
            if pool.origin is not None:
                annotations[names.ANNOTATION_ORIGIN_EXTENDED_ALLOCATABLE] = pool.origin
            resources |= dict.fromkeys(name for name in (*node.allocatable, *node.lent_capacity) if name in ALIASES)
            shown = by_name(shown, outcome.pool_names, outcome.by_other_names, outcome.pool_requests)
        resources |= {figure.resource: figure.amount for figure in shown}
        figures += shown
    return Prepared(
        resources,
        annotations,
        labels,
        _shown_zones(node, zones, factors),
        tuple(figures),
        notes,
        lending,
        amounts,
    )


def normalized(figure: Figure, factors: Mapping[str, float]) -> Figure:
    """A figure in CPUs of the cluster's reference."""
    ratio = factors.get(figure.resource, 1.0)
    if ratio <= 1:
        return figure
    thousandths = int(figure.amount * 1000 * ratio)
    return continued(
        figure,
        Term(
            "becomes",
            "normalization",
            -(-thousandths // 1000),
            f"{figure.amount} * {ratio:.2f}, what a CPU of this node is worth",
        ),
    )


def _shown_zones(
    node: NodeFacts, zones: Mapping[str, tuple[Figure, ...]], factors: Mapping[str, float]
) -> Mapping[str, tuple[Figure, ...]]:
    """By NUMA zone. The zone of what other systems hold is unknown, so each zone bears an equal share of it."""
    if not zones:
        return EMPTY
    share = {name: -(-amount // len(zones)) for name, amount in held_by_others(node).items()}
    return {
        zone: tuple(less(normalized(figure, factors), share.get(figure.resource, 0)) for figure in figures)
        for zone, figures in zones.items()
    }
