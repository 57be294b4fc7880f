"""What the descheduler would move in the cluster that manifests describe: `koord deschedule --dry-run`.

One round, as if load had been like this for long. Every move has its place in the order in which moves would begin,
whether it could begin at once, and the node that the scheduler would choose for the pod now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from koord.api import kinds
from koord.api.kubernetes.pod import Pod
from koord.api.text.manifest import Manifests
from koord.api.text.quantity import render
from koord.descheduler.arbitration import MoveRequest, arbitrate
from koord.descheduler.compiled import Compiled, ReadyProfile
from koord.descheduler.load import add, has_of
from koord.descheduler.moves import Moves, moves_asked_for
from koord.descheduler.places import Places
from koord.descheduler.plugin import Proposal
from koord.descheduler.round import Outcome, run
from koord.descheduler.sight import Sight
from koord.descheduler.workloads import KINDS as WORKLOADS
from koord.descheduler.workloads import workloads_of
from koord.offline.world import World, world_of
from koord.scheduler.framework.ask import Ask
from koord.scheduler.own_plugins import PluginError
from koord.scheduler.profiles import Profiles


class Migration(msgspec.Struct, frozen=True, rename="camel"):
    pod: str
    from_: str = msgspec.field(name="from")
    to: str
    "The node that the scheduler would choose now; empty if that was not tried."
    by: str
    reason: str
    order: int
    allowed: bool
    why: str = ""
    "Why it must wait."


class NodeAssessment(msgspec.Struct, frozen=True, rename="camel"):
    class_: str = msgspec.field(name="class")
    usage: Mapping[str, str] = {}
    allocatable: Mapping[str, str] = {}
    after: Mapping[str, str] = {}
    "Usage when all that may move has moved."
    requested: Mapping[str, str] = {}
    "What pods there ask for."
    requested_after: Mapping[str, str] = {}


class Descheduled(msgspec.Struct, frozen=True, rename="camel"):
    nodes: Mapping[str, NodeAssessment]
    migrations: tuple[Migration, ...]
    skipped: str = ""
    "Why there was no round."
    ignored: Mapping[str, int] = {}
    deletion_costs: Mapping[str, int] = {}
    "What pods would be annotated with as their deletion cost (ScaleDownBinPack)."
    cordons: tuple[str, ...] = ()
    "Nodes that would take no pods while theirs move (CustomPriority)."


def deschedule(
    manifests: Manifests,
    compiled: Compiled,
    profiles: Profiles,
    *,
    now_s: float,
    seed: int = 0,
    scales: Mapping[str, int] | None = None,
    has_all_pods: bool = False,
) -> Descheduled:
    """One round on what manifests describe. Raises `Invalid` with every fault of them. `scales`: replicas of workloads
    of kinds that koord does not know, by uid, beside what the manifests say of them. `has_all_pods`: a pod that they do
    not have does not exist."""
    world = world_of(manifests, profiles, now_s=now_s, seed=seed)
    sight = _sight(manifests, world, now_s, scales or {}, has_all_pods=has_all_pods)
    outcome = run(compiled, sight, at_once=True)
    if outcome.failed:
        name, error = outcome.failed[0]
        raise PluginError(f"the plugin {name} broke off: {type(error).__name__}: {error}") from error
    heeded = {kind.kind for kind in (*WORKLOADS, kinds.POD_MIGRATION_JOBS)}
    ignored = {kind: number for kind, number in world.ignored.items() if kind not in heeded}
    return Descheduled(
        _nodes(sight, outcome),
        _migrations(sight, outcome),
        outcome.skipped,
        ignored,
        outcome.deletion_costs,
        tuple(outcome.cordons),
    )


def scales_in(manifests: Manifests, pods: Iterable[Pod]) -> dict[str, int]:
    """How many pods workloads of kinds that koord does not know want, by the uid that their pods give. The version of
    the API may differ, the group not."""
    said = {(_group(scale.api_version), scale.kind, scale.key): scale.replicas for scale in manifests.scaled}
    scales = {}
    for pod in pods if said else ():
        owner = pod.metadata.controller
        if owner is not None:
            replicas = said.get((_group(owner.api_version), owner.kind, f"{pod.metadata.namespace}/{owner.name}"))
            if replicas is not None:
                scales[owner.uid] = replicas
    return scales


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def _sight(manifests: Manifests, world: World, now_s: float, scales: Mapping[str, int], *, has_all_pods: bool) -> Sight:
    running = [pod for key, pod in world.pods.items() if key in world.running]
    pods_on: dict[str, list[Any]] = {}
    for pod in running:
        pods_on.setdefault(pod.spec.node_name, []).append(pod)
    finished_on: dict[str, list[Any]] = {}
    for pod in manifests.of(kinds.PODS):
        if pod.is_finished and pod.spec.node_name:
            finished_on.setdefault(pod.spec.node_name, []).append(pod)
    pods = {pod.metadata.key: pod for pod in manifests.of(kinds.PODS)}
    workloads: list[Any] = [item.object for item in manifests.items if item.kind in WORKLOADS]
    return Sight(
        now_s,
        {node.metadata.name: node for node in manifests.of(kinds.NODES)},
        pods_on,
        {metric.metadata.name: metric for metric in manifests.of(kinds.NODE_METRICS)},
        workloads_of(workloads, running, {**scales, **scales_in(manifests, running)}, has_all_pods=has_all_pods),
        Places(world.cluster, world.engine_of),
        list(moves_asked_for(manifests.of(kinds.POD_MIGRATION_JOBS), pods.get, now_s)),
        finished_on=finished_on,
        priorities={
            priority_class.metadata.name: priority_class.value
            for priority_class in manifests.of(kinds.PRIORITY_CLASSES)
        },
        has_all_pods=has_all_pods,
    )


def _migrations(sight: Sight, outcome: Outcome) -> tuple[Migration, ...]:
    """In the order in which they begin, profile by profile, then those that must wait."""
    migrations: list[Migration] = []
    moves = Moves(sight.now_s)
    for move in sight.moving:
        moves.put(move)
    by_profile: dict[str, tuple[ReadyProfile, dict[str, Proposal]]] = {}
    for proposed in outcome.moves:
        key = proposed.pod.metadata.key
        profile = outcome.asked_by[key]
        by_profile.setdefault(profile.name, (profile, {}))[1][key] = proposed
    for profile, proposals in by_profile.values():
        asked = [MoveRequest(key, sight.now_s, proposal.pod, profile.rules) for key, proposal in proposals.items()]
        for ruling in arbitrate(asked, sight.workloads, moves):
            proposal = proposals[ruling.request.name]
            migrations.append(_told(proposal, len(migrations) + 1, ruling.outcome == "passes", ruling.why))
    for held in outcome.held:
        migrations.append(_told(held.proposal, len(migrations) + 1, False, held.why))
    return tuple(migrations)


def _told(proposal: Proposal, order: int, allowed: bool, why: str) -> Migration:
    return Migration(
        proposal.pod.metadata.key, proposal.node, proposal.to, proposal.by, proposal.reason, order, allowed, why
    )


def _nodes(sight: Sight, outcome: Outcome) -> dict[str, NodeAssessment]:
    to = {move.pod.metadata.key: move.to for move in outcome.moves}
    before: dict[str, dict[str, int]] = {name: {} for name in sight.nodes}
    after: dict[str, dict[str, int]] = {name: {} for name in sight.nodes}
    for name, pods in sight.pods_on.items():
        for pod in pods:
            asks = dict(Ask(pod).requests)
            add(before.get(name, {}), asks)
            add(after.get(to.get(pod.metadata.key, name), {}), asks)
    assessments = {}
    for name in sorted(sight.nodes):
        seen, has = outcome.nodes.get(name), has_of(sight.nodes[name])
        class_, usage, then = ("unknown", {}, {}) if seen is None else (seen.class_, seen.usage, seen.after)
        assessments[name] = NodeAssessment(
            class_, _texts(usage), _texts(has), _texts(then), _texts(before[name]), _texts(after[name])
        )
    return assessments


def _texts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: render(name, amount) for name, amount in amounts.items()}
