"""The strategies at work as in a server, without one: what a create or an update comes to."""

from __future__ import annotations

import copy
import json
import re
from functools import cache

from koord.api import builtin_schemas as schemas
from koord_minicluster.apiserver import structural
from koord_minicluster.apiserver.bodies import typed
from koord_minicluster.apiserver.builtin import STRATEGIES
from koord_minicluster.apiserver.builtin.resources import builtin_resources
from koord_minicluster.apiserver.builtin.service_allocation import ServiceAllocator
from koord_minicluster.apiserver.metadata import faults_of_any_change, faults_of_change, faults_of_object
from koord_minicluster.apiserver.resource import Resource
from koord_minicluster.apiserver.status import Cause
from tests.minicluster.apiserver.builtin.case import CLUSTER_WIDE, PATHS, Case, Obj, merged
from tests.minicluster.apiserver.builtin.record import named, without_times

NOW = "2026-01-02T03:04:05Z"


def resource_of(obj: Obj) -> Resource:
    version, kind = obj["apiVersion"], obj["kind"]
    group, _, bare = version.rpartition("/")
    made = Resource(
        group,
        bare,
        PATHS[version, kind],
        kind,
        kind not in CLUSTER_WIDE,
        schemas.schema_for(group, bare, kind),
        strategy=STRATEGIES[group, kind],
    )
    return ServiceAllocator().at_work(made) if kind == "Service" else made


def read(resource: Resource, obj: Obj) -> Obj:
    typed_obj: Obj = typed.read(resource.schema, copy.deepcopy(obj))[0]
    structural.default(resource.schema, typed_obj)
    resource.strategy.default(typed_obj)
    return typed_obj


def create(resource: Resource, obj: Obj) -> tuple[Obj, list[Cause], list[str]]:
    strategy = resource.strategy
    new = read(resource, obj)
    meta = new["metadata"]
    if resource.namespaced:
        meta["namespace"] = "cases"
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = meta["generateName"] + "abcde"
    meta["uid"], meta["creationTimestamp"] = "uid", NOW
    if strategy.has_generation:
        meta["generation"] = 1
    if begun := [*strategy.begin(new, None, False)]:
        return new, begun, []
    strategy.prepare_create(new)
    causes = [*faults_of_object(new, resource), *strategy.validate(new), *strategy.validate_create(new)]
    typed.settle(resource.schema, new)
    if strategy.when_read is not None:
        strategy.when_read(new)
    return json.loads(json.dumps(new)), causes, _warnings(resource, new) if not causes else []


def update(resource: Resource, old: Obj, wanted: Obj, subresource: str) -> tuple[Obj, list[Cause], list[str]]:
    strategy = resource.strategy
    new = read(resource, wanted)
    if subresource == "status":
        for part in {*new, *old} - {"metadata", "status"}:
            _take(new, old, part)
        strategy.prepare_status(new, old)
        causes = [
            *faults_of_any_change(new, old, resource),
            *faults_of_change(new, old, resource, of_status=True),
            *strategy.validate_status(new, old),
        ]
    else:
        if strategy.has_status:
            _take(new, old, "status")
        strategy.prepare_update(new, old)
        if begun := [*strategy.begin(new, old, False)]:
            return new, begun, []
        aside = {"metadata", "status"} if strategy.has_status else {"metadata"}
        if strategy.has_generation and _but(new, aside) != _but(old, aside):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        causes = [
            *faults_of_any_change(new, old, resource),
            *faults_of_change(new, old, resource),
            *faults_of_object(new, resource),
            *strategy.validate(new),
            *strategy.validate_update(new, old),
        ]
    warned = not causes and not subresource and strategy.warns_again(new, old)
    typed.settle(resource.schema, new)
    return new, causes, _warnings(resource, new) if warned else []


def _warnings(resource: Resource, obj: Obj) -> list[str]:
    served = next(each for each in _served() if (each.group, each.kind) == (resource.group, resource.kind))
    return [*filter(None, [served.deprecation]), *resource.strategy.warnings(obj)]


@cache
def _served() -> tuple[Resource, ...]:
    return tuple(builtin_resources())


def _take(new: Obj, old: Obj, part: str) -> None:
    if part in old:
        new[part] = copy.deepcopy(old[part])
    else:
        new.pop(part, None)


def _but(obj: Obj, aside: set[str]) -> Obj:
    return {key: value for key, value in obj.items() if key not in aside}


def answer(case: Case, number: int) -> Obj:
    resource = resource_of(case.obj)
    obj, causes, warnings = create(resource, named(case.obj, number))
    if case.change is not None:
        assert not causes, causes
        if case.before is not None:
            obj, causes, _ = update(resource, obj, merged(obj, case.before), "status")
            assert not causes, causes
        obj, causes, warnings = update(resource, obj, merged(obj, case.change), case.subresource)
    if causes:
        listed = [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
        return {"code": 422, "reason": "Invalid", "causes": comparable(listed)}
    whole: Obj = {"code": 201 if case.change is None else 200, "object": without_times(obj)}
    return {**whole, "warnings": warnings} if warnings else whole


_STRUCTURE = re.compile(r"^(Invalid value|Duplicate value): [\[{].*[\]}](: |$)", re.DOTALL)


def comparable(causes: list[Obj]) -> list[Obj]:
    """Causes without what differs for a reason: their order, where the real server's follows a Go map; structures that
    it prints with the names of Go's fields; the difference of two specs that it prints in Go's syntax."""
    kept = []
    for cause in causes:
        # A generated name is another each time.
        message = re.sub(r'"A-[a-z0-9]{5}"', '"A-"', cause["message"])
        message = _STRUCTURE.sub(r"\1: <structure>\2", message).partition("\n")[0]
        kept.append({"field": cause.get("field", ""), "reason": cause["reason"], "message": message})
    return sorted(kept, key=lambda each: (each["field"], each["reason"], each["message"]))
