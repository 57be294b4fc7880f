"""DaemonSet: one pod on every node that takes it, and an update that leaves most nodes served.

Each node is decided alone; nodes share only the budget of an update: at most `maxUnavailable` nodes without an
available pod, or at most `maxSurge` nodes with two pods. An old pod that is unavailable anyway is replaced at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from koord.api.kinds import DAEMON_SETS, PODS
from koord.api.kubernetes.core import Node, Pod
from koord.api.kubernetes.words import PodPhase
from koord.api.kubernetes.workloads import ControllerRevision, DaemonSet, DaemonSetStatus, template_of
from koord.api.workloads.daemon_pods import belongs, new_pod, target_node
from koord.api.workloads.revision import POD_LABEL, Revision
from koord_minicluster.controllers.actions import Action, Create, Delete, Plan, delete
from koord_minicluster.controllers.pods import is_available, is_ready, next_available_in_s
from koord_minicluster.controllers.revisions import outlived, revise
from koord_minicluster.controllers.share import share
from koord_minicluster.controllers.status_patch import status_change, status_patch

BURST: Final = 250


@dataclass(frozen=True, slots=True)
class State:
    """A DaemonSet, its pods and revisions, and all nodes. `held_back` are nodes on which pods keep failing."""

    set: DaemonSet
    pods: tuple[Pod, ...]
    nodes: tuple[Node, ...]
    history: tuple[ControllerRevision, ...] = ()
    held_back: frozenset[str] = frozenset()


@dataclass(slots=True)
class _OnNode:
    """One node's part of the state."""

    wanted: bool
    may_stay: bool
    pods: list[Pod] = field(default_factory=list)


def decide(state: State, now_s: float) -> Plan:
    set_ = state.set
    meta, spec = set_.metadata, set_.spec
    revised = revise(DAEMON_SETS, meta, spec.template, state.history, "", set_.status.collision_count)
    template = template_of(spec.template)
    by_node: dict[str, _OnNode] = {node.metadata.name: _OnNode(*belongs(template, node)) for node in state.nodes}
    astray: list[Pod] = []
    for pod in sorted(state.pods, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name)):
        place = by_node.get(target_node(pod))
        if place is not None:
            place.pods.append(pod)
        elif not pod.spec.node_name and pod.metadata.deletion_timestamp is None:
            astray.append(pod)
    actions: list[Action] = []
    if meta.deletion_timestamp is None:
        actions += revised.actions
        gone = [delete(PODS, pod.metadata) for pod in astray]
        nodes, deletes = _placed(state, by_node, revised.update)
        if not nodes and not deletes and spec.update_strategy.type == "RollingUpdate":
            nodes, deletes = _rolled(state, by_node, revised.update, now_s)
        actions += [*gone, *deletes][:BURST]
        actions += [Create(PODS, meta.namespace, new_pod(set_, revised.update, node)) for node in nodes[:BURST]]
        in_use = {revised.update.name, *(pod.metadata.labels.get(POD_LABEL, "") for pod in state.pods)}
        actions += outlived(meta, state.history, in_use, spec.revision_history_limit)
    change = status_change(set_.status, status(state, by_node, revised.update, now_s))
    actions += status_patch(DAEMON_SETS, meta, change)
    return Plan(tuple(actions), next_available_in_s(state.pods, spec.min_ready_seconds, now_s))


def _placed(state: State, by_node: Mapping[str, _OnNode], update: Revision) -> tuple[list[str], list[Delete]]:
    """Nodes that lack a pod, and pods that are too many, finished, or not wanted where they are."""
    nodes: list[str] = []
    deletes: list[Delete] = []
    two_allowed = _max_surge(state.set, 1) > 0
    for name, place in by_node.items():
        alive = [pod for pod in place.pods if pod.metadata.deletion_timestamp is None]
        if not place.may_stay:
            deletes += [delete(PODS, pod.metadata) for pod in alive]
            continue
        finished = [pod for pod in alive if pod.is_finished]
        if name not in state.held_back:
            deletes += [delete(PODS, pod.metadata) for pod in finished]
        running = [pod for pod in alive if not pod.is_finished]
        if not place.pods and place.wanted:
            nodes.append(name)
        kept = _kept(running, update, two_allowed)
        deletes += [delete(PODS, pod.metadata) for pod in running if pod not in kept]
    return nodes, deletes


def _kept(running: Sequence[Pod], update: Revision, two_allowed: bool) -> list[Pod]:
    """Of several pods on a node one stays: bound before unbound, ready before not, the oldest. With surge, an old one
    and a new one."""
    best = sorted(running, key=lambda pod: (not pod.spec.node_name, pod.status.phase != PodPhase.RUNNING))
    if not two_allowed:
        return best[:1]
    new = [pod for pod in best if _is_new(pod, update)]
    old = [pod for pod in best if not _is_new(pod, update)]
    return old[:1] + new[:1]


def _rolled(
    state: State, by_node: Mapping[str, _OnNode], update: Revision, now_s: float
) -> tuple[list[str], list[Delete]]:
    """The next step of an update: nodes that get a second pod, and old pods that go."""
    wanted = sum(place.wanted for place in by_node.values())
    surge = _max_surge(state.set, wanted)
    served = {name: place for name, place in by_node.items() if place.may_stay}
    if surge:
        return _surged(state, served, update, surge, now_s)
    rolling = state.set.spec.update_strategy.rolling_update
    asked = rolling.max_unavailable if rolling and rolling.max_unavailable is not None else 1
    budget = max(1, share(asked, wanted, round_up=True))
    useless: list[Pod] = []
    candidates: list[Pod] = []
    for place in served.values():
        old, new = _old_and_new(place, update)
        if old is not None and new is None:
            if _is_of_use(state.set, old, now_s):
                candidates.append(old)
            else:
                useless.append(old)
                budget -= 1
        elif place.wanted and (new is None or not _is_of_use(state.set, new, now_s)):
            budget -= 1
    going = [*useless, *candidates[: max(0, budget)]]
    return [], [delete(PODS, pod.metadata) for pod in going]


def _surged(
    state: State, served: Mapping[str, _OnNode], update: Revision, surge: int, now_s: float
) -> tuple[list[str], list[Delete]]:
    at_once: list[str] = []
    candidates: list[str] = []
    going: list[Pod] = []
    for name, place in served.items():
        old, new = _old_and_new(place, update)
        if old is None:
            continue
        if new is None:
            if name in state.held_back or not place.wanted:
                continue
            (candidates if _is_of_use(state.set, old, now_s) else at_once).append(name)
        elif _is_of_use(state.set, new, now_s) or not _is_of_use(state.set, old, now_s):
            going.append(old)
        else:
            surge -= 1
    return [*at_once, *candidates[: max(0, surge)]], [delete(PODS, pod.metadata) for pod in going]


def _old_and_new(place: _OnNode, update: Revision) -> tuple[Pod | None, Pod | None]:
    alive = [pod for pod in place.pods if pod.metadata.deletion_timestamp is None]
    old = next((pod for pod in alive if not _is_new(pod, update)), None)
    return old, next((pod for pod in alive if _is_new(pod, update)), None)


def _is_new(pod: Pod, update: Revision) -> bool:
    return pod.metadata.labels.get(POD_LABEL) == update.hash


def _is_of_use(set_: DaemonSet, pod: Pod, now_s: float) -> bool:
    return is_available(pod, set_.spec.min_ready_seconds, now_s)


def _max_surge(set_: DaemonSet, wanted: int) -> int:
    rolling = set_.spec.update_strategy.rolling_update
    if set_.spec.update_strategy.type != "RollingUpdate" or rolling is None or rolling.max_surge is None:
        return 0
    return share(rolling.max_surge, wanted, round_up=True)


def status(state: State, by_node: Mapping[str, _OnNode], update: Revision, now_s: float) -> DaemonSetStatus:
    wanted = [place for place in by_node.values() if place.wanted]
    available = sum(any(_is_of_use(state.set, pod, now_s) for pod in _alive(place.pods)) for place in wanted)
    return DaemonSetStatus(
        observed_generation=state.set.metadata.generation,
        current_number_scheduled=sum(bool(place.pods) for place in wanted),
        desired_number_scheduled=len(wanted),
        number_misscheduled=sum(bool(place.pods) for place in by_node.values() if not place.wanted),
        number_ready=sum(any(is_ready(pod) for pod in _alive(place.pods)) for place in wanted),
        number_available=available,
        number_unavailable=len(wanted) - available,
        updated_number_scheduled=sum(any(_is_new(pod, update) for pod in place.pods) for place in wanted),
        collision_count=state.set.status.collision_count,
        conditions=state.set.status.conditions,
    )


def _alive(pods: Iterable[Pod]) -> list[Pod]:
    return [pod for pod in pods if pod.metadata.deletion_timestamp is None]
