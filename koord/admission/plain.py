"""Plain data, changed without changing it: what a rule returns shares with its input all that it left alone.

Therefore an input is never changed, and the difference of the two is found by looking only where they are not the same
object. Absent and null are the same here, as in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from koord.admission.request import Json

NOTHING: Final[Json] = {}


def part(obj: Json, *path: str) -> Json:
    """The object at a path; empty where there is none."""
    for name in path:
        below = obj.get(name)
        if not isinstance(below, dict):
            return NOTHING
        obj = below
    return obj


def with_part(obj: Json, value: Json, *path: str) -> Json:
    """The object with another value at a path, where objects on the way are made as needed."""
    name, *rest = path
    if rest:
        value = with_part(part(obj, name), value, *rest)
    return {**obj, name: value}


def labels_of(obj: Json) -> Mapping[str, str]:
    return part(obj, "metadata", "labels")


def annotations_of(obj: Json) -> Mapping[str, str]:
    return part(obj, "metadata", "annotations")


def with_annotation(obj: Json, key: str, text: str) -> Json:
    return with_part(obj, {**annotations_of(obj), key: text}, "metadata", "annotations")


def with_containers(pod: Json, field: str, change: Callable[[int, Json], Json]) -> Json:
    """The pod with its containers (or initContainers) changed one by one; the same object where none is."""
    spec = part(pod, "spec")
    before: list[Any] = spec.get(field) or []
    after = [change(i, container) for i, container in enumerate(before)]
    if all(new is old for new, old in zip(after, before, strict=True)):
        return pod
    return with_part(pod, {**spec, field: after}, "spec")
