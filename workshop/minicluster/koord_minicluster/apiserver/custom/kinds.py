"""Custom resources: what a CustomResourceDefinition defines, and how it comes to be served.

A definition is accepted when no other of its group has its names, and established right after; from then on each of its
served versions is a `Resource`. While it is being deleted, its objects can be removed but not created. All pure: the
loop that stores what is decided here is in `definitions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import msgspec

from koord.api import builtin_schemas as schemas
from koord.api.machinery.object_schema import Schema
from koord.api.machinery.openapi_schema import from_openapi
from koord.api.text.go_format import go_float
from koord_minicluster.apiserver import printing, structural
from koord_minicluster.apiserver.custom.definition_checks import definition_faults, format_warnings, is_true
from koord_minicluster.apiserver.custom.json_path import JsonPathError, compile_path, lookup, simple_path
from koord_minicluster.apiserver.discovery import by_priority
from koord_minicluster.apiserver.resource import Column, MetadataChecks, Obj, Resource, Strategy
from koord_minicluster.apiserver.status import Cause, StatusError, invalid

GROUP: Final = "apiextensions.k8s.io"
CLEANUP_FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"
_STANDARD_FINALIZERS: Final = ("orphan", "foregroundDeletion", "kubernetes")
_LARGEST_REPLICAS: Final = (1 << 31) - 1
_STRING: Final = Schema(type="string")


def default_definition(crd: Obj) -> None:
    spec = crd.get("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind", "")
    if not names.get("singular") and kind:
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = f"{kind}List"
    spec.setdefault("conversion", {"strategy": "None"})
    if "status" in crd and not crd["status"].get("storedVersions"):
        _store_version(crd)
    service = ((spec["conversion"].get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)


def _prepare_create(crd: Obj) -> None:
    crd["status"] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": None}
    _store_version(crd)


def _prepare_update(crd: Obj, _old: Obj) -> None:
    _store_version(crd)


def _store_version(crd: Obj) -> None:
    """Remember each version in which objects were ever stored."""
    stored = list(crd["status"].get("storedVersions") or ())
    storage = next((version["name"] for version in crd["spec"].get("versions") or () if version.get("storage")), None)
    if storage is not None and storage not in stored:
        crd["status"] = {**crd["status"], "storedVersions": [*stored, storage]}


def _begin_deletion(crd: Obj) -> None:
    meta = crd["metadata"]
    # What the request says of dependents waits until the definition's own objects are gone.
    kept = [name for name in meta.get("finalizers") or () if name not in ("orphan", "foregroundDeletion")]
    meta["finalizers"] = [*kept, CLEANUP_FINALIZER]
    # A definition has no grace period, and its deletion does not change the kinds it defines.
    meta.pop("deletionGracePeriodSeconds", None)
    meta["generation"] = max(1, int(meta.get("generation", 1)) - 1)
    status = crd.get("status") or {}
    reason, message = (
        "InstanceDeletionPending",
        ("CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"),
    )
    since = meta.get("deletionTimestamp", "")
    conditions = with_condition(status.get("conditions") or (), "Terminating", "True", reason, message, since)
    crd["status"] = {**status, "conditions": conditions}


STRATEGY: Final = Strategy(
    default=default_definition,
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
    validate_create=definition_faults,
    validate_update=definition_faults,
    warnings=format_warnings,
    columns=(printing.NAME, printing.CREATED_AT),
    unconditional_update=False,
    awaits=lambda crd: not crd["metadata"].get("deletionTimestamp"),
    checks_preconditions_first=True,
    on_deletion=_begin_deletion,
)
"""Of CustomResourceDefinitions themselves."""


def settled(crd: Obj, others: Iterable[Obj], now: str) -> Obj | None:
    """A definition with its names accepted (or not) and established, or None where nothing changes."""
    spec, status = crd["spec"], crd.get("status") or {}
    accepted, conflict = _accepted_names(spec["names"], status.get("acceptedNames") or {}, others, spec["group"])
    conditions = list(status.get("conditions") or ())
    if conflict is None:
        conditions = with_condition(conditions, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now)
    else:
        conditions = with_condition(conditions, "NamesAccepted", "False", *conflict, now)
    if not is_true(crd, "Established"):
        message = "the initial names have been accepted" if conflict is None else "not all names are accepted"
        is_established = "True" if conflict is None else "False"
        reason = "InitialNamesAccepted" if conflict is None else "NotAccepted"
        conditions = with_condition(conditions, "Established", is_established, reason, message, now)
    new_status = {**status, "conditions": conditions, "acceptedNames": accepted}
    return None if new_status == status else {**crd, "status": new_status}


def with_condition(
    conditions: Sequence[Obj], type_: str, status: str, reason: str, message: str, now: str
) -> list[Obj]:
    """Conditions with one of them set; its time moves only when its status does."""
    new = {"type": type_, "status": status, "lastTransitionTime": now, "reason": reason, "message": message}
    for i, condition in enumerate(conditions):
        if condition["type"] == type_:
            if condition["status"] == status:
                new["lastTransitionTime"] = condition.get("lastTransitionTime", now)
            return [*conditions[:i], new, *conditions[i + 1 :]]
    return [*conditions, new]


def _accepted_names(
    wanted: Mapping[str, Any], accepted: Mapping[str, Any], others: Iterable[Obj], group: str
) -> tuple[Obj, tuple[str, str] | None]:
    """The names that a definition gets, and the reason and message where it does not get all."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        if other["spec"]["group"] == group:
            names = (other.get("status") or {}).get("acceptedNames") or {}
            resources |= {names.get("plural", ""), names.get("singular", ""), *(names.get("shortNames") or ())}
            kinds |= {names.get("kind", ""), names.get("listKind", "")}
    new: Obj = {"plural": accepted.get("plural", ""), "kind": accepted.get("kind", "")}
    conflict: tuple[str, str] | None = None

    def take(name: str, used: set[str], reason: str) -> None:
        nonlocal conflict
        value = wanted.get(name, "")
        if value != accepted.get(name, "") and value in used:
            conflict = (reason, f'"{value}" is already in use')
            if accepted.get(name):
                new[name] = accepted[name]
        elif value:
            new[name] = value

    take("plural", resources, "PluralConflict")
    take("singular", resources, "SingularConflict")
    own = set(accepted.get("shortNames") or ())
    clashes = [name for name in wanted.get("shortNames") or () if name not in own and name in resources]
    if clashes:
        texts = [f'"{name}" is already in use' for name in clashes]
        conflict = ("ShortNamesConflict", texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
        short_names = accepted.get("shortNames")
    else:
        short_names = wanted.get("shortNames")
    take("kind", kinds, "KindConflict")
    take("listKind", kinds, "ListKindConflict")
    if short_names:
        new["shortNames"] = list(short_names)
    if wanted.get("categories"):
        new["categories"] = list(wanted["categories"])
    return new, conflict


def resources_of(crd: Obj) -> list[Resource]:
    """What a definition serves: one resource for each served version, none before it is established."""
    if not is_true(crd, "Established"):
        return []
    spec = crd["spec"]
    names = {**spec["names"], **crd["status"]["acceptedNames"]}
    storage = next(version["name"] for version in spec["versions"] if version.get("storage"))
    terminating = bool(crd["metadata"].get("deletionTimestamp"))
    stored_schema = next(_schema_of(version) for version in spec["versions"] if version.get("storage"))
    resources = [
        _resource(spec, names, version, storage, terminating) for version in spec["versions"] if version.get("served")
    ]
    # What is stored fits the storage version's schema, unless that changed since.
    changed = int(crd["metadata"].get("generation", 1)) > 1
    versions = {resource.api_version: resource.schema for resource in resources}
    return [
        replace(resource, versions=versions, convert=_conversion(stored_schema, resource))
        if changed or resource.api_version != resource.storage_version
        else replace(resource, versions=versions)
        for resource in resources
    ]


def _schema_of(version: Mapping[str, Any]) -> Schema:
    return _compiled(msgspec.json.encode((version.get("schema") or {}).get("openAPIV3Schema") or {}))


@lru_cache(maxsize=64)
def _compiled(source: bytes) -> Schema:
    """By content: a definition is looked at again with every change of its status, and its schema is large."""
    return custom_schema(msgspec.json.decode(source))


def _conversion(stored_schema: Schema, shown: Resource) -> Callable[[Obj, str], Obj]:
    """Between versions of one kind: only the name changes, and what the stored version does not know is lost."""

    def convert(obj: Obj, api_version: str) -> Obj:
        structural.prune(stored_schema, obj)
        structural.drop_nulls(stored_schema, obj)
        structural.default(stored_schema, obj)
        if api_version == shown.api_version:
            structural.prune(shown.schema, obj)
        return {**obj, "apiVersion": api_version}

    return convert


def _deprecation(spec: Mapping[str, Any], version: Mapping[str, Any], kind: str) -> str:
    """What is said of every use of a deprecated version."""
    if not version.get("deprecated"):
        return ""
    if version.get("deprecationWarning") is not None:
        return str(version["deprecationWarning"])
    group, name = spec["group"], version["name"]
    order = by_priority(version["name"] for version in spec["versions"])
    fit = {version["name"] for version in spec["versions"] if version.get("served") and not version.get("deprecated")}
    better = next((newer for newer in order[: order.index(name)] if newer in fit), None)
    instead = f"; use {group}/{better} {kind}" if better else ""
    return f"{group}/{name} {kind} is deprecated{instead}"


def _resource(
    spec: Mapping[str, Any], names: Mapping[str, Any], version: Mapping[str, Any], storage: str, terminating: bool
) -> Resource:
    group, plural = spec["group"], names["plural"]
    subresources = version.get("subresources") or {}
    scale = subresources.get("scale") or {}
    paths = {
        "specReplicas": scale.get("specReplicasPath", ""),
        "statusReplicas": scale.get("statusReplicasPath", ""),
        "labelSelector": scale.get("labelSelectorPath", ""),
    }
    served = {name for name in ("status", "scale") if subresources.get(name) is not None}
    schema = _schema_of(version)
    return Resource(
        group=group,
        version=version["name"],
        plural=plural,
        kind=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        schema=schema,
        singular=names.get("singular", ""),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=frozenset(served),
        strategy=_strategy(version, paths if "scale" in served else {}, "status" in served, plural, group, terminating),
        storage_version=f"{group}/{storage}",
        custom=True,
        deprecation=_deprecation(spec, version, names["kind"]),
        scale_paths={name: path for name, path in paths.items() if path} if "scale" in served else {},
    )


def custom_schema(source: Mapping[str, Any]) -> Schema:
    """A version's schema, with the metadata that every object has."""
    schema = from_openapi(source)
    metadata = schemas.object_meta()
    own = schema.properties["metadata"].properties if "metadata" in schema.properties else {}
    if own:
        metadata = replace(metadata, properties={**metadata.properties, **own}, ref="")
    properties = {**schema.properties, "apiVersion": _STRING, "kind": _STRING, "metadata": metadata}
    return replace(schema, properties=properties, type="object")


def _strategy(
    version: Mapping[str, Any], scale: Mapping[str, str], has_status: bool, plural: str, group: str, terminating: bool
) -> Strategy:
    def prepare_create(obj: Obj) -> None:
        if terminating:
            name = obj["metadata"].get("name", "")
            why = "create not allowed while custom resource definition is terminating"
            text = f'{plural}.{group} "{name}" is forbidden: {why}'
            raise StatusError(403, "Forbidden", text, name=name, group=group, kind=plural)
        if has_status:
            obj.pop("status", None)

    def validate(obj: Obj) -> list[Cause]:
        return _replica_faults(obj, scale, ("specReplicas", "statusReplicas"))

    def validate_status(obj: Obj, _old: Obj) -> list[Cause]:
        return _replica_faults(obj, scale, ("statusReplicas",))

    return Strategy(
        prepare_create=prepare_create,
        prepare_status=_keep_metadata,
        validate=validate,
        validate_status=validate_status,
        warnings=_finalizer_warnings,
        fields=_selectable(version.get("selectableFields") or ()),
        columns=_columns(version.get("additionalPrinterColumns") or ()),
        has_status=has_status,
        metadata_checks=MetadataChecks(of_changed=False, of_finalizers=False),
        unconditional_update=False,
    )


def _finalizer_warnings(obj: Obj) -> list[str]:
    """Finalizers without a domain may be meant by several."""
    warnings = []
    for name in sorted(set(obj["metadata"].get("finalizers") or ())):
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            what = "finalizer name including a path (/)" if "." in name else "finalizer name"
            text = f"prefer a domain-qualified {what} to avoid accidental conflicts with other finalizer writers"
            warnings.append(f'metadata.finalizers: "{name}": {text}')
    return warnings


def _keep_metadata(new: Obj, old: Obj) -> None:
    """A write to the status does not change the metadata, except for managedFields."""
    managed = new["metadata"].get("managedFields")
    new["metadata"] = {key: value for key, value in old["metadata"].items() if key != "managedFields"}
    if managed is not None:
        new["metadata"]["managedFields"] = managed


def _replica_faults(obj: Obj, scale: Mapping[str, str], which: Sequence[str]) -> list[Cause]:
    causes: list[Cause] = []
    for name in which:
        path = scale.get(name, "")
        value = lookup(obj, simple_path(path)) if path else None
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            text = f"{path} accessor error: {value} is of the type {_go_kind(value)}, expected int64"
            causes.append(invalid(path, 0, text))
        elif value < 0:
            causes.append(invalid(path, value, "should be a non-negative integer"))
        elif value > _LARGEST_REPLICAS:
            causes.append(invalid(path, value, f"should be less than or equal to {_LARGEST_REPLICAS}"))
    return causes


def _go_kind(value: object) -> str:
    return {bool: "bool", str: "string", float: "float64", list: "[]interface {}"}.get(
        type(value), "map[string]interface {}"
    )


def _selectable(fields: Sequence[Mapping[str, str]]) -> Callable[[Obj], Mapping[str, str]]:
    paths = {field["jsonPath"].removeprefix("."): simple_path(field["jsonPath"]) for field in fields}

    def select(obj: Obj) -> Mapping[str, str]:
        values = {name: lookup(obj, path) for name, path in paths.items()}
        return {name: "" if value is None else _text(value) for name, value in values.items()}

    return select


def _columns(definitions: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
    if not definitions:
        return printing.DEFAULT_COLUMNS
    return (printing.NAME, *(_column(definition) for definition in definitions))


def _column(definition: Mapping[str, Any]) -> Column:
    path, type_ = definition["jsonPath"], definition["type"]
    try:
        find = compile_path(path)
    except JsonPathError:
        find = lambda _obj: []  # noqa: E731 # as the real server: a column that cannot be read stays empty

    def cell(obj: Obj, now_s: float) -> object:
        values = find(obj)
        return _cell(type_, values[0], now_s) if values else None

    return Column(
        name=definition["name"],
        type=type_,
        cell=cell,
        format=definition.get("format", ""),
        priority=definition.get("priority", 0),
        description=definition.get("description") or f"Custom resource definition column (in JSONPath format): {path}",
    )


def _cell(type_: str, value: object, now_s: float) -> object:
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match type_:
        case "string":
            return _text(value)
        case "integer":
            return int(value) if is_number else None  # type: ignore[call-overload] # it is a number
        case "number":
            return value if is_number else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date" if isinstance(value, str):
            shown = printing.since(value, now_s)
            return "<invalid>" if shown == printing.UNKNOWN and value else shown
    return None


def _text(value: object) -> str:
    """A value as Go prints it."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int():
            return str(value)
        case float():
            return go_float(value)
    return msgspec.json.encode(value, order="sorted").decode()
