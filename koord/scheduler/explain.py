"""Why a pod is on its node, or pending, and what would make it schedulable: the deciding engine's figures, as data.

    explain(engine, ask)     nothing is placed, nothing stays changed

A pod that already has a node is explained as if it were placed now, with itself taken off the node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from koord.scheduler.claims import awaited
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.change import Side
from koord.scheduler.framework.engine import Engine
from koord.scheduler.framework.explains import explanation_of
from koord.scheduler.framework.judge import Judge
from koord.scheduler.framework.pod_class import PodClass
from koord.scheduler.message import fits_nowhere
from koord.scheduler.plugins.quota.figures import QuotaPath, path_of
from koord.scheduler.plugins.quota.quotas import Quotas
from koord.scheduler.smallest import Way, can_be_mended, ways
from koord.scheduler.state.table import Row
from koord.scheduler.suggestion import Suggestion, suggestion_for

EXAMPLES: Final = 3
TOP: Final = 5


# Printed whole, unlike the objects of the API: readers may count on every key.
class Against(msgspec.Struct, frozen=True, rename="camel"):
    """Why some nodes will not do. A node counts for the first plugin that rejects it."""

    plugin: str
    reason: str
    nodes: int
    examples: tuple[str, ...]
    detail: str = ""
    "What the reason means on these nodes, in numbers."


class Standing(msgspec.Struct, frozen=True, rename="camel"):
    """A node that would do."""

    node: str
    total: int
    scores: dict[str, int]
    "By plugin, 0 to 100: times their weights, they come to the total."
    chosen: bool


class StepTold(msgspec.Struct, frozen=True, rename="camel"):
    plugin: str
    mends: tuple[str, ...]
    on: Side
    text: str
    victims: tuple[str, ...] = ()
    "Pods that would have to go."


class ChangeTold(msgspec.Struct, frozen=True, rename="camel"):
    """Changes that together would let the pod in: tried out, not guessed."""

    nodes: tuple[str, ...]
    steps: tuple[StepTold, ...]
    text: str


class Preemption(msgspec.Struct, frozen=True, rename="camel"):
    node: str | None
    victims: tuple[str, ...]
    message: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    pod: str
    profile: str
    outcome: Literal["fits", "unschedulable"]
    node: str | None
    "Where it is now."
    chosen: str | None
    "Where it would go now."
    message: str
    nodes: int
    feasible: int
    refusal: str
    "Why the pod is rejected on every node, if it is."
    why_not: tuple[Against, ...]
    weights: dict[str, int]
    why_there: tuple[Standing, ...]
    changes: tuple[ChangeTold, ...]
    preemption: Preemption | None
    suggestion: Suggestion | None
    "What a program could do about it."
    volumes: str
    "What the pod's claims wait for, where they have no volumes."
    job: tuple[str, ...] = ()
    "The pods that are placed together with it, itself included, where there are others."
    gets: dict[str, str] = msgspec.field(default_factory=dict)
    "What it would be given there beside its requests, by plugin: devices, for example."
    remarks: tuple[str, ...] = ()
    "What plugins have to say about their scores."
    quota: QuotaPath | None = None
    "Its quota and the quotas above it, if an ElasticQuota applies to it."


def explain(
    engine: Engine,
    ask: Ask,
    *,
    job: Sequence[Ask] = (),
    top: int = TOP,
    examples: int = EXAMPLES,
    changes: int = 5,
) -> Explanation:
    """Explains one pod on the current state. `job`: all pods that wait to be placed together with it."""
    cluster = engine.cluster
    placed = cluster.pods.get(ask.key)
    here = None if placed is None else cluster.table.names[placed[1]]
    if ask.spec.node_name:
        here = here or ask.spec.node_name
        ask = Ask(replace(ask.pod, spec=replace(ask.pod.spec, node_name="")))
    with cluster.transaction() as transaction:
        if placed is not None:
            cluster.remove_pod(ask.key)
        try:
            explanation = _explained(engine, ask, here, top, examples, changes)
            return _with_job(engine, explanation, job) if len(job) > 1 else explanation
        finally:
            transaction.undo()


def _with_job(engine: Engine, alone: Explanation, job: Sequence[Ask]) -> Explanation:
    """What becomes of a pod that goes only with others."""
    with engine.cluster.transaction() as transaction:
        placements = engine.place_all(job)
        transaction.undo()
    mine = next(placement for placement in placements if placement.pod == alone.pod)
    keys = tuple(sorted(ask.key for ask in job))
    if mine.node is not None:
        message = f"{mine.node} is where it goes, together with {len(job) - 1} other pods of its job"
        standings = tuple(replace(standing, chosen=standing.node == mine.node) for standing in alone.why_there)
        return replace(alone, outcome="fits", chosen=mine.node, message=message, why_there=standings, job=keys)
    against = mine if mine.why_not else next((placement for placement in placements if placement.why_not), mine)
    message = fits_nowhere(against, alone.nodes)
    standings = tuple(replace(standing, chosen=False) for standing in alone.why_there)
    return replace(
        alone, outcome="unschedulable", chosen=None, message=message, why_there=standings, changes=(), job=keys
    )


def _explained(engine: Engine, ask: Ask, here: str | None, top: int, examples: int, most: int) -> Explanation:
    cluster, pod_class = engine.cluster, engine.class_of(ask)
    with cluster.transaction() as transaction:
        placement = engine.place(ask)
        gets = engine.notes_in_words(ask.key)
        transaction.undo()
    # The trials below judge rows again, and nodes that an exact check has rejected would then seem feasible.
    standings = _standings(engine, pod_class, placement.node)
    nodes = len(cluster.table)
    changes_told: tuple[ChangeTold, ...] = ()
    preemption = suggestion = None
    if placement.node is None:
        remedy = engine.remedy(ask)
        suggestion = suggestion_for(engine, ask, placement, remedy)
        if remedy.node is not None or remedy.message:
            preemption = Preemption(remedy.node, remedy.victims, remedy.message)
        message = fits_nowhere(placement, nodes, remedy.message)
        if nodes and can_be_mended(placement, pod_class):
            changes_told = tuple(_told(way) for way in ways(engine, ask, most=most))
    else:
        message = f"{placement.node} has the highest score of all nodes that would do"
    return Explanation(
        pod=ask.key,
        profile=engine.profile.name,
        outcome="fits" if placement.node is not None else "unschedulable",
        node=here,
        chosen=placement.node,
        message=message,
        nodes=nodes,
        feasible=len(standings),
        refusal=placement.refusal,
        why_not=_against(engine, pod_class, ask, examples),
        weights={name: weight for name, weight in engine.profile.weights.items() if weight},
        why_there=tuple(standings[:top]),
        changes=changes_told,
        preemption=preemption,
        suggestion=suggestion,
        volumes=awaited(ask, cluster),
        gets=gets,
        quota=_quota(engine, ask),
        remarks=_remarks(pod_class),
    )


def _remarks(pod_class: PodClass) -> tuple[str, ...]:
    scoring = (part.judge for part in pod_class.parts if part.weight)
    return tuple(remark for judge in scoring for remark in explanation_of(judge).remarks())


def _quota(engine: Engine, ask: Ask) -> QuotaPath | None:
    quotas = engine.cluster.noting.get(Quotas.name)
    return path_of(quotas, ask) if isinstance(quotas, Quotas) else None


def _against(engine: Engine, pod_class: PodClass, ask: Ask, examples: int) -> tuple[Against, ...]:
    """In the order in which nodes meet the plugins."""
    names = engine.cluster.table.names
    where: dict[tuple[str, str], list[Row]] = {}
    judges: dict[str, Judge] = {}
    for row in sorted(engine.cluster.table.row_of.values(), key=names.__getitem__):
        why = pod_class.reasons(row) or pod_class.objection(ask, row)
        if why is not None:
            judges[why[0].plugin.name] = why[0].judge
            for reason in why[1]:
                where.setdefault((why[0].plugin.name, reason), []).append(row)
    order = {plugin.name: i for i, plugin in enumerate(engine.profile.plugins)}
    ordered = sorted(where.items(), key=lambda item: (order.get(item[0][0], -1), -len(item[1]), item[0]))
    return tuple(
        Against(
            plugin,
            reason,
            len(rows),
            tuple(names[row] for row in rows[:examples]),
            explanation_of(judges[plugin]).detail(reason, rows),
        )
        for (plugin, reason), rows in ordered
    )


def _standings(engine: Engine, pod_class: PodClass, chosen: str | None) -> list[Standing]:
    """All nodes that would do, the best first, of equals the chosen one."""
    weights, names = engine.profile.weights, engine.cluster.table.names
    standings = []
    for row in pod_class.feasible_rows().tolist():
        scores = pod_class.scores(row)
        total = sum(weights.get(name, 0) * score for name, score in scores.items())
        standings.append(Standing(names[row], total, scores, names[row] == chosen))
    return sorted(standings, key=lambda standing: (-standing.total, not standing.chosen, standing.node))


def _told(way: Way) -> ChangeTold:
    steps = tuple(
        StepTold(step.plugin, step.reasons, step.change.on, step.change.text, step.change.gone) for step in way.steps
    )
    return ChangeTold(way.nodes, steps, way.sentence)
