"""A structured label or annotation: where it stands, how it is written, and what it means when absent or wrong.

Each is one constant, `RESOURCE_SPEC = Annotation(names.ANNOTATION_RESOURCE_SPEC, ...)`, with three uses:
`read(meta)` gives the typed value, or the default where the key is absent; `check(meta)` gives the fault, if there is
one; `render(value)` gives the text to write. `idle(meta)` gives what readers skip, for example a misspelt field, which
is no fault since a newer writer may have added it. A malformed value makes `read` raise `AnnotationError`, except for
the few keys for which the protocol itself says what a malformed value counts as (`bad`); `check` reports those too.
An empty text counts as absent unless `empty` says otherwise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final, Generic, Literal, TypeVar

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.faults import Fault, Invalid
from koord.api.protocol.names import AnnotationKey, LabelKey

T = TypeVar("T")
D = TypeVar("D")

POD: Final = ("Pod",)
POD_OR_RESERVATION: Final = ("Pod", "Reservation")
NODE: Final = ("Node",)
NODE_OR_DEVICE: Final = ("Node", "Device")
NODE_OR_TOPOLOGY: Final = ("Node", "NodeResourceTopology")
TOPOLOGY: Final = ("NodeResourceTopology",)


class AnnotationError(Invalid):
    """A label or annotation whose value cannot be understood: on which object, under which key, and why."""

    def __init__(self, who: str, where: str, key: str, faults: Iterable[Fault]) -> None:
        super().__init__(f"{who}: {where} {key}", faults)
        self.who = who
        self.key = key


@dataclass(frozen=True, slots=True, eq=False)
class Form(Generic[T]):
    """How values are written. `parse` raises ValueError (`Invalid` where it knows paths); `render` is its inverse."""

    parse: Callable[[str], T]
    render: Callable[[T], str]
    idle: Callable[[str], tuple[Fault, ...]] | None = None
    "Parts of a text that can be parsed which have no effect."


class Rule(Enum):
    """What stands in place of a value where there is none to give."""

    RAISE = "raise"
    AS_ABSENT = "as absent"


@dataclass(frozen=True, eq=False)
class Value(ABC, Generic[T, D]):
    """What labels and annotations have in common: values of type T, and D where there is none.

    `on` lists the kinds that carry the key, the usual one first. `old_keys` are spellings that are read where the key
    itself is absent or empty.
    """

    key: str
    form: Form[T]
    default: D
    on: tuple[str, ...] = POD
    bad: T | D | Literal[Rule.RAISE] = Rule.RAISE
    empty: T | D | Rule = Rule.AS_ABSENT
    old_keys: tuple[str, ...] = ()

    def read(self, meta: ObjectMeta, kind: str = "") -> T | D:
        """The value on an object of `kind` (by default the kind that usually carries the key)."""
        key, text = self._found(meta)
        if text is None or (text == "" and self.empty is Rule.AS_ABSENT):
            return self.default
        if text == "" and not isinstance(self.empty, Rule):
            return self.empty
        try:
            return _parse(self.form, text)
        except ValueError as error:
            if not isinstance(self.bad, Rule):
                return self.bad
            raise self._error(meta, kind, key, error) from None

    def check(self, meta: ObjectMeta, kind: str = "") -> AnnotationError | None:
        """What is wrong with the value, whether or not `read` would raise it."""
        key, text = self._found(meta)
        if text is None or (text == "" and self.empty is not Rule.RAISE):
            return None
        try:
            _parse(self.form, text)
        except ValueError as error:
            return self._error(meta, kind, key, error)
        return None

    def idle(self, meta: ObjectMeta, kind: str = "") -> AnnotationError | None:
        """Parts of the value that have no effect, where it can be understood."""
        key, text = self._found(meta)
        if not text or self.form.idle is None:
            return None
        idle_faults = _remembered_idle(self.form.idle, text) if len(text) <= _SHORT else self.form.idle(text)
        return self._error(meta, kind, key, Invalid("", idle_faults)) if idle_faults else None

    def is_on(self, meta: ObjectMeta) -> bool:
        """Whether the key is there at all, whatever its value."""
        return self._found(meta)[1] is not None

    def render(self, value: T) -> str:
        """The text that reads as `value`."""
        return self.form.render(value)

    def _found(self, meta: ObjectMeta) -> tuple[str, str | None]:
        texts = self._texts(meta)
        for key in (self.key, *self.old_keys):
            if texts.get(key):
                return key, texts[key]
        return self.key, texts.get(self.key)

    def _error(self, meta: ObjectMeta, kind: str, key: str, error: ValueError) -> AnnotationError:
        faults = error.faults if isinstance(error, Invalid) else (Fault("", str(error)),)
        who = f"{kind or self.on[0]} {meta.key}".rstrip()
        return AnnotationError(who, type(self).__name__.lower(), key, faults)

    @abstractmethod
    def _texts(self, meta: ObjectMeta) -> Mapping[str, str]:
        """The labels or the annotations, whichever the key is looked up in."""


@dataclass(frozen=True, eq=False)
class Annotation(Value[T, D]):
    """One annotation."""

    key: AnnotationKey
    old_keys: tuple[AnnotationKey, ...] = ()

    def _texts(self, meta: ObjectMeta) -> Mapping[str, str]:
        return meta.annotations


@dataclass(frozen=True, eq=False)
class Label(Value[T, D]):
    """One label."""

    key: LabelKey
    old_keys: tuple[LabelKey, ...] = ()

    def _texts(self, meta: ObjectMeta) -> Mapping[str, str]:
        return meta.labels


def _parse(form: Form[T], text: str) -> T:
    value: T = _remembered(form, text) if len(text) <= _SHORT else _remembered_long(form, text)
    return value


_SHORT: Final = 512


@lru_cache(maxsize=8192)
def _remembered(form: Form[T], text: str) -> T:
    # Pods of one workload carry the same text.
    return form.parse(text)


@lru_cache(maxsize=64)
def _remembered_long(form: Form[T], text: str) -> T:
    # Nodes of one type have the same topology, which takes a millisecond. Other long texts are rarely shared.
    return form.parse(text)


@lru_cache(maxsize=1024)
def _remembered_idle(idle: Callable[[str], tuple[Fault, ...]], text: str) -> tuple[Fault, ...]:
    return idle(text)
