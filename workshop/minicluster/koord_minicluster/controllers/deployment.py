"""Deployment: which ReplicaSets should there be for this template and its past, and how big?

One decision is one step: make the new ReplicaSet, or resize some, or clean up; then the status. The ReplicaSets' own
progress causes the next. The new ReplicaSet is found by its content, never by its name; revisions count up, so that a
template that comes back (`kubectl rollout undo`) gets the highest number again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from koord.api.kinds import DEPLOYMENTS, REPLICA_SETS
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.workloads import Deployment, PodTemplate, ReplicaSet
from koord.api.workloads.replica_sets import DESIRED, HASH, MAX, REVISION, REVISION_HISTORY, copied, new_replica_set
from koord.api.workloads.template_hash import canonical
from koord_minicluster.controllers import deployment_status, rollout
from koord_minicluster.controllers.actions import Action, Create, Patch, Plan, Tell, delete, sooner
from koord_minicluster.controllers.rollout import Sizes, limits, number
from koord_minicluster.controllers.status_patch import status_change, status_patch

HISTORY_CHARACTERS: Final = 2000


@dataclass(frozen=True, slots=True)
class State:
    """A Deployment and all ReplicaSets that it manages."""

    deployment: Deployment
    replica_sets: tuple[ReplicaSet, ...]
    old_pods_exist: bool = False
    "Whether any pod of an old ReplicaSet has not ended yet, be it on its way out. Only Recreate asks."

    @property
    def new(self) -> ReplicaSet | None:
        """The ReplicaSet with today's template; the oldest, where there are several."""
        wanted = plain(self.deployment.spec.template)
        return next((rs for rs in sorted(self.replica_sets, key=_age) if plain(rs.spec.template) == wanted), None)

    def old(self, new: ReplicaSet | None) -> list[ReplicaSet]:
        uid = new.metadata.uid if new else None
        return sorted((rs for rs in self.replica_sets if rs.metadata.uid != uid), key=_age)


def decide(state: State, now_s: float) -> Plan:
    deployment = state.deployment
    new = state.new
    old = state.old(new)
    actions: list[Action] = []
    created = ""
    if deployment.metadata.deletion_timestamp is None:
        step = _step(state, new, old)
        actions += step
        created = next((str(a.body["metadata"]["name"]) for a in step if isinstance(a, Create)), "")
    status = deployment_status.status(deployment, new, old, created, now_s)
    change = status_change(deployment.status, status)
    actions += status_patch(DEPLOYMENTS, deployment.metadata, change)
    progress_in_s = deployment_status.check_progress_in_s(deployment, status, now_s)
    return Plan(tuple(actions), sooner(progress_in_s))


def _step(state: State, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> list[Action]:
    deployment = state.deployment
    actions = _synced_revision(deployment, new, old) if new else []
    if any(isinstance(action, Patch) and action.kind is REPLICA_SETS for action in actions):
        # What follows is based on the version read; the ReplicaSet's change brings us back.
        return actions
    if deployment.spec.paused:
        return actions + _resized(deployment, _scaled(deployment, new, old), new, old) + _cleaned(deployment, old)
    if _was_scaled(deployment, new, old):
        return actions + _resized(deployment, _scaled(deployment, new, old), new, old)
    if deployment.spec.strategy.type == "Recreate":
        return actions + _recreate(state, new, old)
    if new is None:
        return [_create(deployment, old, rollout.new_size(deployment, 0, old))]
    sizes: Sizes = {}
    wanted = rollout.new_size(deployment, new.spec.replicas, old)
    if wanted != new.spec.replicas:
        sizes[new.metadata.name] = wanted
    else:
        sizes = rollout.shrink_old(deployment, new, old)
    if not sizes and deployment_status.complete(deployment, deployment.status):
        return actions + _cleaned(deployment, old)
    return actions + _resized(deployment, sizes, new, old)


def _recreate(state: State, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> list[Action]:
    """All old pods end before the first new one starts."""
    deployment = state.deployment
    active = {rs.metadata.name: 0 for rs in old if rs.spec.replicas}
    if active:
        return _resized(deployment, active, new, old)
    if state.old_pods_exist:
        return []
    if new is None:
        return [_create(deployment, old, deployment.spec.replicas)]
    if new.spec.replicas != deployment.spec.replicas:
        return _resized(deployment, {new.metadata.name: deployment.spec.replicas}, new, old)
    return _cleaned(deployment, old) if deployment_status.complete(deployment, deployment.status) else []


def _was_scaled(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> bool:
    """Whether the Deployment's size is another than the one its ReplicaSets were sized for."""
    for rs in (*old, *([new] if new else [])):
        desired = number(rs.metadata.annotations.get(DESIRED))
        if rs.spec.replicas and desired is not None and desired != deployment.spec.replicas:
            return True
    return False


def _scaled(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> Sizes:
    """Sizes after a change of the Deployment's own size, with which no rollout goes on."""
    replicas = deployment.spec.replicas
    everything = [*old, *([new] if new else [])]
    active = [rs for rs in everything if rs.spec.replicas]
    if len(active) <= 1:
        only = active[0] if active else new or max(old, key=_age, default=None)
        return {only.metadata.name: replicas} if only else {}
    if new is not None and _saturated(deployment, new):
        return {rs.metadata.name: 0 for rs in old if rs.spec.replicas}
    if deployment.spec.strategy.type == "RollingUpdate":
        return rollout.proportional(deployment, active)
    return {}


def _saturated(deployment: Deployment, rs: ReplicaSet) -> bool:
    replicas = deployment.spec.replicas
    desired = number(rs.metadata.annotations.get(DESIRED))
    return rs.spec.replicas == desired == rs.status.available_replicas == replicas


def _resized(
    deployment: Deployment, sizes: Mapping[str, int], new: ReplicaSet | None, old: Sequence[ReplicaSet]
) -> list[Action]:
    """Patches for those whose size, or whose notes on what it was made for, are not so yet; based on what was read."""
    notes = _size_notes(deployment)
    actions: list[Action] = []
    for rs in (*old, *([new] if new else [])):
        meta = rs.metadata
        wanted = sizes.get(meta.name)
        if wanted is None or (wanted == rs.spec.replicas and notes.items() <= meta.annotations.items()):
            continue
        based_on = {"resourceVersion": meta.resource_version, "uid": meta.uid}
        body = {"metadata": {**based_on, "annotations": notes}, "spec": {"replicas": wanted}}
        actions.append(Patch(REPLICA_SETS, meta.namespace, meta.name, body))
        if wanted != rs.spec.replicas:
            how = "up" if wanted > rs.spec.replicas else "down"
            note = f"Scaled {how} replica set {meta.name} from {rs.spec.replicas} to {wanted}"
            actions.append(Tell("ScalingReplicaSet", note))
    return actions


def _cleaned(deployment: Deployment, old: Sequence[ReplicaSet]) -> list[Action]:
    """Old ReplicaSets beyond the history limit go, the lowest revisions first, if nothing is left of them."""
    alive = [rs for rs in old if rs.metadata.deletion_timestamp is None]
    surplus = len(alive) - deployment.spec.revision_history_limit
    by_revision = sorted(alive, key=lambda rs: (revision(rs.metadata), *_age(rs)))
    return [
        delete(REPLICA_SETS, rs.metadata)
        for rs in by_revision[: max(0, surplus)]
        if rs.spec.replicas == 0 and rs.status.replicas == 0 and rs.status.observed_generation >= rs.metadata.generation
    ]


def _create(deployment: Deployment, old: Sequence[ReplicaSet], replicas: int) -> Create:
    body = new_replica_set(deployment, replicas, _highest(old) + 1, _size_notes(deployment))
    return Create(REPLICA_SETS, deployment.metadata.namespace, body)


def _synced_revision(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> list[Action]:
    """The new ReplicaSet carries the Deployment's notes and the highest revision, and the Deployment tells which."""
    meta = new.metadata
    highest = _highest(old) + 1
    notes = {key: value for key, value in copied(deployment.metadata).items() if meta.annotations.get(key) != value}
    revision_number = revision(meta)
    if revision_number < highest:
        if revision_number:
            past = [part for part in meta.annotations.get(REVISION_HISTORY, "").split(",") if part] + [
                str(revision_number)
            ]
            while len(",".join(past)) > HISTORY_CHARACTERS:
                past.pop(0)
            notes[REVISION_HISTORY] = ",".join(past)
        revision_number = highest
        notes[REVISION] = str(revision_number)
    if not meta.annotations.get(DESIRED):
        notes |= _size_notes(deployment)
    actions: list[Action] = []
    body: dict[str, Any] = {"metadata": {"annotations": notes}} if notes else {}
    if new.spec.min_ready_seconds != deployment.spec.min_ready_seconds:
        body["spec"] = {"minReadySeconds": deployment.spec.min_ready_seconds}
    if body:
        actions.append(Patch(REPLICA_SETS, meta.namespace, meta.name, body))
    if deployment.metadata.annotations.get(REVISION) != str(revision_number):
        # Through the status, because any other change of annotations is a new generation.
        body = {"metadata": {"annotations": {REVISION: str(revision_number)}}}
        actions.append(Patch(DEPLOYMENTS, meta.namespace, deployment.metadata.name, body, "status"))
    return actions


def collided(deployment: Deployment, existing: ReplicaSet) -> list[Patch]:
    """What to do when the new ReplicaSet's name is taken: nothing if it is that one, else another name next time."""
    owner = existing.metadata.controller
    same = plain(existing.spec.template) == plain(deployment.spec.template)
    if owner is not None and owner.uid == deployment.metadata.uid and same:
        return []
    change = {"collisionCount": (deployment.status.collision_count or 0) + 1}
    return status_patch(DEPLOYMENTS, deployment.metadata, change, locked=True)


def plain(template: PodTemplate) -> bytes:
    """A template's content without the label that names it."""
    metadata = template.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH}
    kept = {key: value for key, value in metadata.items() if key not in ("labels", "creationTimestamp")}
    return canonical({**template, "metadata": {**kept, **({"labels": labels} if labels else {})}})


def revision(meta: ObjectMeta) -> int:
    return number(meta.annotations.get(REVISION)) or 0


def _highest(replica_sets: Sequence[ReplicaSet]) -> int:
    return max((revision(rs.metadata) for rs in replica_sets), default=0)


def _size_notes(deployment: Deployment) -> dict[str, str]:
    replicas = deployment.spec.replicas
    return {DESIRED: str(replicas), MAX: str(replicas + limits(deployment).surge)}


def _age(rs: ReplicaSet) -> tuple[str, str]:
    return rs.metadata.creation_timestamp or "", rs.metadata.name
