"""Objects compared, merged and cut by their schema: the ground of field ownership.

compare(plan, old, new)     which fields were removed, modified, added
field_set(plan, config)     the fields that a configuration sets
merged(plan, live, config)  the configuration laid over the live object
removed(plan, obj, set)     the object without these fields
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from koord.api.text import go_text
from koord_minicluster.apiserver.patch.fields import Set, is_member, show
from koord_minicluster.apiserver.patch.plan import Plan, Shape, Untyped

_ABSENT: Final = object()
_MOST_SHAPES: Final = 256
_MOST_NAMES: Final = 64
_LONGEST_NAMES: Final = 4096
"Characters of all names of a shape that is kept."


class Changes(NamedTuple):
    """Fields by what happened to them; no field is in two of the sets."""

    removed: Set
    modified: Set
    added: Set


def compare(plan: Plan, old: dict[str, Any], new: dict[str, Any]) -> Changes:
    """What differs between two objects of a kind. Raises Untyped if a list's item has no keys."""
    changes = Changes({}, {}, {})
    _compare_maps(plan, old, new, changes)
    return changes


def _compare_maps(plan: Plan, old: dict[str, Any], new: dict[str, Any], changes: Changes) -> None:
    fields = plan.fields
    both: Iterable[str] = new
    if len(old) * 4 < len(new):
        # Nearly all of it is new, as in an object that is created.
        _add(plan, old, new, changes)
        both = [name for name in old if name in new]
    for name in both:
        value, before = new[name], old.get(name, _ABSENT)
        if before is value:
            continue
        field = fields.get(name)
        step, below = field if field is not None else ("f:" + name, plan.below(name))
        # The interpreter's own comparison settles most of an object at once.
        if before == value and (not below.open or same(before, value)):
            continue
        _compare(below, step, before, value, changes)
    for name, value in old.items():
        if name not in new:
            field = fields.get(name)
            step, below = field if field is not None else ("f:" + name, plan.below(name))
            changes.removed[step] = whole(below, value)


def _add(plan: Plan, old: dict[str, Any], new: dict[str, Any], changes: Changes) -> None:
    """What is new in a map."""
    names = tuple([name for name in new if name not in old]) if old else tuple(new)
    node, deeper = shape(plan, names)
    changes.added.update(node)
    del changes.added["."]
    for name, step, below in deeper:
        if child := new[name]:
            changes.added[step] = whole(below, child)


def _compare(plan: Plan, step: str, old: Any, new: Any, changes: Changes) -> None:
    if old is _ABSENT:
        changes.added[step] = whole(plan, new)
        return
    if plan.leaf or (not old and not new):
        changes.modified[step] = {}
        return
    if plan.kind == "any":
        _compare_open(plan, step, old, new, changes)
        return
    below = Changes({}, {}, {})
    if plan.kind == "map":
        _compare_maps(plan, old or {}, new or {}, below)
    else:
        _compare_lists(plan, old or [], new or [], below)
    _attach(step, below, changes)


def equal(plan: Plan, one: Any, other: Any) -> bool:
    return one is other or (one == other and (not plan.open or same(one, other)))


def same(one: Any, other: Any) -> bool:
    """Whether values that Python holds to be equal are the same JSON: true is not 1, though 1.0 is."""
    if isinstance(one, dict):
        return all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return all(map(same, one, other))
    return isinstance(one, bool) == isinstance(other, bool)


def _attach(step: str, below: Changes, changes: Changes) -> None:
    for part, into in zip(below, changes, strict=True):
        if part:
            into[step] = part


def _compare_open(plan: Plan, step: str, old: Any, new: Any, changes: Changes) -> None:
    """Where the type is open it may itself have changed: what was below is gone, what is below is new."""
    before, after = plan.of(old), plan.of(new)
    if before is after and before.kind == "map":
        below = Changes({}, {}, {})
        _compare_maps(before, old, new, below)
        _attach(step, below, changes)
        return
    if isinstance(old, dict) and old:
        changes.removed[step] = {key: node for key, node in whole(before, old).items() if key != "."}
    if isinstance(new, dict) and new:
        changes.added[step] = {key: node for key, node in whole(after, new).items() if key != "."}
    if not (isinstance(old, dict) and new is None) and not (isinstance(new, dict) and old is None):
        changes.modified[step] = {}


def _compare_lists(plan: Plan, old: list[Any], new: list[Any], changes: Changes) -> None:
    before, after = _by_step(plan, old), _by_step(plan, new)
    item = plan.item
    for step, mine in after.items():
        theirs = before.get(step, ())
        if len(mine) == 1 and len(theirs) == 1:
            if not equal(item, theirs[0], mine[0]):
                _compare(item, step, theirs[0], mine[0], changes)
        elif len(mine) == 1:
            changes.added[step] = whole(item, mine[0])
            if theirs:
                changes.removed[step] = {}
        elif len(theirs) > 1:
            if mine != theirs:
                changes.modified[step] = {}
        else:
            # Items that share their keys are owned together, by the key alone.
            if theirs:
                changes.removed[step] = whole(item, theirs[0])
            changes.added[step] = {}
    for step, theirs in before.items():
        if step not in after:
            changes.removed[step] = whole(item, theirs[0]) if len(theirs) == 1 else {}


def _by_step(plan: Plan, items: list[Any]) -> dict[str, list[Any]]:
    by_step: dict[str, list[Any]] = {}
    for index, item in enumerate(items):
        try:
            step = plan.step(item)
        except Untyped as error:
            raise Untyped(f"element {index}: {error}") from None
        by_step.setdefault(step, []).append(item)
    return by_step


def whole(plan: Plan, value: Any) -> Set:
    """A value that appeared or went as a whole: itself and all below it."""
    if plan.leaf or not value:
        return {}
    if plan.kind == "map":
        names = tuple(value)
        node, deeper = plan.shapes.get(names) or shape(plan, names)
        if deeper:
            node = node.copy()
            for name, step, below in deeper:
                if child := value[name]:
                    node[step] = whole(below, child)
        return node
    if plan.kind == "list":
        return _whole_list(plan, value)
    return whole(plan.of(value), value)


def is_kept(names: tuple[str, ...]) -> bool:
    """Whether what is known of maps with these fields is kept: names come from outside, so that memory is bounded."""
    return len(names) <= _MOST_NAMES and sum(map(len, names)) <= _LONGEST_NAMES


def shape(plan: Plan, names: tuple[str, ...]) -> Shape:
    """The set of a map with just these fields, each as a leaf; and the fields that are none. Most maps of a kind have
    one of a few shapes, so these are kept."""
    if remembered := plan.shapes.get(names):
        return remembered
    node: Set = {".": {}}
    deeper = []
    for name in names:
        field = plan.fields.get(name)
        step, below = field if field is not None else ("f:" + name, plan.below(name))
        node[step] = {}
        if not below.leaf:
            deeper.append((name, step, below))
    made = (node, tuple(deeper))
    if is_kept(names):
        if len(plan.shapes) >= _MOST_SHAPES:
            plan.shapes.clear()
        plan.shapes[names] = made
    return made


def _whole_list(plan: Plan, value: list[Any]) -> Set:
    node: Set = {".": {}}
    below, step_of = plan.item, plan.step
    for index, item in enumerate(value):
        try:
            step = step_of(item)
        except Untyped as error:
            raise Untyped(f"element {index}: {error}") from None
        node[step] = {} if step in node or below.leaf else whole(below, item)
    return node


def field_set(plan: Plan, value: dict[str, Any]) -> Set:
    """The fields that a configuration sets: leaves, items, and the entries of maps with free keys."""
    result: Set = {}
    for name, child in value.items():
        field = plan.fields.get(name)
        step, below = field if field is not None else ("f:" + name, plan.below(name))
        node = _field_node(below, child)
        if field is None or child is None or (isinstance(child, dict) and not child):
            node = {".": {}, **node} if node else {}
        if node is not None:
            result[step] = node
    return result


def _field_node(plan: Plan, value: Any) -> Set | None:
    """What is set at and below a place; None if nothing is."""
    if plan.leaf:
        return {}
    if plan.kind == "any":
        plan = plan.of(value)
        if plan.leaf:
            return {}
    if not value:
        return None
    if plan.kind == "map":
        return field_set(plan, value) or None
    result: Set = {}
    for step, items in _by_step(plan, value).items():
        node = _field_node(plan.item, items[0]) if len(items) == 1 else None
        result[step] = {".": {}, **node} if node else {}
    return result


def named(plan: Plan | None, one: Set) -> Set:
    """The set with every declared field in it that leads to a member."""
    result: Set = {}
    for step, node in one.items():
        if step == "." or not node:
            result[step] = node
            continue
        declared = plan is not None and step.startswith("f:") and step[2:] in plan.fields
        below = named(_plan_below(plan, step), node)
        result[step] = {".": {}, **below} if declared and "." not in below else below
    return result


def _plan_below(plan: Plan | None, step: str) -> Plan | None:
    if plan is None:
        return None
    if step.startswith("f:") and plan.kind in ("map", "any"):
        field = plan.fields.get(step[2:])
        return field[1] if field is not None else plan.element
    return plan.item if step.startswith("k:") and plan.kind == "list" else None


def merged(plan: Plan, live: Any, config: Any) -> Any:
    """The configuration laid over the live value. Lists by key keep the live order where both leave room for it."""
    if config is _ABSENT:
        return live
    if live is _ABSENT or plan.leaf or (not live and not config):
        return config
    if plan.kind == "any":
        if not (isinstance(live, dict) and isinstance(config, dict)):
            return config
        plan = plan.of(config)
    if plan.kind == "map":
        result = dict(live or {})
        for name, child in (config or {}).items():
            before = result.get(name, _ABSENT)
            below = plan.below(name)
            if before is _ABSENT or not equal(below, before, child):
                result[name] = merged(below, before, child)
        return result
    return _merged_lists(plan, live or [], config or [])


def _merged_lists(plan: Plan, live: list[Any], config: list[Any]) -> list[Any]:
    before, after = _by_step(plan, live), _by_step(plan, config)
    for step, items in after.items():
        if len(items) > 1:
            raise Untyped(f"duplicate entries for key {step}")
    left = [plan.step(item) for item in live]
    right = list(after)
    shared = [step for step in right if step in before]
    shared.reverse()
    wanted = shared.pop() if shared else None
    done: set[str] = set()
    result: list[Any] = []

    def take(step: str) -> None:
        done.add(step)
        theirs = before.get(step, ())
        result.append(merged(plan.item, theirs[0] if len(theirs) == 1 else _ABSENT, after[step][0]))

    i = j = 0
    while i < len(left) or j < len(right):
        if i < len(left) and j < len(right):
            if left[i] == right[j]:
                take(left[i])
                i, j = i + 1, j + 1
                wanted = shared.pop() if shared else None
                continue
            if left[i] in after and wanted is not None and wanted != left[i]:
                # In both lists, but the other one wants it later.
                i += 1
                continue
        if i < len(left):
            if left[i] not in after:
                result.append(live[i])
                i += 1
                continue
            if left[i] in done:
                i += 1
        if j < len(right):
            step = right[j]
            take(step)
            j += 1
            if wanted == step:
                wanted = shared.pop() if shared else None
    return result


def removed(plan: Plan, value: Any, gone: Set) -> Any:
    """The value without these fields; None where nothing of it is left."""
    if plan.kind == "any":
        plan = plan.of(value)
    if plan.kind == "scalar":
        return value
    if plan.atomic or not value:
        return None
    if plan.kind == "map" and isinstance(value, dict):
        result = {}
        for name, child in value.items():
            node = gone.get("f:" + name)
            if node is None:
                result[name] = child
            elif not is_member(node):
                result[name] = removed(plan.below(name), child, node)
        return result or None
    if plan.kind == "list" and isinstance(value, list):
        kept = []
        for item in value:
            node = gone.get(plan.step(item))
            if node is None:
                kept.append(item)
            elif not is_member(node):
                kept.append(removed(plan.item, item, node))
        return kept or None
    return None


def without_nulls(plan: Plan, value: Any) -> Any:
    """The value without nulls where the schema does not allow them: on the server they stand for nothing."""
    if isinstance(value, dict) and plan.kind in ("map", "any") and not plan.atomic:
        plan = plan.of(value)
        result: dict[str, Any] = {}
        for name, child in value.items():
            below = plan.below(name)
            if child is None:
                if below.nullable or (below.kind == "any" and plan.kind == "any"):
                    result[name] = None
            elif isinstance(child, dict | list):
                result[name] = without_nulls(below, child)
            else:
                result[name] = child
        return result
    if isinstance(value, list) and plan.kind == "list" and not plan.atomic:
        return [without_nulls(plan.item, item) for item in value]
    return value


def reconciled(plan: Plan, one: Set) -> Set:
    """A set from when the schema may have been another: what is owned as a whole today is owned as a whole."""
    if plan.kind not in ("map", "list"):
        return one
    result: Set = {}
    for step, node in one.items():
        below = _plan_below(plan, step) if step != "." and node else None
        if below is None or below.kind not in ("map", "list"):
            result[step] = node
        else:
            result[step] = {} if below.atomic else reconciled(below, node)
    return result


def check(plan: Plan, value: dict[str, Any]) -> None:
    """Raises Untyped with every fault of a configuration's shape."""
    faults: list[str] = []
    _check(plan, value, "", faults)
    if faults:
        raise Untyped(*faults)


def _check(plan: Plan, value: Any, path: str, faults: list[str]) -> None:
    prefix = f"{path}: " if path else ""
    if value is None or plan.kind == "any":
        return
    if plan.kind == "scalar":
        fault = _scalar_fault(plan.scalar, value)
        if fault:
            faults.append(prefix + fault)
    elif plan.kind == "map":
        if not isinstance(value, dict):
            faults.append(f"{prefix}expected map, got &{{{go_text.plain(value)}}}")
            return
        for name, child in value.items():
            field = plan.fields.get(name)
            below = field[1] if field is not None else plan.element
            if below is None:
                faults.append(f"{path}.{name}: field not declared in schema")
                return
            if child is not None and not (below.kind == "scalar" and below.scalar == "string" and type(child) is str):
                _check(below, child, f"{path}.{name}", faults)
    elif not isinstance(value, list):
        faults.append(f"{prefix}expected list, got &{{{go_text.plain(value)}}}")
    else:
        _check_list(plan, value, path, faults)


def _check_list(plan: Plan, value: list[Any], path: str, faults: list[str]) -> None:
    prefix = f"{path}: " if path else ""
    seen: set[str] = set()
    for index, item in enumerate(value):
        if plan.atomic:
            shown = f"[{index}]"
        else:
            try:
                step = plan.step(item)
            except Untyped as error:
                faults.append(f"{prefix}element {index}: {error}")
                return
            shown = show((step,))
            if step in seen:
                faults.append(f"{prefix}duplicate entries for key {shown}")
            seen.add(step)
        _check(plan.item, item, path + shown, faults)


def _scalar_fault(wanted: str, value: Any) -> str:
    if wanted == "numeric" and (isinstance(value, bool) or not isinstance(value, int | float)):
        return f"expected numeric (int or float), got {go_text.type_name(value)}"
    if wanted == "string" and not isinstance(value, str):
        return f"expected string, got &value.valueUnstructured{{Value:{go_text.literal(value)}}}"
    if wanted == "boolean" and not isinstance(value, bool):
        return f"expected boolean, got &{{{go_text.plain(value)}}}"
    if isinstance(value, dict | list):
        return f"expected any scalar, got &{{{go_text.plain(value)}}}"
    return ""
