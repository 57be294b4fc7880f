"""InterPodAffinity: which pods a pod wants beside it or away from it, and which want or shun it.

Pods count in topology pairs: (label key, label value) of the node that they are on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from koord.api.configuration.scheduler_args import InterPodAffinityArgs
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm
from koord.api.text.selector import NOTHING, LabelMatcher, Operator, Requirement, compile_labels
from tests.scheduler.reference.cluster import OK, Cluster, Verdict, unsched, uu

Pair = tuple[str, str]


@dataclass(frozen=True)
class Term:
    key: str
    pods: LabelMatcher
    namespaces: frozenset[str]
    namespace_selector: LabelMatcher

    def matches_incoming(self, pod: Pod, cluster: Cluster) -> bool:
        """Whether this term of a placed pod means the pod to be placed."""
        here = pod.metadata.namespace
        in_namespace = here in self.namespaces or self.namespace_selector.matches(cluster.namespace_labels(here))
        return in_namespace and self.pods.matches(pod.metadata.labels)

    def matches_placed(self, pod: Pod, cluster: Cluster) -> bool:
        """Whether this term of the pod to be placed means a placed pod (or that pod itself).

        kube-scheduler looks up the namespaces that the selector chooses, and then asks the selector once more without
        any labels. So one that an unlabelled namespace satisfies (NotIn, DoesNotExist) chooses all namespaces.
        """
        chosen = {ns.metadata.name for ns in cluster.namespaces if self.namespace_selector.matches(ns.metadata.labels)}
        in_namespace = pod.metadata.namespace in self.namespaces | chosen or self.namespace_selector.matches({})
        return in_namespace and self.pods.matches(pod.metadata.labels)


def term_of(term: PodAffinityTerm, pod: Pod) -> Term:
    """A term with what it takes from its pod: the namespace, where it names none, and the values of matchLabelKeys and
    mismatchLabelKeys, which the API server writes into the selector."""
    selector = compile_labels(term.label_selector, absent=NOTHING)
    if selector is not NOTHING:
        labels = pod.metadata.labels
        same = [Requirement(k, Operator.IN, (labels[k],)) for k in term.match_label_keys if k in labels]
        other = [Requirement(k, Operator.NOT_IN, (labels[k],)) for k in term.mismatch_label_keys if k in labels]
        selector = LabelMatcher((*selector.requirements, *same, *other))
    namespaces = frozenset(term.namespaces)
    if not namespaces and term.namespace_selector is None:
        namespaces = frozenset({pod.metadata.namespace})
    return Term(term.topology_key, selector, namespaces, compile_labels(term.namespace_selector, absent=NOTHING))


def required(pod: Pod, *, anti: bool = False) -> list[Term]:
    return [term_of(t, pod) for t in _part(pod, anti).required_during_scheduling_ignored_during_execution]


def preferred(pod: Pod, *, anti: bool = False) -> list[tuple[int, Term]]:
    terms: Iterable[WeightedPodAffinityTerm] = _part(pod, anti).preferred_during_scheduling_ignored_during_execution
    return [(t.weight, term_of(t.pod_affinity_term, pod)) for t in terms]


def _part(pod: Pod, anti: bool) -> PodAffinity:
    affinity = pod.spec.affinity
    part = affinity and (affinity.pod_anti_affinity if anti else affinity.pod_affinity)
    return part or PodAffinity()


def _placed(cluster: Cluster) -> list[tuple[Pod, Node]]:
    return [(pod, node) for node in cluster.nodes for pod in cluster.pods_on(node)]


def affinity_pairs(pod: Pod, cluster: Cluster) -> set[Pair]:
    """Where there are pods that match **all** required terms."""
    terms = required(pod)
    pairs: set[Pair] = set()
    for other, node in _placed(cluster):
        if terms and all(term.matches_placed(other, cluster) for term in terms):
            pairs |= {(t.key, node.metadata.labels[t.key]) for t in terms if t.key in node.metadata.labels}
    return pairs


def anti_affinity_pairs(pod: Pod, cluster: Cluster) -> set[Pair]:
    """Where there are pods that the pod shuns."""
    return {
        (term.key, node.metadata.labels[term.key])
        for other, node in _placed(cluster)
        for term in required(pod, anti=True)
        if term.key in node.metadata.labels and term.matches_placed(other, cluster)
    }


def shunned_pairs(pod: Pod, cluster: Cluster) -> set[Pair]:
    """Where there are pods that shun the pod."""
    return {
        (term.key, node.metadata.labels[term.key])
        for other, node in _placed(cluster)
        for term in required(other, anti=True)
        if term.key in node.metadata.labels and term.matches_incoming(pod, cluster)
    }


def pod_affinity(pod: Pod, node: Node, cluster: Cluster) -> Verdict:
    """In order: required affinity (every term's key must be on the node and its domain must contain a pod matching
    **all** terms; exception: no pod anywhere matches all terms, and the pod matches its own) → UU; own
    anti-affinity → Unsched; existing pods' required anti-affinity → Unsched."""
    labels = node.metadata.labels
    terms = required(pod)
    if terms:
        wanted = cluster.once(affinity_pairs, pod, cluster)
        has_keys = all(term.key in labels for term in terms)
        beside = has_keys and all((term.key, labels[term.key]) in wanted for term in terms)
        first_of_its_kind = not wanted and all(term.matches_placed(pod, cluster) for term in terms)
        if not beside and not (has_keys and first_of_its_kind):
            return uu("node(s) didn't match pod affinity rules")
    if set(labels.items()) & cluster.once(anti_affinity_pairs, pod, cluster):
        return unsched("node(s) didn't match pod anti-affinity rules")
    if set(labels.items()) & cluster.once(shunned_pairs, pod, cluster):
        return unsched("node(s) didn't satisfy existing pods anti-affinity rules")
    return OK


def pod_affinity_score(pod: Pod, nodes: list[Node], cluster: Cluster, args: InterPodAffinityArgs) -> dict[str, int]:
    """Per topology pair ±weight for the pod's preferred (anti)affinity terms matched by existing pods and vice versa,
    plus 1 (hardPodAffinityWeight) per existing pod's required affinity term it matches; node raw = Σ over its labels;
    normalise 100·(s−min)/(max−min), all 0 if equal."""
    wants, shuns = preferred(pod), preferred(pod, anti=True)
    if args.ignore_preferred_terms_of_existing_pods and not wants and not shuns:
        return {}
    pairs: Counter[Pair] = Counter()
    touched = False
    for other, node in _placed(cluster):
        labels = node.metadata.labels
        matched = [(weight, term) for weight, term in wants if term.matches_placed(other, cluster)]
        matched += [(-weight, term) for weight, term in shuns if term.matches_placed(other, cluster)]
        if args.hard_pod_affinity_weight:
            hard = args.hard_pod_affinity_weight
            matched += [(hard, term) for term in required(other) if term.matches_incoming(pod, cluster)]
        matched += [(weight, term) for weight, term in preferred(other) if term.matches_incoming(pod, cluster)]
        matched += [(-w, term) for w, term in preferred(other, anti=True) if term.matches_incoming(pod, cluster)]
        for weight, term in matched:
            if term.key in labels:
                pairs[term.key, labels[term.key]] += weight
                touched = True
    if not touched:
        return {}
    raw = {node.metadata.name: sum(pairs[pair] for pair in node.metadata.labels.items()) for node in nodes}
    least, most = min(raw.values()), max(raw.values())
    if least == most:
        return dict.fromkeys(raw, 0)
    return {name: int(100.0 * ((value - least) / (most - least))) for name, value in raw.items()}
