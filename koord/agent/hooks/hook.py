"""The shape of a hook: what it wants of the node and its bands, of a pod, and of a container.

A hook answers for a pod or container that does not exist yet as well as for one that runs: it uses the pod's spec
and the node's state, and names its targets, not their places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from koord.agent.pods import AgentContainer, AgentPod
from koord.agent.state import NodeState
from koord.agent.wish import Wish
from koord.api.configuration.features import AgentGate
from koord.api.kinds import PODS


def _nothing(*args: object) -> Iterable[Wish]:
    return ()


@dataclass(frozen=True, slots=True)
class Hook:
    name: str
    gate: AgentGate
    for_node: Callable[[NodeState], Iterable[Wish]] = _nothing
    for_pod: Callable[[NodeState, AgentPod], Iterable[Wish]] = _nothing
    for_container: Callable[[NodeState, AgentPod, AgentContainer], Iterable[Wish]] = _nothing

    def is_on(self, state: NodeState) -> bool:
        return state.slo is not None and state.gates[self.gate] and not state.is_colocation_off

    def wishes(self, state: NodeState) -> tuple[Wish, ...]:
        """All that it wants on the node. Of a pod over which it fails, it wants nothing."""
        wishes = [*self.for_node(state)]
        for pod in state.pods.values():
            if pod.is_present:
                with state.shield.about(f"apply {self.name}", PODS, pod.meta):
                    wishes += list(self._of_pod(state, pod))
        return tuple(wishes)

    def _of_pod(self, state: NodeState, pod: AgentPod) -> Iterable[Wish]:
        yield from self.for_pod(state, pod)
        for container in pod.containers:
            yield from self.for_container(state, pod, container)
