"""Strategic merge patch: a merge patch that knows which lists merge by a key, and has directives.

Lists whose schema says `merge` are merged item by item (by the merge key, or as sets of scalars), other lists are
replaced, null deletes. `$patch: delete|replace` deletes or replaces a map or an item,
`$deleteFromPrimitiveList/<field>` takes scalars out of a list, `$setElementOrder/<field>` orders a merged list,
`$retainKeys` drops all other keys of a map.

The API server merges what clients send, admission merges the patches of profiles. Results and messages are the real
server's. A schema without a name may leave fields open (`preserve_unknown`): there a field that it does not list
merges as what it is, maps key by key, and lists are replaced.
"""

from __future__ import annotations

from bisect import bisect_right
from heapq import heappop, heappush
from itertools import compress
from typing import Any, Final, Literal, TypeAlias

import msgspec

from koord.api.machinery.faults import BadInput
from koord.api.machinery.object_schema import Schema
from koord.api.text import go_text

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE: Final = "$deleteFromPrimitiveList"
_ORDER: Final = "$setElementOrder"

_BAD_DELETE_LIST: Final = "invalid patch format of primitive list"
_BAD_RETAIN_KEYS: Final = "invalid patch format of retainKeys"
_BAD_ORDER_LIST: Final = "invalid patch format of setElementOrder list"

Map: TypeAlias = dict[str, Any]

Cause: TypeAlias = Literal["malformed", "unprocessable", "failed"]
"""`malformed`: it is no patch; `unprocessable`: no list can hold this; `failed`: it does not fit the object."""


class MergeError(BadInput):
    """A patch that cannot be merged."""

    def __init__(self, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.cause = cause


def apply(doc: Map, patch: object, schema: Schema) -> Map:
    """The document with the patch merged into it; neither is changed. Raises MergeError."""
    if patch is None:
        return dict(doc)
    if not isinstance(patch, dict):
        raise _malformed(go_text.not_into(patch))
    try:
        return _merged_map(doc, patch, schema)
    except RecursionError:
        raise _malformed(go_text.TOO_DEEP) from None


def _merged_map(original: Map, patch: Map, schema: Schema) -> Map:
    if _DIRECTIVE in patch:
        return _directed(patch)
    result = dict(original)
    rest = dict(patch)
    if _RETAIN in rest:
        _retain(result, rest, rest.pop(_RETAIN))
    for key in [key for key in rest if key.startswith(_ORDER)]:
        _merge_in_order(result, rest, key, schema)
    for key, value in rest.items():
        deleting = key.startswith(_DELETE)
        if deleting:
            key = _after_slash(key, _BAD_DELETE_LIST)
        if value is None:
            result.pop(key, None)
        elif key not in result:
            if not deleting:
                _put(result, key, _without_nulls(value))
        else:
            _merge_field(result, key, value, schema, deleting)
    return result


def _merge_field(result: Map, key: str, value: Any, schema: Schema, deleting: bool) -> None:
    current = result[key]
    if isinstance(current, dict) and isinstance(value, dict):
        below = _field(schema, key)
        result[key] = value if _strategy(below) == "replace" else _merged_map(current, value, below)
    elif isinstance(current, list) and isinstance(value, list):
        below = _list_field(schema, key)
        if deleting or _strategy(below) == "merge":
            result[key] = _merged_list(current, value, below, deleting)
        else:
            result[key] = value
    elif not deleting:
        _put(result, key, _without_nulls(value) if type(current) is not type(value) else value)


def _directed(patch: Map) -> Map:
    directive = patch[_DIRECTIVE]
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if directive == "delete":
        return {}
    raise _failed(f"unknown patch type: {go_text.plain(directive)} in map: {go_text.plain(patch)}")


def _put(result: Map, key: str, value: Any) -> None:
    """Sets a value that has nothing to merge with; what holds a directive is left out."""
    if isinstance(value, dict) and _DIRECTIVE in value:
        result.pop(key, None)
    else:
        result[key] = _without_directives(value)


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_directives(item) for key, item in value.items() if not _is_directive(item)}
    if isinstance(value, list):
        return [_without_directives(item) for item in value if not _is_directive(item)]
    return value


def _is_directive(value: Any) -> bool:
    return isinstance(value, dict) and _DIRECTIVE in value


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _retain(result: Map, patch: Map, keys: Any) -> None:
    if not isinstance(keys, list):
        raise _malformed(_BAD_RETAIN_KEYS)
    kept = {key for key in keys if isinstance(key, str)}
    for key, value in patch.items():
        if value is not None and not key.startswith((_DELETE, _ORDER)) and key not in kept:
            raise _malformed(_BAD_RETAIN_KEYS)
    for key in [key for key in result if key not in kept]:
        del result[key]


def _merge_in_order(result: Map, patch: Map, directive: str, schema: Schema) -> None:
    """Merges the list that a `$setElementOrder` names, and orders it; takes both from the patch."""
    order = patch.pop(directive)
    if not isinstance(order, list):
        raise _bad_type("[]interface {}", order)
    key = _after_slash(directive, _BAD_ORDER_LIST)
    current, wanted = result.get(key), patch.get(key)
    for is_there, where in ((key in result, current), (key in patch, wanted)):
        if is_there and not isinstance(where, list):
            raise _bad_type("[]interface {}", where)
    below = _list_field(schema, key)
    merge_key = below.patch_merge_key
    _check_order(wanted or [], order, merge_key)
    if wanted is None:
        if current is None:
            return
        merged = current
    elif current is None:
        merged = _without_directives(wanted)
    elif _strategy(below) == "merge":
        merged = _merged_list(current, wanted, below, False)
    else:
        merged = wanted
    named, others = _parted(merged, order, merge_key)
    is_map = _element_is_map(current or [], wanted or [])
    if is_map and not merge_key:
        raise _failed("cannot order lists without merge key for struct")
    if is_map and current and wanted and _strategy(below) == "merge":
        current = _left_behind(current, wanted, merge_key)
    result[key] = _in_order(named, others, order, current or [], merge_key if is_map else "")
    patch.pop(key, None)


def _left_behind(current: list[Any], patch: list[Any], merge_key: str) -> list[Any]:
    """The live list as merging leaves it on the real server, which orders by it.

    Items move up into the places of deleted ones, and new items take the places that become free at the end: an item
    that is deleted and one that is added in the same patch look like a renamed one.
    """
    kept, freed = _deleted(current, [item[merge_key] for item in patch if item.get(_DIRECTIVE) == "delete"], merge_key)
    if any(item.get(_DIRECTIVE) == "replace" for item in patch):
        return kept + freed
    index = _Index(kept, merge_key)
    room = len(freed)
    for item in patch:
        if not room:
            break
        if _DIRECTIVE not in item and index.find(item[merge_key]) is None:
            index.add(item[merge_key], len(kept))
            kept.append(item)
            room -= 1
    return kept + freed[len(freed) - room :]


def _deleted(items: list[Any], keys: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """The items without those of some keys, and what is left in the places that become free at the end: with each item
    that goes, the others move up, and the last one also stays where it was."""
    places: dict[Any, list[int]] = {}
    for place, item in enumerate(items):
        if merge_key in item:
            places.setdefault(_hashable(item[merge_key]), []).append(place)
    gone, freed, last = set[int](), list[Any](), len(items) - 1
    for key in keys:
        for place in places.pop(_hashable(key), ()):
            freed.append(items[last])
            gone.add(place)
            while last in gone:
                last -= 1
    return [item for place, item in enumerate(items) if place not in gone], freed[::-1]


def _check_order(wanted: list[Any], order: list[Any], merge_key: str) -> None:
    """The items of the patch must be among the ordered ones, in the same order."""
    if not wanted or not order:
        return
    kept = wanted
    if merge_key:
        for item in wanted:
            if not isinstance(item, dict):
                raise _bad_type("map[string]interface {}", item)
        kept = [item for item in wanted if item.get(_DIRECTIVE) != "delete"]
    place = 0
    for target in order:
        while place < len(kept) and _is_directive(kept[place]):
            place += 1
        if place < len(kept) and _same_key(kept[place], target, merge_key):
            place += 1
    while place < len(kept) and _is_directive(kept[place]):
        place += 1
    if place < len(kept):
        listed, ordered = go_text.plain(wanted), go_text.plain(order)
        raise _failed(f"The order in patch list:\n{listed}\n doesn't match {_ORDER} list:\n{ordered}\n")


def _same_key(one: Any, other: Any, merge_key: str) -> bool:
    if not merge_key:
        return bool(one == other)
    for item in (one, other):
        if not isinstance(item, dict):
            raise _bad_type("map[string]interface {}", item)
        if merge_key not in item:
            raise _no_merge_key(item, merge_key)
    return bool(one[merge_key] == other[merge_key])


def _merged_list(current: list[Any], patch: list[Any], schema: Schema, deleting: bool) -> list[Any]:
    if not current and not patch:
        return current
    if not _element_is_map(current, patch):
        if deleting:
            taken = set(map(_hashable, patch))
            return [item for item in current if _hashable(item) not in taken]
        merged = _deduplicated([*current, *patch])
        named, others = _parted(merged, patch, "")
        return _in_order(named, others, patch, current, "")
    merge_key = schema.patch_merge_key
    if not merge_key:
        raise _failed("cannot merge lists without merge key for struct")
    current, patch = _with_special_items(current, patch, merge_key)
    merged = list(current)
    index = _Index(merged, merge_key)
    for item in patch:
        if merge_key not in item:
            raise _no_merge_key(item, merge_key)
        place = index.find(item[merge_key])
        if place is None:
            index.add(item[merge_key], len(merged))
            merged.append(item)
        else:
            if item[merge_key] is None:
                # The null takes the key away.
                index.forget(None)
            merged[place] = _merged_map(merged[place], item, schema.items or _NO_SCHEMA)
    named, others = _parted(merged, patch, merge_key)
    return _in_order(named, others, patch, current, merge_key)


def _with_special_items(current: list[Any], patch: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """Carries out the items that are directives: deletions, or the replacement of the whole list."""
    plain, replacing = [], False
    deleted = set[Any]()
    for item in patch:
        if _DIRECTIVE not in item:
            plain.append(item)
            continue
        directive = item[_DIRECTIVE]
        if directive == "delete":
            if merge_key not in item:
                raise _no_merge_key(item, merge_key)
            deleted.add(_hashable(item[merge_key]))
        elif directive == "replace":
            replacing = True
        elif directive == "merge":
            raise _failed("merging lists cannot yet be specified in the patch")
        else:
            raise _failed(f"unknown patch type: {go_text.plain(directive)} in map: {go_text.plain(item)}")
    if replacing:
        return plain, []
    if deleted:
        current = [item for item in current if merge_key not in item or _hashable(item[merge_key]) not in deleted]
    return current, plain


def _parted(items: list[Any], by: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """The items that a list names, and the others."""
    if not merge_key:
        listed = set(map(_hashable, by))
        is_named = [_hashable(item) in listed for item in items]
        return list(compress(items, is_named)), [item for item, is_ in zip(items, is_named, strict=True) if not is_]
    named: list[Any] = []
    others: list[Any] = []
    index = _Index(by, merge_key)
    for item in items:
        if not isinstance(item, dict):
            raise _bad_type("map[string]interface {}", item)
        if merge_key not in item:
            raise _no_merge_key(item, merge_key)
        (others if index.find(item[merge_key]) is None else named).append(item)
    return named, others


def _in_order(named: list[Any], others: list[Any], order: list[Any], current: list[Any], merge_key: str) -> list[Any]:
    """Items of the patch in their order, with the others put among them as the live list has them."""
    right, left = _sorted_by(named, order, merge_key), _sorted_by(others, current, merge_key)
    places = _Places(current, merge_key)
    result: list[Any] = []
    i = j = 0
    while i < len(left) and j < len(right):
        mine, theirs = places(left[i]), places(right[j])
        if mine >= 0 and theirs >= 0 and mine < theirs:
            result.append(left[i])
            i += 1
        else:
            result.append(right[j])
            j += 1
    return result + right[j:] + left[i:]


def _sorted_by(items: list[Any], order: list[Any], merge_key: str) -> list[Any]:
    deleted: list[Any] = []
    if merge_key:
        for item in (*items, *order):
            if not isinstance(item, dict):
                raise _bad_type("map[string]interface {}", item)
            if merge_key not in item:
                raise _no_merge_key(item, merge_key)
        deleted = [item for item in items if item.get(_DIRECTIVE) == "delete"]
        items = [item for item in items if item.get(_DIRECTIVE) != "delete"]
    place_of = _Places(order, merge_key)
    # As an insertion sort would have it, which is what the real server does: items that the order does not name have no
    # place that a comparison could tell, and go before all existing items; others go behind the last that is not
    # behind them, or before all. `following` links the items, by their numbers; the first follows -1.
    following: dict[int, int] = {-1: -1}
    placed: list[tuple[int, int]] = []
    for number, item in enumerate(items):
        place, before = place_of(item), -1
        if place >= 0:
            at = bisect_right(placed, (place, number))
            if at:
                before = placed[at - 1][1]
            placed.insert(at, (place, number))
        following[number], following[before] = following[before], number
    result: list[Any] = []
    number = following[-1]
    while number >= 0:
        result.append(items[number])
        number = following[number]
    return result + deleted


class _Places:
    """Where an item stands in a list, by merge key or value; -1 where it does not."""

    def __init__(self, items: list[Any], merge_key: str) -> None:
        self._merge_key = merge_key
        self._places: dict[Any, int] = {}
        for place, item in enumerate(items):
            value = item if not merge_key else item.get(merge_key) if isinstance(item, dict) else None
            self._places.setdefault(_hashable(value), place)

    def __call__(self, item: Any) -> int:
        return self._places.get(_hashable(item.get(self._merge_key) if self._merge_key else item), -1)


class _Index:
    """Where the first item with a value of the merge key stands in a list."""

    def __init__(self, items: list[Any], merge_key: str) -> None:
        self._places: dict[Any, int] = {}
        self._wrong = -1
        for place, item in enumerate(items):
            if not isinstance(item, dict):
                self._wrong = place
                break
            if merge_key in item:
                self.add(item[merge_key], place)

    def add(self, value: Any, place: int) -> None:
        self._places.setdefault(_hashable(value), place)

    def forget(self, value: Any) -> None:
        self._places.pop(_hashable(value), None)

    def find(self, value: Any) -> int | None:
        place = self._places.get(_hashable(value))
        if place is None and self._wrong >= 0:
            raise _failed(f"value for key {self._wrong} is not a map")
        return place


def _hashable(value: Any) -> Any:
    """Equal for values that are equal, and fit for a set."""
    if isinstance(value, dict | list):
        return (_hashable, msgspec.json.encode(value, order="sorted"))
    return value


def _deduplicated(items: list[Any]) -> list[Any]:
    """Each value once. A repeated one gives its place to the last of the list, which the real server's order shows."""
    places: dict[Any, list[int]] = {}
    for place, item in enumerate(items):
        places.setdefault(_hashable(item), []).append(place)
    i = 0
    while i < len(items):
        value = _hashable(items[i])
        repeated = places[value]
        while repeated:
            place = heappop(repeated)
            if i < place < len(items) and _hashable(items[place]) == value:
                last = items.pop()
                if place < len(items):
                    items[place] = last
                    heappush(places[_hashable(last)], place)
        i += 1
    return items


def _element_is_map(*lists: list[Any]) -> bool:
    first: type | None = None
    for items in lists:
        for item in items:
            if isinstance(item, list):
                raise MergeError("unprocessable", "the server rejected our request due to an error in our request")
            if first is None:
                first = type(item)
            elif type(item) is not first:
                raise _failed(f"list element types are not identical: {go_text.plain(list(lists))}")
    if first is None:
        raise _failed("no elements in any of the given slices")
    return first is dict


def _field(schema: Schema, key: str) -> Schema:
    """The schema of a struct's field. The real server knows no way to merge maps below maps with free keys."""
    property_schema = schema.properties.get(key)
    if property_schema is None:
        for name, inner in schema.properties.items():
            if name.lower() == key.lower():
                return inner
        if schema.preserve_unknown and not schema.ref:
            return _OPEN
        if schema.values is not None:
            raise _failed("merging an object in json but data type is not struct, instead is: map")
        name = schema.ref.rpartition(".")[2]
        raise _failed(f'unable to find api field in struct {name} for the json field "{key}"')
    return property_schema


def _list_field(schema: Schema, key: str) -> Schema:
    field_schema = _field(schema, key)
    if field_schema.type != "array" and field_schema is not _OPEN:
        raise _failed("expected slice or array type, but got: struct")
    return field_schema


def _strategy(schema: Schema) -> str:
    return next((strategy for strategy in schema.patch_strategies if strategy != "retainKeys"), "")


def _after_slash(key: str, fault: str) -> str:
    directive, slash, rest = key.partition("/")
    if not slash or directive not in (_DELETE, _ORDER):
        raise _malformed(fault)
    return rest


_NO_SCHEMA: Final = Schema()
_OPEN: Final = Schema(preserve_unknown=True)


def _malformed(message: str) -> MergeError:
    return MergeError("malformed", message)


def _failed(message: str) -> MergeError:
    return MergeError("failed", message)


def _no_merge_key(item: Any, merge_key: str) -> MergeError:
    return _failed(f"map: {go_text.plain(item)} does not contain declared merge key: {merge_key}")


def _bad_type(wanted: str, value: Any) -> MergeError:
    return _failed(f"expected a {wanted}, but received a {go_text.type_name(value)}")
