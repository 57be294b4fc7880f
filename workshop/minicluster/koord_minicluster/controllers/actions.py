"""The actions of a decision: create, change or delete objects, and record events.

Decisions return these in order; `live.writer` carries them out. Every action is safe to repeat: a delete names the
object's uid, a patch names the version it is based on where that matters, and creating an existing object is not an
error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from koord.api.kinds import Kind
from koord.api.kubernetes.meta import ObjectMeta

Body: TypeAlias = Mapping[str, Any]
"""An object, or a part of one, as it goes over the wire."""


@dataclass(frozen=True, slots=True)
class Create:
    """`body` has either a name or a generateName; the latter is completed when it is carried out."""

    kind: Kind[Any]
    namespace: str
    body: Body
    exists_ok: bool = False
    "Whether any object of that name will do."


@dataclass(frozen=True, slots=True)
class Patch:
    kind: Kind[Any]
    namespace: str
    name: str
    body: Body
    subresource: str = ""
    type: Literal["strategic", "merge"] = "strategic"
    gone_ok: bool = False
    "Whether an object that is not there any more is as good as changed."


@dataclass(frozen=True, slots=True)
class Delete:
    kind: Kind[Any]
    namespace: str
    name: str
    uid: str
    propagation: Literal["", "Background", "Foreground", "Orphan"] = ""
    grace_s: int | None = None
    resource_version: str = ""
    "The only version that is meant, where it must not have changed."


@dataclass(frozen=True, slots=True)
class Tell:
    """An event about the object that is being decided on."""

    reason: str
    note: str
    type: Literal["Normal", "Warning"] = "Normal"


Action: TypeAlias = Create | Patch | Delete | Tell


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now, and when to look again although nothing has changed."""

    actions: tuple[Action, ...] = ()
    again_in_s: float | None = None


def delete(kind: Kind[Any], meta: ObjectMeta, *, grace_s: int | None = None) -> Delete:
    """Deletes exactly this object, not a later one of its name."""
    return Delete(kind, meta.namespace, meta.name, meta.uid, grace_s=grace_s)


def sooner(*waits_s: float | None) -> float | None:
    """The shortest of the waits that are set."""
    return min((wait_s for wait_s in waits_s if wait_s is not None), default=None)
