"""What a CustomResourceDefinition must say: names, scope, versions, columns, subresources; with the real messages.

The real server keeps what all versions share (their schema, subresources, columns) in one place of its own, and its
messages name that place: `spec.validation.openAPIV3Schema...` for the schema of the only version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from koord.api.text import formats, string_formats
from koord_minicluster.apiserver import metadata
from koord_minicluster.apiserver.custom.printed import GO_NAMES, printed_schema, printed_versions
from koord_minicluster.apiserver.custom.schema_checks import same, schema_faults, subschemas
from koord_minicluster.apiserver.resource import Obj
from koord_minicluster.apiserver.status import Cause, duplicate, forbidden, invalid, not_supported, required, too_many

Source = Mapping[str, Any]

MOST_SELECTABLE_FIELDS: Final = 8
APPROVAL_ANNOTATION: Final = "api-approved.kubernetes.io"
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_SHARED_PARTS: Final = {
    "schema": "spec.validation",
    "subresources": "spec.subresources",
    "additionalPrinterColumns": "spec.additionalPrinterColumns",
    "selectableFields": "spec.selectableFields",
}
_ROOT_FIELDS: Final = (
    "Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum", "MaxLength",
    "MinLength", "Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required", "Items", "Properties",
    "ExternalDocs", "Example", "XPreserveUnknownFields", "XValidations",
)  # fmt: skip
_NO_WEBHOOKS: Final = "this server does not convert between versions by webhook; use None, and versions of one shape"


def _metadata_faults(crd: Obj) -> list[Cause]:
    """A definition's name says what it defines."""
    spec = crd.get("spec", {})
    wanted = f"{spec.get('names', {}).get('plural', '')}.{spec.get('group', '')}"

    def faults(name: str) -> Iterable[str]:
        yield from formats.dns_subdomain(name)
        if name != wanted:
            yield 'must be spec.names.plural+"."+spec.group'

    return metadata.faults_by(crd["metadata"], faults)


def definition_faults(crd: Obj, old: Obj | None = None) -> list[Cause]:
    """Faults of a definition beyond its metadata, or of a change to one."""
    causes = _metadata_faults(crd) if old is None else []
    causes += _spec_faults(crd.get("spec", {}))
    if old is not None:
        causes += _change_faults(crd, old)
    status = crd.get("status") or {}
    causes += _name_faults(status.get("acceptedNames") or {}, "status.acceptedNames")
    causes += _stored_version_faults(status.get("storedVersions") or [], crd["spec"].get("versions") or [])
    causes += _approval_faults(crd, old)
    if crd["spec"].get("preserveUnknownFields"):
        text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        causes.append(invalid("spec.preserveUnknownFields", True, text))
    return causes


def format_warnings(crd: Obj) -> list[str]:
    """Formats of strings that nothing checks."""
    warnings: list[str] = []
    for version in crd.get("spec", {}).get("versions") or ():
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        for subschema in subschemas(schema) if schema else ():
            format_ = subschema.get("format", "")
            if format_ and subschema.get("type") == "string" and not string_formats.is_known(format_):
                warnings.append(f'unrecognized format "{format_}"')
    return warnings


def shared_parts(versions: Sequence[Source]) -> frozenset[str]:
    """What every version has in the same form."""
    if not versions:
        return frozenset()
    return frozenset(
        part
        for part in _SHARED_PARTS
        if versions[0].get(part) and all(same(version.get(part), versions[0][part]) for version in versions)
    )


def _spec_faults(spec: Source) -> Iterator[Cause]:
    group, versions = spec.get("group", ""), spec.get("versions") or []
    shared = shared_parts(versions)
    if not group:
        yield required("spec.group")
    elif faults := formats.dns_subdomain(group):
        yield invalid("spec.group", group, ",".join(faults))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    yield from _enum_faults("spec.scope", spec.get("scope", ""), ("Cluster", "Namespaced"))
    for i, version in enumerate(versions):
        if (version.get("schema") or {}).get("openAPIV3Schema") is None:
            yield required(f"spec.versions[{i}].schema.openAPIV3Schema")
    for i, version in enumerate(versions):
        path, name = f"spec.versions[{i}]", version.get("name", "")
        if faults := formats.dns_1035_label(name):
            yield invalid(f"{path}.name", name, ",".join(faults))
        warning = version.get("deprecationWarning")
        for text in _deprecation_faults(bool(version.get("deprecated")), warning):
            yield invalid(f"{path}.deprecationWarning", warning, text)
        for part in _SHARED_PARTS:
            if part not in shared:
                yield from _part_faults(part, version, f"{path}.{part}")
    names = [version.get("name", "") for version in versions]
    if len(set(names)) < len(names):
        text = "must contain unique version names"
        yield invalid("spec.versions", printed_versions(versions, shared), text)
    if sum(1 for version in versions if version.get("storage")) != 1:
        text = "must have exactly one version marked as storage version"
        printed = printed_versions(versions, shared) if spec.get("versions") is not None else None
        yield invalid("spec.versions", printed, text)
    if names and (faults := formats.dns_1035_label(names[0])):
        yield invalid("spec.version", names[0], ",".join(faults))
    for name in ("plural", "singular", "kind", "listKind"):
        if not spec.get("names", {}).get(name):
            yield required(f"spec.names.{name}")
    yield from _name_faults(spec.get("names", {}), "spec.names")
    for part, path in _SHARED_PARTS.items():
        if part in shared:
            yield from _part_faults(part, versions[0], path)
    yield from _conversion_faults(spec.get("conversion"))


def _part_faults(part: str, version: Source, path: str) -> Iterator[Cause]:
    match part:
        case "schema":
            schema = (version.get("schema") or {}).get("openAPIV3Schema")
            if schema is not None:
                if (version.get("subresources") or {}).get("status") is not None:
                    yield from _root_faults(schema, f"{path}.openAPIV3Schema")
                yield from schema_faults(schema, f"{path}.openAPIV3Schema")
        case "subresources":
            yield from _scale_faults((version.get("subresources") or {}).get("scale"), path)
        case "additionalPrinterColumns":
            for i, column in enumerate(version.get("additionalPrinterColumns") or ()):
                yield from _column_faults(column, f"{path}[{i}]")
        case "selectableFields":
            schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
            yield from _selectable_faults(version.get("selectableFields") or (), schema, path)


def _root_faults(schema: Source, path: str) -> Iterator[Cause]:
    """With a status subresource, the root describes an object and no more."""
    for name, value in schema.items():
        if not value:
            continue
        if name == "type":
            if value != "object":
                text = 'only "object" is allowed as the type at the root of the schema'
                yield invalid(f"{path}.type", value, f"{text} if the status subresource is enabled")
                return
        elif GO_NAMES.get(name, name) not in _ROOT_FIELDS:
            text = f"only [{' '.join(_ROOT_FIELDS)}] fields are allowed at the root of the schema"
            yield invalid(path, printed_schema(schema), f"{text} if the status subresource is enabled")
            return


def _enum_faults(path: str, value: str, accepted: tuple[str, ...]) -> Iterator[Cause]:
    if not value:
        yield required(path)
    elif value not in accepted:
        yield not_supported(path, value, accepted)


def _deprecation_faults(deprecated: bool, warning: str | None) -> Iterator[str]:
    if warning is None:
        return
    if not deprecated:
        yield "can only be set for deprecated versions"
        return
    if len(warning.encode()) > 256:
        yield "must be <= 256 characters long"
    if not warning:
        yield "must not be an empty string"
    for i, char in enumerate(warning):
        if not char.isprintable():
            yield f"must only contain printable UTF-8 characters; non-printable character found at index {i}"
            return


def _name_faults(names: Source, path: str) -> Iterator[Cause]:
    for name in ("plural", "singular"):
        if (value := names.get(name)) and (faults := formats.dns_1035_label(value)):
            yield invalid(f"{path}.{name}", value, ",".join(faults))
    for name in ("kind", "listKind"):
        if (value := names.get(name)) and (faults := formats.dns_1035_label(value.lower())):
            text = "may have mixed case, but should otherwise match: " + ",".join(faults)
            yield invalid(f"{path}.{name}", value, text)
    for i, value in enumerate(names.get("shortNames") or ()):
        if faults := formats.dns_1035_label(value):
            yield invalid(f"{path}.shortNames[{i}]", value, ",".join(faults))
    if names.get("kind") and names["kind"] == names.get("listKind"):
        yield invalid(f"{path}.listKind", names["listKind"], "kind and listKind may not be the same")
    for i, value in enumerate(names.get("categories") or ()):
        if faults := formats.dns_1035_label(value):
            yield invalid(f"{path}.categories[{i}]", value, ",".join(faults))


def _scale_faults(scale: Source | None, path: str) -> Iterator[Cause]:
    if scale is None:
        return
    for name, roots, words in (
        ("specReplicasPath", (".spec.",), ".spec"),
        ("statusReplicasPath", (".status.",), ".status"),
        ("labelSelectorPath", (".spec.", ".status."), "either .spec or .status"),
    ):
        where, value = f"{path}.scale.{name}", scale.get(name) or ""
        if not value:
            if name != "labelSelectorPath":
                yield required(where)
        elif not value.startswith("."):
            yield invalid(where, value, "must be a simple json path starting with .")
        elif not value.startswith(roots):
            yield invalid(where, value, f"should be a json path under {words}")


def _column_faults(column: Source, path: str) -> Iterator[Cause]:
    types, valid = ",".join(_COLUMN_TYPES), ",".join(_COLUMN_FORMATS)
    type_, format_, json_path = column.get("type", ""), column.get("format", ""), column.get("jsonPath", "")
    if not column.get("name"):
        yield required(f"{path}.name")
    if not type_:
        yield required(f"{path}.type", f"must be one of {types}")
    elif type_ not in _COLUMN_TYPES:
        yield invalid(f"{path}.type", type_, f"must be one of {types}")
    if format_ and format_ not in _COLUMN_FORMATS:
        yield invalid(f"{path}.format", format_, f"must be one of {valid}")
    if not json_path:
        yield required(f"{path}.JSONPath")
    elif not json_path.startswith("."):
        yield invalid(f"{path}.JSONPath", json_path, "must be a simple json path starting with .")


def _selectable_faults(fields: Sequence[Source], schema: Source, path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for i, field in enumerate(fields):
        where, json_path = f"{path}[{i}].jsonPath", field.get("jsonPath", "")
        if not json_path:
            yield required(where)
            continue
        source: Source | None = schema
        for name in json_path.removeprefix(".").split("."):
            source = (source.get("properties") or {}).get(name) if source is not None else None
        if source is None:
            yield invalid(where, json_path, "is an invalid path: does not refer to a valid field")
            continue
        if source.get("type") not in ("string", "boolean", "integer"):
            text = (
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats "
                "are allowed."
            )
            yield invalid(where, json_path, text)
        if json_path in seen:
            yield duplicate(where, json_path)
        seen.add(json_path)
    if len(seen) > MOST_SELECTABLE_FIELDS:
        yield too_many(path, len(seen), MOST_SELECTABLE_FIELDS)


def _conversion_faults(conversion: Source | None) -> Iterator[Cause]:
    if conversion is None:
        return
    path, strategy = "spec.conversion", conversion.get("strategy", "")
    yield from _enum_faults(f"{path}.strategy", strategy, ("None", "Webhook"))
    webhook = conversion.get("webhook")
    if strategy == "Webhook":
        if not (webhook or {}).get("clientConfig"):
            yield required(f"{path}.webhookClientConfig", "required when strategy is set to Webhook")
        if not (webhook or {}).get("conversionReviewVersions"):
            yield required(f"{path}.conversionReviewVersions")
        if webhook:
            yield forbidden(f"{path}.strategy", _NO_WEBHOOKS)
    elif webhook is not None:
        text = "should not be set when strategy is not set to Webhook"
        yield forbidden(f"{path}.webhookClientConfig", text)
        if webhook.get("conversionReviewVersions"):
            yield forbidden(f"{path}.conversionReviewVersions", text)


def _change_faults(crd: Obj, old: Obj) -> Iterator[Cause]:
    spec, was = crd["spec"], old["spec"]
    pairs = [("spec.group", spec.get("group"), was.get("group"))]
    pairs.append(("spec.names.plural", spec["names"].get("plural"), was["names"].get("plural")))
    if is_true(old, "Established"):
        kind = ("spec.names.kind", spec["names"].get("kind"), was["names"].get("kind"))
        pairs[:0] = [("spec.scope", spec.get("scope"), was.get("scope")), kind]
    for path, new, before in pairs:
        if new != before:
            yield invalid(path, new, "field is immutable")


def _stored_version_faults(stored: list[str], versions: Sequence[Source]) -> Iterator[Cause]:
    path = "status.storedVersions"
    if not stored:
        yield Cause(path, "FieldValueInvalid", "Invalid value: null: must have at least one stored version")
        return
    names = {version.get("name") for version in versions}
    for version in versions:
        if version.get("storage") and version.get("name") not in stored:
            yield invalid(path, stored, f"must have the storage version {version.get('name')}")
    for i, name in enumerate(stored):
        if name not in names:
            text = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
                f"{name} from status.storedVersions"
            )
            yield invalid(f"{path}[{i}]", name, text)


def _approval_faults(crd: Obj, old: Obj | None) -> Iterator[Cause]:
    group = crd["spec"].get("group", "")
    if not (group == "k8s.io" or group.endswith((".k8s.io", ".kubernetes.io")) or group == "kubernetes.io"):
        return
    value = (crd["metadata"].get("annotations") or {}).get(APPROVAL_ANNOTATION, "")
    if old is not None and (old["metadata"].get("annotations") or {}).get(APPROVAL_ANNOTATION, "") == value:
        return
    path = f"metadata.annotations[{APPROVAL_ANNOTATION}]"
    see = "see https://github.com/kubernetes/enhancements/pull/1111"
    if not value:
        yield required(path, f'protected groups must have approval annotation "{APPROVAL_ANNOTATION}", {see}')
    elif not value.startswith(("https://", "http://", "unapproved")):
        text = (
            f'protected groups must have approval annotation "{APPROVAL_ANNOTATION}" with either a URL or a reason '
            f'starting with "unapproved", {see}'
        )
        yield invalid(path, value, text)


def is_true(crd: Obj, condition: str) -> bool:
    """Whether a definition has a condition, with status True."""
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(entry.get("type") == condition and entry.get("status") == "True" for entry in conditions)
