"""Strategic merge of a profile's patch into a pod: a merge that knows which lists are merged by a key.

Lists that the table below names are merged item by item, other lists are replaced, null deletes. Directives are
Kubernetes': `$patch: replace|delete`, `$retainKeys`, `$deleteFromPrimitiveList/x`, `$setElementOrder/x`.
In a merged list, items of the patch come in its order, the others where they stood.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from koord.admission.request import Json
from koord.api.machinery.faults import BadInput

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"


class PatchError(BadInput):
    """A patch that cannot be merged."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Which lists below an object are merged, and by which key; an empty key is for lists of plain values."""

    lists: Mapping[str, str] = field(default_factory=dict)
    below: Mapping[str, Shape] = field(default_factory=dict)


_META: Final = Shape({"ownerReferences": "uid", "finalizers": ""})
_CONTAINER: Final = Shape(
    {"env": "name", "ports": "containerPort", "volumeDevices": "devicePath", "volumeMounts": "mountPath"}
)
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
_VOLUME: Final = Shape(below={"ephemeral": Shape(below={"volumeClaimTemplate": Shape(below={"metadata": _META})})})
_POD_SPEC: Final = Shape(
    {
        **dict.fromkeys(_CONTAINERS, "name"),
        **dict.fromkeys(("volumes", "imagePullSecrets", "resourceClaims", "schedulingGates"), "name"),
        "hostAliases": "ip",
        "topologySpreadConstraints": "topologyKey",
    },
    {**dict.fromkeys(_CONTAINERS, _CONTAINER), "volumes": _VOLUME},
)
POD: Final = Shape(below={"metadata": _META, "spec": _POD_SPEC})
RESERVATION: Final = Shape(
    below={"metadata": _META, "spec": Shape(below={"template": Shape(below={"metadata": _META, "spec": _POD_SPEC})})}
)
_NO_SHAPE: Final = Shape()


def merged(obj: Json, patch: Json, shape: Shape) -> Json:
    """The object with the patch merged into it. Raises PatchError."""
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != _DIRECTIVE}
    if directive == "delete":
        return {}
    if directive is not None:
        raise PatchError(f"$patch must be replace or delete, not {directive!r}")
    result = dict(obj)
    if _RETAIN in patch:
        kept = _list(patch[_RETAIN], _RETAIN)
        result = {name: value for name, value in result.items() if name in kept}
    for name, value in patch.items():
        if name.startswith(_DELETE):
            _delete(result, name.removeprefix(_DELETE), _list(value, name))
        elif not name.startswith("$"):
            order = patch.get(_ORDER + name)
            _set(result, name, value, shape, None if order is None else _list(order, _ORDER + name))
    for name, order in patch.items():
        field_name = name.removeprefix(_ORDER)
        if field_name != name and field_name not in patch and isinstance(result.get(field_name), list):
            current = result[field_name]
            key = shape.lists.get(field_name, "")
            result[field_name] = _ordered(current, _list(order, name), current, key)
    return result


def _set(result: dict[str, Any], name: str, value: Any, shape: Shape, order: list[Any] | None) -> None:
    current = result.get(name)
    if value is None:
        result.pop(name, None)
    elif isinstance(value, Mapping) and isinstance(current, Mapping):
        result[name] = merged(current, value, shape.below.get(name, _NO_SHAPE))
    elif isinstance(value, list) and isinstance(current, list) and name in shape.lists:
        key = shape.lists[name]
        result[name] = _merged_list(current, value, key, shape.below.get(name, _NO_SHAPE), order)
    elif isinstance(value, Mapping) and _DIRECTIVE in value:
        result.pop(name, None)
    else:
        # A list that replaces another stands as it was written; all else is cleared of what only merging understands.
        result[name] = value if isinstance(value, list) and isinstance(current, list) else _plain(value)


def _plain(value: Any) -> Any:
    """Without nulls and directives, where there is nothing to merge with."""
    if isinstance(value, Mapping):
        kept = ((name, item) for name, item in value.items() if item is not None and not name.startswith("$"))
        return {name: _plain(item) for name, item in kept if not _directs(item)}
    if isinstance(value, list):
        return [_plain(item) for item in value if not _directs(item)]
    return value


def _directs(value: Any) -> bool:
    return isinstance(value, Mapping) and _DIRECTIVE in value


def _merged_list(current: list[Any], patch: list[Any], key: str, shape: Shape, order: list[Any] | None) -> list[Any]:
    if not key:
        whole = [*current, *(item for item in patch if item not in current)]
        return _ordered(list(dict.fromkeys(whole)), order if order is not None else patch, current, key)
    for item in patch:
        if not isinstance(item, Mapping) or (key not in item and item.get(_DIRECTIVE) != "replace"):
            raise PatchError(f"items of the list must be objects with {key}")
    if any(item.get(_DIRECTIVE) == "replace" for item in patch):
        return [item for item in patch if _DIRECTIVE not in item]
    gone = [item[key] for item in patch if item.get(_DIRECTIVE) == "delete"]
    whole = [item for item in current if item.get(key) not in gone]
    plain = [item for item in patch if _DIRECTIVE not in item]
    for item in plain:
        place = next((i for i, each in enumerate(whole) if each.get(key) == item[key]), None)
        if place is None:
            whole.append(item)
        else:
            whole[place] = merged(whole[place], item, shape)
    return _ordered(whole, order if order is not None else plain, current, key)


def _ordered(items: list[Any], order: list[Any], current: list[Any], key: str) -> list[Any]:
    """Items that the order names in that order, and the others among them where the list had them."""

    def place(item: Any, places: list[Any]) -> int:
        value = item.get(key) if key else item
        return places.index(value) if value in places else -1

    wanted = [item.get(key) if key else item for item in order]
    stood = [item.get(key) if key else item for item in current]
    named = sorted((item for item in items if place(item, wanted) >= 0), key=lambda item: place(item, wanted))
    others = [item for item in items if place(item, wanted) < 0]
    result: list[Any] = []
    while others and named:
        mine, theirs = place(others[0], stood), place(named[0], stood)
        result.append((others if 0 <= mine < theirs else named).pop(0))
    return result + named + others


def _delete(result: dict[str, Any], name: str, values: list[Any]) -> None:
    if isinstance(result.get(name), list):
        result[name] = [item for item in result[name] if item not in values]


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise PatchError(f"{name} must be a list")
    return value
