"""Lists as tables and as bare metadata: what `kubectl get` asks for.

The server always computes the columns of `-o wide` too; they have a priority above 0, and the client leaves them out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from koord_minicluster.apiserver.printing import DEFAULT_COLUMNS
from koord_minicluster.apiserver.resource import Column, Obj, Resource

_LIST_META: Final = ("resourceVersion", "continue", "remainingItemCount", "selfLink")
_FIELD_ANNOTATIONS: Final = {("apps/v1", "DaemonSet"): "deprecated.daemonset.template.generation"}
_FINISHED: Final = {
    "Succeeded": "The pod has completed successfully.",
    "Failed": "The pod failed.",
}


def columns(resource: Resource) -> tuple[Column, ...]:
    return resource.strategy.columns or DEFAULT_COLUMNS


def table(
    resource: Resource,
    objs: Iterable[Obj],
    now_s: float,
    include_object: str = "Metadata",
    meta_version: str = "v1",
    list_meta: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A Table of these objects. Without `list_meta` it is the table of one object, and has that object's version."""
    shown = columns(resource)
    rows: list[dict[str, Any]] = []
    meta: dict[str, Any] = {}
    if list_meta is not None:
        meta = {key: list_meta[key] for key in _LIST_META if list_meta.get(key) is not None}
    for obj in objs:
        row: dict[str, Any] = {"cells": [column.cell(obj, now_s) for column in shown]}
        if resource.kind == "Pod" and (conditions := _completed(obj)):
            row["conditions"] = conditions
        row["object"] = included(obj, include_object, meta_version)
        rows.append(row)
        if list_meta is None:
            meta["resourceVersion"] = obj["metadata"].get("resourceVersion", "")
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{meta_version}",
        "metadata": meta,
        "columnDefinitions": column_definitions(resource),
        "rows": rows,
    }


def column_definitions(resource: Resource) -> list[dict[str, Any]]:
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in columns(resource)
    ]


def included(obj: Obj, include_object: str, meta_version: str) -> object:
    """What a row holds beside its cells."""
    match include_object:
        case "None":
            return None
        case "Object":
            return obj
        case _:
            return partial(obj, meta_version)


def partial(obj: Obj, meta_version: str = "v1") -> dict[str, Any]:
    """An object without all but its metadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{meta_version}",
        "metadata": _shown_metadata(obj),
    }


def _shown_metadata(obj: Obj) -> Obj:
    """The metadata, without an annotation that represents a field of an older version."""
    meta: Obj = obj["metadata"]
    hidden = _FIELD_ANNOTATIONS.get((obj.get("apiVersion", ""), obj.get("kind", "")))
    annotations = meta.get("annotations") or {}
    if hidden not in annotations:
        return meta
    kept = {key: value for key, value in annotations.items() if key != hidden}
    without = {key: value for key, value in meta.items() if key != "annotations"}
    return {**without, "annotations": kept} if kept else without


def _completed(pod: Obj) -> list[dict[str, str]]:
    phase = (pod.get("status") or {}).get("phase", "")
    if phase not in _FINISHED:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _FINISHED[phase]}]
