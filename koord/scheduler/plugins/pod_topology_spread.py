"""PodTopologySpread: pods of one kind go evenly over zones, hosts, or whatever a label of nodes names.

feasible (DoNotSchedule):  pods(domain) + itself - least(pods of any eligible domain) <= maxSkew
score (ScheduleAnyway):    raw = round(sum over constraints of pods(domain) * ln(domains + 2) + maxSkew - 1)
                           score = 100 * (max + min - raw) / max, all over the candidates; 100 where max is 0

Domains are eligible where a node has all labels that are asked about and, as the constraint's policies say, suits the
pod's node affinity and tolerations. A pod without constraints of its own is spread, softly, with those that its
Services and controller choose.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from koord.api.configuration.scheduler_args import PodTopologySpreadArgs
from koord.api.kubernetes.pod import TopologySpreadConstraint
from koord.api.kubernetes.words import NodeInclusion, TopologyKey, WhenUnsatisfiable
from koord.api.text.selector import NOTHING, LabelMatcher, compile_labels, match_labels
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Many
from koord.scheduler.framework.change import Change, listed, relabelled
from koord.scheduler.framework.facet import Facet, FewGroups
from koord.scheduler.framework.judge import Judge
from koord.scheduler.framework.nominating import Nominating
from koord.scheduler.framework.plugin import KeyedBy, Plugin
from koord.scheduler.plugins.domain_gate import DomainGate
from koord.scheduler.plugins.few_domains import Few
from koord.scheduler.plugins.node_affinity import NodeAffinity
from koord.scheduler.plugins.taint_toleration import TaintToleration
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.domains import Counted, Dimension, Grouped
from koord.scheduler.state.pods import PodRecord, Template
from koord.scheduler.state.table import Array, Reason, Row
from koord.scheduler.state.view import View

SYSTEM_DEFAULTS: Final = (
    TopologySpreadConstraint(3, TopologyKey.HOSTNAME, WhenUnsatisfiable.SCHEDULE_ANYWAY),
    TopologySpreadConstraint(5, TopologyKey.ZONE, WhenUnsatisfiable.SCHEDULE_ANYWAY),
)
REMEMBERED: Final = 1 << 12
FEW_GROUPS: Final = 16
"""Up to this many are counted in plain numbers: numpy's fixed cost per call is more than the arithmetic."""
NO_LABEL: Final = "node(s) didn't match pod topology spread constraints (missing required label)"
SKEWED: Final = "node(s) didn't match pod topology spread constraints"
_HOSTNAME: Final = str(TopologyKey.HOSTNAME)
_NO_LABEL: Final = 1
_SKEWED: Final = 2

_encode: Final = msgspec.msgpack.Encoder(enc_hook=dict).encode


def _meets(ask: Ask, promised: PodRecord) -> bool:
    return bool(ask.spec.topology_spread_constraints)


class PodTopologySpread(Plugin):
    name = "PodTopologySpread"
    wakes_on = Reason.NODE | Reason.LABELS | Reason.TAINTS | Reason.PODS
    nominating = Nominating(meets=_meets)

    def __init__(self, args: PodTopologySpreadArgs | None = None) -> None:
        args = args or PodTopologySpreadArgs()
        self._system = args.defaulting_type == "System"
        self._defaults = SYSTEM_DEFAULTS if self._system else args.default_constraints
        self._some_hard = any(
            constraint.when_unsatisfiable == WhenUnsatisfiable.DO_NOT_SCHEDULE for constraint in self._defaults
        )
        self._honor_taints = any(constraint.node_taints_policy == NodeInclusion.HONOR for constraint in self._defaults)
        self._where = NodeAffinity()
        self._labels: dict[Template, tuple[str, ...]] = {}
        "By template, the labels that its pods' own constraints look at."
        self._keys: dict[tuple[Template | str | None, ...], Hashable] = {}
        "Keys of pods with constraints of their own: by template, namespace, and those labels."

    def keyed_by(self, ask: Ask, cluster: Cluster) -> KeyedBy:
        return KeyedBy.LABELS

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        meta = ask.meta
        if ask.spec.topology_spread_constraints:
            named, labels = self._labels.get(ask.template), meta.labels
            if named is None:
                named = self._look_at(ask)
            seen = (ask.template, meta.namespace, *[labels.get(key) for key in named])
            class_key = self._keys.get(seen)
            return self._own_key(seen, ask, cluster) if class_key is None else class_key
        if not self._defaults:
            return None
        owners = cluster.owners.selector(meta.namespace, meta.labels, meta.controller)
        if owners is None:
            return None
        return (
            owners.text,
            meta.namespace,
            self._some_hard and owners.matcher.matches(meta.labels),
            self._where.key(ask, cluster),
            ask.spec.tolerations if self._honor_taints else None,
        )

    def _look_at(self, ask: Ask) -> tuple[str, ...]:
        if len(self._labels) >= REMEMBERED:
            self._labels.clear()
        own = ask.spec.topology_spread_constraints
        named = [
            requirement.key
            for raw in own
            for requirement in compile_labels(raw.label_selector, absent=NOTHING).requirements
        ]
        named += [key for raw in own for key in raw.match_label_keys]
        keys = self._labels[ask.template] = tuple(dict.fromkeys(named))
        return keys

    def _own_key(self, seen: tuple[Template | str | None, ...], ask: Ask, cluster: Cluster) -> Hashable:
        if len(self._keys) >= REMEMBERED:
            self._keys.clear()
        own, meta = ask.spec.topology_spread_constraints, ask.meta
        values = tuple([meta.labels.get(key) for constraint in own for key in constraint.match_label_keys])
        itself = tuple([constraint.pods.matches(meta.labels) for constraint in _constraints(own, meta.labels)])
        where = self._where.key(ask, cluster)
        class_key = self._keys[seen] = (_encode(own), meta.namespace, itself, values, where, ask.spec.tolerations)
        return class_key

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        own, meta, view = ask.spec.topology_spread_constraints, ask.meta, ask.view
        if own:
            constraints = _constraints(own, meta.labels)
        else:
            owners = cluster.owners.selector(meta.namespace, meta.labels, meta.controller)
            if owners is None:
                return None
            constraints = [_constraint(constraint, owners.matcher) for constraint in self._defaults]
        hard = [constraint for constraint in constraints if constraint.hard]
        soft = [constraint for constraint in constraints if not constraint.hard]
        facets: list[Facet] = []
        if hard:
            facets.append(_Even(hard, ask, cluster, view))
        if soft:
            facets.append(_Evener(soft, ask, cluster, view, needs_labels=bool(own) or not self._system))
        return _Spread(facets, cluster) if facets else None


class _Spread(Judge):
    # Fewer pods in the row's own domain: its distance from the least cannot grow.
    eased = True

    def __init__(self, facets: Sequence[Facet], cluster: Cluster) -> None:
        self.facets, self._cluster = facets, cluster

    def fixes(self, ask: Ask, row: Row) -> list[Change]:
        """Constraints that allow as much as it takes, or are left out; or the labels that the node lacks."""
        own = ask.pod.spec.topology_spread_constraints
        gates = [facet for facet in self.facets if isinstance(facet, _Even)]
        hard = [
            i for i, constraint in enumerate(own) if constraint.when_unsatisfiable == WhenUnsatisfiable.DO_NOT_SCHEDULE
        ]
        if not gates or not hard:
            return []
        allowed: dict[int, int | None] = {}
        words, labels = [], {}
        for i, (key, most, needed) in zip(hard, gates[0].skews(row), strict=True):
            if needed is None:
                allowed[i] = None
                words.append(f"the spreading over {key} left out")
                labels[key] = gates[0].emptiest(key) or self._cluster.table.names[row]
            elif needed > most:
                allowed[i] = needed
                words.append(f"a maxSkew of {needed} instead of {most} over {key}")
        if not words:
            return []
        kept = [replace(constraint, max_skew=allowed.get(i) or constraint.max_skew) for i, constraint in enumerate(own)]
        spread = tuple(constraint for i, constraint in enumerate(kept) if allowed.get(i, 0) is not None)
        pod = replace(ask.pod, spec=replace(ask.pod.spec, topology_spread_constraints=spread))
        changes = [Change(listed(words), pod=pod, size=1.0 + len(words))]
        return [*changes, *relabelled(self._cluster.nodes[row], labels)] if len(labels) == len(words) else changes


@dataclass(frozen=True, slots=True)
class _Constraint:
    hard: bool
    max_skew: int
    key: str
    pods: LabelMatcher
    min_domains: int
    honors_affinity: bool
    honors_taints: bool


def _constraints(own: Sequence[TopologySpreadConstraint], labels: Mapping[str, str]) -> list[_Constraint]:
    return [_constraint(constraint, counted_pods(constraint, labels)) for constraint in own]


def _constraint(raw: TopologySpreadConstraint, pods: LabelMatcher) -> _Constraint:
    return _Constraint(
        raw.when_unsatisfiable == WhenUnsatisfiable.DO_NOT_SCHEDULE,
        raw.max_skew,
        str(raw.topology_key),
        pods,
        1 if raw.min_domains is None else raw.min_domains,
        raw.node_affinity_policy == NodeInclusion.HONOR,
        raw.node_taints_policy == NodeInclusion.HONOR,
    )


def counted_pods(raw: TopologySpreadConstraint, labels: Mapping[str, str]) -> LabelMatcher:
    """The constraint's selector, and the pod's own values of matchLabelKeys."""
    selector = compile_labels(raw.label_selector, absent=NOTHING)
    same = {key: labels[key] for key in raw.match_label_keys if key in labels}
    if not same or selector is NOTHING:
        return selector
    return LabelMatcher((*selector.requirements, *match_labels(same).requirements))


class _Eligible:
    """Rows to spread pods over: they have the labels, and suit the pod as far as policies require it."""

    def __init__(self, constraint: _Constraint, keys: Sequence[str], ask: Ask, cluster: Cluster) -> None:
        self._cluster, self._keys = cluster, keys
        where = NodeAffinity().key(ask, cluster) if constraint.honors_affinity else None
        self._identity = (keys, where, ask.spec.tolerations if constraint.honors_taints else None)
        judges = (
            NodeAffinity().compile(ask, cluster) if constraint.honors_affinity else None,
            TaintToleration().compile(ask, cluster) if constraint.honors_taints else None,
        )
        self._judges = [judge for judge in judges if judge is not None and judge.filters_on]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Eligible) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def of(self) -> Counted | None:
        """None where every row is eligible."""
        return self if self._keys or self._judges else None

    def __call__(self, rows: npt.NDArray[np.intp] | slice) -> Array:
        eligible = np.ones(len(self._cluster.table.alive[rows]), np.bool_)
        for key in self._keys:
            eligible &= self._cluster.labels.column(key)[rows] >= 0
        cells = Many(self._cluster.table.columns, rows)
        for judge in self._judges:
            eligible &= judge.feasible(cells) == 0
        return eligible


def _dimension(
    constraint: _Constraint,
    ask: Ask,
    cluster: Cluster,
    view: View | None,
    *,
    by_row: bool | None,
    counted: Counted | None,
) -> Dimension:
    # An empty selector counts no pod, though it matches the pod itself.
    pods = constraint.pods if constraint.pods.requirements else NOTHING
    where = frozenset({ask.meta.namespace})
    tallies = [(cluster.counts.selection(where, pods, live_only=True), 1)]
    if view is not None:
        tallies.append((view.counts.selection(where, pods, live_only=True), -1))
    return Dimension(cluster, constraint.key, tallies, by_row=by_row, counted=counted)


class _Even(DomainGate):
    """The hard constraints of a pod."""

    def __init__(self, constraints: Sequence[_Constraint], ask: Ask, cluster: Cluster, view: View | None) -> None:
        self._constraints = [(constraint, int(constraint.pods.matches(ask.meta.labels))) for constraint in constraints]
        self._labels = cluster.labels
        keys = tuple({constraint.key: None for constraint in constraints})
        super().__init__(
            cluster,
            [
                _dimension(
                    constraint, ask, cluster, view, by_row=None, counted=_Eligible(constraint, keys, ask, cluster).of()
                )
                for constraint in constraints
            ],
        )

    def reasons(self) -> Array | list[int]:
        """The first constraint that rules a group out gives the reason."""
        if len(self._constraints) == 1 and self.grouping.size <= FEW_GROUPS:
            (constraint, itself), dimension = self._constraints[0], self.grouping.dimensions[0]
            most = constraint.max_skew - itself + self._least(dimension, constraint)
            few = [_SKEWED if number > most else 0 for number in dimension.values.tolist()]
            few[0] = _NO_LABEL
            return few
        why: Array | None = None
        for i, (constraint, itself) in enumerate(self._constraints):
            dimension = self.grouping.dimensions[i]
            most = constraint.max_skew - itself + self._least(dimension, constraint)
            by_code = (dimension.values > most) * _SKEWED
            by_code[0] = _NO_LABEL
            by_group = self.grouping.spread(i, by_code)
            why = by_group if why is None else np.where(why > 0, why, by_group)
        assert why is not None
        return why

    def reason(self, group: int) -> str:
        return NO_LABEL if self.why(group) == _NO_LABEL else SKEWED

    def unresolvable(self, group: int) -> bool:
        """No preemption gives a node a label."""
        return self.why(group) == _NO_LABEL

    def skews(self, row: Row) -> list[tuple[str, int, int | None]]:
        """By constraint: its label, the skew it allows, and the one that there would be; None without the label."""
        skews: list[tuple[str, int, int | None]] = []
        for (constraint, itself), dimension in zip(self._constraints, self.grouping.dimensions, strict=True):
            code = dimension.codes.item(row)
            there = dimension.values.item(code) + itself - self._least(dimension, constraint)
            skews.append((constraint.key, constraint.max_skew, there if code else None))
        return skews

    def emptiest(self, key: str) -> str:
        """The domain with the fewest pods; none where rows are their own domains."""
        for (constraint, _), dimension in zip(self._constraints, self.grouping.dimensions, strict=True):
            if constraint.key == key and not dimension.by_row:
                names = {
                    code: name for name in self._labels.values(key) if (code := dimension.code_of(name)) is not None
                }
                there = [code for code in names if code < dimension.size and dimension.rows.item(code)]
                return names[min(there, key=dimension.values.item)] if there else ""
        return ""

    @staticmethod
    def _least(dimension: Dimension, constraint: _Constraint) -> int:
        """The fewest pods of an eligible domain, none where there are fewer domains than there should be."""
        if dimension.size <= FEW_GROUPS:
            numbers, rows_of = dimension.values.tolist(), dimension.rows.tolist()
            # Code 0 is no domain.
            rows_of[0] = 0
            counted = [value for value, rows in zip(numbers, rows_of) if rows]  # noqa: B905 - equally long
            domains = sum(rows_of) if dimension.by_row else len(counted)
            return 0 if domains < max(1, constraint.min_domains) else min(counted)
        rows = dimension.rows[1:]
        there = rows.nonzero()[0]
        domains = int(rows.sum()) if dimension.by_row else len(there)
        if domains < max(1, constraint.min_domains):
            return 0
        return int(dimension.values[1:][there].min())


class _Evener(Grouped, FewGroups):
    """The soft constraints of a pod."""

    gates = closes = False
    normalised = True

    def __init__(
        self, constraints: Sequence[_Constraint], ask: Ask, cluster: Cluster, view: View | None, *, needs_labels: bool
    ) -> None:
        self._needs_labels, self._shape = needs_labels, (-1, -1)
        self._scored: Array | None = None
        self._present, self._numbers = b"", list[int | None]()
        self._few: Few | None = None
        self._by_domain = [constraint.key != _HOSTNAME for constraint in constraints]
        self._skews = [constraint.max_skew - 1 for constraint in constraints]
        keys = tuple({constraint.key: None for constraint in constraints}) if needs_labels else ()
        super().__init__(
            cluster,
            [
                # On a host its own pods count, whatever policies say.
                _dimension(constraint, ask, cluster, view, by_row=True, counted=None)
                if constraint.key == _HOSTNAME
                else _dimension(
                    constraint, ask, cluster, view, by_row=False, counted=_Eligible(constraint, keys, ask, cluster).of()
                )
                for constraint in constraints
            ],
        )

    def table(self, candidates: Array | None) -> Array:
        assert candidates is not None
        grouping = self.grouping
        if self._shape != grouping.shape:
            self._look_at_groups()
        if grouping.size <= FEW_GROUPS:
            return self._small_table(candidates.tolist())
        if self._scored is not None:
            candidates = candidates * self._scored
        present = candidates.nonzero()[0]
        if not len(present):
            return np.zeros(grouping.size, np.int64)
        if self._present != present.tobytes():
            self._present, self._numbers = present.tobytes(), self._domains_among(present)
        raw: Array | None = None
        for i, domains in enumerate(self._numbers):
            worth = self._worth(i, int(candidates.sum()) if domains is None else domains)
            raw = worth if raw is None else raw + worth
        assert raw is not None
        # Halves go up, none is negative.
        whole = (raw + 0.5).astype(np.int64)
        those = whole.take(present)
        most, least = those.item(those.argmax()), those.item(those.argmin())
        if most == 0:
            scores = np.full(grouping.size, 100)
        else:
            scores = (most + least - whole) * 100 // most
        return scores if self._scored is None else scores * self._scored

    def _small_table(self, candidates: list[int]) -> Array:
        """The same for a few groups, in plain numbers."""
        scored = [True] * len(candidates) if self._scored is None else self._scored.tolist()
        present = [group for group, number in enumerate(candidates) if number and scored[group]]
        if not present:
            return np.zeros(len(candidates), np.int64)
        raw = [0.0] * len(candidates)
        for i, by_domain in enumerate(self._by_domain):
            if by_domain:
                of_group = self._domains[i].tolist()
                domains = len({of_group[group] for group in present})
            else:
                domains = sum([candidates[group] for group in present])
            by_code = self._by_code(i, domains)
            raw = [others + by_code[code] for others, code in zip(raw, self._codes[i].tolist(), strict=True)]
        whole = [int(worth + 0.5) for worth in raw]
        those = [whole[group] for group in present]
        most, top = max(those), max(those) + min(those)
        if most == 0:
            return np.array([100 * here for here in scored])
        return np.array([(top - worth) * 100 // most * here for worth, here in zip(whole, scored, strict=True)])

    def few(self, groups: list[int], candidates: int) -> list[int] | None:
        if self._shape != self.grouping.shape:
            self._look_at_groups()
        few = self._few
        if few is None or few.groups is not groups:
            few = self._few = self._look_at(groups)
        if not few.is_scored:
            return None
        *others, last = few.numbers
        raw = few.nothing
        for i, domains in enumerate(others):
            worth = self._few_worth(i, few, candidates if domains is None else domains)
            raw = worth if raw is few.nothing else [a + b for a, b in zip(raw, worth)]  # noqa: B905 - equally long
        whole = few.add_last(raw, self._by_code(len(others), candidates if last is None else last))
        most = max(whole)
        if most == 0:
            return [100] * len(whole)
        top = most + min(whole)
        return [(top - worth) * 100 // most for worth in whole]

    def _look_at(self, groups: list[int]) -> Few:
        """What depends on which groups have candidates."""
        codes = [[of_dimension[group] for group in groups] for of_dimension in self._code_lists]
        numbers = [
            None if of_dimension is None else len({of_dimension[group] for group in groups})
            for of_dimension in self._domain_lists
        ]
        is_scored = self._scored is None or all(min(of_dimension) > 0 for of_dimension in codes)
        return Few(groups, codes, numbers, is_scored)

    def _few_worth(self, i: int, few: Few, domains: int) -> list[float]:
        """What a constraint adds for every group, as `_worth` has it."""
        dimension = self.grouping.dimensions[i]
        former = few.known[i]
        if former is not None and former[0] is dimension.values and former[1] == domains:
            return former[2]
        by_code = self._by_code(i, domains)
        worth = [by_code[code] for code in few.codes[i]]
        if dimension.by_row and self._unnamed[i] is None:
            few.known[i] = (dimension.values, domains, worth)
        return worth

    def _by_code(self, i: int, domains: int) -> list[float]:
        numbers = self.grouping.dimensions[i].values.tolist()
        unnamed = self._unnamed[i]
        if unnamed is not None and unnamed < len(numbers):
            numbers[unnamed] += numbers[0]
        factor, skew = log(domains + 2), self._skews[i]
        by_code = [number * factor + skew for number in numbers]
        by_code[0] = 0.0
        return by_code

    def _domains_among(self, groups: Array) -> list[int | None]:
        """How many domains some groups are in, by constraint; None where every row is one."""
        return [
            int(np.count_nonzero(np.bincount(domains[groups]))) if by_domain else None
            for domains, by_domain in zip(self._domains, self._by_domain, strict=True)
        ]

    def _worth(self, i: int, domains: int) -> Array:
        """What a constraint adds for every group."""
        dimension = self.grouping.dimensions[i]
        numbers = dimension.values
        former = self._known[i]
        if former is not None and former[0] is numbers and former[1] == domains:
            return former[2]
        unnamed = self._unnamed[i]
        if unnamed is not None and unnamed < dimension.size:
            numbers = numbers.copy()
            numbers[unnamed] += numbers[0]
        by_code = numbers * log(domains + 2) + self._skews[i]
        by_code[0] = 0.0
        worth: Array = by_code.take(self._codes[i])
        if dimension.by_row and unnamed is None:
            # The numbers of a dimension by row do not change; rows move from one to another.
            self._known[i] = (dimension.values, domains, worth)
        return worth

    def _look_at_groups(self) -> None:
        """What depends on the groups alone."""
        self._known: list[tuple[Array, int, Array] | None] = [None] * len(self._skews)
        self._present, self._few = b"", None
        grouping = self.grouping
        self._codes = codes = [grouping.codes(i) for i in range(len(self._skews))]
        self._scored = np.logical_and.reduce([codes_of > 0 for codes_of in codes]) if self._needs_labels else None
        # By default, nodes without the label are together one domain, the one with an empty name.
        self._unnamed = [None if self._needs_labels else dimension.code_of("") for dimension in grouping.dimensions]
        self._domains = [
            codes_of if unnamed is None else np.where(codes_of == 0, unnamed, codes_of)
            for codes_of, unnamed in zip(codes, self._unnamed, strict=True)
        ]
        self._code_lists: list[list[int]] = [codes_of.tolist() for codes_of in codes]
        self._domain_lists: list[list[int] | None] = [
            codes_of.tolist() if by_domain else None
            for codes_of, by_domain in zip(self._domains, self._by_domain, strict=True)
        ]
        self._shape = grouping.shape
