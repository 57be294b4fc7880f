"""PodTopologySpread: are the pods of one kind spread evenly over zones, hosts, or whatever a label names?"""

from __future__ import annotations

import math
from dataclasses import dataclass

from koord.api.configuration.scheduler_args import PodTopologySpreadArgs
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod, TopologySpreadConstraint
from koord.api.kubernetes.taints import untolerated
from koord.api.kubernetes.words import NodeInclusion, TopologyKey, WhenUnsatisfiable
from koord.api.kubernetes.workloads import ReplicaSet, StatefulSet
from koord.api.text.selector import EVERYTHING, NOTHING, LabelMatcher, compile_labels, match_labels
from tests.scheduler.reference.cluster import OK, Cluster, Verdict, rounded, unsched, uu
from tests.scheduler.reference.node_rules import wants_node

SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(3, TopologyKey.HOSTNAME, WhenUnsatisfiable.SCHEDULE_ANYWAY),
    TopologySpreadConstraint(5, TopologyKey.ZONE, WhenUnsatisfiable.SCHEDULE_ANYWAY),
)
"""System defaults hostname maxSkew 3 + zone maxSkew 5."""


@dataclass(frozen=True)
class Constraint:
    max_skew: int
    key: str
    pods: LabelMatcher
    min_domains: int
    honors_affinity: bool
    honors_taints: bool


def constraints_of(
    pod: Pod, cluster: Cluster, args: PodTopologySpreadArgs, action: WhenUnsatisfiable
) -> list[Constraint]:
    """The pod's own constraints, or the default ones where it has none at all."""
    own = pod.spec.topology_spread_constraints
    if own:
        return [_constraint(c, _selected(c, pod)) for c in own if c.when_unsatisfiable == action]
    defaults = SYSTEM_DEFAULTS if args.defaulting_type == "System" else args.default_constraints
    chosen = [c for c in defaults if c.when_unsatisfiable == action]
    owners = owner_selector(pod, cluster)
    # "No owner selector → skip."
    return [_constraint(c, owners) for c in chosen] if owners.requirements else []


def _constraint(c: TopologySpreadConstraint, pods: LabelMatcher) -> Constraint:
    """nodeAffinityPolicy (default Honor), nodeTaintsPolicy (default Ignore), minDomains (default 1)."""
    return Constraint(
        c.max_skew,
        c.topology_key,
        pods,
        1 if c.min_domains is None else c.min_domains,
        c.node_affinity_policy == NodeInclusion.HONOR,
        c.node_taints_policy == NodeInclusion.HONOR,
    )


def _selected(c: TopologySpreadConstraint, pod: Pod) -> LabelMatcher:
    """The selector (+ matchLabelKeys): for each key that the pod has a label of, the same value."""
    selector = compile_labels(c.label_selector, absent=NOTHING)
    same = {key: pod.metadata.labels[key] for key in c.match_label_keys if key in pod.metadata.labels}
    if selector is NOTHING or not same:
        return selector
    return LabelMatcher((*selector.requirements, *match_labels(same).requirements))


def owner_selector(pod: Pod, cluster: Cluster) -> LabelMatcher:
    """What selects the pods that belong with this one: all Services that choose it, and its ReplicaSet, StatefulSet or
    ReplicationController."""
    here = pod.metadata.namespace
    requirements = [
        requirement
        for service in cluster.services
        if service.metadata.namespace == here and service.spec.selector
        if match_labels(service.spec.selector).matches(pod.metadata.labels)
        for requirement in match_labels(service.spec.selector).requirements
    ]
    owner = pod.metadata.controller
    if owner is not None:
        kind = (owner.api_version, owner.kind)
        if kind == ("v1", "ReplicationController"):
            for rc in cluster.replication_controllers:
                if (rc.metadata.namespace, rc.metadata.name) == (here, owner.name):
                    requirements += match_labels(rc.spec.selector).requirements
        workloads: dict[tuple[str, str], tuple[ReplicaSet | StatefulSet, ...]] = {
            ("apps/v1", "ReplicaSet"): cluster.replica_sets,
            ("apps/v1", "StatefulSet"): cluster.stateful_sets,
        }
        for workload in workloads.get(kind, ()):
            if (workload.metadata.namespace, workload.metadata.name) == (here, owner.name):
                requirements += compile_labels(workload.spec.selector, absent=EVERYTHING).requirements
    return LabelMatcher(tuple(requirements))


def count(node: Node, c: Constraint, pod: Pod, cluster: Cluster) -> int:
    """Count = non-terminating same-namespace pods matching the selector (+ matchLabelKeys).

    kube-scheduler counts no pods for a selector that is present and empty, though this selector matches the pod itself.
    """
    if c.pods is not NOTHING and not c.pods.requirements:
        return 0
    return sum(
        other.metadata.deletion_timestamp is None
        and other.metadata.namespace == pod.metadata.namespace
        and c.pods.matches(other.metadata.labels)
        for other in cluster.pods_on(node)
    )


def counts_for(c: Constraint, pod: Pod, node: Node) -> bool:
    """Whether a node takes part in a constraint: nodeAffinityPolicy and nodeTaintsPolicy."""
    if c.honors_affinity and not wants_node(pod, node):
        return False
    return not (c.honors_taints and untolerated(node.spec.taints, pod.spec.tolerations))


def _has_keys(node: Node, constraints: list[Constraint]) -> bool:
    return all(c.key in node.metadata.labels for c in constraints)


def _domains(c: Constraint, constraints: list[Constraint], pod: Pod, cluster: Cluster) -> dict[str, int]:
    """Matching pods by eligible domain. Eligible nodes: all constraint keys present, and the constraint's policies."""
    domains: dict[str, int] = {}
    for node in cluster.nodes:
        if _has_keys(node, constraints) and counts_for(c, pod, node):
            value = node.metadata.labels[c.key]
            domains[value] = domains.get(value, 0) + count(node, c, pod, cluster)
    return domains


def filter_state(pod: Pod, cluster: Cluster, args: PodTopologySpreadArgs) -> list[tuple[Constraint, dict[str, int]]]:
    constraints = constraints_of(pod, cluster, args, WhenUnsatisfiable.DO_NOT_SCHEDULE)
    return [(c, _domains(c, constraints, pod, cluster)) for c in constraints]


def spread(pod: Pod, node: Node, cluster: Cluster, args: PodTopologySpreadArgs) -> Verdict:
    """Missing key → UU; match(domain)+self−min > maxSkew → Unsched; self=1 if the pod matches its own selector; min
    over eligible domains, taken as 0 if domains < minDomains (default 1)."""
    for c, domains in cluster.once(filter_state, pod, cluster, args):
        if c.key not in node.metadata.labels:
            return uu("node(s) didn't match pod topology spread constraints (missing required label)")
        least = min(domains.values(), default=0) if len(domains) >= c.min_domains else 0
        itself = int(c.pods.matches(pod.metadata.labels))
        if domains.get(node.metadata.labels[c.key], 0) + itself - least > c.max_skew:
            return unsched("node(s) didn't match pod topology spread constraints")
    return OK


def spread_score(pod: Pod, nodes: list[Node], cluster: Cluster, args: PodTopologySpreadArgs) -> dict[str, int]:
    """raw = round(Σ_c (count_c·ln(size_c+2) + maxSkew−1)), size = number of distinct domain values among feasible nodes
    (for hostname: number of feasible non-ignored nodes). Nodes missing a key are ignored (score 0), except under
    system defaults. Normalise: max=0 → 100; else 100·(max+min−s)/max."""
    constraints = constraints_of(pod, cluster, args, WhenUnsatisfiable.SCHEDULE_ANYWAY)
    if not constraints:
        return {}
    needs_keys = bool(pod.spec.topology_spread_constraints) or args.defaulting_type != "System"
    considered = [node for node in nodes if not needs_keys or _has_keys(node, constraints)]
    totals = [_score_domains(c, constraints, considered, needs_keys, pod, cluster) for c in constraints]
    raw: dict[str, int] = {}
    for node in considered:
        score = 0.0
        for c, (size, domains) in zip(constraints, totals, strict=True):
            if c.key in node.metadata.labels:
                hosts = c.key == TopologyKey.HOSTNAME
                matching = count(node, c, pod, cluster) if hosts else domains[node.metadata.labels[c.key]]
                score += matching * math.log(size + 2) + (c.max_skew - 1)
        raw[node.metadata.name] = rounded(score)
    most, least = max(raw.values(), default=0), min(raw.values(), default=0)
    scores = {node.metadata.name: 0 for node in nodes}
    for name, value in raw.items():
        scores[name] = 100 * (most + least - value) // most if most else 100
    return scores


def _score_domains(
    c: Constraint, constraints: list[Constraint], considered: list[Node], needs_keys: bool, pod: Pod, cluster: Cluster
) -> tuple[int, dict[str, int]]:
    """How many domains the feasible nodes have, and the pods of each, wherever in the cluster they are.

    A node without the label is, under system defaults, of the domain with an empty name.
    """
    if c.key == TopologyKey.HOSTNAME:
        return len(considered), {}
    domains = {node.metadata.labels.get(c.key, ""): 0 for node in considered}
    for node in cluster.nodes:
        if (needs_keys and not _has_keys(node, constraints)) or not counts_for(c, pod, node):
            continue
        value = node.metadata.labels.get(c.key, "")
        if value in domains:
            domains[value] += count(node, c, pod, cluster)
    return len(domains), domains
