"""The fields that a new object sets, which its creator owns.

A creator owns all values it sends beyond those of an empty object. No code reads the set before it is stored, so the
part below its first levels is written as text at once, from one template per shape of a map: half the cost of building
a tree and encoding it. `merging.compare` returns the same set as a tree, and `expand` turns the text into one.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from koord.api.machinery.short_cache import short_cache
from koord_minicluster.apiserver.patch import fields, merging
from koord_minicluster.apiserver.patch.fields import Set
from koord_minicluster.apiserver.patch.plan import Plan, Untyped, Write
from koord_minicluster.apiserver.resource import Obj

_LEAF: Final = "{}"
_MOST_TEMPLATES: Final = 256


def added(plan: Plan, empty: dict[str, Any], new: dict[str, Any]) -> Set:
    """The fields of a map that differ from the empty one. Raises Untyped if a list's item has no keys."""
    leaves, deeper = merging.shape(plan, tuple(new))
    result = leaves.copy()
    del result["."]
    for name, before in empty.items():
        if name in new and merging.equal(plan.below(name), before, new[name]):
            del result[fields.field(name)]
    for name, step, below in deeper:
        value = new[name]
        if name not in empty:
            if value:
                result[step] = msgspec.Raw(_writer(below)(value).encode())
        elif step in result and (value or empty[name]):
            if node := _changed(plan, below, step, empty[name], value):
                result[step] = node
            else:
                del result[step]
    return result


def _changed(plan: Plan, below: Plan, step: str, empty: Any, new: Any) -> Set | None:
    """What is set below a field that every object of the kind has."""
    if below.kind == "map":
        return added(below, empty or {}, new or {})
    if below.kind == "list" and not empty:
        return {name: msgspec.Raw(text.encode()) for name, text in _items(below, new).items()}
    changes = merging.compare(plan, {step[2:]: empty}, {step[2:]: new})
    return fields.union(changes.modified, changes.added).get(step)


def _writer(plan: Plan) -> Write:
    """Writes the set of a whole value: the value and all fields below it, as `merging.whole` lists them."""
    write = plan.write
    if write is None:
        match plan.kind:
            case "map":
                write = _map_writer(plan)
            case "list":
                write = _list_writer(plan)
            case _:
                write = _open_writer(plan)
        plan.write = write
    return write


def _map_writer(plan: Plan) -> Write:
    templates: dict[tuple[str, ...], tuple[list[str], list[tuple[int, str, Write]]]] = {}

    def template(names: tuple[str, ...]) -> tuple[list[str], list[tuple[int, str, Write]]]:
        leaves, deeper = merging.shape(plan, names)
        below = {step: (name, _writer(plan)) for name, step, plan in deeper}
        pieces, places, fixed = list[str](), list[tuple[int, str, Write]](), ["{"]
        for step in leaves:
            fixed.append(f"{_quoted(step)}:")
            if step in below:
                pieces.append("".join(fixed))
                places.append((len(pieces), *below[step]))
                pieces.append(_LEAF)
                fixed = [","]
            else:
                fixed.append(f"{_LEAF},")
        pieces.append("".join(fixed)[:-1] + "}")
        if merging.is_kept(names):
            if len(templates) >= _MOST_TEMPLATES:
                templates.clear()
            templates[names] = (pieces, places)
        return pieces, places

    def write(value: dict[str, Any]) -> str:
        names = tuple(value)
        pieces, places = templates.get(names) or template(names)
        if not places:
            return pieces[0]
        pieces = pieces.copy()
        for at, name, below in places:
            if child := value[name]:
                pieces[at] = below(child)
        return "".join(pieces)

    return write


def _list_writer(plan: Plan) -> Write:
    def write(items: list[Any]) -> str:
        pieces = [f"{_quoted(step)}:{text}" for step, text in _items(plan, items).items()]
        return '{".":{},' + ",".join(pieces) + "}"

    return write


def _open_writer(plan: Plan) -> Write:
    def write(value: Any) -> str:
        fitting = plan.of(value)
        return _LEAF if fitting.leaf else _writer(fitting)(value)

    return write


def _items(plan: Plan, items: list[Any]) -> dict[str, str]:
    """A list's items, by the steps to them."""
    result: dict[str, str] = {}
    step_of, below = plan.step, None if plan.item.leaf else _writer(plan.item)
    for index, item in enumerate(items):
        try:
            step = step_of(item)
        except Untyped as error:
            raise Untyped(f"element {index}: {error}") from None
        # Items that share their keys are owned together, by the key alone.
        result[step] = _LEAF if below is None or not item or step in result else below(item)
    return result


@short_cache(4096)
def _quoted(step: str) -> str:
    return msgspec.json.encode(step).decode()


def expand(obj: Obj) -> None:
    """Decodes the creator's field sets from text into trees, for code that reads them."""
    for owner in (obj.get("metadata") or {}).get("managedFields") or ():
        if _has_text(owned := owner.get("fieldsV1")):
            owner["fieldsV1"] = msgspec.json.decode(msgspec.json.encode(owned))


def _has_text(node: Any) -> bool:
    return node.__class__ is msgspec.Raw or (node.__class__ is dict and any(map(_has_text, node.values())))
