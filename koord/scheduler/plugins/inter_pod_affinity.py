"""InterPodAffinity: pods that want others near or far, and pods on nodes that want or shun the one to be placed.

Near means: on a node with the same value of a label (a topology pair).

feasible:  1. every required term's label is on the node, and a pod that matches all terms is near by each of them;
              or there is none anywhere, and the pod itself matches them
           2. no pod near that the pod shuns
           3. no pod near that shuns the pod
score:     sum of +-weight per pod near that a preferred term means, of the pod and of the others alike, and
           hardPodAffinityWeight per required term of others that means the pod; 100 * (s - min) / (max - min)
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
from msgspec.structs import replace

from koord.api.configuration.scheduler_args import InterPodAffinityArgs
from koord.api.kubernetes.pod import Affinity
from koord.api.text.selector import NOTHING, LabelMatcher
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.change import Change, listed, without_pods
from koord.scheduler.framework.facet import Facet
from koord.scheduler.framework.judge import Judge
from koord.scheduler.framework.nominating import Nominating
from koord.scheduler.framework.plugin import KeyedBy, Plugin
from koord.scheduler.plugins.domain_gate import DomainGate
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.counts import Counts, HeldTally, Tally
from koord.scheduler.state.domains import Dimension, Grouped
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Array, Reason, Row
from koord.scheduler.state.terms import Role, Term
from koord.scheduler.state.view import View

NOT_NEAR: Final = "node(s) didn't match pod affinity rules"
SHUNNED: Final = "node(s) didn't match pod anti-affinity rules"
SHUNNING: Final = "node(s) didn't satisfy existing pods anti-affinity rules"
_NOT_NEAR: Final = 1
_SHUNNED: Final = 2
_SHUNNING: Final = 3
_WORDS: Final = {_NOT_NEAR: NOT_NEAR, _SHUNNED: SHUNNED, _SHUNNING: SHUNNING}

Namespaces = frozenset[str] | None
"""None: all."""
Source: TypeAlias = tuple[str, Tally, int]
"""The topology label, the pods counted per row, and the weight of each pod."""


def _meets(ask: Ask, promised: PodRecord) -> bool:
    return bool(promised.held or ask.terms.held)


class InterPodAffinity(Plugin):
    name = "InterPodAffinity"
    wakes_on = Reason.NODE | Reason.LABELS | Reason.PODS
    nominating = Nominating(meets=_meets)

    def __init__(self, args: InterPodAffinityArgs | None = None) -> None:
        args = args or InterPodAffinityArgs()
        self._hard_weight, self._own_only = args.hard_pod_affinity_weight, args.ignore_preferred_terms_of_existing_pods

    def keyed_by(self, ask: Ask, cluster: Cluster) -> KeyedBy:
        return KeyedBy.LABELS

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        counts = cluster.counts
        if ask.spec.affinity is None and not counts.terms_held:
            return None
        terms, meta = ask.terms, ask.meta
        others = counts.held(counts.face(meta.namespace, meta.labels)) if counts.terms_held else ()
        if not terms.held:
            return others or None
        itself = bool(terms.affinity) and _matches_itself(terms.affinity, ask, cluster)
        chosen = tuple(
            [_namespaces(held_term.term, cluster) for held_term in terms.held if _chooses_namespaces(held_term.term)]
        )
        return terms, itself, chosen, others

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        terms, meta, view, counts = ask.terms, ask.meta, ask.view, cluster.counts
        others = counts.held(counts.face(meta.namespace, meta.labels))
        facets: list[Facet] = []
        shunning = [tally for tally in others if tally.held.role is Role.ANTI_AFFINITY]
        if terms.affinity or terms.anti_affinity or shunning:
            facets.append(_Near(ask, shunning, cluster, view))
        sources = [source for weight, term in terms.preferred for source in _sources(term, cluster, view, weight)]
        if terms.preferred or not self._own_only:
            sources += [
                source
                for tally in others
                if tally.held.role is not Role.ANTI_AFFINITY and self._weight(tally)
                for source in _holders(tally, view, self._weight(tally))
            ]
        if sources:
            facets.append(_Attraction(sources, cluster))
        if not facets:
            return None
        judge = _Affine(facets, cluster)
        # Pods that affinity requires may be among those that leave; pods that anti-affinity repels are gone then.
        judge.eased = not terms.affinity
        return judge

    def _weight(self, tally: HeldTally) -> int:
        return self._hard_weight if tally.held.role is Role.AFFINITY else tally.held.weight


class _Affine(Judge):
    def __init__(self, facets: Sequence[Facet], cluster: Cluster) -> None:
        self.facets, self._cluster = facets, cluster

    def fixes(self, ask: Ask, row: Row) -> list[Change]:
        """The pod without the rule, or the cluster without the pods that it is about."""
        gate = next((facet for facet in self.facets if isinstance(facet, _Near)), None)
        why = gate.why(int(gate.groups[row])) if gate is not None else 0
        affinity, cluster = ask.pod.spec.affinity or Affinity(), self._cluster
        if why == _NOT_NEAR and affinity.pod_affinity is not None:
            near = replace(affinity.pod_affinity, required_during_scheduling_ignored_during_execution=())
            return [_rule_out(ask, replace(affinity, pod_affinity=near), "affinity", ask.terms.affinity)]
        if why == _SHUNNED and affinity.pod_anti_affinity is not None:
            rules = affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution
            near_by = [_pods_near(row, term.key, _tally(term, cluster), cluster) for term in ask.terms.anti_affinity]
            kept = tuple(rule for rule, near in zip(rules, near_by, strict=True) if not near)
            dropped = [term for term, near in zip(ask.terms.anti_affinity, near_by, strict=True) if near]
            far = replace(affinity.pod_anti_affinity, required_during_scheduling_ignored_during_execution=kept)
            there = _meant(ask, dropped, near_by, cluster)
            change = _rule_out(ask, replace(affinity, pod_anti_affinity=far), "anti-affinity", dropped)
            return [change, without_pods(there, "as its anti-affinity asks")] if there else [change]
        if why == _SHUNNING:
            counts = cluster.counts
            others = counts.held(counts.face(ask.meta.namespace, ask.meta.labels))
            shunning = [tally for tally in others if tally.held.role is Role.ANTI_AFFINITY]
            keys = [
                key
                for tally in shunning
                for at in _pods_near(row, tally.held.term.key, tally, cluster)
                for key, record in cluster.pods_on[at].items()
                if tally.held in record.held
            ]
            return [without_pods(set(keys), "whose anti-affinity keeps it away")] if keys else []
        return []


def _rule_out(ask: Ask, affinity: Affinity, name: str, terms: Sequence[Term]) -> Change:
    named = listed(f"{str(term.matcher) or 'all pods'} over {term.key}" for term in terms)
    pod = replace(ask.pod, spec=replace(ask.pod.spec, affinity=affinity))
    return Change(f"the {name} ({named}) left out", pod=pod, size=1.0 + len(terms))


def _pods_near(row: Row, key: str, tally: Tally, cluster: Cluster) -> list[Row]:
    """Rows in the same domain that have pods of a tally."""
    column = cluster.labels.column(key)
    numbers = np.zeros(cluster.table.capacity, np.int64)
    tally.add_to(numbers, 1)
    return np.flatnonzero((column == column[row]) & (column >= 0) & (numbers > 0)).tolist()


def _meant(ask: Ask, terms: Sequence[Term], near_by: Sequence[Sequence[Row]], cluster: Cluster) -> list[str]:
    """The pods on some rows that one of the terms means."""
    chosen = [(term.matcher, _namespaces(term, cluster)) for term in terms]
    return [
        key
        for row in sorted({row for rows in near_by for row in rows})
        for key, record in cluster.pods_on[row].items()
        if any((where is None or record.namespace in where) and pods.matches(record.labels) for pods, where in chosen)
    ]


def _chooses_namespaces(term: Term) -> bool:
    return term.namespace_selector is not NOTHING


def _namespaces(term: Term, cluster: Cluster) -> Namespaces:
    """Where a term of a pod to be placed looks for pods."""
    if not _chooses_namespaces(term):
        return term.namespaces
    chosen = cluster.counts.namespaces(term.namespace_selector)
    return None if chosen is None else term.namespaces | chosen


def _tally(term: Term, cluster: Cluster) -> Tally:
    return cluster.counts.selection(_namespaces(term, cluster), term.matcher)


def _sources(term: Term, cluster: Cluster, view: View | None, weight: int) -> list[Source]:
    """The pods that a term means, without those that a view hides."""
    sources: list[Source] = [(term.key, _tally(term, cluster), weight)]
    if view is not None:
        sources.append((term.key, view.counts.selection(_namespaces(term, cluster), term.matcher), -weight))
    return sources


def _holders(tally: HeldTally, view: View | None, weight: int) -> list[Source]:
    """The pods that hold a term, without those that a view hides."""
    held = tally.held
    sources: list[Source] = [(held.term.key, tally, weight)]
    if view is not None:
        sources.append((held.term.key, view.counts.holding(held), -weight))
    return sources


def _tally_of_all(terms: Sequence[Term], cluster: Cluster, counts: Counts) -> Tally:
    """The pods of `counts` that match every one of the terms."""
    where: Namespaces = None
    for term in terms:
        namespaces = _namespaces(term, cluster)
        where = namespaces if where is None else where if namespaces is None else where & namespaces
    if any(term.matcher is NOTHING for term in terms):
        return counts.selection(where, NOTHING)
    requirements = dict.fromkeys(requirement for term in terms for requirement in term.matcher.requirements)
    return counts.selection(where, LabelMatcher(tuple(requirements)))


def _matches_itself(terms: Sequence[Term], ask: Ask, cluster: Cluster) -> bool:
    for term in terms:
        namespaces = _namespaces(term, cluster)
        if namespaces is not None and ask.meta.namespace not in namespaces:
            return False
        if not term.matcher.matches(ask.meta.labels):
            return False
    return True


def _by_key(sources: Iterable[Source]) -> Mapping[str, list[tuple[Tally, int]]]:
    by_key: dict[str, list[tuple[Tally, int]]] = {}
    for key, tally, weight in sources:
        by_key.setdefault(key, []).append((tally, weight))
    return by_key


class _Near(DomainGate):
    """What rules rows out: the pods near that are missing, shunned, or shunning."""

    def __init__(self, ask: Ask, shunning: Sequence[HeldTally], cluster: Cluster, view: View | None) -> None:
        terms = ask.terms
        self._matches_itself = _matches_itself(terms.affinity, ask, cluster)
        dimensions: list[tuple[int, Dimension]] = []
        if terms.affinity:
            wanted = [(_tally_of_all(terms.affinity, cluster, cluster.counts), 1)]
            if view is not None:
                wanted.append((_tally_of_all(terms.affinity, cluster, view.counts), -1))
            for key in dict.fromkeys(term.key for term in terms.affinity):
                dimensions.append((_NOT_NEAR, Dimension(cluster, key, wanted, most=1)))
        shunned = _by_key(source for term in terms.anti_affinity for source in _sources(term, cluster, view, 1))
        for key, sources in shunned.items():
            dimensions.append((_SHUNNED, Dimension(cluster, key, sources, most=1)))
        for key, sources in _by_key(source for tally in shunning for source in _holders(tally, view, 1)).items():
            dimensions.append((_SHUNNING, Dimension(cluster, key, sources, most=1)))
        self._roles = [role for role, _ in dimensions]
        super().__init__(cluster, [dimension for _, dimension in dimensions])

    def reasons(self) -> Array:
        """The first rule that rules a group out gives the reason."""
        grouping = self.grouping
        why: Array | None = None
        anyone_will_do = self._matches_itself and not self._anywhere()
        for i, role in enumerate(self._roles):
            near = grouping.dimensions[i].values > 0
            near[0] = False
            if role == _NOT_NEAR and anyone_will_do:
                near[1:] = True
            by_group = grouping.spread(i, (near != (role == _NOT_NEAR)) * role)
            why = by_group if why is None else np.where(why > 0, why, by_group)
        assert why is not None
        return why

    def reason(self, group: int) -> str:
        return _WORDS[self.why(group)]

    def unresolvable(self, group: int) -> bool:
        """Pods that are missing do not come by preemption."""
        return self.why(group) == _NOT_NEAR

    def _anywhere(self) -> bool:
        """Whether a pod that matches all required terms is on any node with one of their labels."""
        return any(
            bool(((dimension.values > 0) & (dimension.rows > 0))[1:].any())
            for role, dimension in zip(self._roles, self.grouping.dimensions, strict=True)
            if role == _NOT_NEAR
        )


class _Attraction(Grouped):
    """How much the pods near want the pod, and it them."""

    gates = closes = False
    normalised = True

    def __init__(self, sources: Iterable[Source], cluster: Cluster) -> None:
        super().__init__(
            cluster, [Dimension(cluster, key, sources_of_key) for key, sources_of_key in _by_key(sources).items()]
        )
        self._raw: Array | None = None
        self._shape = (-1, -1)

    def changed(self) -> None:
        self._raw = None

    def table(self, candidates: Array | None) -> Array:
        assert candidates is not None
        raw = self._sums()
        present = raw[candidates.nonzero()[0]]
        if not len(present):
            return np.zeros(len(raw), np.int64)
        least, most = int(present.min()), int(present.max())
        if least == most:
            return np.zeros(len(raw), np.int64)
        # In this order and in floating point, because truncation shows the difference.
        return (100.0 * ((np.minimum(raw, most) - least) / (most - least))).astype(np.int64)

    def _sums(self) -> Array:
        if self._raw is None:
            grouping = self.grouping
            if self._shape != grouping.shape:
                self._has = [grouping.codes(i) > 0 for i in range(len(grouping.dimensions))]
                self._shape = grouping.shape
            raw: Array = grouping.values(0) * self._has[0]
            for i in range(1, len(grouping.dimensions)):
                raw = raw + grouping.values(i) * self._has[i]
            self._raw = raw
        return self._raw
