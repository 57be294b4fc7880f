"""RemovePodsHavingTooManyRestarts: give pods whose containers fail again and again a chance elsewhere.

Node by node, those with the most restarts first.
"""

from __future__ import annotations

from collections.abc import Iterable

from koord.api.configuration.descheduler_upstream_args import RemovePodsHavingTooManyRestartsArgs
from koord.api.kubernetes.pod import ContainerStatus, Pod
from koord.descheduler.plugin import ANYHOW, Plugin, Proposal, Turn
from koord.descheduler.selection import Selection


class RemovePodsHavingTooManyRestarts(Plugin):
    name = "RemovePodsHavingTooManyRestarts"
    point = "deschedule"

    def __init__(self, args: RemovePodsHavingTooManyRestartsArgs) -> None:
        self._args = args
        self._selection = Selection.of_pods(args.label_selector, args.namespaces)

    def propose(self, turn: Turn, memory: None) -> None:
        sight, least = turn.sight, self._args.pod_restart_threshold
        for node in turn.nodes:
            ranked = []
            for pod in (*sight.pods_on.get(node, ()), *sight.finished_on.get(node, ())):
                restarts = self._restarts(pod)
                is_due = restarts >= least and self._selection.has_pod(pod) and self._is_in_state(pod)
                if is_due and turn.never(pod) is None:
                    ranked.append((-restarts, pod.metadata.key, pod))
            for minus, _, pod in sorted(ranked, key=lambda ranking: ranking[:2]):
                reason = f"containers were restarted {-minus} times, and {least} are too many"
                turn.ask(Proposal(pod, self.name, reason), ANYHOW)

    def _statuses(self, pod: Pod) -> Iterable[ContainerStatus]:
        own = pod.status.container_statuses
        return (*own, *pod.status.init_container_statuses) if self._args.including_init_containers else own

    def _restarts(self, pod: Pod) -> int:
        return sum(status.restart_count for status in self._statuses(pod))

    def _is_in_state(self, pod: Pod) -> bool:
        states: tuple[str, ...] = self._args.states
        if not states or str(pod.status.phase) in states:
            return True
        waiting = (status.state.waiting for status in self._statuses(pod))
        return any(state is not None and state.reason in states for state in waiting)
