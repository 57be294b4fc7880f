"""The fields of typed objects as tables: one for each type, and each type once on a page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec import inspect

from koord.api.kubernetes.meta import ObjectMeta, ObjectReference, OwnerReference
from koord.api.kubernetes.node import Taint
from koord.api.kubernetes.pod import NodeAffinity, TopologySpreadConstraint
from koord.api.machinery.descriptions import field_descriptions, type_description
from koord.api.text.selector import LabelSelector

OPAQUE: Final = {
    ObjectMeta: "object metadata",
    ObjectReference: "object reference",
    OwnerReference: "owner reference",
    LabelSelector: "label selector",
    Taint: "taint",
    NodeAffinity: "node affinity",
    TopologySpreadConstraint: "topology spread constraint",
}
"""Kubernetes' own types, which its documentation describes."""
_WIRE: Final = {
    "quantity": "quantity",
    "int-or-string": "integer or string",
    "duration": "duration",
    "date-time": "time",
    "free-form": "object",
}
_PLAIN: Final = {
    inspect.StrType: "string",
    inspect.BoolType: "boolean",
    inspect.IntType: "integer",
    inspect.FloatType: "number",
    inspect.AnyType: "anything",
}
_BLANK: Final = ("", None, (), {}, [])


@dataclass
class Tables:
    """The types of one page, in the order in which they were met."""

    level: int
    "That of the headings."
    described: set[type] = field(default_factory=set)
    names: Mapping[type, str] = field(default_factory=dict)
    "Of types that share theirs with another one of the page."
    defaults: Mapping[type, msgspec.Struct] = field(default_factory=dict)
    "What holds where nothing is set, for types whose own defaults do not say it."
    undescribed: list[str] = field(default_factory=list)
    "Fields without a description: a test holds this empty."

    def of(self, root: type[msgspec.Struct], skip: Sequence[str] = ()) -> Iterator[str]:
        """The lines about a type, and about the types of its fields that are new. `skip`: fields of the root."""
        waiting = [root]
        while waiting:
            current = waiting.pop(0)
            if current in self.described:
                continue
            self.described.add(current)
            if current is not root:
                yield f"{'#' * self.level} {self._name(current)}"
                yield ""
            if (text := type_description(current)) and current is not root:
                yield from (escaped(text), "")
            new: list[type[msgspec.Struct]] = []
            yield from self._type(current, new, skip if current is root else ())
            waiting = new + waiting

    def _type(self, type_: type[msgspec.Struct], new: list[type[msgspec.Struct]], skip: Sequence[str]) -> Iterator[str]:
        base = type_.__base__
        inherited = set[str]()
        if base is not None and issubclass(base, msgspec.Struct) and base.__struct_fields__ and base.__name__[0] != "_":
            inherited = set(base.__struct_fields__)
            if base in OPAQUE:
                yield f"A {OPAQUE[base]} of Kubernetes."
            else:
                new.append(base)
                yield f"All fields of {self._link(base)}, and:"
            yield ""
        own = [member for member in _fields(type_) if member.name not in inherited and member.name not in skip]
        if own:
            yield "| field | type | default | what it is |"
            yield "| --- | --- | --- | --- |"
            yield from self._rows(type_, own, new)
            yield ""

    def _rows(
        self, type_: type[msgspec.Struct], members: Sequence[inspect.Field], new: list[type[msgspec.Struct]]
    ) -> Iterator[str]:
        descriptions = field_descriptions(type_)
        shipped = self.defaults.get(type_)
        for member in members:
            text = descriptions.get(member.name, "")
            if not text:
                self.undescribed.append(f"{type_.__name__}.{member.name}")
            default = "" if member.required else _default(member, shipped)
            yield f"| `{member.encode_name}` | {self._of_field(member.type, new)} | {default} | {escaped(text)} |"

    def _name(self, type_: type) -> str:
        return self.names.get(type_, type_.__name__)

    def _link(self, type_: type) -> str:
        return f"[{self._name(type_)}](#{self._name(type_).lower()})"

    def _of_field(self, type_: inspect.Type, new: list[type[msgspec.Struct]]) -> str:
        match type_:
            case inspect.Metadata(type=inner, extra=extra):
                name = (extra or {}).get("schema")
                return _WIRE[name] if name is not None else self._of_field(inner, new)
            case inspect.StructType(cls=cls) if cls in OPAQUE:
                return OPAQUE[cls]
            case inspect.StructType(cls=cls):
                new.append(cls)
                return self._link(cls)
            case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
                return f"list of {self._of_field(item, new)}"
            case inspect.DictType(value_type=value):
                return f"map of {self._of_field(value, new)}"
            case inspect.UnionType(types=types):
                some = (one for one in types if not isinstance(one, inspect.NoneType))
                return " or ".join(dict.fromkeys(self._of_field(one, new) for one in some))
            case inspect.LiteralType(values=values):
                return ", ".join(f"`{value}`" for value in values if value != "")
            case inspect.EnumType(cls=enumeration):
                return ", ".join(f"`{value.value}`" for value in enumeration)
            case inspect.IntType() | inspect.FloatType():
                return f"{_PLAIN[type(type_)]}{_range(type_)}"
        return _PLAIN.get(type(type_), "object")


def _fields(type_: type[msgspec.Struct]) -> Sequence[inspect.Field]:
    info = inspect.type_info(type_)
    assert isinstance(info, inspect.StructType)
    return info.fields


def _default(member: inspect.Field, shipped: msgspec.Struct | None) -> str:
    value = member.default if shipped is None else getattr(shipped, member.name)
    if value is msgspec.NODEFAULT:
        value = member.default_factory()
    if isinstance(value, msgspec.Struct):
        value = {} if value == type(value)() else msgspec.to_builtins(value)
    value = msgspec.to_builtins(value, enc_hook=dict)
    if isinstance(value, bool):
        return f"`{json.dumps(value)}`"
    return "" if value in _BLANK else f"`{json.dumps(value) if not isinstance(value, str) else value}`"


def _range(number: inspect.IntType | inspect.FloatType) -> str:
    low = number.ge if number.ge is not None else number.gt
    high = number.le if number.le is not None else number.lt
    if low is None and high is None:
        return ""
    above = "above " if number.gt is not None else ""
    if high is None:
        return f", {above}{low}" if above else f", at least {low}"
    return f", at most {high}" if low is None else f", {above}{low} to {high}"


def escaped(text: str) -> str:
    """As one line of Markdown, also in a table's cell."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
