"""What a pod says about the nodes that it may run on, and that it would rather run on. Only its own words count here;
whether a node would take it is for the scheduler to say (`places`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import NodeAffinity, Pod, PodSpec
from koord.api.kubernetes.taints import untolerated
from koord.api.text.selector import LabelMatcher, NodeMatcher, compile_nodes, match_labels


def node_affinity_of(spec: PodSpec) -> NodeAffinity | None:
    return spec.affinity.node_affinity if spec.affinity is not None else None


@dataclass(frozen=True, slots=True)
class NodePreferences:
    selector: LabelMatcher
    required: NodeMatcher | None
    preferred: tuple[tuple[int, NodeMatcher], ...]

    @staticmethod
    def of(spec: PodSpec) -> NodePreferences:
        affinity = node_affinity_of(spec)
        required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
        preferred = affinity.preferred_during_scheduling_ignored_during_execution if affinity is not None else ()
        return NodePreferences(
            match_labels(spec.node_selector),
            None if required is None else compile_nodes(required),
            tuple((term.weight, compile_nodes(term.preference)) for term in preferred),
        )

    def suits(self, node: Node) -> bool:
        """Whether its selector and required affinity allow a node."""
        labels, name = node.metadata.labels, node.metadata.name
        return self.selector.matches(labels) and (self.required is None or self.required.matches(labels, name))

    def preference(self, node: Node) -> int:
        """The sum of weights of what it would rather have."""
        labels, name = node.metadata.labels, node.metadata.name
        return sum(weight for weight, matcher in self.preferred if matcher.matches(labels, name))


@dataclass(slots=True)
class PreferenceCache:
    """NodePreferences of the pods of one turn. Pods of one template share theirs."""

    _known: dict[int, tuple[PodSpec, NodePreferences]] = field(default_factory=dict)

    def of(self, pod: Pod) -> NodePreferences:
        cached = self._known.get(id(pod.spec))
        if cached is None:
            # The spec is kept, so that its id stays its own.
            cached = self._known[id(pod.spec)] = pod.spec, NodePreferences.of(pod.spec)
        return cached[1]

    def may_land(self, pod: Pod, nodes: Mapping[str, Node]) -> list[str]:
        """The nodes that a pod's selector, affinity and tolerations allow."""
        mine = self.of(pod)
        return [
            name
            for name, node in nodes.items()
            if mine.suits(node) and untolerated(node.spec.taints, pod.spec.tolerations) is None
        ]
