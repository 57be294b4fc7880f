"""A pod that asks for a place: the decoded Pod, and what several plugins want to know of it, worked out once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.words import PodConditionType
from koord.api.protocol.priority import PriorityClass, priority_class
from koord.api.text.timestamp import parse_timestamp
from koord.scheduler.framework.bounds import excess, is_heavy
from koord.scheduler.state.pods import (
    Amounts,
    NotesOf,
    PodRecord,
    Shape,
    Template,
    is_preempted,
    named_claims_of,
    own_claims_of,
    scheduled_spec,
    shared_labels,
    shared_owner,
    shared_word,
    since_s,
    template_of,
)
from koord.scheduler.state.terms import PodTerms, terms_of
from koord.scheduler.state.view import View

T = TypeVar("T")


class once(Generic[T]):  # noqa: N801 - reads as the decorator that it is
    """A property computed on first use. Like functools.cached_property, but without its lock: there are many pods."""

    def __init__(self, work: Callable[[Any], T]) -> None:
        self._work, self._name = work, work.__name__

    def __get__(self, ask: Ask, _owner: type | None = None) -> T:
        value = self._work(ask)
        # Not through `__dict__`: reading it makes the interpreter create one.
        setattr(ask, self._name, value)
        return value


class Ask:
    """What plugins get to see of a pod."""

    view: View | None = None
    "While its class is made: how that sees the cluster, where that is otherwise than all others do."

    def __init__(self, pod: Pod) -> None:
        self.pod, self.spec, self.meta = pod, scheduled_spec(pod.spec), pod.metadata

    @once
    def key(self) -> str:
        return self.meta.key

    @property
    def priority(self) -> int:
        return self.spec.priority or 0

    @once
    def template(self) -> Template:
        return template_of(self.pod, self.spec)

    @property
    def shape(self) -> Shape:
        return self.template.shape

    @property
    def requests(self) -> Amounts:
        return self.shape.requests

    @property
    def non_zero(self) -> tuple[int, int]:
        return self.shape.non_zero

    @once
    def terms(self) -> PodTerms:
        return terms_of(self.pod)

    @property
    def is_heavy(self) -> bool:
        """Whether deciding it is too expensive to let it delay other pods."""
        return is_heavy(self.spec)

    @once
    def excess(self) -> str | None:
        """What it has more of than is supported; None where it is within the bounds."""
        return excess(self.spec)

    @once
    def band(self) -> PriorityClass:
        """Its priority class, which decides how it shares nodes with other pods."""
        return priority_class(self.pod)

    @once
    def claims(self) -> tuple[str, ...]:
        return named_claims_of(self.pod) if self.spec.volumes else ()

    @once
    def own_claims(self) -> tuple[str, ...]:
        return own_claims_of(self.pod) if self.spec.volumes else ()

    def record(self, now_s: float | None = None, notes: NotesOf = ()) -> PodRecord:
        """What the state keeps of it once it has a node: since `now_s`, where the pod does not say. `notes`: what
        plugins note of it, as the cluster says (`Cluster.noted`)."""
        meta, spec, pod = self.meta, self.spec, self.pod
        conditions = pod.status.conditions
        placed_s = since_s(pod, PodConditionType.SCHEDULED) if conditions else None
        return PodRecord(
            self.key,
            meta.uid,
            shared_word(meta.namespace),
            shared_labels(meta.labels),
            self.shape,
            spec.priority or 0,
            meta.deletion_timestamp is not None,
            shared_owner(meta.controller) if meta.owner_references else None,
            self.terms.held if spec.affinity is not None else (),
            now_s if placed_s is None else placed_s,
            since_s(pod, PodConditionType.INITIALIZED) if conditions else None,
            parse_timestamp(pod.status.start_time) if pod.status.start_time else None,
            meta.deletion_timestamp is not None and is_preempted(pod),
            notes,
        )
