"""RemovePodsViolatingTopologySpreadConstraint: even out domains with too many pods, by the pods' own
topologySpreadConstraints.

Domains are zones, hosts or whatever the constraint's topologyKey tells apart. The mean is what each should have. From
the largest domain to the smallest goes what brings neither beyond the mean, and half of what is too much between the
two at most; so on until no two are further apart than maxSkew. All pods count that the scheduler counts.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from koord.api.configuration.descheduler_upstream_args import RemovePodsViolatingTopologySpreadConstraintArgs
from koord.api.kubernetes.pod import Pod, TopologySpreadConstraint
from koord.api.kubernetes.taints import untolerated
from koord.api.kubernetes.words import NodeInclusion
from koord.api.text.selector import NOTHING, LabelMatcher
from koord.descheduler.importance import importance
from koord.descheduler.node_preferences import PreferenceCache, node_affinity_of
from koord.descheduler.plugin import Plugin, Proposal, Terms, Turn
from koord.descheduler.selection import Selection
from koord.scheduler.plugins.pod_topology_spread import counted_pods
from koord.scheduler.state.table import Array


class _Constraint(NamedTuple):
    raw: TopologySpreadConstraint
    pods: LabelMatcher
    of: Pod
    "One of the pods that have it."


@dataclass(slots=True)
class _Pass:
    turn: Turn
    wishes: PreferenceCache = field(default_factory=PreferenceCache)
    went: dict[str, str] = field(default_factory=dict)
    "By pod, where it goes."


class RemovePodsViolatingTopologySpreadConstraint(Plugin):
    name = "RemovePodsViolatingTopologySpreadConstraint"

    def __init__(self, args: RemovePodsViolatingTopologySpreadConstraintArgs) -> None:
        self._args = args
        self._selection = Selection.of_pods(args.label_selector, args.namespaces)

    def propose(self, turn: Turn, memory: None) -> None:
        by_namespace: dict[str, list[Pod]] = {}
        for node in turn.nodes:
            for pod in turn.sight.pods_on.get(node, ()):
                by_namespace.setdefault(pod.metadata.namespace, []).append(pod)
        this = _Pass(turn)
        for namespace in sorted(by_namespace):
            pods = by_namespace[namespace]
            for constraint in self._constraints(pods):
                self._even_out(this, constraint, pods)

    def _constraints(self, pods: list[Pod]) -> Iterator[_Constraint]:
        """Those that pods have, each once."""
        constraints_seen: dict[Hashable, None] = {}
        specs: set[tuple[int, int, tuple[str | None, ...]]] = set()
        for pod in pods:
            for i, raw in enumerate(pod.spec.topology_spread_constraints):
                if str(raw.when_unsatisfiable) not in self._args.constraints or not self._selection.has_pod(pod):
                    continue
                # Pods of one template share their spec, and need one look.
                seen = id(pod.spec), i, tuple(pod.metadata.labels.get(key) for key in raw.match_label_keys)
                if seen in specs:
                    continue
                specs.add(seen)
                constraint = _Constraint(raw, counted_pods(raw, pod.metadata.labels), pod)
                identity = _identity(constraint)
                if identity not in constraints_seen:
                    constraints_seen[identity] = None
                    yield constraint

    def _even_out(self, this: _Pass, constraint: _Constraint, pods: list[Pod]) -> None:
        turn, key = this.turn, str(constraint.raw.topology_key)
        domain_of = {name: turn.sight.nodes[name].metadata.labels.get(key) for name in turn.nodes}
        eligible = _eligible(this, constraint)
        domains: dict[str, list[Pod]] = {}
        for name in eligible:
            value = domain_of[name]
            if value is not None:
                domains.setdefault(value, [])
        for pod in pods:
            value = domain_of.get(this.went.get(pod.metadata.key, pod.spec.node_name))
            counts = pod.metadata.deletion_timestamp is None and constraint.pods.matches(pod.metadata.labels)
            if value is not None and counts:
                domains.setdefault(value, []).append(pod)
        if not domains:
            return
        mean = sum(map(len, domains.values())) / len(domains)
        too_small = {value for value, within in domains.items() if len(within) < mean}
        targets = turn.sight.places.rows(name for name in eligible if domain_of[name] in too_small)
        sizes = {value: len(within) for value, within in domains.items()}
        for source, number in _surplus(sizes, mean, constraint.raw.max_skew).items():
            reason = (
                f"{key} {source} has {len(domains[source])} pods of a spread constraint, "
                f"and the mean is {mean:.4g} (maxSkew {constraint.raw.max_skew})"
            )
            self._send_away(this, domains[source], number, targets, reason)

    def _send_away(self, this: _Pass, pods: list[Pod], number: int, targets: Array, reason: str) -> None:
        """A number of pods of one domain. Pods that other domains take come first."""
        turn, must_fit = this.turn, self._args.topology_balance_node_fit
        terms = Terms(among=targets, must_fit=True) if must_fit else Terms()
        left, unfit = number, []
        for pod in sorted(pods, key=_stays):
            if not left:
                return
            gone = pod.metadata.key in this.went
            if gone or not self._selection.has_pod(pod) or turn.never(pod) is not None:
                continue
            if must_fit and turn.not_now(pod) is None and not turn.sight.places.would_take(pod, targets):
                unfit.append(pod)
                continue
            proposal = turn.ask(Proposal(pod, self.name, reason), terms)
            if proposal is not None:
                this.went[pod.metadata.key] = proposal.to
            left -= 1
        for pod in unfit[:left]:
            turn.ask(Proposal(pod, self.name, reason), terms)


def _stays(pod: Pod) -> tuple[object, ...]:
    """Pods that choose their nodes go last, then by importance."""
    chooses = bool(pod.spec.node_selector) or node_affinity_of(pod.spec) is not None
    return (chooses, importance(pod), pod.metadata.key)


def _identity(constraint: _Constraint) -> Hashable:
    raw, spec = constraint.raw, constraint.of.spec
    where: Hashable = ()
    if raw.node_affinity_policy == NodeInclusion.HONOR:
        where = (tuple(sorted(spec.node_selector.items())), repr(node_affinity_of(spec)))
    tolerated = repr(spec.tolerations) if raw.node_taints_policy == NodeInclusion.HONOR else ""
    pods = str(constraint.pods) if constraint.pods is not NOTHING else None
    return (raw.max_skew, str(raw.topology_key), pods, where, tolerated)


def _eligible(this: _Pass, constraint: _Constraint) -> list[str]:
    """The nodes whose domains count."""
    raw, pod, nodes = constraint.raw, constraint.of, this.turn.sight.nodes
    by_affinity = raw.node_affinity_policy == NodeInclusion.HONOR
    by_taints = raw.node_taints_policy == NodeInclusion.HONOR
    wishes = this.wishes.of(pod)
    return [
        name
        for name in this.turn.nodes
        if (not by_affinity or wishes.suits(nodes[name]))
        and (not by_taints or untolerated(nodes[name].spec.taints, pod.spec.tolerations) is None)
    ]


def _surplus(sizes: Mapping[str, int], mean: float, max_skew: int) -> dict[str, int]:
    """How many pods each domain gives away, so that no two end up further apart than `max_skew`."""
    order = sorted(sizes, key=lambda value: (sizes[value], value))
    size = [sizes[value] for value in order]
    gives = dict.fromkeys(order, 0)
    smallest, largest = 0, len(order) - 1
    while smallest < largest:
        if size[largest] <= mean:
            largest -= 1
            continue
        apart = size[largest] - size[smallest]
        number = 0
        if apart > max_skew:
            number = min(
                math.ceil(size[largest] - mean),
                math.ceil(mean - size[smallest]),
                math.ceil((apart - max_skew) / 2),
            )
        if number <= 0:
            smallest += 1
            continue
        size[largest] -= number
        size[smallest] += number
        gives[order[largest]] += number
    return {value: number for value, number in gives.items() if number}
