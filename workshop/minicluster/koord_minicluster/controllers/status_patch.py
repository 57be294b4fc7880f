"""The smallest change that makes an object's status what it should be.

Only fields that differ are named, so that a status that is right already costs no call; conditions are merged by their
type, so that what others say about the object stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from koord.api.kinds import Kind
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.struct import Struct
from koord_minicluster.controllers.actions import Patch

S = TypeVar("S", bound=Struct)


def status_change(old: S, new: S) -> dict[str, Any]:
    """The fields of `new` that `old` does not have, as a strategic merge; empty where there are none."""
    change: dict[str, Any] = {}
    for field in msgspec.structs.fields(type(new)):
        before, after = getattr(old, field.name), getattr(new, field.name)
        if before == after:
            continue
        if field.name == "conditions":
            change["conditions"] = _conditions(before, after)
        else:
            change[field.encode_name] = _whole(after)
    return change


def status_patch(kind: Kind[Any], meta: ObjectMeta, change: dict[str, Any], *, locked: bool = False) -> list[Patch]:
    """`locked`: fails if the object has changed since it was read, for what must not be counted twice."""
    if not change:
        return []
    body: dict[str, Any] = {"status": change}
    if locked:
        body["metadata"] = {"resourceVersion": meta.resource_version, "uid": meta.uid}
    return [Patch(kind, meta.namespace, meta.name, body, "status")]


def _whole(value: object) -> object:
    """A value with all its fields, also the empty ones: a merge would leave what they were before."""
    if isinstance(value, Struct):
        return {f.encode_name: _whole(getattr(value, f.name)) for f in msgspec.structs.fields(type(value))}
    return msgspec.to_builtins(value, str_keys=True)


def _conditions(before: Iterable[Struct], after: Iterable[Struct]) -> list[dict[str, Any]]:
    old = {str(getattr(condition, "type", "")): condition for condition in before}
    new = {str(getattr(condition, "type", "")): condition for condition in after}
    changed = [condition_body(condition) for type_, condition in new.items() if old.get(type_) != condition]
    return [*changed, *({"type": type_, "$patch": "delete"} for type_ in old if type_ not in new)]


def condition_body(condition: Struct) -> dict[str, Any]:
    """Every field, also an empty one: a merge would otherwise leave what it was before."""
    fields = msgspec.structs.fields(type(condition))
    values = {field.encode_name: getattr(condition, field.name) for field in fields}
    return {name: value for name, value in values.items() if value is not None and value != 0}
