"""NAME/scale: the number of replicas of any kind that has one, read and written apart from the rest of the object."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from koord.api import builtin_schemas as schemas
from koord.api.machinery.codec import convert
from koord.api.text.selector import NOTHING, LabelSelector, compile_labels
from koord_minicluster.apiserver import tables
from koord_minicluster.apiserver.bodies import decoding, patched, typed
from koord_minicluster.apiserver.http import Request, json_answer
from koord_minicluster.apiserver.list_options import query_flag
from koord_minicluster.apiserver.objects import Context, Objects
from koord_minicluster.apiserver.patch import json_patch, managed_fields, merge_patch, scale_fields
from koord_minicluster.apiserver.printing import AGE
from koord_minicluster.apiserver.resource import Column, Obj, Resource, Strategy
from koord_minicluster.apiserver.status import (
    MODIFIED,
    conflict,
    internal_error,
    invalid,
    object_not_found,
    unprocessable,
)
from koord_minicluster.apiserver.verbs import check_name, context_of
from koord_minicluster.apiserver.wire.answers import Answer

SCALE = Resource(
    "autoscaling",
    "v1",
    "scales",
    "Scale",
    namespaced=True,
    schema=schemas.schema_for("autoscaling", "v1", "Scale"),
    strategy=Strategy(
        columns=(
            Column("Name", "string", lambda scale, _now_s: scale["metadata"]["name"]),
            Column("Desired", "integer", lambda scale, _now_s: scale["spec"].get("replicas", 0)),
            Column("Available", "integer", lambda scale, _now_s: scale["status"]["replicas"]),
            AGE,
        )
    ),
)
"""For its table and its schema: a Scale is never stored."""


class Scales:
    """The handler."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    async def scale(self, request: Request, resource: Resource) -> Answer:
        """get, update and patch of NAME/scale: the number of replicas, for any kind that has one."""
        info = request.info
        entry = self._objects.collection(resource).get(resource.key(info.namespace, info.name))
        if entry is None:
            raise object_not_found(resource.plural, resource.group, info.name)
        if info.verb == "get":
            return _shown(request, scale_of(resource, msgspec.json.decode(entry.value)))
        context, body = context_of(request), await request.body()
        written = await self._objects.update(
            resource,
            info.namespace,
            info.name,
            lambda live: self._scaled(request, resource, live, body, context),
            context,
            subresource="scale",
            tracked=True,
        )
        return _shown(request, scale_of(resource, msgspec.json.decode(written.value)))

    def _scaled(self, request: Request, resource: Resource, live: Obj, body: bytes, context: Context) -> Obj:
        """The object with the replicas, and the owners of the replicas, that a write to its Scale gives it."""
        info, entries = request.info, live["metadata"].get("managedFields")
        mappings = scale_fields.mappings_of({resource.api_version: _replicas_path(resource)})
        before = scale_of(resource, live, needs_replicas=False)
        if owned := scale_fields.to_scale(entries, mappings):
            before["metadata"]["managedFields"] = owned
        after = self._scale_after(request, before, body, context)
        check_name(after, info.name, info.namespace)
        replicas = (after.get("spec") or {}).get("replicas", 0)
        # A custom object is held to its own schema instead.
        if replicas < 0 and not resource.custom:
            cause = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
            raise unprocessable("Scale", "autoscaling", info.name, [cause])
        version = (after.get("metadata") or {}).get("resourceVersion")
        if version and version != live["metadata"]["resourceVersion"]:
            raise conflict(resource.plural, resource.group, info.name, MODIFIED)
        owners = scale_fields.from_scale(
            entries, after["metadata"].get("managedFields"), resource.api_version, mappings
        )
        live["metadata"]["managedFields"] = owners
        _put_at(live, tuple(_replicas_path(resource).strip(".").split(".")), replicas)
        return live

    def _scale_after(self, request: Request, before: Obj, body: bytes, context: Context) -> Obj:
        content_type = request.content_type.partition(";")[0].strip()
        schema = SCALE.schema
        now = self._objects.now()
        if request.info.verb == "patch" and content_type == "application/apply-patch+yaml":
            applied = decoding.decode_any(body, "application/yaml")
            force = query_flag(request.query, "force")
            return managed_fields.apply(
                before,
                applied,
                manager=context.manager,
                force=force,
                schema=schema,
                api_version="autoscaling/v1",
                now=now,
                subresource="scale",
                kind="Scale",
            )
        if request.info.verb == "update":
            after, _ = decoding.decode_kind("autoscaling", "v1", "Scale", body, request.content_type)
        else:
            after = _patched(before, patched.read(body, content_type))
        after.setdefault("metadata", {})
        managed_fields.track(
            before,
            after,
            manager=context.manager,
            operation_api_version="autoscaling/v1",
            schema=schema,
            now=now,
            subresource="scale",
        )
        return after


def _shown(request: Request, scale: Obj) -> Answer:
    form = request.form
    if form.shape != "table":
        return json_answer(scale)
    return json_answer(tables.table(SCALE, [scale], time.time(), meta_version=form.meta_version))


def _patched(before: Obj, patch: patched.Patch) -> Obj:
    if patch.media_type == patched.JSON_PATCH:
        after: Obj = json_patch.apply(before, patch.value)
    else:
        after = merge_patch.apply(before, patch.value)
    try:
        obj: Obj = typed.read(SCALE.schema, after)[0]
    except typed.Mistyped as wrong:
        raise patched.refused(msgspec.json.encode(after), patch, str(wrong)) from None
    return obj


def scale_of(resource: Resource, obj: Obj, *, needs_replicas: bool = True) -> Obj:
    """The Scale that an object shows. A custom object without replicas shows none, but can be given some."""
    meta = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    spec: Obj = {}
    replicas = _get_at(obj, _path(resource, "specReplicas", ".spec.replicas"))
    if replicas is None and resource.custom and needs_replicas:
        raise internal_error(f'the spec replicas field "{_replicas_path(resource)}" does not exist')
    if replicas:
        spec["replicas"] = replicas
    status: Obj = {"replicas": _get_at(obj, _path(resource, "statusReplicas", ".status.replicas")) or 0}
    if selector := _selector_text(resource, obj):
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: meta[key] for key in kept if key in meta},
        "spec": spec,
        "status": status,
    }


def _selector_text(resource: Resource, obj: Obj) -> str:
    if resource.custom:
        path = resource.scale_paths.get("labelSelector")
        text = _get_at(obj, tuple(path.strip(".").split("."))) if path else ""
        return text if isinstance(text, str) else ""
    selector = obj["spec"].get("selector")
    if selector is None:
        return ""
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        selector = {"matchLabels": selector}
    return str(compile_labels(convert(LabelSelector, selector), absent=NOTHING))


def _replicas_path(resource: Resource) -> str:
    return resource.scale_paths.get("specReplicas", ".spec.replicas")


def _path(resource: Resource, name: str, fallback: str) -> tuple[str, ...]:
    return tuple(resource.scale_paths.get(name, fallback).strip(".").split("."))


def _get_at(obj: Obj, path: tuple[str, ...]) -> Any:
    value: Any = obj
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _put_at(obj: Obj, path: tuple[str, ...], value: object) -> None:
    for part in path[:-1]:
        obj = obj.setdefault(part, {})
    obj[path[-1]] = value
