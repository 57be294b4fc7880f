"""`koord plan`: where the pending pods of a set of manifests would go, and why.

The same queue and engine as on a cluster decide, pod by pod, each seeing what the ones before it took. The clock stands
still; a pod that was turned away gets another try, in a later round, once a placement could have helped it, or once the
less important pods are gone that would have to make room for it. In its last round they are only named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from koord.api.kinds import POD_GROUPS, RESERVATIONS
from koord.api.protocol.crd.reservation import Reservation
from koord.api.protocol.names import ANNOTATION_RESERVATION_NAME
from koord.api.text.counted import counted
from koord.api.text.manifest import Manifests
from koord.api.text.quantity import render
from koord.offline.driver import Driver
from koord.offline.preview import KINDS as PREVIEW_KINDS
from koord.offline.preview import NodePreview, Preview
from koord.offline.world import World, world_of
from koord.offline.would_evict import WouldEvict
from koord.scheduler.claims import awaited
from koord.scheduler.core.decision import Bind, Broken, LetGo, Nowhere, Placed, TriedEnough, Unplaced, Wait
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Placement
from koord.scheduler.framework.writes import Patch
from koord.scheduler.message import hint_for
from koord.scheduler.plugins.quota.figures import figures_named
from koord.scheduler.plugins.quota.quotas import Quotas
from koord.scheduler.profiles import Profiles
from koord.scheduler.smallest import Hints
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.stand_ins import is_stand_in

PlanOutcome: TypeAlias = Literal["scheduled", "unschedulable", "waiting", "denied", "skipped"]

UNPLACED = ("unschedulable", "waiting", "denied")
"""Outcomes of a pod that wants a place and has none."""

MOST_NAMED: Final = 3
_OF_NODES: Final = frozenset(kind.kind for kind in PREVIEW_KINDS)


# Printed whole, unlike the objects of the API: readers may count on every key.
class PodPlan(msgspec.Struct, frozen=True, rename="camel", gc=False):
    node: str | None
    outcome: PlanOutcome
    reason: str
    hint: str = ""
    "What would make it schedulable, or what its volumes wait for. The reason ends with it."
    nodes_rejected: dict[str, int] = {}
    nominated_node: str | None = None
    victims: tuple[str, ...] = ()
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}
    "As of annotations, what the scheduler would write."
    score: int | None = None
    scores: dict[str, int] = {}


class NodePlan(msgspec.Struct, frozen=True, rename="camel", gc=False):
    allocatable: dict[str, str]
    requested: dict[str, str]
    annotations: dict[str, str]
    labels: dict[str, str]


class ReservationPlan(msgspec.Struct, frozen=True, rename="camel", gc=False):
    phase: str
    node: str | None
    reason: str
    allocatable: dict[str, str]
    allocated: dict[str, str]
    owners: tuple[str, ...]
    "The pods that use it, by key."


class PlannedEvent(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """An event as the scheduler would record it."""

    object: str
    reason: str
    message: str


class Plan(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    pods: dict[str, PodPlan]
    nodes: dict[str, NodePlan]
    quotas: dict[str, object] = {}
    pod_groups: dict[str, object] = {}
    reservations: dict[str, ReservationPlan] = {}
    events: tuple[PlannedEvent, ...] = ()
    colocation: dict[str, NodePreview] = {}
    "Where a slo-controller-config is given: what nodes would lend by it, and lend before."
    evictions: tuple[WouldEvict, ...] = ()
    "Whom agents would evict by it."
    ignored: dict[str, int] = {}

    def outcomes(self) -> Counter[str]:
        return Counter(pod.outcome for pod in self.pods.values())


class Planned(msgspec.Struct, frozen=True):
    """A plan, with notes and warnings."""

    plan: Plan
    running: Mapping[str, str]
    "Pods that had their node before, and keep it."
    unnamed: int
    "Pods that name no scheduler, where no profile is the default scheduler's: they go with the first one."
    warnings: tuple[str, ...]


def plan(
    manifests: Manifests,
    profiles: Profiles,
    *,
    now_s: float,
    seed: int = 0,
    rounds: int = 1,
    previewed: Preview | None = None,
    unanswered: Callable[[str], str] = lambda scheduler_name: "",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Planned:
    """What would happen to the pods of some manifests. Raises `Invalid` where these are faulty.

    `previewed`: the effect of a configuration among the manifests, if it is already applied to them. `unanswered`: why
    no scheduler serves a scheduler name; empty if one does. `progress` gets the number of tried pods and of all.
    """
    world = world_of(manifests, profiles, now_s=now_s, seed=seed, rounds=rounds, unanswered=unanswered)
    run = _Run(world, rounds, progress)
    run.all()
    pods: dict[str, PodPlan] = {
        **{key: PodPlan(None, "skipped", reason) for key, reason in {**world.skipped, **world.left}.items()},
        **{key: PodPlan(None, "denied", reason) for key, reason in world.denied.items()},
        **{key: _running(key, node, world) for key, node in world.running.items()},
        **run.pods,
    }
    events = tuple(_event(key, run) for key in run.order if run.pods[key].outcome != "denied")
    result = Plan(
        pods={key: pods[key] for key in sorted(pods)},
        nodes=_nodes(world.cluster),
        pod_groups=_pod_groups(world),
        reservations=run.reservations(),
        quotas=_quotas(world),
        events=events,
        colocation=previewed.nodes if previewed is not None else {},
        evictions=previewed.evictions if previewed is not None else (),
        ignored=world.ignored if previewed is None else _without_config(world.ignored),
    )
    unnamed = 0
    if "default-scheduler" not in world.core.engines:
        unnamed = sum(1 for ask in world.waiting if ask.spec.scheduler_name == "default-scheduler")
    running = {key: node for key, node in world.running.items() if key not in run.evicted}
    return Planned(result, running, unnamed, (*profiles.warnings, *world.warnings, *_notes(world, run)))


def _without_config(ignored: Mapping[str, int]) -> dict[str, int]:
    """What plays a part in a preview is not ignored."""
    left = {**ignored, "ConfigMap": ignored.get("ConfigMap", 1) - 1}
    return {kind: number for kind, number in left.items() if number and kind not in _OF_NODES}


class _Run:
    """Has the core decide about the waiting pods, and notes what it says."""

    def __init__(self, world: World, rounds: int, progress: Callable[[int, int], None]) -> None:
        self.world, self.rounds, self.progress = world, rounds, progress
        self.driver = Driver(world.core, world.pods)
        self.pods: dict[str, PodPlan] = {}
        self.order: list[str] = []
        self.said: dict[str, str] = {}
        "What an event says of a pod, where that is not the reason alone."
        self.evicted: set[str] = set()
        self.in_jobs: set[str] = set()
        "Pods whose whole job did not fit: what would let one of them in is not what the job needs."
        self.of_reservations: dict[str, str] = {}
        "By name, why a reservation has no node."
        self.another_try: set[str] = set()
        "Pods that are not tried again for want of rounds."

    def all(self) -> None:
        self.driver.wait(self.world.waiting)
        total, done = len(self.world.waiting), 0
        while (decision := self.driver.step()) is not None:
            match decision:
                case Bind() | Nowhere() | Broken() if is_stand_in(decision.ask.meta.name):
                    self._of_reservation(decision)
                    continue
                case Bind():
                    for placed in decision.members:
                        self._somewhere(placed)
                    for member in decision.unplaced:
                        self._left_out(member)
                case Nowhere():
                    self._nowhere(decision)
                case Broken():
                    # The API server would have refused it.
                    for ask in decision.asks:
                        self._note(ask.key, PodPlan(None, "denied", decision.message))
                        self.driver.end(ask.pod)
                case Wait():
                    for placed in decision.bind.members:
                        self._note(placed.ask.key, PodPlan(None, "waiting", f"waits for others of {decision.group}"))
                case LetGo():
                    for placed in decision.bind.members:
                        self._note(placed.ask.key, PodPlan(None, "waiting", decision.why))
                case TriedEnough():
                    self.another_try.update(ask.key for ask in decision.asks if not is_stand_in(ask.meta.name))
                    continue
            done += 1
            self.progress(min(done, total), total)
        for left in self.world.core.queue:
            if left.gate:
                for ask in left.entity.pods:
                    if not is_stand_in(ask.meta.name):
                        self._note(ask.key, PodPlan(None, "waiting", left.gate))
        self._hint()

    def reservations(self) -> dict[str, ReservationPlan]:
        """All that there are, as the scheduler would leave them."""
        return {
            name: self._reservation(reservation)
            for name, reservation in sorted(self.world.core.objects(RESERVATIONS).items())
        }

    def _reservation(self, reservation: Reservation) -> ReservationPlan:
        status = reservation.status
        reason = self.of_reservations.get(reservation.metadata.name, "")
        if status.conditions and (status.node_name or not reason):
            last = status.conditions[-1]
            reason = last.message or last.reason
        return ReservationPlan(
            phase=str(status.phase),
            node=status.node_name or None,
            reason=reason,
            allocatable={name: str(amount) for name, amount in status.allocatable.items()},
            allocated={name: str(amount) for name, amount in status.allocated.items()},
            owners=tuple(f"{owner.namespace}/{owner.name}" for owner in status.current_owners),
        )

    def _hint(self) -> None:
        """What would let those in who were left over. Found out when all is placed: so it holds beside the plan."""
        hints = {name: Hints(engine, sees_all=True) for name, engine in self.world.core.engines.items()}
        for ask in self.world.waiting:
            pod_plan, engine = self.pods.get(ask.key), self.world.engine_of(ask)
            if pod_plan is None or engine is None or ask.key in self.evicted or ask.key in self.in_jobs:
                continue
            if pod_plan.node is not None:
                hint = awaited(ask, engine.cluster)
            elif pod_plan.outcome == "unschedulable" and pod_plan.nominated_node is None:
                hint = hint_for(engine, hints[engine.profile.name], ask, _left_over(engine, ask))
            else:
                hint = ""
            if hint:
                self.pods[ask.key] = replace(pod_plan, hint=hint, reason=f"{pod_plan.reason.rstrip('.')}. {hint}")

    def _somewhere(self, placed: Placed) -> None:
        before = self.pods.get(placed.ask.key)
        promised = before is not None and before.nominated_node == placed.node
        pod_plan = _somewhere(placed.placement, before if promised else None)
        written = {} if placed.plan.patch is None else placed.plan.patch.body["metadata"]
        annotations, labels = written.get("annotations", {}), written.get("labels", {})
        self._note(placed.ask.key, replace(pod_plan, annotations=dict(annotations), labels=dict(labels)))

    def _of_reservation(self, decision: Bind | Nowhere | Broken) -> None:
        """It may be part of a gang with pods. Each member is reported by itself."""
        members = decision.members if isinstance(decision, Bind) else ()
        for placed in members:
            if not is_stand_in(placed.ask.meta.name):
                self._somewhere(placed)
        if not isinstance(decision, Bind):
            name = decision.ask.meta.annotations[ANNOTATION_RESERVATION_NAME]
            self.of_reservations[name] = decision.message

    def _left_out(self, unplaced: Unplaced) -> None:
        self.said[unplaced.ask.key] = unplaced.message
        self._note(unplaced.ask.key, _nowhere(unplaced.placement, len(self.world.cluster.table)))

    def _nowhere(self, decision: Nowhere) -> None:
        if len(decision.asks) > 1:
            self.in_jobs.update(ask.key for ask in decision.asks)
        for key in decision.outbid:
            self._note(key, replace(self.pods[key], nominated_node=None, victims=()))
        moves = {move.pod: move for move in decision.moves}
        everybody = [key for move in decision.moves for key in move.victims]
        for ask in decision.asks:
            pod_plan = _nowhere(decision.placement, len(self.world.cluster.table))
            self.said[ask.key] = decision.message
            move = moves.get(ask.key)
            if move is not None:
                reason = f"{pod_plan.reason} It would fit on {move.node} once {_listed(everybody)} made room."
                pod_plan = replace(pod_plan, reason=reason, nominated_node=move.node, victims=move.victims)
            self._note(ask.key, pod_plan)
        if decision.attempt.tries < self.rounds:
            for move in decision.moves:
                for key in move.victims:
                    self._evict(key, move.pod, self.world.running.get(key) or move.node)

    def _evict(self, key: str, by: str, node: str) -> None:
        pod = self.world.pods[key]
        self._note(key, PodPlan(None, "unschedulable", f"has to make room on {node} for {by}, which is more important"))
        self.said[key] = f"Preempted by pod {by} on node {node}"
        self.evicted.add(key)
        self.driver.end(replace(pod, spec=replace(pod.spec, node_name=node)))

    def _note(self, key: str, pod_plan: PodPlan) -> None:
        if key not in self.pods:
            self.order.append(key)
        self.pods[key] = pod_plan


def _somewhere(placement: Placement, promised: PodPlan | None) -> PodPlan:
    """`promised`: the pod's earlier plan, made when others had to make room for it on this node."""
    if promised is None:
        reason = f"{placement.node} has the highest score, {placement.total}, of all nodes that would do"
    else:
        reason = f"{_listed(promised.victims)} made room for it on {placement.node}"
    return PodPlan(
        node=placement.node,
        outcome="scheduled",
        reason=reason,
        nominated_node=promised.nominated_node if promised else None,
        victims=promised.victims if promised else (),
        score=placement.total,
        scores=dict(placement.scores),
    )


def _left_over(engine: Engine, ask: Ask) -> Placement:
    """What speaks against a pod at the end."""
    refused = engine.refusal(ask)
    if refused is not None:
        nodes = {refused[1]: len(engine.cluster.table)}
        return Placement(ask.key, None, rejections=nodes, refusal=refused[1])
    pod_class = engine.class_of(ask)
    if pod_class.best() is not None:
        return Placement(ask.key, None)
    counts: Counter[str] = Counter()
    for reasons in pod_class.why_not().values():
        counts.update(reasons)
    refusal = pod_class.refusal()
    return Placement(ask.key, None, rejections=counts, refusal=", ".join(refusal[1]) if refusal else "")


def _pod_groups(world: World) -> dict[str, object]:
    """By key, what the scheduler would have PodGroups say at the end, where they say something else before."""
    writes = (write for write in world.core.take_writes() if isinstance(write, Patch) and write.kind is POD_GROUPS)
    return {f"{write.namespace}/{write.name}": dict(write.body["status"]) for write in writes}


def _quotas(world: World) -> dict[str, object]:
    """By name, the state of each user quota at the end."""
    quotas = world.cluster.noting.get(Quotas.name)
    if not isinstance(quotas, Quotas):
        return {}
    return {name: figures_named(quotas, name) for name in sorted(quotas.forest.specs) if name in quotas.forest.quotas}


def _listed(keys: Sequence[str]) -> str:
    """The first few, and how many more."""
    shown = ", ".join(keys[:MOST_NAMED])
    return shown if len(keys) <= MOST_NAMED else f"{shown} and {len(keys) - MOST_NAMED} more"


def _nowhere(placement: Placement, nodes: int) -> PodPlan:
    counted = sorted(f"{number} {reason}" for reason, number in placement.rejections.items())
    said = placement.refusal or ", ".join(counted)
    reason = f"0/{nodes} nodes are available: {said}." if nodes else "there are no nodes"
    if placement.short_of:
        reason = f"{placement.short_of}. {reason}"
    rejected = {
        f"{plugin}: {_inside_a_sentence(why)}": number
        for plugin, counts in placement.why_not.items()
        for why, number in counts.items()
    }
    return PodPlan(None, "unschedulable", reason, nodes_rejected=rejected)


def _inside_a_sentence(words: str) -> str:
    return words if words[:2].isupper() else words[:1].lower() + words[1:]


def _running(key: str, node: str, world: World) -> PodPlan:
    there = key in world.cluster.pods
    reason = f"is on {node} already" if there else f"is on {node}, which is not in the input: it counts nowhere"
    return PodPlan(node, "scheduled", reason)


def _event(key: str, run: _Run) -> PlannedEvent:
    pod_plan = run.pods[key]
    if key in run.evicted:
        return PlannedEvent(key, "Preempted", run.said[key])
    if pod_plan.node is not None:
        return PlannedEvent(key, "Scheduled", f"Successfully assigned {key} to {pod_plan.node}")
    return PlannedEvent(key, "FailedScheduling", run.said.get(key, pod_plan.reason))


def _nodes(cluster: Cluster) -> dict[str, NodePlan]:
    """Every node with what it has and what its pods ask for."""
    columns = cluster.table.columns
    has = {name[1]: columns[name].tolist() for name in columns if isinstance(name, tuple) and name[0] == "allocatable"}
    asked = {name[1]: columns[name].tolist() for name in columns if isinstance(name, tuple) and name[0] == "requested"}
    asked["pods"] = columns["pod count"].tolist()
    node_plans = {}
    for name in sorted(cluster.table.row_of):
        row = cluster.table.row_of[name]
        node = cluster.nodes[row]
        allocatable = {resource: column[row] for resource, column in has.items() if resource in node.status.allocatable}
        allocatable |= {resource: column[row] for resource, column in has.items() if column[row]}
        requested = {
            resource: column[row] for resource, column in asked.items() if column[row] or resource in allocatable
        }
        node_plans[name] = NodePlan(
            allocatable={resource: render(resource, amount) for resource, amount in sorted(allocatable.items())},
            requested={resource: render(resource, amount) for resource, amount in sorted(requested.items())},
            annotations=dict(node.metadata.annotations),
            labels=dict(node.metadata.labels),
        )
    return node_plans


def _notes(world: World, run: _Run) -> list[str]:
    notes = []
    if run.another_try:
        again = counted(len(run.another_try), "pod")
        notes.append(f"{again} could be tried again after later placements: --rounds {run.rounds + 1}")
    promised = sum(1 for pod_plan in run.pods.values() if pod_plan.nominated_node is not None and pod_plan.node is None)
    if promised:
        notes.append(
            f"{counted(promised, 'pod')} would fit once less important pods made room: --rounds {run.rounds + 1}"
        )
    astray = sum(1 for key in world.running if key not in world.cluster.pods and key not in run.evicted)
    if astray:
        notes.append(f"{counted(astray, 'pod')} on nodes that are not in the input, which count nowhere")
    return notes
