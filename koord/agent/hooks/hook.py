"""The shape of a hook: what it wants of the directories of QoS classes, of a pod's, and of a container's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from koord.agent.executor.write import Write
from koord.agent.pods import AgentContainer, AgentPod
from koord.agent.state import NodeState
from koord.api.configuration.features import AgentGate


def _nothing(*args: object) -> Iterable[Write]:
    return ()


@dataclass(frozen=True, slots=True)
class Hook:
    name: str
    gate: AgentGate
    for_node: Callable[[NodeState], Iterable[Write]] = _nothing
    for_pod: Callable[[NodeState, AgentPod], Iterable[Write]] = _nothing
    for_container: Callable[[NodeState, AgentPod, AgentContainer], Iterable[Write]] = _nothing

    def writes(self, state: NodeState) -> tuple[Write, ...]:
        """All that it wants on the node."""
        return tuple(self._writes(state))

    def _writes(self, state: NodeState) -> Iterable[Write]:
        yield from self.for_node(state)
        for pod in state.pods.values():
            if not pod.is_present:
                continue
            yield from self.for_pod(state, pod)
            for container in pod.containers:
                if container.directory:
                    yield from self.for_container(state, pod, container)
