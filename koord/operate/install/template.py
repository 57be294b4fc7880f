"""Objects with conditions in them, as text for Helm.

`merged` puts two versions of an object together: what only one of them has is there under a condition. `lines` prints
the result as YAML with `{{- if }}` around such parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from koord.api.text.yaml import dump


@dataclass(frozen=True, slots=True)
class If:
    """A value of a map, or an item of a list, that is there under a condition."""

    condition: str
    part: object
    is_plain: bool = False
    "Whether it is there without any choice, and a choice takes it away."


def merged(first: object, second: object, condition: str) -> object:
    """`first`, and `second` where the condition holds. Values may come and go, and not change."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return _merged_maps(first, second, condition)
    if isinstance(first, list) and isinstance(second, list):
        return _merged_lists(first, second, condition)
    if first != second:
        raise ValueError(f"{first!r} becomes {second!r}, if {condition}: a template has no condition for that")
    return first


def _merged_maps(first: Mapping[str, object], second: Mapping[str, object], condition: str) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in first.items():
        found[name] = _both(value, second[name], condition) if name in second else _only_first(value, condition)
    for name, value in second.items():
        if name not in found:
            found[name] = If(condition, value)
    return found


def _merged_lists(first: list[object], second: list[object], condition: str) -> list[object]:
    theirs = {_identity(each): each for each in second}
    found = [
        _both(each, theirs[_identity(each)], condition) if _identity(each) in theirs else _only_first(each, condition)
        for each in first
    ]
    known = [_identity(each) for each in first]
    at = 0
    for each in second:
        if (identity := _identity(each)) in known:
            at = known.index(identity) + 1
            continue
        # Behind what earlier choices have here: choices come in the order of the list.
        while at < len(found) and isinstance(found[at], If) and known[at] not in theirs:
            at += 1
        found.insert(at, If(condition, each))
        known.insert(at, identity)
        at += 1
    return found


def _both(first: object, second: object, condition: str) -> object:
    if isinstance(first, If):
        if first.is_plain:
            return first
        return If(f"or ({first.condition}) ({condition})", first.part)
    return merged(first, second, condition)


def _only_first(value: object, condition: str) -> object:
    return value if isinstance(value, If) else If(f"not ({condition})", value, is_plain=True)


def _identity(item: object) -> object:
    """What makes an item of a list the same one in another version: its name, or all of it."""
    item = item.part if isinstance(item, If) else item
    if isinstance(item, Mapping):
        return item["name"] if "name" in item else msgspec.json.encode(item, order="sorted")
    return item


def lines(part: object) -> list[str]:
    """As YAML in block style, conditions included."""
    if not _has_conditions(part):
        return _dumped(part)
    found: list[str] = []
    if isinstance(part, Mapping):
        for name, value in part.items():
            if isinstance(value, If):
                found += _under(value.condition, lines({name: value.part}))
            elif _has_conditions(value):
                inner = lines(value)
                found += [f"{name}:", *(inner if isinstance(value, list) else _indented(inner))]
            else:
                found += _dumped({name: value})
    elif isinstance(part, list):
        for item in part:
            if isinstance(item, If):
                found += _under(item.condition, lines([item.part]))
            else:
                head, *rest = lines(item)
                found += [f"- {head}", *_indented(rest)]
    return found


def _dumped(part: object) -> list[str]:
    """Braces that are no expression of Helm's are written as one that gives them."""
    return dump(part).replace("{{", '{{ "{{" }}').splitlines()


def _under(condition: str, inner: list[str]) -> list[str]:
    return [f"{{{{- if {condition} }}}}", *inner, "{{- end }}"]


def _indented(inner: list[str]) -> list[str]:
    return [f"  {each}" for each in inner]


def _has_conditions(part: object) -> bool:
    if isinstance(part, If):
        return True
    if isinstance(part, Mapping):
        return any(_has_conditions(each) for each in part.values())
    return isinstance(part, list) and any(_has_conditions(each) for each in part)
