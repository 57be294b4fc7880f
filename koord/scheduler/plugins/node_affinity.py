"""NodeAffinity: nodeSelector and required terms choose nodes; preferred terms add their weights.

feasible:  all of nodeSelector, and one of the required terms; and one of those that the configuration adds for all
score:     sum of the weights of matching preferred terms, normalised by the highest among the candidates
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from koord.api.configuration.scheduler_args import NodeAffinityArgs
from koord.api.kubernetes.pod import NodeAffinity as Terms
from koord.api.text.selector import (
    OPERATORS,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Operator,
    Requirement,
    match_labels,
)
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells, Numbers
from koord.scheduler.framework.change import Change, listed, relabelled
from koord.scheduler.framework.facet import KeepsGroups, OfNodes
from koord.scheduler.framework.judge import Judge, Refused
from koord.scheduler.framework.plugin import KeyedBy, Plugin
from koord.scheduler.plugins.taint_toleration import by_maximum
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Array, Changes, Reason, Row

MISMATCH = "node(s) didn't match Pod's node affinity/selector"
ENFORCED_MISMATCH = "node(s) didn't match scheduler-enforced node affinity"
CONFLICT = "pod affinity terms conflict"
_OWN: Final = 1
_ENFORCED: Final = 2
_CONCERNS_IT: Final = int(Reason.NODE | Reason.LABELS)


class NodeAffinity(Plugin):
    name = "NodeAffinity"
    wakes_on = Reason.NODE | Reason.LABELS

    def __init__(self, args: NodeAffinityArgs | None = None) -> None:
        self._added = args.added_affinity if args is not None else None

    def keyed_by(self, ask: Ask, cluster: Cluster) -> KeyedBy:
        return KeyedBy.SPEC

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        affinity = ask.spec.affinity
        if affinity is None and not ask.spec.node_selector:
            return None
        selector = tuple(sorted(ask.spec.node_selector.items()))
        return selector, repr(affinity.node_affinity) if affinity and affinity.node_affinity else None

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        terms = ask.spec.affinity.node_affinity if ask.spec.affinity else None
        if not ask.spec.node_selector and terms is None and self._added is None:
            return None
        selector = match_labels(ask.spec.node_selector).requirements
        chosen = _Chosen(selector, terms or Terms(), self._added or Terms(), cluster)
        return Refused(CONFLICT) if chosen.names == set() else chosen


class _Chosen(Judge):
    def __init__(self, selector: Sequence[Requirement], terms: Terms, added: Terms, cluster: Cluster) -> None:
        self._selector, self._cluster = selector, cluster
        enforced = added.required_during_scheduling_ignored_during_execution
        self._enforced = None if enforced is None else [_term(term) for term in enforced.node_selector_terms]
        required = terms.required_during_scheduling_ignored_during_execution
        self._required = None if required is None else [_term(term) for term in required.node_selector_terms]
        if selector or self._required is not None or self._enforced is not None:
            self.filters_on = Reason.NODE | Reason.LABELS
        preferred = [
            (weighted.weight, _term(weighted.preference))
            for weighted in (
                *terms.preferred_during_scheduling_ignored_during_execution,
                *added.preferred_during_scheduling_ignored_during_execution,
            )
            if weighted.weight
        ]
        if preferred:
            self.facets = (_Preferred(preferred, cluster),)

    def feasible(self, cells: Cells) -> Numbers:
        rows = cells.rows
        index = np.array([rows], np.intp) if isinstance(rows, int) else rows
        matches = np.ones(len(self._cluster.table.alive[index]), np.bool_)
        for requirement in self._selector:
            matches &= self._cluster.labels.matches(requirement, index)
        if self._required is not None:
            matches &= _any_term(self._required, index, self._cluster)
        code = np.where(matches, 0, _OWN)
        if self._enforced is not None:
            code = np.where(_any_term(self._enforced, index, self._cluster), code, _ENFORCED)
        return int(code[0]) if isinstance(rows, int) else code

    @property
    def names(self) -> set[str] | None:
        """Where every term pins names of nodes: all that there are. One that pins different names at once has none."""
        names: set[str] = set()
        for _, fields in self._required or ():
            pinned = [requirement for requirement in fields if requirement.operator == "In"]
            if not pinned:
                return None
            names |= set.intersection(*(set(requirement.values) for requirement in pinned))
        return names if self._required else None

    def only(self) -> list[Row] | None:
        names, row_of = self.names, self._cluster.table.row_of
        return None if names is None else [row_of[name] for name in names if name in row_of]

    def reasons(self, mask: int) -> list[str]:
        return [ENFORCED_MISMATCH if mask == _ENFORCED else MISMATCH]

    def unresolvable(self, masks: Array, rows: Array) -> Array:
        return np.ones(len(rows), np.bool_)

    def fixes(self, ask: Ask, row: Row) -> list[Change]:
        """Labels that the node lacks; or a pod that does not ask for them."""
        changes: list[Change] = []
        node = self._cluster.nodes[row]
        labels, fields_match = self._labels_for(row)
        if labels and fields_match:
            changes += relabelled(node, labels)
        spec, words = ask.pod.spec, []
        selector = {key: value for key, value in spec.node_selector.items() if node.metadata.labels.get(key) == value}
        dropped = [f"{key}={value}" for key, value in spec.node_selector.items() if key not in selector]
        if dropped:
            words.append(f"the selector {listed(dropped)} left out")
        affinity = spec.affinity
        index = np.array([row], np.intp)
        terms = affinity.node_affinity if affinity else None
        if affinity and terms and self._required and not _any_term(self._required, index, self._cluster)[0]:
            words.append("the required node affinity left out")
            own = replace(terms, required_during_scheduling_ignored_during_execution=None)
            affinity = replace(affinity, node_affinity=own)
        if words:
            pod = replace(ask.pod, spec=replace(spec, node_selector=selector, affinity=affinity))
            changes.append(Change(listed(words), pod=pod, size=1.0 + len(words)))
        return changes

    def _labels_for(self, row: Row) -> tuple[dict[str, str | None], bool]:
        """The labels with which a row would match, as few as can be; and whether labels alone would do."""
        labels, name = self._cluster.labels.of(row), self._cluster.table.names[row]
        wanted = _needed(self._selector, labels)
        possible = True
        for terms in (self._required, self._enforced):
            if terms is None:
                continue
            within = [
                _needed(requirements, labels)
                for requirements, fields in terms
                if (requirements or fields) and _named(fields, name)
            ]
            possible = possible and bool(within)
            if within:
                wanted.update(sorted(within, key=len)[0])
        return wanted, possible


def _needed(requirements: Sequence[Requirement], labels: Mapping[str, str]) -> dict[str, str | None]:
    """Labels to set, or with None to remove, to fulfil requirements."""
    needed: dict[str, str | None] = {}
    for requirement in requirements:
        if requirement.matches(labels):
            continue
        match requirement.operator:
            case Operator.EXISTS:
                needed.setdefault(requirement.key, "true")
            case Operator.DOES_NOT_EXIST | Operator.NOT_IN | Operator.NOT_EQUALS:
                needed[requirement.key] = None
            case Operator.GREATER | Operator.LESS:
                needed[requirement.key] = str(
                    int(requirement.values[0]) + (1 if requirement.operator is Operator.GREATER else -1)
                )
            case _ if requirement.values:
                needed[requirement.key] = requirement.values[0]
    return needed


def _named(fields: Sequence[NodeSelectorRequirement], name: str) -> bool:
    return all((name in requirement.values) == (requirement.operator == "In") for requirement in fields)


_Compiled = tuple[list[Requirement], tuple[NodeSelectorRequirement, ...]]


def _term(term: NodeSelectorTerm) -> _Compiled:
    labels = [
        Requirement(requirement.key, OPERATORS[requirement.operator], requirement.values)
        for requirement in term.match_expressions
    ]
    return labels, term.match_fields


def _any_term(terms: Sequence[_Compiled], rows: Array | slice, cluster: Cluster) -> Array:
    """Which rows match one of the terms. A term without conditions matches none."""
    matching = np.zeros(len(cluster.table.alive[rows]), np.bool_)
    for labels, fields in terms:
        if not labels and not fields:
            continue
        matches = np.ones(len(matching), np.bool_)
        for requirement in labels:
            matches &= cluster.labels.matches(requirement, rows)
        for field in fields:
            named = np.zeros(cluster.table.capacity, np.bool_)
            named[[cluster.table.row_of[name] for name in field.values if name in cluster.table.row_of]] = True
            matches &= named[rows] if field.operator == "In" else ~named[rows]
        matching |= matches
    return matching


class _Preferred(KeepsGroups, OfNodes):
    """Rows grouped by the sum of the weights that they match."""

    normalised = True

    def __init__(self, terms: Sequence[tuple[int, _Compiled]], cluster: Cluster) -> None:
        self._terms, self._cluster = terms, cluster
        self._groups = np.zeros(0, np.int64)
        self._raw = np.zeros(1, np.int64)

    def refresh(self, changed: Changes | None) -> bool:
        if changed is not None and not changed.reasons & _CONCERNS_IT:
            return False
        raw = np.zeros(self._cluster.table.capacity, np.int64)
        for weight, term in self._terms:
            raw += weight * _any_term([term], slice(None), self._cluster)
        self._raw, self._groups = np.unique(raw, return_inverse=True)
        return True

    @property
    def size(self) -> int:
        return len(self._raw)

    def table(self, candidates: Array | None) -> Array:
        assert candidates is not None
        return by_maximum(self._raw, candidates)
