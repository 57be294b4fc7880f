"""What a pod says about other pods: the terms of its affinity and anti-affinity, compiled and shared.

Pods of one template have one `PodTerms` object. A term reads its pod's namespace and, for matchLabelKeys and
mismatchLabelKeys, its labels; nothing else of the pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from koord.api.kubernetes.pod import Pod, PodAffinity, PodAffinityTerm
from koord.api.text.selector import NOTHING, LabelMatcher, LabelSelector, Operator, Requirement, compile_labels

REMEMBERED: Final = 1 << 14


@dataclass(frozen=True, slots=True)
class Term:
    """Pods of some namespaces with some labels, and the label of nodes that says what is near."""

    key: str
    matcher: LabelMatcher
    namespaces: frozenset[str]
    namespace_selector: LabelMatcher

    def means(self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]) -> bool:
        """Whether this term, of a pod that is on a node, means a pod that asks for a place."""
        here = namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        return here and self.matcher.matches(labels)


class Role(Enum):
    ANTI_AFFINITY = "required anti-affinity"
    AFFINITY = "required affinity"
    PREFERRED = "preferred"


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class HeldTerm:
    """A term that makes a pod, once it is on a node, attract or repel others. Equal terms are one object."""

    role: Role
    weight: int
    "Of a preferred term; negative where it repels."
    term: Term


@dataclass(frozen=True, eq=False, slots=True)
class PodTerms:
    """All terms of a pod."""

    affinity: tuple[Term, ...] = ()
    anti_affinity: tuple[Term, ...] = ()
    preferred: tuple[tuple[int, Term], ...] = ()
    held: tuple[HeldTerm, ...] = ()


NO_TERMS: Final = PodTerms()

_encode: Final = msgspec.msgpack.Encoder(enc_hook=dict).encode
_label_keys: dict[bytes, tuple[str, ...]] = {}
_compiled: dict[tuple[object, ...], PodTerms] = {}
_held: WeakValueDictionary[tuple[object, ...], HeldTerm] = WeakValueDictionary()


def terms_of(pod: Pod) -> PodTerms:
    """The terms of a pod, shared with all pods that say the same."""
    affinity = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    near, far = affinity.pod_affinity or PodAffinity(), affinity.pod_anti_affinity or PodAffinity()
    # Encoding is far cheaper than hashing the objects, and a selector's map could not be hashed at all.
    text = _encode((near, far))
    keys = _label_keys.get(text)
    if keys is None:
        if len(_label_keys) >= REMEMBERED:
            _label_keys.clear()
        keys = _label_keys[text] = tuple(dict.fromkeys(_keys_read(near))) + tuple(dict.fromkeys(_keys_read(far)))
    labels, namespace = pod.metadata.labels, pod.metadata.namespace
    name = (text, namespace, *[labels.get(key) for key in keys])
    terms = _compiled.get(name)
    if terms is None:
        if len(_compiled) >= REMEMBERED:
            _compiled.clear()
        terms = _compiled[name] = _compile(near, far, namespace, labels)
    return terms


def _compile(near: PodAffinity, far: PodAffinity, namespace: str, labels: Mapping[str, str]) -> PodTerms:
    def term(raw: PodAffinityTerm) -> Term:
        return _term(raw, namespace, labels)

    affinity = tuple(map(term, near.required_during_scheduling_ignored_during_execution))
    anti_affinity = tuple(map(term, far.required_during_scheduling_ignored_during_execution))
    preferred = [
        (sign * weighted.weight, term(weighted.pod_affinity_term))
        for sign, part in ((1, near), (-1, far))
        for weighted in part.preferred_during_scheduling_ignored_during_execution
        if weighted.weight
    ]
    held = [
        *(_intern(Role.ANTI_AFFINITY, 0, own_term) for own_term in anti_affinity),
        *(_intern(Role.AFFINITY, 0, own_term) for own_term in affinity),
        *(_intern(Role.PREFERRED, weight, own_term) for weight, own_term in preferred),
    ]
    return PodTerms(affinity, anti_affinity, tuple(preferred), tuple(held))


def _intern(role: Role, weight: int, term: Term) -> HeldTerm:
    name = (role, weight, term)
    held_term = _held.get(name)
    if held_term is None:
        held_term = _held[name] = HeldTerm(role, weight, term)
    return held_term


def _term(raw: PodAffinityTerm, namespace: str, labels: Mapping[str, str]) -> Term:
    matcher = compile_labels(raw.label_selector, absent=NOTHING)
    if raw.label_selector is not None:
        # The API server writes these requirements into the selector when a pod is made; manifests lack them.
        wanted = (
            *((key, Operator.IN) for key in raw.match_label_keys),
            *((key, Operator.NOT_IN) for key in raw.mismatch_label_keys),
        )
        more = [
            Requirement(key, operator, (labels[key],))
            for key, operator in wanted
            if key in labels and not _is_written(raw.label_selector, key, operator)
        ]
        matcher = LabelMatcher((*matcher.requirements, *more))
    namespaces = frozenset(raw.namespaces)
    if not namespaces and raw.namespace_selector is None:
        namespaces = frozenset({namespace})
    return Term(str(raw.topology_key), matcher, namespaces, compile_labels(raw.namespace_selector, absent=NOTHING))


def _is_written(selector: LabelSelector, key: str, operator: Operator) -> bool:
    wanted = "In" if operator is Operator.IN else "NotIn"
    return any(requirement.key == key and requirement.operator == wanted for requirement in selector.match_expressions)


def _keys_read(part: PodAffinity) -> Iterator[str]:
    """The labels of its own pod that an affinity looks at."""
    terms = [
        *part.required_during_scheduling_ignored_during_execution,
        *(weighted.pod_affinity_term for weighted in part.preferred_during_scheduling_ignored_during_execution),
    ]
    for term in terms:
        yield from term.match_label_keys
        yield from term.mismatch_label_keys
