"""Fields of an object that its kind does not have, as a strict API server would refuse them.

For the command line, which reads manifests without a server. Built-in kinds are judged by the same schemas as requests
are, koord's own kinds by their definitions; of other kinds nothing is known. The definition of Reservation leaves its
pod template open; here it is judged by the schema of pod templates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from koord.api import builtin_schemas as schemas
from koord.api import kinds
from koord.api.machinery.faults import Fault, unknown_field
from koord.api.machinery.object_schema import Schema
from koord.api.machinery.openapi_schema import from_openapi
from koord.api.machinery.schema import resource_schema
from koord.api.machinery.struct import Struct
from koord.api.machinery.unknown_fields import unknown_with_valid


def misnamed_fields(data: Mapping[str, Any]) -> list[Fault]:
    """One fault for each unknown field, with the nearest valid name. `data` has an apiVersion and a kind."""
    schema = _schema_of(data["apiVersion"], data["kind"])
    if schema is None:
        return []
    return [unknown_field(path, valid) for path, valid in unknown_with_valid(schema, data)]


@cache
def _schema_of(api_version: str, kind: str) -> Schema | None:
    group, _, version = api_version.rpartition("/")
    try:
        return schemas.schema_for(group, version, kind)
    except KeyError:
        pass
    kind_of_name = kinds.find(api_version, kind)
    if kind_of_name is None:
        return None
    schema = _own_schema(kind_of_name.type)
    if kind_of_name is kinds.RESERVATIONS:
        return _with(schema, ("spec", "template"), _pod_template())
    if kind_of_name is kinds.POD_MIGRATION_JOBS:
        reserved = _with(_own_schema(kinds.RESERVATIONS.type), ("spec", "template"), _pod_template())
        return _with(schema, ("spec", "reservationOptions", "template"), reserved)
    return schema


def _own_schema(type_: type[Struct]) -> Schema:
    return _with(from_openapi(resource_schema(type_)), ("metadata",), schemas.object_meta())


def _pod_template() -> Schema:
    return schemas.builtin(schemas.POD_TEMPLATE)


def _with(schema: Schema, path: tuple[str, ...], part: Schema) -> Schema:
    """A schema with another one for the field at a path."""
    if not path:
        return part
    name, *rest = path
    return replace(schema, properties={**schema.properties, name: _with(schema.properties[name], tuple(rest), part)})
