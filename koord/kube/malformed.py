"""Labels and annotations that cannot be understood, told on the object that carries them: one event per change.

A component lists the values that it reads. Whoever reads a malformed one makes do without it, and says nothing: this is
where it is said, once when the object comes and again when the text changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from koord.api.kinds import Kind
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.faults import Fault
from koord.api.machinery.struct import Struct
from koord.api.protocol.annotations.value import Label, Value
from koord.kube.events import EventRecorder, reference_to
from koord.kube.store import Delta

T = TypeVar("T", bound=Struct)


class MalformedTeller:
    def __init__(self, events: EventRecorder, values: Iterable[Value[Any, Any]]) -> None:
        self._events = events
        self._by_kind: dict[str, dict[str, Value[Any, Any]]] = {}
        for value in values:
            for kind in value.on:
                keys = (value.key, *value.old_keys)
                self._by_kind.setdefault(kind, {}).update(dict.fromkeys(keys, value))

    def tell(self, kind: Kind[Any], meta: ObjectMeta, before: ObjectMeta | None) -> None:
        """`before`: the object as it was told last; None for one that is new."""
        known = self._by_kind.get(kind.kind, {})
        if before is not None and before.uid != meta.uid:
            before = None
        for key in (known.keys() & meta.annotations.keys()) | (known.keys() & meta.labels.keys()):
            value = known[key]
            if before is not None and _text(value, key, before) == _text(value, key, meta):
                continue
            if error := value.check(meta, kind.kind):
                reason = f"Malformed{type(value).__name__}"
                note = f"{error}. It takes effect when it is corrected."
                self._events.record(reference_to(kind, meta), reason, note, action="Reading", type="Warning")

    def hear_faults(self, kind: Kind[T], faults: Callable[[T], Iterable[Fault]]) -> Callable[[Delta[T]], None]:
        """For an informer of a kind whose objects may be wrong in more than labels and annotations: one event for all
        that is wrong, when the object comes and when that changes."""

        def hear(delta: Delta[T]) -> None:
            told = "" if delta.new is None else "; ".join(map(str, faults(delta.new)))
            before = "" if delta.old is None else "; ".join(map(str, faults(delta.old)))
            if delta.new is not None and told and told != before:
                about = reference_to(kind, _metadata(delta.new))
                self._events.record(about, f"Malformed{kind.kind}", told, action="Reading", type="Warning")

        return hear

    def hear(self, kind: Kind[Any], meta_of: Callable[[Any], ObjectMeta] | None = None) -> Callable[[Delta[Any]], None]:
        """For an informer of the kind. `meta_of`: where objects of another shape have their metadata."""

        def hear(delta: Delta[Any]) -> None:
            if delta.new is not None:
                of = meta_of or _metadata
                self.tell(kind, of(delta.new), None if delta.old is None else of(delta.old))

        return hear


def _metadata(obj: Any) -> ObjectMeta:
    meta: ObjectMeta = obj.metadata
    return meta


def _text(value: Value[Any, Any], key: str, meta: ObjectMeta) -> str | None:
    return (meta.labels if isinstance(value, Label) else meta.annotations).get(key)
