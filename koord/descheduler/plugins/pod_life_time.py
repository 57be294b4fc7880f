"""PodLifeTime: remove pods that are older than they should get, or that are in one of some states; the oldest first.

All criteria that are given must hold: age, state, owner, condition, exit code. Pods that have finished count, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from koord.api.configuration.descheduler_upstream_args import PodConditionFilter, PodLifeTimeArgs
from koord.api.kubernetes.pod import ContainerStatus, Pod, PodCondition
from koord.api.text.timestamp import TimestampError, parse_timestamp
from koord.descheduler.importance import created_s
from koord.descheduler.plugin import ANYHOW, Plugin, Proposal, Turn
from koord.descheduler.selection import Selection


class PodLifeTime(Plugin):
    name = "PodLifeTime"
    point = "deschedule"

    def __init__(self, args: PodLifeTimeArgs) -> None:
        self._args = args
        self._selection = Selection.of_pods(args.label_selector, args.namespaces)

    def propose(self, turn: Turn, memory: None) -> None:
        sight = turn.sight
        old_pods = [
            pod
            for node in turn.nodes
            for pods in (sight.pods_on.get(node, ()), sight.finished_on.get(node, ()))
            for pod in pods
            if self._selection.has_pod(pod) and self._is_due(pod, sight.now_s) and turn.never(pod) is None
        ]
        for pod in sorted(old_pods, key=lambda pod: (created_s(pod), pod.metadata.key)):
            turn.ask(Proposal(pod, self.name, self._reason(pod, sight.now_s)), ANYHOW)

    def _is_due(self, pod: Pod, now_s: float) -> bool:
        args, most_s = self._args, self._args.max_pod_life_time_seconds
        if most_s is not None and int(now_s - created_s(pod)) <= most_s:
            return False
        if args.states and not any(state in args.states for state in self._states(pod)):
            return False
        if args.conditions and not any(
            _says(condition, wanted_condition, now_s)
            for wanted_condition in args.conditions
            for condition in pod.status.conditions
        ):
            return False
        if args.exit_codes and not any(code in args.exit_codes for code in self._exit_codes(pod)):
            return False
        return self._is_owned_so(pod)

    def _is_owned_so(self, pod: Pod) -> bool:
        kinds, owners = self._args.owner_kinds, {owner.kind for owner in pod.metadata.owner_references}
        if kinds is None:
            return True
        return bool(owners & set(kinds.include)) if kinds.include else not owners & set(kinds.exclude)

    def _states(self, pod: Pod) -> Iterator[str]:
        args, status = self._args, pod.status
        yield str(status.phase)
        yield status.reason
        yield from _reasons(status.container_statuses)
        if args.including_init_containers:
            yield from _reasons(status.init_container_statuses)
        if args.including_ephemeral_containers:
            yield from _reasons(status.ephemeral_container_statuses)

    def _exit_codes(self, pod: Pod) -> Iterator[int]:
        statuses = pod.status.container_statuses
        if self._args.including_init_containers:
            statuses += pod.status.init_container_statuses
        for status in statuses:
            if status.state.terminated is not None:
                yield status.state.terminated.exit_code

    def _reason(self, pod: Pod, now_s: float) -> str:
        most_s = self._args.max_pod_life_time_seconds
        if most_s is not None:
            return f"pod is {int(now_s - created_s(pod))} s old, and pods should not get older than {most_s} s"
        return "pod is in a state that it should not stay in"


def _reasons(statuses: Iterable[ContainerStatus]) -> Iterator[str]:
    for status in statuses:
        for state in (status.state.waiting, status.state.terminated):
            if state is not None:
                yield state.reason


def _says(condition: PodCondition, wanted: PodConditionFilter, now_s: float) -> bool:
    for want, has in (
        (wanted.type, str(condition.type)),
        (wanted.status, str(condition.status)),
        (wanted.reason, condition.reason),
    ):
        if want and want != has:
            return False
    least_s = wanted.min_time_since_last_transition_seconds
    if least_s is None:
        return True
    try:
        return int(now_s - parse_timestamp(condition.last_transition_time or "")) >= least_s
    except TimestampError:
        return False
