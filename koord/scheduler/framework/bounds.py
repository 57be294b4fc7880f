"""What one pod may ask of a scheduler: what is beyond is refused, with the number and the bound.

A pod's cost grows with its terms times the nodes, and the API server accepts ten thousand of them. Real pods have a
handful. A pod within the bounds that still has many is `heavy`: the queue lets others go before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from koord.api.kubernetes.pod import PodAffinity, PodAffinityTerm, PodSpec
from koord.api.text.selector import LabelSelector

LIGHT: Final = 8
"""A pod with at most this many constraints and terms about other pods waits in its usual order."""
TRIED_TERMS: Final = 1 << 13
"""The most constraints and terms, times nodes, that are tried out in all to make room for one pod."""


@dataclass(frozen=True, slots=True)
class Bound:
    what: str
    most: int
    count: Callable[[PodSpec], int]

    def exceeded_by(self, spec: PodSpec) -> str:
        """By how much, in words; nothing where it is not."""
        number = self.count(spec)
        if number <= self.most:
            return ""
        return f"the pod has {number} {self.what}, more than the {self.most} that are supported"


def excess(spec: PodSpec) -> str | None:
    """What exceeds the bounds, for the pod's event and condition; None: the pod is within bounds."""
    return next((why for bound in BOUNDS if (why := bound.exceeded_by(spec))), None)


def without_devices(spec: PodSpec) -> str | None:
    """Why a pod with claims cannot be placed where no plugin allocates devices."""
    if not spec.resource_claims:
        return None
    names = ", ".join(claim.name for claim in spec.resource_claims)
    return (
        f"the pod has resource claims ({names}), and its profile does not run the plugin DynamicResources, which "
        "allocates them: enable the plugin, or take the claims out of spec.resourceClaims"
    )


def too_many_terms(spec: PodSpec) -> str | None:
    """As `excess`, of what a pod that has its node says about others."""
    if spec.affinity is None:
        return None
    if spec.affinity.pod_affinity is None and spec.affinity.pod_anti_affinity is None:
        return None
    for bound in ABOUT_OTHERS:
        if why := bound.exceeded_by(spec):
            return why
    return None


def is_heavy(spec: PodSpec) -> bool:
    """Whether a pod is too expensive to let it delay others."""
    return _weight(spec) > LIGHT


def trials(spec: PodSpec) -> int | None:
    """On how many nodes preemption may be tried out for a pod; None: on all of them."""
    weight = _weight(spec)
    return None if weight <= LIGHT else TRIED_TERMS // weight


def _weight(spec: PodSpec) -> int:
    """Constraints and terms about other pods: each is evaluated again after every change of other pods."""
    own = len(spec.topology_spread_constraints)
    return own if spec.affinity is None else own + pod_terms(spec)


def pod_terms(spec: PodSpec) -> int:
    """How many affinity and anti-affinity terms there are, required and preferred."""
    number, affinity = 0, spec.affinity
    for side in (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity is not None else ():
        if side is not None:
            number += len(side.required_during_scheduling_ignored_during_execution)
            number += len(side.preferred_during_scheduling_ignored_during_execution)
    return number


def _terms(spec: PodSpec) -> Iterable[PodAffinityTerm]:
    affinity = spec.affinity
    sides: tuple[PodAffinity | None, ...] = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ()
    for side in sides:
        if side is not None:
            yield from side.required_during_scheduling_ignored_during_execution
            for weighted in side.preferred_during_scheduling_ignored_during_execution:
                yield weighted.pod_affinity_term


def _selector_words(spec: PodSpec) -> int:
    """Labels, conditions and values in all selectors of pods and namespaces."""
    number = sum(_words(constraint.label_selector) for constraint in spec.topology_spread_constraints)
    for term in _terms(spec):
        number += _words(term.label_selector) + _words(term.namespace_selector) + len(term.namespaces)
    return number


def _words(selector: LabelSelector | None) -> int:
    if selector is None:
        return 0
    return len(selector.match_labels) + sum(1 + len(requirement.values) for requirement in selector.match_expressions)


def _node_terms(spec: PodSpec) -> int:
    own = spec.affinity.node_affinity if spec.affinity else None
    if own is None:
        return 0
    required = own.required_during_scheduling_ignored_during_execution
    terms = [*required.node_selector_terms] if required is not None else []
    terms += [preferred.preference for preferred in own.preferred_during_scheduling_ignored_during_execution]
    return len(terms) + sum(len(term.match_expressions) + len(term.match_fields) for term in terms)


def _resources(spec: PodSpec) -> int:
    names: set[str] = set(spec.overhead)
    for container in (*spec.containers, *spec.init_containers):
        names.update(container.resources.requests)
    return len(names)


def _host_ports(spec: PodSpec) -> int:
    return sum(
        1 for container in (*spec.containers, *spec.init_containers) for port in container.ports if port.host_port > 0
    )


BOUNDS: Final = (
    Bound("topology spread constraints", 64, lambda spec: len(spec.topology_spread_constraints)),
    Bound("pod affinity and anti-affinity terms", 128, pod_terms),
    Bound("labels, conditions and values in selectors of pods", 4096, _selector_words),
    Bound("terms and conditions of node affinity", 512, _node_terms),
    Bound("labels in its node selector", 512, lambda spec: len(spec.node_selector)),
    Bound("tolerations", 1024, lambda spec: len(spec.tolerations)),
    Bound("kinds of requested resources", 60, _resources),
    Bound("host ports", 512, _host_ports),
    Bound("volumes", 512, lambda spec: len(spec.volumes)),
)
ABOUT_OTHERS: Final = tuple(bound for bound in BOUNDS if bound.count in (pod_terms, _selector_words))
"""Those that still count once a pod has its node."""
