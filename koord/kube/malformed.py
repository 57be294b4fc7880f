"""Reports malformed objects as events on the objects themselves: one event per change.

A component lists the labels and annotations that it reads. The reader of a malformed one goes on without it and reports
nothing: `MalformedTeller` reports it, once when the object appears and again when the text changes; it also reports
parts without effect, like a misspelt field. `FailureTeller` reports what a component could not do for an object, while
it went on with the others.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from koord.api.kinds import Kind
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.faults import Fault
from koord.api.machinery.shield import Failure
from koord.api.machinery.struct import Struct
from koord.api.protocol.annotations.value import Label, Value
from koord.kube.election import NotLeader
from koord.kube.events import EventRecorder, reference_to
from koord.kube.store import Delta

if TYPE_CHECKING:
    # What is measured costs a node agent memory, and most serve no metrics.
    from koord.kube.metrics import Metrics

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Struct)

MOST_FAILURES: Final = 10_000
"""How many objects with a reported failure are remembered. The oldest are forgotten, and reported again."""
FAILURES: Final = "koord_object_failures_total"
FAILURES_ARE: Final = "What could not be done for an object; others go on"
MOST_CHARACTERS: Final = 300
"""Of an error, in an event."""


class MalformedTeller:
    def __init__(self, events: EventRecorder, values: Iterable[Value[Any, Any]]) -> None:
        self._events = events
        self._by_kind: dict[str, dict[str, Value[Any, Any]]] = {}
        for value in values:
            for kind in value.on:
                keys = (value.key, *value.old_keys)
                self._by_kind.setdefault(kind, {}).update(dict.fromkeys(keys, value))

    def tell(self, kind: Kind[Any], meta: ObjectMeta, before: ObjectMeta | None) -> None:
        """`before`: the object as last received; None for a new one."""
        by_key = self._by_kind.get(kind.kind, {})
        if before is not None and before.uid != meta.uid:
            before = None
        for key in (by_key.keys() & meta.annotations.keys()) | (by_key.keys() & meta.labels.keys()):
            value = by_key[key]
            if before is not None and _text(value, key, before) == _text(value, key, meta):
                continue
            if error := value.check(meta, kind.kind):
                reason = f"Malformed{type(value).__name__}"
                note = f"{error}. It takes effect when it is corrected."
            elif error := value.idle(meta, kind.kind):
                reason, note = "WithoutEffect", f"{error}. It has no effect."
            else:
                continue
            self._events.record(reference_to(kind, meta), reason, note, action="Reading", type="Warning")

    def hear_faults(self, kind: Kind[T], faults: Callable[[T], Iterable[Fault]]) -> Callable[[Delta[T]], None]:
        """For an informer of a kind whose objects may be wrong in more than labels and annotations: one event for all
        that is wrong, when the object comes and when that changes."""

        def hear(delta: Delta[T]) -> None:
            message = "" if delta.new is None else "; ".join(map(str, faults(delta.new)))
            if delta.new is None or not message:
                return
            before = "" if delta.old is None else "; ".join(map(str, faults(delta.old)))
            if message != before:
                about = reference_to(kind, _metadata(delta.new))
                self._events.record(about, f"Malformed{kind.kind}", message, action="Reading", type="Warning")

        return hear

    def hear(self, kind: Kind[Any], meta_of: Callable[[Any], ObjectMeta] | None = None) -> Callable[[Delta[Any]], None]:
        """For an informer of the kind. `meta_of`: where objects of another shape have their metadata."""

        def hear(delta: Delta[Any]) -> None:
            if delta.new is not None:
                of = meta_of or _metadata
                self.tell(kind, of(delta.new), None if delta.old is None else of(delta.old))

        return hear


class FailureTeller:
    """Tells failures of objects: each is counted; once per change of the object, it is logged and said in an event.

    A fault of the program is logged with its traceback. `events` is None while another instance leads, `metrics` where
    another observer counts.
    """

    def __init__(self, metrics: Metrics | None = None, events: EventRecorder | None = None) -> None:
        self.events = events
        self.counts: Counter[tuple[str, str]] = Counter()
        "By kind, and what could not be done."
        self._counter = None if metrics is None else metrics.counter(FAILURES, FAILURES_ARE, "kind", "doing")
        self._told: dict[tuple[str, str, str], tuple[str, str, str]] = {}

    def __call__(self, failure: Failure) -> None:
        if isinstance(failure.error, NotLeader):
            # That is about the whole process: the leader election ends the work.
            raise failure.error
        kind, meta = failure.kind, failure.meta or ObjectMeta()
        name = "" if kind is None else kind.kind
        self.counts[name, failure.doing] += 1
        if self._counter is not None:
            self._counter.labels(name, failure.doing).inc()
        about = failure.doing, name, meta.key
        change = meta.uid, meta.resource_version, f"{type(failure.error).__name__}: {failure.error}"
        if self._told.get(about) == change:
            return
        if len(self._told) >= MOST_FAILURES:
            del self._told[next(iter(self._told))]
        self._told[about] = change
        log.error(
            "cannot %s; others go on: %s",
            failure.doing,
            change[2],
            exc_info=failure.error if failure.is_defect else None,
            extra={"object": f"{name} {meta.key}".strip()},
        )
        if self.events is not None and kind is not None and failure.meta is not None:
            why = str(failure.error) if not failure.is_defect else change[2]
            shown = why if len(why) <= MOST_CHARACTERS else f"{why[:MOST_CHARACTERS]}..."
            note = f"Cannot {failure.doing}: {shown}. It is tried again when it changes; others are not affected."
            self.events.record(
                reference_to(kind, meta), "CannotBeHandled", note, action="Reading", type="Warning", theme=failure.doing
            )


def _metadata(obj: Any) -> ObjectMeta:
    meta: ObjectMeta = obj.metadata
    return meta


def _text(value: Value[Any, Any], key: str, meta: ObjectMeta) -> str | None:
    return (meta.labels if isinstance(value, Label) else meta.annotations).get(key)
