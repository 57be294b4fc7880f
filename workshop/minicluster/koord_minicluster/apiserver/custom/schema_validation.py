"""Whether a custom resource fits its schema, with the real server's reasons and words.

What is checked of a value, in this order: type, anyOf / oneOf / allOf / not, string, format, number, list, enum,
object. On an update, a fault of a value that the update did not change is passed over (ratcheting). CEL rules are
looked at only when nothing is wrong with types and required fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from koord.api.cel import patterns
from koord.api.machinery.object_schema import MISSING, NOTHING, Missing, Schema
from koord.api.text import formats, string_formats
from koord.api.text.go_format import go_float, go_quoted
from koord_minicluster.apiserver import metadata
from koord_minicluster.apiserver.status import (
    Cause,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
)

_BLOCKING: Final = frozenset(
    {
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)
_UNCHECKED_RULES: Final = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)
_LARGEST_EXACT: Final = 9007199254740991.0


def validate(
    schema: Schema,
    obj: Mapping[str, Any],
    old: Mapping[str, Any] | None = None,
    warnings: list[str] | None = None,
) -> list[Cause]:
    """Faults of a custom resource; with `old`, of a change to it. What a rule finds in what did not change is added to
    the `warnings`."""
    causes = _Walk(old is not None).check(schema, obj, MISSING if old is None else old, "")
    causes += _embedded_faults(schema, obj, "")
    if old is None or not _list_faults(schema, old, ""):
        causes += _list_faults(schema, obj, "")
    return causes + _rule_faults(schema, obj, old, causes, warnings)


def validate_status(schema: Schema, obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[Cause]:
    """Faults of a change to the status alone."""
    status_schema = schema.properties.get("status")
    causes: list[Cause] = []
    if status_schema is not None and "status" in obj:
        causes += _Walk(True).check(status_schema, obj["status"], old.get("status", MISSING), "status")
    causes += _embedded_faults(schema, obj, "")
    if not _list_faults(schema, old, ""):
        causes += _list_faults(schema, obj, "")
    return causes + _rule_faults(schema, obj, old, causes)


def _rule_faults(
    schema: Schema,
    obj: Mapping[str, Any],
    old: Mapping[str, Any] | None,
    causes: Sequence[Cause],
    warnings: list[str] | None = None,
) -> list[Cause]:
    if not has_rules(schema):
        return []
    if any(cause.reason in _BLOCKING for cause in causes):
        return [Cause("<nil>", "FieldValueInvalid", f"Invalid value: null: {_UNCHECKED_RULES}")]
    # CEL takes a while to load, and few servers are asked for it.
    from koord_minicluster.apiserver.rules.validation import cel_validate

    return cel_validate(schema, obj, old, "", warnings)


_with_rules: dict[int, tuple[Schema, bool]] = {}


def has_rules(schema: Schema) -> bool:
    """Whether a schema has CEL rules anywhere."""
    remembered = _with_rules.get(id(schema))
    if remembered is None or remembered[0] is not schema:
        inner = (*schema.properties.values(), *schema.all_of, *schema.any_of, *schema.one_of)
        others = (schema.items, schema.values, schema.not_)
        has_any = bool(schema.rules) or any(
            has_rules(subschema) for subschema in (*inner, *others) if subschema is not None
        )
        remembered = _with_rules[id(schema)] = (schema, has_any)
    return remembered[1]


class _Walk:
    """One validation. `ratcheting`: there is an old value beside each new one, or MISSING where it has none."""

    def __init__(self, ratcheting: bool) -> None:
        self._ratcheting = ratcheting

    def check(self, schema: Schema, value: Any, old: Any, path: str) -> list[Cause]:
        causes = self._faults(schema, value, old, path)
        if causes and self._ratcheting and not isinstance(old, Missing) and _equal(value, old):
            return []
        return causes

    def _faults(self, schema: Schema, value: Any, old: Any, path: str) -> list[Cause]:
        causes = _type_faults(schema, value, path)
        if value is None:
            return causes + _enum_faults(schema, value, path)
        if schema.any_of or schema.one_of or schema.all_of or schema.not_ is not None:
            causes += self._composed_faults(schema, value, old, path)
        match value:
            case str():
                causes += _string_faults(schema, value, path)
            case bool():
                pass
            case int() | float():
                causes += _number_faults(schema, value, path)
            case list():
                causes += self._list(schema, value, old, path)
        causes += _enum_faults(schema, value, path)
        if isinstance(value, dict):
            causes += self._object(schema, value, old, path)
        return causes

    def _list(self, schema: Schema, value: list[Any], old: Any, path: str) -> list[Cause]:
        causes: list[Cause] = []
        if schema.items is not None:
            counterpart = _counterparts(schema, old)
            for i, item in enumerate(value):
                causes += self.check(schema.items, item, counterpart(i, item), f"{path}[{i}]")
        size = len(value)
        if schema.min_items is not None and size < schema.min_items:
            causes.append(invalid(_field(path), size, f"{path} in body should have at least {schema.min_items} items"))
        if schema.max_items is not None and size > schema.max_items:
            causes.append(too_many(_field(path), size, schema.max_items))
        if schema.unique_items and len({_canonical(item) for item in value}) < size:
            causes.append(invalid(_field(path), "", f"{path} in body shouldn't contain duplicates"))
        return causes

    def _object(self, schema: Schema, value: dict[str, Any], old: Any, path: str) -> list[Cause]:
        causes: list[Cause] = []
        was = old if isinstance(old, dict) else {}
        size = len(value)
        if schema.min_properties is not None and size < schema.min_properties:
            text = f"{path} in body should have at least {schema.min_properties} properties"
            causes.append(invalid(_field(path), size, text))
        if schema.max_properties is not None and size > schema.max_properties:
            causes.append(too_many(_field(path), size, schema.max_properties))
        if schema.values is NOTHING:
            for key in value.keys() - schema.properties.keys():
                causes.append(invalid(_field(path), key, f"{path}.{key} in body is a forbidden property"))
        elif schema.values is not None:
            for key, item in value.items():
                if key not in schema.properties:
                    causes += self.check(schema.values, item, was.get(key, MISSING), f"{path}.{key}")
        for key, inner in schema.properties.items():
            # Metadata of the usual shape were given their types when they were read.
            if key in value and not (inner.ref and not path):
                where = f"{path}.{key}" if path else key
                seen = MISSING if not path and key in ("kind", "apiVersion") else was.get(key, MISSING)
                causes += self.check(inner, value[key], seen, where)
        causes += [required(_field(f"{path}.{key}")) for key in schema.required if key not in value]
        return causes

    def _composed_faults(self, schema: Schema, value: Any, old: Any, path: str) -> list[Cause]:
        causes: list[Cause] = []

        def outcomes(schemas: Sequence[Schema]) -> list[list[Cause]]:
            return [self._faults(subschema, value, old, path) for subschema in schemas]

        if schema.any_of:
            results = outcomes(schema.any_of)
            if all(results):
                causes.append(_composed(f'"{path}" must validate at least one schema (anyOf)'))
                causes += results[0]
        if schema.one_of:
            results = outcomes(schema.one_of)
            valid = sum(1 for faults in results if not faults)
            if valid != 1:
                text = "Found none valid" if not valid else f"Found {valid} valid alternatives"
                causes.append(_composed(f'"{path}" must validate one and only one schema (oneOf). {text}'))
                if not valid:
                    causes += results[0]
        if schema.all_of:
            results = outcomes(schema.all_of)
            for faults in results:
                causes += faults
            if any(results):
                none = ". None validated" if all(results) else ""
                causes.append(_composed(f'"{path}" must validate all the schemas (allOf){none}'))
        if schema.not_ is not None and not self._faults(schema.not_, value, old, path):
            causes.append(_composed(f'"{path}" must not validate the schema (not)'))
        return causes


def _composed(text: str) -> Cause:
    return Cause("<nil>", "FieldValueInvalid", f'Invalid value: "": {text}')


def _field(path: str) -> str:
    return path.removeprefix(".") or "<nil>"


def _counterparts(schema: Schema, old: Any) -> Callable[[int, Any], Any]:
    """What stands for a list's item in the old list: by key for maps, nothing otherwise, since items may move."""
    if not isinstance(old, list) or schema.list_type != "map" or not schema.list_keys:
        return lambda _i, _item: MISSING
    keys = schema.list_keys
    by_key = {_canonical([item.get(key) for key in keys]): item for item in old if isinstance(item, dict)}

    def find(_i: int, item: Any) -> Any:
        if not isinstance(item, dict):
            return MISSING
        return by_key.get(_canonical([item.get(key) for key in keys]), MISSING)

    return find


def _type_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def _type_faults(schema: Schema, value: object, path: str) -> list[Cause]:
    wanted = ("integer", "string") if schema.int_or_string else () if schema.type == "any" else (schema.type,)
    if not wanted:
        return []
    actual = _type_of(value)
    if value is None:
        return [] if schema.nullable else [_wrong_type(path, ",".join(wanted), actual)]
    integral = isinstance(value, float) and value.is_integer() and abs(value) <= _LARGEST_EXACT
    fits = actual in wanted or (integral and "integer" in wanted) or (actual == "integer" and "number" in wanted)
    if schema.format and string_formats.is_known(schema.format):
        if actual not in ("string", "array") and not fits:
            return [_wrong_type(path, schema.format, {"integer": "int64", "number": "float64"}.get(actual, ""))]
        if actual in ("string", "array") and not {"integer", "number"} & set(wanted):
            return []
    return [] if fits else [_wrong_type(path, ",".join(wanted), actual)]


def _wrong_type(path: str, wanted: str, actual: str) -> Cause:
    return type_invalid(_field(path), actual, f'{path} in body must be of type {wanted}: "{actual}"')


def _string_faults(schema: Schema, value: str, path: str) -> list[Cause]:
    causes: list[Cause] = []
    if schema.max_length is not None and len(value) > schema.max_length:
        causes.append(too_long(_field(path), schema.max_length))
    elif schema.min_length is not None and len(value) < schema.min_length:
        text = f"{path} in body should be at least {schema.min_length} chars long"
        causes.append(invalid(_field(path), value, text))
    elif schema.pattern and not matches(schema.pattern, value):
        causes.append(invalid(_field(path), value, f"{path} in body should match '{schema.pattern}'"))
    if schema.format and not string_formats.is_valid(schema.format, value):
        text = f"{path} in body must be of type {schema.format}: {go_quoted(value)}"
        causes.append(type_invalid(_field(path), value, text))
    return causes


def _number_faults(schema: Schema, value: float, path: str) -> list[Cause]:
    causes: list[Cause] = []
    whole = isinstance(value, int)

    def as_shown(limit: float) -> str:
        return str(int(limit)) if whole else go_float(limit)

    if schema.multiple_of is not None:
        factor = float(int(schema.multiple_of)) if whole else float(schema.multiple_of)
        if factor <= 0:
            # The real server cuts a fractional factor down to an integer for integers, and then complains of it.
            text = f"factor MultipleOf declared for {path} must be positive: {as_shown(factor)}"
            causes.append(Cause(_field(path), "FieldValueInvalid", f"Invalid value: {as_shown(factor)}: {text}"))
        else:
            times = value / factor if factor >= 1 else 1 / factor * value
            exact = value % factor == 0 if whole else times.is_integer() and abs(times) <= _LARGEST_EXACT
            if not exact:
                causes.append(_bad_number(path, value, f"should be a multiple of {as_shown(factor)}"))
    if schema.minimum is not None:
        if schema.exclusive_minimum and value <= schema.minimum:
            causes.append(_bad_number(path, value, f"should be greater than {as_shown(schema.minimum)}"))
        elif value < schema.minimum:
            causes.append(_bad_number(path, value, f"should be greater than or equal to {as_shown(schema.minimum)}"))
    if schema.maximum is not None:
        if schema.exclusive_maximum and value >= schema.maximum:
            causes.append(_bad_number(path, value, f"should be less than {as_shown(schema.maximum)}"))
        elif value > schema.maximum:
            causes.append(_bad_number(path, value, f"should be less than or equal to {as_shown(schema.maximum)}"))
    return causes


def _bad_number(path: str, value: float, text: str) -> Cause:
    printed = str(value) if isinstance(value, int) else go_float(value)
    return Cause(_field(path), "FieldValueInvalid", f"Invalid value: {printed}: {path} in body {text}")


def _enum_faults(schema: Schema, value: object, path: str) -> list[Cause]:
    if not schema.enum or any(_equal(value, allowed) or _converts(value, allowed) for allowed in schema.enum):
        return []
    texts = [allowed if isinstance(allowed, str) else msgspec.json.encode(allowed).decode() for allowed in schema.enum]
    return [not_supported(_field(path), value, texts)]


def _converts(value: object, wanted: object) -> bool:
    """The real server cuts a fraction off where that gives a value of an enumeration; its type is wrong anyway."""
    return isinstance(value, float) and type(wanted) is int and abs(value) < 2**63 and int(value) == wanted


def _embedded_faults(schema: Schema, value: object, path: str) -> list[Cause]:
    """Faults of objects inside an object: they need an apiVersion and a kind."""
    causes: list[Cause] = []
    if isinstance(value, list) and schema.items is not None:
        for i, item in enumerate(value):
            causes += _embedded_faults(schema.items, item, f"{path}[{i}]")
    if not isinstance(value, Mapping):
        return causes
    if schema.embedded:
        causes += _embedded_head_faults(value, path)
    for key, item in value.items():
        inner = schema.properties.get(key)
        if inner is not None:
            causes += _embedded_faults(inner, item, f"{path}.{key}" if path else key)
        elif schema.values is not None:
            causes += _embedded_faults(schema.values, item, f"{path}[{key}]")
    return causes


def _embedded_head_faults(value: Mapping[str, Any], path: str) -> list[Cause]:
    prefix = f"{path}." if path else ""
    causes = [required(prefix + key) for key in ("apiVersion", "kind") if key not in value]
    for key in ("apiVersion", "kind"):
        text = value.get(key)
        if text is None:
            continue
        if text == "":
            causes.append(invalid(prefix + key, text, "must not be empty"))
        elif key == "apiVersion" and text.count("/") > 1:
            causes.append(invalid(prefix + key, text, f"unexpected GroupVersion string: {text}"))
        elif key == "kind" and (faults := formats.dns_1035_label(text.lower())):
            detail = "may have mixed case, but should otherwise match: " + ",".join(faults)
            causes.append(invalid(prefix + key, text, detail))
    if isinstance(meta := value.get("metadata"), Mapping):
        causes += [replace(cause, field=prefix + cause.field) for cause in metadata.faults_of_embedded(meta)]
    return causes


def _list_faults(schema: Schema, value: object, path: str) -> list[Cause]:
    """Items given twice in sets, keys given twice in lists that are maps."""
    causes: list[Cause] = []
    if isinstance(value, list):
        if schema.list_type == "set":
            causes += [duplicate(f"{path}[{i}]", value[i]) for i in _repeats(value)]
        elif schema.list_type == "map":
            causes += _map_list_faults(schema, value, path)
        if schema.items is not None:
            for i, item in enumerate(value):
                causes += _list_faults(schema.items, item, f"{path}[{i}]")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            inner = schema.properties.get(key) if path or key != "metadata" else None
            if inner is not None:
                causes += _list_faults(inner, item, f"{path}.{key}" if path else key)
            elif schema.values is not None:
                causes += _list_faults(schema.values, item, f"{path}[{key}]")
    return causes


def _map_list_faults(schema: Schema, value: list[Any], path: str) -> list[Cause]:
    for i, item in enumerate(value):
        if item is not None and not isinstance(item, dict):
            return [invalid(f"{path}[{i}]", item, "must be an object for an array of list-type map")]
    keys = [{key: (item or {})[key] for key in sorted(schema.list_keys) if key in (item or {})} for item in value]
    return [duplicate(f"{path}[{i}]", keys[i]) for i in _repeats(keys)]


def _repeats(values: Sequence[Any]) -> list[int]:
    """Where each value that occurs more than once occurs for the second time."""
    seen: dict[bytes, int] = {}
    repeated = []
    for i, value in enumerate(values):
        key = _canonical(value)
        seen[key] = seen.get(key, 0) + 1
        if seen[key] == 2:
            repeated.append(i)
    return repeated


def _canonical(value: object) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def _equal(one: object, other: object) -> bool:
    """Equality of JSON values, in which true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict | list) or isinstance(other, dict | list):
        return type(one) is type(other) and _canonical(one) == _canonical(other)
    return one == other


def matches(pattern: str, text: str) -> bool:
    """An invalid pattern was refused with its schema; one that was stored before limits nothing."""
    return bool(patterns.pattern_fault(pattern)) or patterns.matches(text, pattern)
