"""Patches: read from a request, and what they make of an object read as if it had been sent whole.

What is wrong with the outcome is a fault of the patch: 422 with the patch, or what it made, as the invalid value.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from koord.api import builtin_schemas as schemas
from koord.api.machinery.unknown_fields import unknown_fields
from koord.api.text.go_format import go_float, go_quoted
from koord_minicluster.apiserver import structural
from koord_minicluster.apiserver.bodies import decoding, json_text, typed
from koord_minicluster.apiserver.bodies.json_text import JsonFault, Pairs
from koord_minicluster.apiserver.resource import Obj, Resource
from koord_minicluster.apiserver.status import Cause, StatusError, bad_request, unprocessable

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
_OPERATION_FIELDS: Final = ("op", "path", "from", "value")


class Patch(NamedTuple):
    media_type: str
    value: Any
    faults: list[str]
    "Fields that it gives twice, or that an operation does not have."


def read(body: bytes, media_type: str) -> Patch:
    """The patch in a body."""
    prefix = "" if media_type == STRATEGIC_PATCH else "error decoding patch: "
    try:
        loaded, repeats = json_text.loads_untyped(body)
    except JsonFault as fault:
        raise bad_request(f"{prefix}{fault}") from None
    is_list = media_type == JSON_PATCH
    if loaded is None and media_type == MERGE_PATCH:
        raise bad_request("Invalid JSON Patch")
    value: Any = ([] if is_list else {}) if loaded is None else loaded
    if not isinstance(value, list if is_list else dict):
        kind = {list: "array", dict: "object", str: "string", bool: "bool"}.get(type(value), "number")
        go_type = "[]handlers.jsonPatchOp" if is_list else "map[string]interface {}"
        raise bad_request(f"{prefix}json: cannot unmarshal {kind} into Go value of type {go_type}")
    faults = _repeated(json_text.loads_pairs(body), "") if repeats else []
    if is_list:
        unknown = [
            f'unknown field "[{i}].{key}"'
            for i, operation in enumerate(value)
            if isinstance(operation, dict)
            for key in operation
            if key not in _OPERATION_FIELDS
        ]
        faults = [f"json patch {fault}" for fault in [*faults, *unknown]]
    return Patch(media_type, value, faults)


def outcome(
    resource: Resource, obj: Obj, patch: Patch, field_validation: str, stored: Obj | None = None
) -> tuple[Obj, list[str]]:
    """The typed object that results from a patch of a stored object, and warnings. May change `obj`."""
    # Keep a copy only where `obj` may change.
    sent = msgspec.json.encode(obj, order="sorted") if resource.custom else b""
    try:
        if resource.custom:
            unknown = sorted(_coerced(resource, obj))
            result = obj
        else:
            _check_kind(resource, obj, patch)
            result, has_unknown = typed.read_changed(resource.schema, obj, stored)
            result["kind"], result["apiVersion"] = resource.kind, resource.api_version
            unknown = sorted(unknown_fields(resource.schema, obj)) if has_unknown else []
    except typed.Mistyped as wrong:
        sent = sent or msgspec.json.encode(obj)
        raise refused(sent, patch, wrong.converting() if patch.media_type == STRATEGIC_PATCH else str(wrong)) from None
    except structural.BadEmbedded as wrong:
        raise refused(sent, patch, str(wrong)) from None
    faults = [*patch.faults, *(f'unknown field "{path}"' for path in unknown)]
    if not faults or field_validation == "Ignore":
        return result, []
    if field_validation == "Strict":
        raise refused(sent or msgspec.json.encode(obj), patch, f"strict decoding error: {', '.join(faults)}")
    return result, faults


def _check_kind(resource: Resource, obj: Obj, patch: Patch) -> None:
    """Checks the kind, except for a strategic merge, where the kind is not read."""
    kind, api_version = obj.get("kind"), obj.get("apiVersion")
    if patch.media_type == STRATEGIC_PATCH or (kind, api_version) == (resource.kind, resource.api_version):
        return
    group, _, version = str(api_version or resource.api_version).rpartition("/")
    if why := decoding.unregistered(group, version, str(kind or resource.kind)):
        raise refused(msgspec.json.encode(obj), patch, why)
    # The result is read as the kind that it names.
    typed.read(schemas.schema_for(group, version, str(kind or resource.kind)), obj)


def _coerced(resource: Resource, obj: Obj) -> list[str]:
    if obj.get("kind") != resource.kind:
        cause = Cause("kind", "FieldValueInvalid", f'Invalid value: "{obj.get("kind", "")}": must be {resource.kind}')
        name = (obj.get("metadata") or {}).get("name", "")
        raise unprocessable(str(obj.get("kind", "")), resource.group, name, [cause])
    return decoding.coerce(resource, obj)


def refused(sent: bytes, patch: Patch, why: str) -> StatusError:
    shown = _printed(patch.value) if patch.media_type == STRATEGIC_PATCH else sent.decode()
    return unprocessable("", "", "", [Cause("patch", "FieldValueInvalid", f"Invalid value: {go_quoted(shown)}: {why}")])


def _printed(value: Any) -> str:
    """A value as Go prints one that has no type of its own."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case float():
            return go_float(value)
        case dict():
            return f"map[{' '.join(f'{key}:{_printed(value[key])}' for key in sorted(value))}]"
        case list():
            return f"[{' '.join(_printed(item) for item in value)}]"
    return str(value)


def _repeated(value: object, path: str) -> list[str]:
    repeats: list[str] = []
    if isinstance(value, Pairs):
        seen: set[str] = set()
        for key, item in value:
            where = f"{path}.{key}" if path else key
            if key in seen and f'duplicate field "{where}"' not in repeats:
                repeats.append(f'duplicate field "{where}"')
            seen.add(key)
            repeats += _repeated(item, where)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            repeats += _repeated(item, f"{path}[{i}]")
    return repeats
