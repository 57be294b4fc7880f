"""Writes to the API, as values: one executor carries them out, and knows no plugin.

A placed pod has a plan: steps before its binding (patches, and conditions to wait for), then the binding itself, which
is a pod's binding or the status of another kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from koord.api.kinds import Kind


@dataclass(frozen=True, slots=True)
class Patch:
    """A change of one object. It names only the fields that its author owns."""

    kind: Kind[Any]
    name: str
    body: Mapping[str, Any]
    namespace: str = ""
    type: Literal["merge", "strategic"] = "merge"
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class PodBinding:
    """A pod goes to a node."""

    namespace: str
    name: str
    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete this object, not another one of the same name."""

    kind: Kind[Any]
    name: str
    uid: str
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object. If one of its name exists already, that one stays."""

    kind: Kind[Any]
    name: str
    body: Mapping[str, Any]
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Evict:
    """A pod has to go, unless a budget forbids it."""

    namespace: str
    name: str
    uid: str
    reason: str
    message: str
    "Why, for users that look at the pod."
    about: str = ""
    "The object for which it has to go."
    stands: Callable[[], bool] = field(default=lambda: True, compare=False)
    "Whether it still has to go: it may be given notice, and asked again at the end of it."


@dataclass(frozen=True, slots=True)
class Tell:
    """An event on an object."""

    kind: Kind[Any]
    thing: Any
    reason: str
    message: str
    type: Literal["Normal", "Warning"] = "Normal"


Write: TypeAlias = Patch | PodBinding | Delete | Create | Evict


LATE_S: Final = 5.0


class CannotBind(Exception):
    """What a placement needs is not provided, or not on that node: the pod is placed again."""


@dataclass(frozen=True, slots=True)
class Until:
    """Something that other components do, and that the binding waits for."""

    missing: Callable[[], str]
    "What is still missing, empty when it has come true. Raises `CannotBind` where it never will."
    within_s: float
    late_s: float = field(default_factory=lambda: LATE_S)
    "Seconds until users are told what the binding waits for."
    waits_for: Callable[[], str] = field(default=lambda: "")
    "The same, for people."


@dataclass(frozen=True, slots=True)
class Step:
    """What one plugin wants done before a pod is bound. Writes are computed when it is their turn."""

    plugin: str
    writes: Callable[[], tuple[Write, ...]]
    until: Until | None = None


@dataclass(frozen=True, slots=True)
class PreBind:
    """What one plugin wants before a pod is bound."""

    patch: Mapping[str, Any] | None = None
    "A merge patch for the pod."
    steps: tuple[Step, ...] = ()
    "Writes on other objects, and conditions to wait for."


@dataclass(frozen=True, slots=True)
class BindingPlan:
    binding: Write
    patch: Patch | None = None
    "What plugins want written on the pod itself, all in one."
    steps: tuple[Step, ...] = ()
