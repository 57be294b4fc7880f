"""On which CPUs best effort runs while nothing holds it to fewer.

On all that are not exclusive: not those of LSE pods, nor those that the node reserves, nor those exclusive for system
pods; or, with the BECPUManager gate, where the scheduler put each best-effort pod. Without exclusive CPUs nothing is
decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from koord.agent import wish
from koord.agent.cpu_pools import numa_nodes_with_cpu, owned_cpus
from koord.agent.host.knobs import CPUSET_CPUS
from koord.agent.pods import AgentPod
from koord.agent.state import NodeState
from koord.agent.wish import Wish
from koord.api.kubernetes.words import KubeQoS
from koord.api.protocol.annotations.cpu import RESOURCE_STATUS
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.text.cpuset import NO_CPUS, CPUSet

NAME: Final = "cpu_suppress"
"""Suppression's: it is one and the same setting of the same directories."""


def others(state: NodeState) -> CPUSet:
    """What best effort does not get where the agent chooses its CPUs."""
    owned = owned_cpus(state)
    return owned.never | owned.lse


def owned_alone(state: NodeState) -> CPUSet:
    """CPUs that it never gets. Excludes CPUs that kubelet reserves but still shares.

    A node's annotation that cannot be read restricts no pod: a strategy that is switched off is undone even then.
    """
    try:
        owned = owned_cpus(state)
    except AnnotationError:
        return NO_CPUS
    return owned.system | owned.lse


def kept_away(state: NodeState, pods: Sequence[str], containers: Sequence[str]) -> tuple[Wish, ...]:
    """`pods`, `containers`: all directories below that of best effort, also foreign ones."""
    alone = owned_alone(state)
    rest = state.topology.all - alone
    if not alone or not rest:
        return ()
    return cpu_wishes(((directory, rest) for directory in (*pods, *containers)), rest, f"CPUs {alone} are for others")


def given(state: NodeState, pods: Sequence[str], containers: Sequence[str]) -> tuple[Wish, ...]:
    """The containers of a pod get what the scheduler gave it; all above and beside them may be larger."""
    own = dict(_given(state))
    if not own:
        return kept_away(state, pods, containers)
    rest = state.topology.all - others(state)
    below = [(directory, rest) for directory in pods]
    below += [(directory, own.get(directory.rpartition("/")[0], rest)) for directory in containers]
    return cpu_wishes(below, rest, "where the scheduler put each best-effort pod")


def cpu_wishes(below: Iterable[tuple[str, CPUSet]], cpus: CPUSet, why: str) -> tuple[Wish, ...]:
    """`cpus` for best effort as a whole, and the given CPUs for each directory below it."""
    own = Wish(wish.band(KubeQoS.BEST_EFFORT), CPUSET_CPUS, cpus, NAME, why, is_watched=True)
    return (own, *(Wish(wish.cgroup(directory), CPUSET_CPUS, value, NAME, why) for directory, value in below))


def _given(state: NodeState) -> Iterator[tuple[str, CPUSet]]:
    for pod in state.pods.values():
        if pod.is_present and pod.is_best_effort and (cpus := _given_to(state, pod)):
            yield pod.directory, cpus


def _given_to(state: NodeState, pod: AgentPod) -> CPUSet:
    """Its own CPUs, or those of the NUMA nodes where it was given CPU."""
    try:
        status = RESOURCE_STATUS.read(pod.meta)
    except AnnotationError:
        return NO_CPUS
    nodes = numa_nodes_with_cpu(status)
    on_nodes = CPUSet(cpu.id for cpu in state.topology.cpus if cpu.node in nodes)
    return status.cpus or on_nodes - others(state)
