"""StatefulSet: pods `web-0`, `web-1`, ... each with a name, a hostname and claims that outlive it.

In order (OrderedReady): a pod is made when all before it are available, and goes when all before it are and none after
it is left. Parallel: all at once. A rolling update goes from the highest ordinal down to the partition, one pod at a
time or `maxUnavailable`; pods below the partition are made with the template they had.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from koord.api.kinds import PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS
from koord.api.kubernetes.core import Pod
from koord.api.kubernetes.meta import OwnerReference
from koord.api.kubernetes.words import PodPhase
from koord.api.kubernetes.workloads import (
    ClaimRetentionPolicy,
    ControllerRevision,
    StatefulSet,
    StatefulSetStatus,
)
from koord.api.text.whole_number import natural_number
from koord.api.workloads.new_pods import reference_body
from koord.api.workloads.revision import POD_LABEL
from koord.api.workloads.stateful_pods import claim_name, claims, new_pod, ordinals
from koord_minicluster.controllers.actions import Action, Create, Patch, Plan, delete
from koord_minicluster.controllers.pods import is_available, is_ready, next_available_in_s
from koord_minicluster.controllers.revisions import Revised, outlived, revise
from koord_minicluster.controllers.share import share
from koord_minicluster.controllers.status_patch import status_change, status_patch


@dataclass(frozen=True, slots=True)
class State:
    """A StatefulSet, its pods and revisions, and the names of all claims of its namespace that it might need."""

    set: StatefulSet
    pods: tuple[Pod, ...]
    history: tuple[ControllerRevision, ...]
    claims: frozenset[str]


def decide(state: State, now_s: float) -> Plan:
    set_ = state.set
    meta, spec = set_.metadata, set_.spec
    revised = revise(
        STATEFUL_SETS, meta, spec.template, state.history, set_.status.current_revision, set_.status.collision_count
    )
    actions: list[Action] = []
    if meta.deletion_timestamp is None:
        actions += revised.actions
        actions += _pods(state, revised, now_s)
        names = {revised.update.name, revised.current.name, *(revision_of(pod) for pod in state.pods)}
        actions += outlived(meta, state.history, names, spec.revision_history_limit)
    change = status_change(set_.status, status(state, revised, now_s))
    actions += status_patch(STATEFUL_SETS, meta, change)
    return Plan(tuple(actions), next_available_in_s(state.pods, spec.min_ready_seconds, now_s))


def ordinal(set_name: str, pod_name: str) -> int | None:
    prefix, _, number = pod_name.rpartition("-")
    return natural_number(number) if prefix == set_name else None


def is_member(set_: StatefulSet, pod: Pod) -> bool:
    return ordinal(set_.metadata.name, pod.metadata.name) is not None


def revision_of(pod: Pod) -> str:
    return pod.metadata.labels.get(POD_LABEL, "")


def _pods(state: State, revised: Revised, now_s: float) -> list[Action]:
    """The next steps with pods. In order, each that is not as it should be ends the search for more."""
    set_, spec = state.set, state.set.spec
    in_order = spec.pod_management_policy != "Parallel"
    wanted = ordinals(set_)
    by_ordinal = {n: pod for pod in state.pods if (n := ordinal(set_.metadata.name, pod.metadata.name)) is not None}
    actions: list[Action] = []
    for number in wanted:
        steps, ready = _member(state, revised, number, by_ordinal.get(number), now_s)
        actions += steps
        if in_order and not ready:
            return actions
    surplus = sorted((n for n in by_ordinal if n not in wanted), reverse=True)
    if surplus:
        removed = _removed(state, [by_ordinal[n] for n in surplus], in_order, now_s)
        if in_order or removed:
            return actions + removed
    return actions + _updated(state, revised, [by_ordinal[n] for n in wanted if n in by_ordinal], now_s)


def _member(state: State, revised: Revised, number: int, pod: Pod | None, now_s: float) -> tuple[list[Action], bool]:
    """What one pod needs, and whether the next may follow."""
    if pod is None:
        revision = revised.current if number < _made_as_before(state.set) else revised.update
        return [
            *_claims(state, number),
            Create(PODS, state.set.metadata.namespace, new_pod(state.set, number, revision)),
        ], False
    if pod.is_finished:
        # However it ended, the pod must run again. A new one is created when the name is free.
        gone = pod.metadata.deletion_timestamp is not None
        return ([] if gone else [delete(PODS, pod.metadata)]), False
    missing = _claims(state, number) if pod.status.phase == PodPhase.PENDING else []
    return missing, _is_available(state.set, pod, now_s)


def _made_as_before(set_: StatefulSet) -> int:
    """Ordinals below this are made with the template of the current revision."""
    strategy = set_.spec.update_strategy
    if strategy.type != "RollingUpdate":
        return 0
    rolling = strategy.rolling_update
    if rolling is None:
        return set_.spec.ordinals.start + set_.status.current_replicas
    return set_.spec.ordinals.start + (rolling.partition or 0)


def _removed(state: State, surplus: Sequence[Pod], in_order: bool, now_s: float) -> list[Action]:
    """Scaling down, from the highest ordinal. In order, those before it must be well, unless it is the first ill."""
    if not in_order:
        going = [pod for pod in surplus if pod.metadata.deletion_timestamp is None]
    else:
        last = surplus[0]
        ill = [pod for pod in reversed(surplus) if not _is_available(state.set, pod, now_s)]
        waits = last.metadata.deletion_timestamp is not None or (ill and ill[0] is not last and last in ill)
        going = [] if waits else [last]
    actions: list[Action] = []
    for pod in going:
        actions += _claims_go_with(state, pod)
        actions.append(delete(PODS, pod.metadata))
    return actions


def _updated(state: State, revised: Revised, pods: Sequence[Pod], now_s: float) -> list[Action]:
    """Pods of another revision, from the highest ordinal down, as many as may be away."""
    spec = state.set.spec
    if spec.update_strategy.type != "RollingUpdate":
        return []
    rolling = spec.update_strategy.rolling_update
    partition = (rolling.partition or 0) if rolling else 0
    asked = rolling.max_unavailable if rolling and rolling.max_unavailable is not None else 1
    may_be_away = max(1, share(asked, spec.replicas, round_up=True))
    budget = may_be_away - spec.replicas + sum(_is_available(state.set, pod, now_s) for pod in pods)
    actions: list[Action] = []
    for pod in reversed(pods):
        number = ordinal(state.set.metadata.name, pod.metadata.name) or 0
        if number - spec.ordinals.start < partition:
            break
        if revision_of(pod) == revised.update.name or pod.metadata.deletion_timestamp is not None:
            continue
        if _is_available(state.set, pod, now_s):
            if budget <= 0:
                break
            budget -= 1
        actions.append(delete(PODS, pod.metadata))
    return actions


def _is_available(set_: StatefulSet, pod: Pod, now_s: float) -> bool:
    running = pod.status.phase == PodPhase.RUNNING and pod.metadata.deletion_timestamp is None
    return running and is_available(pod, set_.spec.min_ready_seconds, now_s)


def _claims(state: State, number: int) -> list[Action]:
    """Claims that are missing. They stay when their pod goes, and mostly when the set does."""
    namespace = state.set.metadata.namespace
    return [
        Create(PERSISTENT_VOLUME_CLAIMS, namespace, body, exists_ok=True)
        for name, body in claims(state.set, number).items()
        if name not in state.claims
    ]


def _claims_go_with(state: State, pod: Pod) -> list[Action]:
    """If the retention policy deletes claims on scale-down, makes the pod their owner before it is deleted."""
    policy = state.set.spec.persistent_volume_claim_retention_policy or ClaimRetentionPolicy()
    number = ordinal(state.set.metadata.name, pod.metadata.name)
    if policy.when_scaled != "Delete" or number is None:
        return []
    owner = OwnerReference("v1", "Pod", pod.metadata.name, pod.metadata.uid)
    body = {"metadata": {"ownerReferences": [reference_body(owner)]}}
    names = [claim_name(t, state.set.metadata.name, number) for t in state.set.spec.volume_claim_templates]
    namespace = state.set.metadata.namespace
    return [Patch(PERSISTENT_VOLUME_CLAIMS, namespace, name, body, gone_ok=True) for name in names]


def status(state: State, revised: Revised, now_s: float) -> StatefulSetStatus:
    set_ = state.set
    living = [pod for pod in state.pods if pod.metadata.deletion_timestamp is None]
    ready = [pod for pod in state.pods if pod.status.phase == PodPhase.RUNNING and is_ready(pod)]
    updated = sum(revision_of(pod) == revised.update.name for pod in living)
    counted = StatefulSetStatus(
        observed_generation=set_.metadata.generation,
        replicas=len(state.pods),
        ready_replicas=len(ready),
        available_replicas=sum(is_available(pod, set_.spec.min_ready_seconds, now_s) for pod in ready),
        current_replicas=sum(revision_of(pod) == revised.current.name for pod in living),
        updated_replicas=updated,
        current_revision=revised.current.name,
        update_revision=revised.update.name,
        collision_count=set_.status.collision_count or 0,
        conditions=set_.status.conditions,
    )
    replicas = set_.spec.replicas
    done = counted.updated_replicas == counted.ready_replicas == counted.replicas == replicas
    if done and set_.spec.update_strategy.type == "RollingUpdate":
        return _completed(counted)
    return counted


def _completed(counted: StatefulSetStatus) -> StatefulSetStatus:
    """All pods have the new revision: it is the current one from here on."""
    return StatefulSetStatus(
        counted.observed_generation,
        counted.replicas,
        counted.ready_replicas,
        counted.available_replicas,
        counted.updated_replicas,
        counted.updated_replicas,
        counted.update_revision,
        counted.update_revision,
        counted.collision_count,
        counted.conditions,
    )
