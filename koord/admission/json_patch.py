"""The difference of two objects as a JSON patch (RFC 6902).

Parts that are the same object are not looked into, so that the cost is that of what has changed. Items of lists are
compared by their places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from koord.admission.request import Json


def difference(old: Json, new: Json) -> tuple[dict[str, Any], ...]:
    """Operations that make `new` of `old`. Both stay as they are."""
    return tuple(_of_maps(old, new, ""))


def _of_maps(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[dict[str, Any]]:
    for name, before in old.items():
        at = f"{path}/{_escaped(name)}"
        if name not in new:
            yield {"op": "remove", "path": at}
        else:
            yield from _of_values(before, new[name], at)
    for name, after in new.items():
        if name not in old:
            yield {"op": "add", "path": f"{path}/{_escaped(name)}", "value": after}


def _of_lists(old: list[Any], new: list[Any], path: str) -> Iterator[dict[str, Any]]:
    for i, (before, after) in enumerate(zip(old, new, strict=False)):
        yield from _of_values(before, after, f"{path}/{i}")
    for after in new[len(old) :]:
        yield {"op": "add", "path": f"{path}/-", "value": after}
    # From the end, so that places stay what they are.
    for i in range(len(old) - 1, len(new) - 1, -1):
        yield {"op": "remove", "path": f"{path}/{i}"}


def _of_values(old: Any, new: Any, path: str) -> Iterator[dict[str, Any]]:
    if old is new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        yield from _of_maps(old, new, path)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _of_lists(old, new, path)
    elif type(old) is not type(new) or old != new:  # true is not 1, and 1 is not 1.0
        yield {"op": "replace", "path": path, "value": new}


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1") if "/" in name or "~" in name else name
