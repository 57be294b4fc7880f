"""Objects with conditions in them, as text for Helm.

`merged` combines two versions of an object: parts that only one of them has get a condition. `lines` prints the
result as YAML with `{{- if }}` around these parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from koord.api.text.yaml import dump


@dataclass(frozen=True, slots=True)
class If:
    """A value of a map, or an item of a list, with a condition."""

    condition: str
    part: object
    is_plain: bool = False
    "Whether the part is present by default, and a choice removes it."


def merged(first: object, second: object, condition: str) -> object:
    """`first`, or `second` if the condition holds. Values may be added or removed, not changed."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return _merged_maps(first, second, condition)
    if isinstance(first, list) and isinstance(second, list):
        return _merged_lists(first, second, condition)
    if first != second:
        raise ValueError(f"{first!r} becomes {second!r}, if {condition}: a template has no condition for that")
    return first


def _merged_maps(first: Mapping[str, object], second: Mapping[str, object], condition: str) -> dict[str, object]:
    both: dict[str, object] = {}
    for name, value in first.items():
        both[name] = _both(value, second[name], condition) if name in second else _only_first(value, condition)
    for name, value in second.items():
        if name not in both:
            both[name] = If(condition, value)
    return both


def _merged_lists(first: list[object], second: list[object], condition: str) -> list[object]:
    theirs = {_identity(item): item for item in second}
    both = [
        _both(item, theirs[_identity(item)], condition) if _identity(item) in theirs else _only_first(item, condition)
        for item in first
    ]
    identities = [_identity(item) for item in first]
    at = 0
    for item in second:
        if (identity := _identity(item)) in identities:
            at = identities.index(identity) + 1
            continue
        # After the items of earlier choices: choices keep the order of the list.
        while at < len(both) and isinstance(both[at], If) and identities[at] not in theirs:
            at += 1
        both.insert(at, If(condition, item))
        identities.insert(at, identity)
        at += 1
    return both


def _both(first: object, second: object, condition: str) -> object:
    if isinstance(first, If):
        if first.is_plain:
            return first
        return If(f"or ({first.condition}) ({condition})", first.part)
    return merged(first, second, condition)


def _only_first(value: object, condition: str) -> object:
    return value if isinstance(value, If) else If(f"not ({condition})", value, is_plain=True)


def _identity(item: object) -> object:
    """What identifies a list item across versions: its name, or the whole item."""
    item = item.part if isinstance(item, If) else item
    if isinstance(item, Mapping):
        return item["name"] if "name" in item else msgspec.json.encode(item, order="sorted")
    return item


def lines(part: object) -> list[str]:
    """The part as YAML in block style, with conditions."""
    if not _has_conditions(part):
        return _dumped(part)
    text_lines: list[str] = []
    if isinstance(part, Mapping):
        for name, value in part.items():
            if isinstance(value, If):
                text_lines += _under(value.condition, lines({name: value.part}))
            elif _has_conditions(value):
                inner = lines(value)
                text_lines += [f"{name}:", *(inner if isinstance(value, list) else _indented(inner))]
            else:
                text_lines += _dumped({name: value})
    elif isinstance(part, list):
        for item in part:
            if isinstance(item, If):
                text_lines += _under(item.condition, lines([item.part]))
            else:
                head, *rest = lines(item)
                text_lines += [f"- {head}", *_indented(rest)]
    return text_lines


def _dumped(part: object) -> list[str]:
    """Literal braces are written as a Helm expression that yields them."""
    return dump(part).replace("{{", '{{ "{{" }}').splitlines()


def _under(condition: str, inner: list[str]) -> list[str]:
    return [f"{{{{- if {condition} }}}}", *inner, "{{- end }}"]


def _indented(inner: list[str]) -> list[str]:
    return [f"  {line}" for line in inner]


def _has_conditions(part: object) -> bool:
    if isinstance(part, If):
        return True
    if isinstance(part, Mapping):
        return any(_has_conditions(value) for value in part.values())
    return isinstance(part, list) and any(_has_conditions(item) for item in part)
