"""What our decoding, pruning, defaulting and validation make of the bodies, in the form of the recorded answers."""

from __future__ import annotations

from functools import cache

import msgspec

from koord.api.machinery.object_schema import Schema
from koord_minicluster.apiserver import structural
from koord_minicluster.apiserver.bodies import decoding, typed
from koord_minicluster.apiserver.builtin.resources import builtin_resources
from koord_minicluster.apiserver.custom.kinds import custom_schema
from koord_minicluster.apiserver.metadata import faults_of_object
from koord_minicluster.apiserver.registry import Registry
from koord_minicluster.apiserver.resource import Obj, Resource, Strategy
from koord_minicluster.apiserver.status import Cause, StatusError
from tests.minicluster.apiserver.bodies import builtin, custom
from tests.minicluster.apiserver.bodies.record import Json, without_times


@cache
def registry() -> Registry:
    return Registry(builtin_resources())


def resource_at(path: str) -> Resource:
    parts = path.strip("/").split("/")
    group, version = ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])
    resource = registry().find(group, version, parts[-1])
    assert resource is not None, path
    return resource


def widgets(schema: Schema) -> Resource:
    strategy = Strategy(name_fault=None)
    return Resource("bodies.io", "v1", "widgets", "Widget", True, schema, strategy=strategy, custom=True)


def refusal(error: StatusError) -> Json:
    if error.code == 422:
        return {"causes": comparable(error.causes)}
    return {"code": error.code, "reason": error.reason, "message": error.message}


def comparable(causes: tuple[Cause, ...] | list[Cause]) -> list[list[str]]:
    return sorted([cause.field, cause.reason, cause.message] for cause in causes)


def as_bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def decoded(body: builtin.Body, validation: str) -> Json:
    try:
        _, warnings = decoding.decode(resource_at(body.path), as_bytes(body.text), body.content_type, validation)
    except StatusError as error:
        return refusal(error)
    return {"warnings": warnings}


def kept(body: builtin.Body) -> Json:
    resource = resource_at(body.path)
    obj, _ = decoding.decode(resource, as_bytes(body.text), body.content_type, "Strict")
    typed.settle(resource.schema, obj)
    return without_times(obj)


def created(text: str, validation: str) -> Json:
    resource = widgets(custom_schema(custom.SCHEMA))
    try:
        obj, warnings = decoding.decode(resource, text.encode(), "application/json", validation)
    except StatusError as error:
        return {**refusal(error), **({"warnings": []} if error.code == 422 else {})}
    structural.default(resource.schema, obj)
    obj.pop("status", None)
    causes = [*faults_of_object(obj, resource), *structural.validate(resource.schema, obj)]
    if causes:
        return {"causes": comparable(causes), "warnings": warnings}
    return {"object": without_times(obj), "warnings": warnings}


def changed(schema: Json, before: Json, after: Json) -> list[list[str]]:
    compiled = custom_schema({"type": "object", "properties": {"spec": schema}})
    head: Obj = {"apiVersion": "bodies.io/v1", "kind": "Widget", "metadata": {"name": "a"}}
    return comparable(structural.validate(compiled, {**head, "spec": after}, {**head, "spec": before}))


def defined(definition: Json) -> Json:
    resource = resource_at("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    body = msgspec.json.encode(definition)
    try:
        obj, warnings = decoding.decode(resource, body, "application/json", "Warn")
    except StatusError as error:
        return refusal(error)
    strategy = resource.strategy
    structural.default(resource.schema, obj)
    strategy.default(obj)
    strategy.prepare_create(obj)
    causes = [*faults_of_object(obj, resource), *strategy.validate(obj), *strategy.validate_create(obj)]
    warnings += strategy.warnings(obj)
    if causes:
        return {"causes": comparable(causes), "warnings": []}
    return {"object": without_times(obj), "warnings": warnings}
