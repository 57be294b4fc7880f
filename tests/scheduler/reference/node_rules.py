"""The plugins that compare a pod with a node and look at little else: names, taints, labels, ports, images.

Formulas stand below the sentence of the specification that they come from.
"""

from __future__ import annotations

from koord.api.configuration.scheduler_args import NodeAffinityArgs
from koord.api.kubernetes.node import Node, Taint
from koord.api.kubernetes.pod import NodeAffinity, Pod, PreferredSchedulingTerm
from koord.api.kubernetes.taints import tolerates, untolerated
from koord.api.kubernetes.words import TaintEffect, TaintKey
from koord.api.text.selector import compile_nodes, match_labels
from tests.scheduler.reference.cluster import OK, Cluster, Verdict, normalised_by_max, unsched, uu

_UNSCHEDULABLE = Taint(TaintKey.UNSCHEDULABLE, TaintEffect.NO_SCHEDULE)
MIB = 1024**2


def node_unschedulable(pod: Pod, node: Node) -> Verdict:
    """`spec.unschedulable` unless the pod tolerates `node.kubernetes.io/unschedulable:NoSchedule`."""
    if node.spec.unschedulable and untolerated([_UNSCHEDULABLE], pod.spec.tolerations):
        return uu("node(s) were unschedulable")
    return OK


def node_name(pod: Pod, node: Node) -> Verdict:
    if pod.spec.node_name and pod.spec.node_name != node.metadata.name:
        return uu("node(s) didn't match the requested node name")
    return OK


def taint_toleration(pod: Pod, node: Node) -> Verdict:
    """Filter on NoSchedule/NoExecute."""
    if untolerated(node.spec.taints, pod.spec.tolerations):
        return uu("node(s) had untolerated taint(s)")
    return OK


def taint_toleration_score(pod: Pod, nodes: list[Node]) -> dict[str, int]:
    """Raw score = number of untolerated PreferNoSchedule taints (only tolerations with empty or PreferNoSchedule
    effect count); reverse normalise."""
    tolerations = [t for t in pod.spec.tolerations if t.effect in (TaintEffect.ALL, TaintEffect.PREFER_NO_SCHEDULE)]
    raw = {
        node.metadata.name: sum(
            taint.effect == TaintEffect.PREFER_NO_SCHEDULE and not any(tolerates(t, taint) for t in tolerations)
            for taint in node.spec.taints
        )
        for node in nodes
    }
    return normalised_by_max(raw, reverse=True)


def wants_node(pod: Pod, node: Node) -> bool:
    """nodeSelector AND (OR of required terms)."""
    if not match_labels(pod.spec.node_selector).matches(node.metadata.labels):
        return False
    required = _affinity(pod).required_during_scheduling_ignored_during_execution
    return required is None or compile_nodes(required).matches(node.metadata.labels, node.metadata.name)


def node_affinity(pod: Pod, node: Node, args: NodeAffinityArgs) -> Verdict:
    added = args.added_affinity and args.added_affinity.required_during_scheduling_ignored_during_execution
    if added and not compile_nodes(added).matches(node.metadata.labels, node.metadata.name):
        return uu("node(s) didn't match scheduler-enforced node affinity")
    return OK if wants_node(pod, node) else uu("node(s) didn't match Pod's node affinity/selector")


def node_affinity_names(pod: Pod) -> frozenset[str] | None:
    """The only nodes that can match, or None for all.

    "Terms all pinning `metadata.name` In become a PreFilter node list": within a term the pins must all hold, and the
    terms are alternatives.
    """
    required = _affinity(pod).required_during_scheduling_ignored_during_execution
    if required is None or not required.node_selector_terms:
        return None
    names: set[str] = set()
    for term in required.node_selector_terms:
        pins = [set(f.values) for f in term.match_fields if f.key == "metadata.name" and f.operator == "In"]
        if not pins:
            return None
        names |= set.intersection(*pins)
    return frozenset(names)


def node_affinity_score(pod: Pod, nodes: list[Node], args: NodeAffinityArgs) -> dict[str, int]:
    """Score = Σ weights of matching preferred terms, normalise by max; skipped if none."""
    own = _affinity(pod).preferred_during_scheduling_ignored_during_execution
    added = args.added_affinity.preferred_during_scheduling_ignored_during_execution if args.added_affinity else ()
    if not own and not added:
        return {}
    return normalised_by_max({node.metadata.name: _preference((*own, *added), node) for node in nodes})


def _preference(terms: tuple[PreferredSchedulingTerm, ...], node: Node) -> int:
    matching = (t for t in terms if compile_nodes(t.preference).matches(node.metadata.labels, node.metadata.name))
    return sum(term.weight for term in matching)


def _affinity(pod: Pod) -> NodeAffinity:
    return (pod.spec.affinity and pod.spec.affinity.node_affinity) or NodeAffinity()


def node_ports(pod: Pod, node: Node, cluster: Cluster) -> Verdict:
    """Conflict if same protocol+port and (same IP or either is 0.0.0.0)."""
    used = [port for other in cluster.pods_on(node) for port in host_ports(other)]
    for protocol, port, ip in host_ports(pod):
        for used_protocol, used_port, used_ip in used:
            if (protocol, port) == (used_protocol, used_port) and (ip == used_ip or "0.0.0.0" in (ip, used_ip)):
                return unsched("node(s) didn't have free ports for the requested pod ports")
    return OK


def host_ports(pod: Pod) -> list[tuple[str, int, str]]:
    """Protocol, port and IP that a pod takes of its node, of containers that run as long as the pod does."""
    running = [*pod.spec.containers, *(c for c in pod.spec.init_containers if c.is_sidecar)]
    return [(p.protocol or "TCP", p.host_port, p.host_ip or "0.0.0.0") for c in running for p in c.ports if p.host_port]


def image_locality_score(pod: Pod, nodes: list[Node], cluster: Cluster) -> dict[str, int]:
    """Per container (init too) whose normalised image (append `:latest` if no tag) is on the node:
    int(size·nodesWithImage/totalNodes); s = clamp(Σ, 23Mi, 1000Mi·containers);
    score = 100·(s−23Mi)/(1000Mi·containers−23Mi).

    An image is taken to be as large on every node.
    """
    containers = [*pod.spec.init_containers, *pod.spec.containers]
    most = 1000 * MIB * len(containers)
    scores = {}
    for node in nodes:
        total = sum(_image_share(normalised_image(c.image), node, cluster) for c in containers)
        s = min(max(total, 23 * MIB), most)
        scores[node.metadata.name] = 100 * (s - 23 * MIB) // (most - 23 * MIB)
    return scores


def _image_share(image: str, node: Node, cluster: Cluster) -> int:
    size = next((i.size_bytes for i in node.status.images if image in i.names), None)
    if size is None:
        return 0
    having = sum(any(image in i.names for i in other.status.images) for other in cluster.nodes)
    return int(size * (having / len(cluster.nodes)))


def normalised_image(image: str) -> str:
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
