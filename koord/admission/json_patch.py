"""The difference of two objects as a JSON patch (RFC 6902).

Parts that are the same object are not looked into, so that the cost is that of what has changed. Items of lists are
compared by their places.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from koord.admission.request import Json

Operations: TypeAlias = list[dict[str, Any]]


def difference(old: Json, new: Json) -> tuple[dict[str, Any], ...]:
    """Operations that turn `old` into `new`. Neither is changed."""
    operations: Operations = []
    _of_maps(old, new, "", operations)
    return tuple(operations)


def _of_maps(old: Json, new: Json, path: str, operations: Operations) -> None:
    for name, before in old.items():
        if name not in new:
            operations.append({"op": "remove", "path": f"{path}/{_escaped(name)}"})
            continue
        after = new[name]
        if after is not before:
            _of_values(before, after, f"{path}/{_escaped(name)}", operations)
    for name, after in new.items():
        if name not in old:
            operations.append({"op": "add", "path": f"{path}/{_escaped(name)}", "value": after})


def _of_lists(old: list[Any], new: list[Any], path: str, operations: Operations) -> None:
    for i, (before, after) in enumerate(zip(old, new, strict=False)):
        if after is not before:
            _of_values(before, after, f"{path}/{i}", operations)
    for after in new[len(old) :]:
        operations.append({"op": "add", "path": f"{path}/-", "value": after})
    # From the end, so that places stay what they are.
    for i in range(len(old) - 1, len(new) - 1, -1):
        operations.append({"op": "remove", "path": f"{path}/{i}"})


def _of_values(old: Any, new: Any, path: str, operations: Operations) -> None:
    if isinstance(old, dict) and isinstance(new, dict):
        if old and new and old.keys().isdisjoint(new):
            # Of which nothing is left is replaced whole, as the resources of a batch pod are.
            operations.append({"op": "replace", "path": path, "value": new})
        else:
            _of_maps(old, new, path, operations)
    elif isinstance(old, list) and isinstance(new, list):
        _of_lists(old, new, path, operations)
    elif type(old) is not type(new) or old != new:  # true is not 1, and 1 is not 1.0
        operations.append({"op": "replace", "path": path, "value": new})


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1") if "/" in name or "~" in name else name
