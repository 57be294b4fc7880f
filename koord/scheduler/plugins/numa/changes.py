"""What would give a pod its CPUs and NUMA nodes on a node that rejects it, and what the node lacks, in words.

Proposals are tried out with all plugins before users see them, so each need only satisfy this plugin.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.protocol import names
from koord.api.protocol.annotations.cpu import NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.change import Change, asking_for_less, larger, relabelled, smaller
from koord.scheduler.framework.judge import Refused
from koord.scheduler.plugins.numa.accumulator import BindRule
from koord.scheduler.plugins.numa.allocation import meta_spec
from koord.scheduler.plugins.numa.facts import CPU, Facts
from koord.scheduler.plugins.numa.wants import NOT_INTEGER, Wants
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Row


def other_policy(pod: Pod, node: Node, wants: Wants, facts: Facts) -> Iterator[Change]:
    """The pod and the node have different NUMA policies."""
    if facts.policy:
        wanted = replace(NUMA_TOPOLOGY_SPEC.read(pod.metadata), numa_topology_policy=facts.policy)
        text = f"the NUMA policy {facts.policy} instead of {wants.policy}"
        yield Change(text, pod=_annotated(pod, NUMA_TOPOLOGY_SPEC.key, NUMA_TOPOLOGY_SPEC.render(wanted)))
    yield from relabelled(node, {names.LABEL_NUMA_TOPOLOGY_POLICY: wants.policy})


def not_alone(pod: Pod, wants: Wants) -> Iterator[Change]:
    """The pod shares its NUMA nodes."""
    if wants.alone:
        wanted = replace(NUMA_TOPOLOGY_SPEC.read(pod.metadata), single_numa_node_exclusive="Preferred")
        text = "a NUMA node that others may use too (singleNUMANodeExclusive: Preferred in numa-topology-spec)"
        yield Change(text, pod=_annotated(pod, NUMA_TOPOLOGY_SPEC.key, NUMA_TOPOLOGY_SPEC.render(wanted)))


def weaker_policy(node: Node, wants: Wants, facts: Facts, *, aligned: bool) -> Iterator[Change]:
    """NUMA nodes have too little for the policy of the node; or, if not `aligned`, what the pod needs is on different
    NUMA nodes, which only a policy that requires nothing resolves."""
    if wants.policy or not facts.policy or names.LABEL_NUMA_TOPOLOGY_POLICY not in node.metadata.labels:
        return
    if aligned and facts.policy == "SingleNUMANode":
        yield from relabelled(node, {names.LABEL_NUMA_TOPOLOGY_POLICY: "Restricted"})
    yield from relabelled(node, {names.LABEL_NUMA_TOPOLOGY_POLICY: None})


def fewer_cpus(pod: Pod, milli: int, most: int) -> Iterator[Change]:
    """A request that there is room for."""
    if 0 < most < milli:
        smaller_pod = smaller(pod, {CPU: most})
        if smaller_pod is not None:
            yield asking_for_less(smaller_pod, {CPU: (most, milli)}, size=1 + (1 - most / milli))


def whole_cpus(pod: Pod, milli: int, free: int) -> Iterator[Change]:
    """A request of whole CPUs: rounded up if a node has that many, else rounded down."""
    more, fewer = -(-milli // 1000) * 1000, milli // 1000 * 1000
    if more <= free:
        yield asking_for_less(larger(pod, CPU, more), {CPU: (more, milli)}, size=more / milli)
    else:
        yield from fewer_cpus(pod, milli, min(fewer, free // 1000 * 1000))


def no_requirement(pod: Pod, wish: BindRule) -> Iterator[Change]:
    """The bind policy as a preference."""
    said = meta_spec(pod)
    if not said.required_cpu_bind_policy:
        return
    spec = replace(said, required_cpu_bind_policy="", preferred_cpu_bind_policy=wish.policy)
    text = f"{wish.policy} as the preferred instead of the required CPU bind policy"
    yield Change(text, pod=_annotated(pod, RESOURCE_SPEC.key, RESOURCE_SPEC.render(spec)), size=1.5)


def no_node_binding(node: Node) -> Iterator[Change]:
    """The node does not bind all its pods."""
    if names.LABEL_CPU_BIND_POLICY in node.metadata.labels:
        yield from relabelled(node, {names.LABEL_CPU_BIND_POLICY: None}, size=2.0)


class NotWhole(Refused):
    """For pods whose CPUs cannot be their own, since they ask for parts of some."""

    def __init__(self, milli: int, cluster: Cluster) -> None:
        super().__init__(NOT_INTEGER)
        self._milli, self._cluster = milli, cluster

    def fixes(self, ask: Ask, row: Row) -> Sequence[Change]:
        columns = self._cluster.table.columns
        free = columns["allocatable", CPU].item(row) - columns["requested", CPU].item(row)
        return tuple(whole_cpus(ask.pod, self._milli, free))


def _annotated(pod: Pod, key: str, text: str) -> Pod:
    annotations = {**pod.metadata.annotations, key: text}
    return replace(pod, metadata=replace(pod.metadata, annotations=annotations))
