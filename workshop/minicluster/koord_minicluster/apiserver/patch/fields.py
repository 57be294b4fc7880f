"""Sets of fields, in the form in which managedFields keeps them (FieldsV1).

A set is a tree of dicts. A key is one step of a path: `f:name` a field, `k:{"name":"web"}` the list item with these
keys, `v:"x"` the item of a set with this value, `i:0` an index. A step belongs to the set if nothing lies below it
(`{}`) or if `.` does; else only what lies below it belongs. Sets are never changed once made: they share parts.

    {"f:spec": {"f:replicas": {}}, "f:metadata": {"f:labels": {".": {}, "f:app": {}}}}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from koord.api.machinery.short_cache import short_cache
from koord.api.text.whole_number import whole_number

Set = dict[str, Any]
Path = tuple[str, ...]

_INDEX: Final = re.compile("[+-]?[0-9]+", re.ASCII)


class MalformedFields(ValueError):
    """This is not FieldsV1."""


def is_member(node: Mapping[str, Any]) -> bool:
    """Whether the step that leads to this node belongs to the set itself."""
    return not node or "." in node


def _node(member: bool, below: Set) -> Set | None:
    if member:
        return {".": {}, **below} if below else {}
    return below or None


def union(one: Set, other: Set) -> Set:
    """What is in either."""
    if not one or not other:
        return one or other
    result = dict(one)
    for step, node in other.items():
        mine = result.get(step)
        if mine is None:
            result[step] = node
        elif mine is not node:
            result[step] = _joined(mine, node)
    return result


def _joined(one: Set, other: Set) -> Set:
    if not one:
        return other if not other or "." in other else {".": {}, **other}
    if not other:
        return one if "." in one else {".": {}, **one}
    return union(one, other)


def difference(one: Set, other: Set) -> Set:
    """What is in the first and not in the second. Taking away a field leaves what lies below it."""
    if not other:
        return one
    result: Set = {}
    for step, node in one.items():
        theirs = other.get(step)
        if theirs is None:
            result[step] = node
            continue
        if step == ".":
            continue
        member = is_member(node) and not is_member(theirs)
        if node and theirs:
            below = difference(node, theirs)
            below.pop(".", None)
        else:
            below = {key: child for key, child in node.items() if key != "."}
        kept = _node(member, below)
        if kept is not None:
            result[step] = kept
    return result


def without(one: Set, roots: Set) -> Set:
    """What is in the first and neither in the second nor below a member of it."""
    result: Set = {}
    for step, node in one.items():
        root = roots.get(step)
        if root is None:
            result[step] = node
        elif not is_member(root):
            below = without(node, root)
            member = not node or below.pop(".", None) is not None
            kept = _node(member, below)
            if kept is not None:
                result[step] = kept
    return result


def intersection(one: Set, other: Set) -> Set:
    """What is in both."""
    result: Set = {}
    for step, theirs in other.items():
        node = one.get(step)
        if node is None or step == ".":
            continue
        below = intersection(node, theirs) if node and theirs else {}
        kept = _node(is_member(node) and is_member(theirs), below)
        if kept is not None:
            result[step] = kept
    return result


def leaves(one: Set) -> Set:
    """The members with no member below them."""
    result: Set = {}
    for step, node in one.items():
        if step != ".":
            result[step] = leaves(node)
    return result


def contains(one: Set, path: Path) -> bool:
    node = one
    for step in path:
        child = node.get(step)
        if child is None:
            return False
        node = child
    return bool(path) and is_member(node)


def paths(one: Set, prefix: Path = ()) -> Iterator[Path]:
    """All members as paths: at each place first the members, then what lies below, in a fixed order."""
    steps = sorted((step for step in one if step != "."), key=_rank)
    for step in steps:
        if is_member(one[step]):
            yield (*prefix, step)
    for step in steps:
        yield from paths(one[step], (*prefix, step))


def from_paths(*members: Path) -> Set:
    """The set of these paths."""
    result: Set = {}
    for path in members:
        tree: Set = {}
        for step in reversed(path):
            tree = {step: tree}
        result = union(result, tree)
    return result


@short_cache(4096)
def _rank(step: str) -> tuple[int, Any]:
    kind = step[:2]
    if kind == "f:":
        return (1, step)
    if kind == "k:":
        fields = msgspec.json.decode(step[2:])
        return (2, [(name, value_rank(value)) for name, value in sorted(fields.items())])
    if kind == "v:":
        return (3, value_rank(msgspec.json.decode(step[2:])))
    return (4, whole_number(step[2:])) if kind == "i:" else (0, step)


def value_rank(value: Any) -> tuple[int, Any]:
    """Orders values of any type: numbers, strings, booleans, lists, maps, null."""
    if isinstance(value, bool):
        return (2, value)
    if isinstance(value, int | float):
        return (0, value)
    if isinstance(value, str):
        return (1, value)
    if isinstance(value, list):
        return (3, [value_rank(item) for item in value])
    if isinstance(value, dict):
        return (4, [(key, value_rank(item)) for key, item in sorted(value.items())])
    return (5, 0)


def field(name: str) -> str:
    return "f:" + name


def key(fields: Mapping[str, Any]) -> str:
    """The step to the list item with these keys."""
    return "k:" + _json({name: fields[name] for name in sorted(fields)})


def value(item: Any) -> str:
    """The step to an item of a set."""
    if item.__class__ is float and item.is_integer():
        item = int(item)
    return "v:" + _json(item)


def _json(item: Any) -> str:
    text = msgspec.json.encode(item).decode()
    if "<" in text or ">" in text or "&" in text:
        # Go's encoder escapes these, and steps are compared as texts.
        text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return text


def parse(raw: object) -> Set:
    """A set from JSON of others: steps in canonical form, unknown ones left out."""
    if not isinstance(raw, dict):
        raise MalformedFields(f"a field set must be an object, not {type(raw).__name__}")
    result: Set = {}
    for step, node in raw.items():
        if step == ".":
            result["."] = {}
            continue
        canonical = _canonical(step)
        if canonical is not None:
            result[canonical] = parse(node)
    return result


@short_cache(4096)
def _canonical(step: str) -> str | None:
    if len(step) < 2 or step[1] != ":":
        raise MalformedFields(f"missing colon: {step}")
    kind, rest = step[0], step[2:]
    try:
        if kind == "f":
            return step
        if kind == "k":
            return key(msgspec.json.decode(rest, type=dict[str, Any]))
        if kind == "v":
            return value(msgspec.json.decode(rest))
        if kind == "i":
            return f"i:{_index(rest)}"
    except (msgspec.MsgspecError, ValueError) as error:
        raise MalformedFields(f"{step}: {error}") from error
    return None


def _index(text: str) -> int:
    if not _INDEX.fullmatch(text):
        raise ValueError(f"not an index: {text[:40]}")
    return whole_number(text)


def show(path: Path) -> str:
    """A path as messages have it: `.spec.containers[name="web"].image`."""
    return "".join(map(_show_step, path))


@short_cache(4096)
def _show_step(step: str) -> str:
    kind, rest = step[:2], step[2:]
    if kind == "f:":
        return "." + rest
    if kind == "k:":
        fields = msgspec.json.decode(rest)
        return "[" + ",".join(f"{name}={show_value(fields[name])}" for name in sorted(fields)) + "]"
    return f"[={show_value(msgspec.json.decode(rest))}]" if kind == "v:" else f"[{rest}]"


def show_value(item: Any) -> str:
    if item is None:
        return "null"
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, str):
        return msgspec.json.encode(item).decode()
    if isinstance(item, list):
        return "[" + ",".join(map(show_value, item)) + "]"
    if isinstance(item, dict):
        return "".join(f"{name}={show_value(field_value)}" for name, field_value in item.items())
    return str(item)
