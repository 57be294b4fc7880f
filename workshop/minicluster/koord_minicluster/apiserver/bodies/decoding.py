"""From a request's body to an object of the kind that was asked for, or the real server's refusal.

JSON and YAML are read; protobuf and the rest answer 415. Built-in kinds are typed (`typed`), custom ones keep what
their schema knows (`structural`). What a schema does not know, or a text says twice, is an error under Strict, a
warning under Warn, and passed over under Ignore.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec
import yaml as pyyaml

from koord.api import builtin_schemas as schemas
from koord.api.machinery.object_schema import Schema
from koord.api.machinery.short_cache import short_cache
from koord.api.machinery.unknown_fields import unknown_fields
from koord.api.text import yaml
from koord_minicluster.apiserver import structural
from koord_minicluster.apiserver.bodies import canonical, json_text, protobuf, typed
from koord_minicluster.apiserver.bodies.json_text import JsonFault, Pairs
from koord_minicluster.apiserver.resource import Obj, Resource
from koord_minicluster.apiserver.status import StatusError, bad_request, invalid, unprocessable

FieldValidation = Literal["", "Ignore", "Warn", "Strict"]

MEDIA_TYPES: Final = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
_MOST_STRICT_FAULTS: Final = 100
_TYPE_META: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_PARAMETER: Final = re.compile(r"\s*[\w-]+=(?:\"[^\"]*\"|[^\s;]*)\s*|\s*")
_OLD_VERSIONS: Final = {
    "apps": ("apps/v1beta1", "apps/v1beta2", "extensions/v1beta1"),
    "batch": ("batch/v1beta1",),
    "policy": ("policy/v1beta1",),
    "": ("events.k8s.io/v1", "events.k8s.io/v1beta1"),
    "events.k8s.io": ("v1", "events.k8s.io/v1beta1"),
    **{
        group: (f"{group}/v1alpha1", f"{group}/v1beta1")
        for group in (
            "admissionregistration.k8s.io", "apiextensions.k8s.io", "authentication.k8s.io", "authorization.k8s.io",
            "coordination.k8s.io", "discovery.k8s.io", "node.k8s.io", "rbac.authorization.k8s.io", "scheduling.k8s.io",
            "storage.k8s.io",
        )
    },
}  # fmt: skip
"""Versions of a group's kinds that the real server reads but does not serve."""

_INEXACT_IN_JSON: Final = re.compile(rb'(?:":|[\[,])-?[0-9]+[.eE]|[0-9]{19}')
"Numbers that YAML may read otherwise than JSON."
_INTERNAL_PACKAGES: Final = {"": "core", "events.k8s.io": "core", "rbac.authorization.k8s.io": "rbac"}


class _Text:
    """A parsed body: the value, faults about repeated keys, and a way to report faults in more detail."""

    def __init__(self, body: bytes, yaml_: bool, is_custom: bool = False) -> None:
        self.body, self.yaml, self.repeats = body, yaml_, False
        self.yaml_repeats: list[str] = []
        if yaml_ and not body.lstrip().startswith(b"{"):
            self.value = _load_yaml(body, self.yaml_repeats)
        else:
            load = json_text.loads_untyped if is_custom else json_text.loads
            self.value, self.repeats = load(body)

    def exact(self) -> object:
        return self.value if self.yaml else json_text.loads_exact(self.body)

    def repeated(self, schema: Schema | None) -> list[str]:
        """Faults of repeated and, for a built-in kind, unknown fields, in the order of the text."""
        if self.yaml or not self.repeats:
            return []
        repeats: list[str] = []
        _find_strict(schema, json_text.loads_pairs(self.body), "", repeats)
        return repeats


def decode(resource: Resource, body: bytes, content_type: str, field_validation: str = "Warn") -> tuple[Obj, list[str]]:
    """The object in a body, and warnings about it."""
    if resource.custom:
        return _decode_custom(resource, body, content_type, field_validation)
    return decode_kind(resource.group, resource.version, resource.kind, body, content_type, field_validation)


def decode_kind(
    group: str, version: str, kind: str, body: bytes, content_type: str, field_validation: str = "Warn"
) -> tuple[Obj, list[str]]:
    """As `decode`, for a built-in kind that need not be a resource of its own: Scale, Eviction, Binding, ..."""
    body, content_type = _from_protobuf(body, content_type, kind)
    text = _parse(kind, body, content_type)
    value: Any = {} if text.value is None else text.value
    data_group, data_version, data_kind = _type_meta(kind, value, body)
    same = (data_group, data_version) in ((group, version), _TAKEN_TOO.get(kind))
    if (data_kind and data_kind != kind) or (data_version and not same):
        raise _wrong_kind(group, version, kind, data_group, data_version, data_kind)
    schema = schemas.schema_for(group, version, kind)
    prefix = f'{kind} in version "{version}" cannot be handled as a {kind}: '
    obj: Obj = value
    unknown = False
    if not canonical.is_kept(schema, value, body):
        try:
            obj, unknown = typed.read(schema, value)
        except typed.Mistyped as wrong:
            raise bad_request(prefix + _exactly(schema, text, wrong)) from None
    obj["kind"] = kind
    obj["apiVersion"] = f"{group}/{version}" if group else version
    if not (unknown or text.repeats or text.yaml_repeats) or field_validation == "Ignore":
        return obj, []
    faults = text.repeated(schema) or _unknown(unknown_fields(schema, value))
    return obj, _settle(prefix, faults, text.yaml_repeats, field_validation)


def retype(
    resource: Resource, value: Obj, field_validation: str = "Warn", stored: Obj | None = None
) -> tuple[Obj, list[str]]:
    """Treats an object that the server made, by an apply or a webhook's patch, as if a client had sent it: types or
    prunes it again. Only nulls in a custom object stay, and are validated."""
    prefix = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
    if resource.custom:
        unknown = _coerce(resource, value, prefix, keep_nulls=True)
        return value, [] if field_validation == "Ignore" else _settle(prefix, _unknown(unknown), [], field_validation)
    try:
        obj, has_unknown = typed.read_changed(resource.schema, value, stored)
    except typed.Mistyped as wrong:
        raise bad_request(prefix + str(wrong)) from None
    obj["kind"], obj["apiVersion"] = resource.kind, resource.api_version
    if not has_unknown or field_validation == "Ignore":
        return obj, []
    return obj, _settle(prefix, _unknown(unknown_fields(resource.schema, value)), [], field_validation)


def decode_any(body: bytes, content_type: str = "application/json") -> Any:
    """The value in a body, whatever it is: patches and options."""
    body, content_type = _from_protobuf(body, content_type)
    try:
        return _Text(body, _is_yaml(content_type)).value
    except JsonFault as fault:
        raise bad_request(f"error decoding patch: {fault}") from None
    except yaml.YamlError as error:
        raise bad_request(f"error decoding YAML: {_yaml_fault(error)}") from None


def decode_applied(resource: Resource, body: bytes) -> tuple[Obj, list[str]]:
    """The configuration in the body of a server-side apply, and warnings about it. Always parsed as YAML, which
    includes JSON."""
    repeats: list[str] = []
    try:
        value = _load_yaml(body, repeats)
    except yaml.YamlError as error:
        fault = _yaml_fault(error)
        raise bad_request(f"error decoding YAML: error converting YAML to JSON: {fault}") from None
    if value is None:
        value = {}
    if not isinstance(value, dict):
        what = {list: "array", str: "string", bool: "bool"}.get(type(value), "number")
        raise bad_request(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: "
            f"json: cannot unmarshal {what} into Go value of type map[string]interface {{}}"
        )
    group, _, version = str(value.get("apiVersion") or "").rpartition("/")
    kind = str(value.get("kind") or "")
    if (group, version, kind) != (resource.group, resource.version, resource.kind):
        raise bad_request(f"invalid object type: {group}/{version}, Kind={kind}")
    return value, repeats


def decode_delete_options(body: bytes, content_type: str) -> Obj:
    """The DeleteOptions in a body. The real server reads them with less ceremony than objects."""
    body, content_type = _from_protobuf(body, content_type)
    try:
        text = _Text(body, _is_yaml(content_type))
    except JsonFault as fault:
        raise bad_request(f"couldn't get version/kind; json parse error: {fault}") from None
    except yaml.YamlError as error:
        raise bad_request(_yaml_fault(error)) from None
    value = {} if text.value is None else text.value
    if not isinstance(value, dict):
        raise bad_request(f"couldn't get version/kind; json parse error: {_no_type_meta(value)}")
    kind = value.get("kind") or "DeleteOptions"
    if kind != "DeleteOptions":
        where = "pkg/apis/meta/internalversion/scheme/register.go:27"
        version = value.get("apiVersion", "")
        raise bad_request(f'no kind "{kind}" is registered for version "{version}" in scheme "{where}"')
    schema = schemas.builtin(f"{schemas.META}DeleteOptions")
    try:
        obj: Obj = typed.read(schema, value)[0]
    except typed.Mistyped as wrong:
        raise bad_request(_exactly(schema, text, wrong)) from None
    return obj


def _decode_custom(resource: Resource, body: bytes, content_type: str, field_validation: str) -> tuple[Obj, list[str]]:
    kind, version = resource.kind, resource.version
    text = _parse(kind, body, content_type, is_custom=True)
    value = text.value
    data_group, data_version, data_kind = _type_meta(kind, value, body)
    if not isinstance(value, dict) or not data_kind:
        shown = "null" if value is None else body.decode(errors="replace")
        missing = f"Object 'Kind' is missing in '{shown}'"
        if field_validation == "Ignore":
            raise bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {missing}')
        raise _unrecognized(kind, missing, body)
    prefix = f'{data_kind} in version "{version}" cannot be handled as a {kind}: '
    if (api_version := value.get("apiVersion") or "") != resource.api_version:
        if data_group == resource.group and field_validation == "Strict":
            # A version that is not served knows no fields at all.
            prefix = f'{data_kind} in version "{data_version}" cannot be handled as a {kind}: '
            _settle(prefix, _unknown(sorted(key for key in value if key not in structural.META_FIELDS)), [], "Strict")
        raise bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    unknown = _coerce(resource, value, prefix)
    if data_kind != kind:
        fault = invalid("kind", data_kind, f"must be {kind}")
        raise unprocessable(data_kind, resource.group, value["metadata"].get("name", ""), [fault])
    if field_validation == "Ignore":
        return value, []
    return value, _settle(prefix, [*text.repeated(None), *_unknown(unknown)], text.yaml_repeats, field_validation)


def _coerce(resource: Resource, value: Obj, prefix: str, *, keep_nulls: bool = False) -> list[str]:
    try:
        return coerce(resource, value, keep_nulls=keep_nulls)
    except (typed.Mistyped, structural.BadEmbedded) as wrong:
        raise bad_request(prefix + str(wrong)) from None


def coerce(resource: Resource, value: Obj, *, keep_nulls: bool = False) -> list[str]:
    """Give a custom object's metadata their types and drop what its schema does not know, in place.

    Gives the paths of what it dropped. Raises Mistyped or BadEmbedded.
    """
    unknown = structural.prune(resource.schema, value)
    meta = value.get("metadata")
    value["metadata"], has_unknown = typed.read(schemas.object_meta(), {} if meta is None else meta)
    if has_unknown:
        unknown += unknown_fields(schemas.object_meta(), meta, "metadata")
    if not keep_nulls:
        structural.drop_nulls(resource.schema, value)
    return unknown + structural.coerce_embedded(resource.schema, value)


def _parse(kind: str, body: bytes, content_type: str, *, is_custom: bool = False) -> _Text:
    yaml_ = _is_yaml(content_type)
    try:
        return _Text(body, yaml_, is_custom)
    except JsonFault as fault:
        raise _unrecognized(kind, f"couldn't get version/kind; json parse error: {fault}", body) from None
    except yaml.YamlError as error:
        raise _unrecognized(kind, _yaml_fault(error), body) from None


def _from_protobuf(body: bytes, content_type: str, kind: str = "") -> tuple[bytes, str]:
    """Converts a protobuf body to JSON; returns any other body unchanged."""
    if content_type.partition(";")[0].strip() != protobuf.MEDIA_TYPE:
        return body, content_type
    try:
        return msgspec.json.encode(protobuf.decode(body)), "application/json"
    except protobuf.Malformed as fault:
        raise (_unrecognized(kind, str(fault), body) if kind else bad_request(str(fault))) from None


@short_cache(64)
def _is_yaml(content_type: str) -> bool:
    media_type, _, rest = content_type.partition(";")
    media_type = media_type.strip().lower()
    well_formed = all(_PARAMETER.fullmatch(parameter) for parameter in rest.split(";"))
    if media_type in ("", "application/json") and well_formed:
        return False
    if media_type in ("application/yaml", "application/apply-patch+yaml") and well_formed:
        return True
    raise unsupported_media_type(MEDIA_TYPES)


def unsupported_media_type(accepted: Sequence[str]) -> StatusError:
    listed = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {listed}"
    return StatusError(415, "UnsupportedMediaType", message, details=False)


def _no_type_meta(value: object) -> str:
    what = {list: "array", str: "string", bool: "bool"}.get(type(value), "number")
    return f"json: cannot unmarshal {what} into Go value of type {_TYPE_META}"


def _type_meta(kind: str, value: object, body: bytes) -> tuple[str, str, str]:
    """Group, version and kind that the data claim to be of; each may be empty."""
    if value is None:
        return "", "", ""
    if not isinstance(value, dict):
        raise _unrecognized(kind, f"couldn't get version/kind; json parse error: {_no_type_meta(value)}", body)
    type_fields = []
    for key in ("apiVersion", "kind"):
        text = value.get(key)
        if text is not None and not isinstance(text, str):
            wrong = {list: "array", bool: "bool", dict: "object"}.get(type(text), "number")
            raise _unrecognized(
                kind,
                f"couldn't get version/kind; json parse error: json: cannot unmarshal {wrong} into Go struct field "
                f".{key} of type string",
                body,
            )
        type_fields.append(text or "")
    api_version, data_kind = type_fields
    if api_version.count("/") > 1:
        raise _unrecognized(kind, f"unexpected GroupVersion string: {api_version}", body)
    group, _, version = api_version.rpartition("/")
    return group, version, data_kind


_TAKEN_TOO: Final = {"Eviction": ("policy", "v1beta1")}
"""Kinds that are taken in an older version, of the same shape."""
_SCHEMES: Final = {"apiextensions.k8s.io": "pkg/apiserver/apiserver.go:55"}
"""Where the real server's tables of kinds are, as its messages tell."""


def unregistered(group: str, version: str, kind: str) -> str:
    """Why a kind cannot be read, where it is none of the built-in ones."""
    try:
        schemas.ref_of(group, version, kind)
    except KeyError:
        api_version = f"{group}/{version}" if group else version
        scheme = _SCHEMES.get(group, "pkg/api/legacyscheme/scheme.go:30")
        return f'no kind "{kind}" is registered for version "{api_version}" in scheme "{scheme}"'
    return ""


def _wrong_kind(group: str, version: str, kind: str, data_group: str, data_version: str, data_kind: str) -> StatusError:
    if not data_version:
        data_group, data_version = group, version
    data_kind = data_kind or kind
    api_version = f"{data_group}/{data_version}" if data_group else data_version
    if data_kind == kind and api_version in _OLD_VERSIONS.get(group, ()) and (group or kind == "Event"):
        expected = f"{group}/{version}" if group else version
        return bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )
    prefix = f'{data_kind} in version "{data_version}" cannot be handled as a {kind}: '
    if (api_version, data_kind) != ("v1", "List") and (why := unregistered(data_group, data_version, data_kind)):
        return bad_request(prefix + why)
    package = _INTERNAL_PACKAGES.get(group, group.partition(".")[0])
    return bad_request(f"{prefix}converting (v1.{data_kind}) to ({package}.{kind}): unknown conversion")


def _unrecognized(kind: str, why: str, body: bytes) -> StatusError:
    return bad_request(f"the object provided is unrecognized (must be of type {kind}): {why} ({_summary(body)})")


def _summary(body: bytes) -> str:
    """The beginning of a body, for a message: as text if it could be JSON, in hexadecimal otherwise."""
    if not body:
        return "<empty>"
    text = body[:30].decode(errors="replace") if body.startswith(b"{") else body[:30].hex()
    return f"{text} ..." if len(body) > 30 else text


def _exactly(schema: Schema, text: _Text, wrong: typed.Mistyped) -> str:
    """The message about a wrong type, with numbers spelled as in the body."""
    if wrong.value.startswith("number "):
        try:
            typed.read(schema, text.exact())
        except typed.Mistyped as exact:
            return str(exact)
    return str(wrong)


def _unknown(paths: Sequence[str]) -> list[str]:
    return [f'unknown field "{path}"' for path in paths[:_MOST_STRICT_FAULTS]]


def _find_strict(schema: Schema | None, value: object, path: str, faults: list[str]) -> None:
    """Repeated fields; and with a schema, unknown ones."""
    if isinstance(value, Pairs) and (schema is None or not schema.preserve_unknown):
        seen: set[str] = set()
        for key, item in value:
            where = f"{path}.{key}" if path else key
            inner = None
            if schema is not None:
                inner = schema.properties.get(key) or schema.values
                if inner is None and schema.type == "object":
                    _add(faults, f'unknown field "{where}"')
                    continue
            if key in seen:
                _add(faults, f'duplicate field "{where}"')
            seen.add(key)
            if schema is None or inner is not None:
                _find_strict(inner, item, where, faults)
    elif isinstance(value, list) and not isinstance(value, Pairs):
        items = schema.items if schema is not None else None
        if schema is None or items is not None:
            for i, item in enumerate(value):
                _find_strict(items, item, f"{path}[{i}]", faults)


def _add(faults: list[str], fault: str) -> None:
    if len(faults) < _MOST_STRICT_FAULTS and fault not in faults:
        faults.append(fault)


def _settle(prefix: str, faults: list[str], yaml_repeats: list[str], field_validation: str) -> list[str]:
    """Refuse what Strict refuses; what else asks for warnings gets them."""
    if not faults and not yaml_repeats:
        return []
    if field_validation != "Strict":
        return [*yaml_repeats, *faults]
    if yaml_repeats:
        faults = ["yaml: unmarshal errors:\n  " + "\n  ".join(yaml_repeats), *faults]
    raise bad_request(f"{prefix}strict decoding error: {', '.join(faults)}")


def _load_yaml(body: bytes, repeats: list[str]) -> object:
    """The first document of a YAML body."""
    if (value := json_text.compact(body)) is not None and not _INEXACT_IN_JSON.search(body):
        return value
    text = body.decode(errors="replace")

    def repeated(line: int, key: str) -> None:
        repeats.append(f'line {line}: key "{key}" already set in map')

    return yaml.load_first(text, "body", repeated)


def _yaml_fault(error: yaml.YamlError) -> str:
    """What Go's YAML parser, which descends from the same C library, says of a text."""
    fault = error.parser_error
    if fault is not None:
        line = fault.problem_mark.line if fault.problem_mark else 0
        if line and isinstance(fault, pyyaml.scanner.ScannerError):
            line += 1
        line = line or (fault.context_mark.line if fault.context_mark else 0)
        return f"yaml: line {line}: {fault.problem}" if line else f"yaml: {fault.problem}"
    if itself := re.match("the value of &(.*) contains itself", error.problem):
        return f"yaml: anchor '{itself[1]}' value contains itself"
    return f"yaml: line {error.line}: {error.problem}"
