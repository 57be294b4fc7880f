"""Built-in objects as the real server reads and writes them.

There, a body becomes a Go struct and is written out again. So a null is nothing, an empty value vanishes where its
field says so, some empty fields appear always, quantities and times take their canonical form, and a value of the wrong
type is refused with the struct's and field's names. `read` does it all in one walk, compiled once for each definition.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from koord.api import builtin_schemas as schemas
from koord.api.machinery.object_schema import Schema
from koord.api.machinery.short_cache import short_cache
from koord.api.text import quantity, timestamp
from koord_minicluster.apiserver.bodies.json_text import Number

Read = Callable[[Any, list[str]], Any]
"""From a decoded value to the one that is kept. Appends unknown fields to the list, by name alone."""

_QUANTITY_FORM: Final = re.compile(r"([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)")
_QUANTITY_FAULT: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_INTEGER_LIMITS: Final = {"int32": 1 << 31, "int64": 1 << 63}
_TIME_LAYOUT: Final = "2006-01-02T15:04:05Z07:00"
_MICRO_TIME_LAYOUT: Final = "2006-01-02T15:04:05.000000Z07:00"
_UNTYPED: Final = {"string": "string", "number": "int64", "bool": "bool", "array": "slice", "object": "map"}
_ZERO_TIME: Final = "0001-01-01T00:00:00Z"


class Mistyped(ValueError):
    """A value that its field cannot hold. The callers on the way out add where it is."""

    def __init__(self, value: str = "", go_type: str = "", text: str = "", shape: str = "") -> None:
        super().__init__(value, go_type, text)
        self.value, self.go_type, self.text, self.shape = value, go_type, text, shape or go_type
        self.struct = ""
        self.path: list[str] = []

    def converting(self) -> str:
        """The words of the server's other way to give values their types, which strategic merge patches take."""
        if self.text:
            return self.text
        source = _UNTYPED.get(self.value.partition(" ")[0], self.value)
        if source == "int64" and " " in self.value and not self.value.rpartition(" ")[2].lstrip("-").isdigit():
            source = "float64"
        match self.shape:
            case "struct":
                return f"cannot restore struct from: {source}"
            case "slice" | "map":
                return f"cannot restore {self.shape} from {source}"
        if (self.shape, source) == ("string", "int64") or (self.shape.startswith("int") and source == "float64"):
            return f"cannot convert {source} to {self.go_type}"
        return f"unrecognized type: {self.shape}"

    def __str__(self) -> str:
        if self.text:
            return self.text
        into = f"Go struct field {self.struct}.{'.'.join(self.path)}" if self.struct else "Go value"
        return f"json: cannot unmarshal {self.value} into {into} of type {self.go_type}"


def read(schema: Schema, value: object) -> tuple[Any, bool]:
    """The value to keep, and whether unknown fields were dropped. Raises Mistyped."""
    unknown: list[str] = []
    return reader(schema)(value, unknown), bool(unknown)


def read_changed(schema: Schema, value: dict[str, Any], stored: dict[str, Any] | None) -> tuple[Any, bool]:
    """Like `read`, for a patched stored object: parts shared with the stored object are already typed."""
    kept = {key: part for key, part in value.items() if part and stored and stored.get(key) is part}
    if not kept:
        return read(schema, value)
    assert stored is not None
    rest = {key: part for key, part in value.items() if key not in kept}
    has_unknown = False
    meta, was = rest.get("metadata"), stored.get("metadata")
    if isinstance(meta, dict) and isinstance(was, dict) and "metadata" in schema.properties:
        del rest["metadata"]
        try:
            kept["metadata"], has_unknown = read_changed(schema.properties["metadata"], meta, was)
        except Mistyped as wrong:
            wrong.struct = wrong.struct or schema.ref.rpartition(".")[2]
            wrong.path.insert(0, f"{schema.properties['metadata'].go_within}metadata")
            raise
    if rest:
        changed, more_unknown = read(schema, rest)
        kept |= {key: part for key, part in changed.items() if key not in kept}
        has_unknown = has_unknown or more_unknown
    return {key: kept[key] for key in {**value, **kept} if key in kept}, has_unknown


def empty(schema: Schema) -> Any:
    """What an absent value reads as: a struct with the fields that always appear."""
    return reader(schema)({}, [])


def prepare(schema: Schema) -> None:
    """Compile what is otherwise compiled at its first use."""
    _settler(schema)
    reader(schema)


def settle(schema: Schema, obj: Any) -> None:
    """Writes what is about to be stored as it will be read back: a list that always appears is null when empty."""
    _settler(schema)(obj)


Settle = Callable[[Any], None]
_settlers: dict[str, Settle | None] = {}


def _settler(schema: Schema) -> Settle:
    if schema.ref not in _settlers:
        # While it is worked out, a definition that contains itself is taken to have nothing to settle within.
        _settlers[schema.ref] = None
        _settlers[schema.ref] = _struct_settler(schema)
    return _settlers[schema.ref] or _settled


def _settled(_value: Any) -> None: ...


def _struct_settler(schema: Schema) -> Settle | None:
    lists = [key for key, inner in schema.properties.items() if inner.type == "array" and inner.written == "always"]
    parts = [
        (key, settler) for key, inner in schema.properties.items() if (settler := _part_settler(inner)) is not None
    ]
    if not lists and not parts:
        return None

    def settle_struct(value: Any) -> None:
        for key in lists:
            if value.get(key) == []:
                value[key] = None
        for key, settle_part in parts:
            if part := value.get(key):
                settle_part(part)

    return settle_struct


def _part_settler(schema: Schema) -> Settle | None:
    inner = schema.items or schema.values
    if inner is not None and schema.type in ("array", "object") and not schema.preserve_unknown:
        settler = _part_settler(inner)
        return None if settler is None else _settle_each(settler)
    if schema.ref and schema.properties:
        settler = _settler(schema)
        return None if settler is _settled else settler
    return None


def _settle_each(settle_item: Settle) -> Settle:
    def settle_items(items: Any) -> None:
        for item in items.values() if items.__class__ is dict else items:
            settle_item(item)

    return settle_items


_readers: dict[str, Read] = {}


def reader(schema: Schema) -> Read:
    """The compiled walk of a schema."""
    if schema.ref and schema.properties:
        struct_reader = _readers.get(schema.ref)
        if struct_reader is None:
            struct_reader = _readers[schema.ref] = _struct(schema)
        return struct_reader
    return _reader_of_shape(schema)


@cache
def _reader_of_shape(schema: Schema) -> Read:
    special = _SPECIAL.get(schema.format)
    if special is not None:
        return special(schema)
    if schema.preserve_unknown:
        return _anything
    match schema.type:
        case "string":
            return _plain(str, schema.go_type or "string")
        case "boolean":
            return _plain(bool, schema.go_type or "bool")
        case "integer":
            return _integer(schema)
        case "number":
            return _number
        case "array":
            return _array(schema)
        case "object" if schema.values is not None:
            return _map(schema)
        case "object":
            return _struct(schema)
    return _anything


def _struct(schema: Schema) -> Read:
    name = schema.ref.rpartition(".")[2]
    plan: dict[str, tuple[type | None, Read, bool]] = {}
    always: list[tuple[str, Callable[[], Any]]] = []
    prefixes = {key: f"{field.go_within}{key}" for key, field in schema.properties.items()}
    compiled = False

    def compile_() -> None:
        # At the first use, since a definition may contain itself. Known when it is whole: other threads may look.
        nonlocal compiled
        appearing: list[tuple[str, Callable[[], Any]]] = []
        for key, field in schema.properties.items():
            exact = {"string": str, "boolean": bool}.get(field.type) if not field.format else None
            # An empty list or map is not stored. Where a list always appears, `settle` adds it; until then it stays in
            # the object, and its sender owns it.
            emptied = (field.type == "array" and field.written != "always") or (
                field.values is not None and not field.preserve_unknown
            )
            plan[key] = (exact, _late(field), field.written == "filled" or emptied)
            if always_appears(schema, key):
                appearing.append((key, zero(field)))
        always[:] = appearing
        compiled = True

    def read_struct(value: Any, unknown: list[str]) -> Any:
        if not compiled:
            compile_()
        if value.__class__ is not dict:
            if value is None:
                value = {}
            else:
                version = "v1beta1" if "v1beta1" in schema.ref else "v1"
                raise Mistyped(_kind_of(value), f"{version}.{name}", shape="struct")
        kept: dict[str, Any] = {}
        key = ""
        try:
            for key, item in value.items():
                planned = plan.get(key)
                if planned is None:
                    unknown.append(key)
                    continue
                if item is None:
                    continue
                exact, read_, filled = planned
                if item.__class__ is not exact:
                    item = read_(item, unknown)
                if item or (not filled and item is not None):
                    kept[key] = item
        except Mistyped as wrong:
            wrong.struct = wrong.struct or name
            wrong.path.insert(0, prefixes[key])
            raise
        for key, made in always:
            if key not in kept:
                kept[key] = made()
        return kept

    return read_struct


def _late(schema: Schema) -> Read:
    """The reader of a field, found when first called."""
    reads: list[Read] = []

    def read_(value: Any, unknown: list[str]) -> Any:
        if not reads:
            reads.append(reader(schema))
        return reads[0](value, unknown)

    if schema.ref and schema.properties:
        return read_
    return _reader_of_shape(schema)


def always_appears(schema: Schema, key: str) -> bool:
    """Whether a struct shows the field, sent or not. Of an object, others see to its kind and apiVersion."""
    of_object = key in ("kind", "apiVersion") and "metadata" in schema.properties
    return schema.properties[key].written == "always" and not of_object


def zero(schema: Schema) -> Callable[[], Any]:
    """What a field that always appears holds where nothing was sent."""
    if schema.pointer or schema.format in ("date-time", "micro-time", "raw") or schema.type in ("array", "any"):
        return (lambda: 0) if schema.int_or_string else lambda: None
    match schema.type:
        case "string":
            text = "0" if schema.format == "quantity" else "0s" if schema.format == "duration" else ""
            return lambda: text
        case "integer" | "number":
            return lambda: 0
        case "boolean":
            return lambda: False
    if schema.values is not None or schema.preserve_unknown:
        return lambda: None
    return lambda: reader(schema)({}, [])


def _array(schema: Schema) -> Read:
    items = schema.items or Schema()
    go_type = schema.go_type or f"[]{_go_type(items)}"
    read_item = _element(items, go_type.removeprefix("[]") if go_type.startswith("[]") else _go_type(items))
    exact = str if items.type == "string" and not items.format else None

    def read_array(value: Any, unknown: list[str]) -> Any:
        if value.__class__ is not list:
            raise Mistyped(_kind_of(value), go_type, shape="slice")
        return [item if item.__class__ is exact else read_item(item, unknown) for item in value]

    return read_array


def _map(schema: Schema) -> Read:
    values = schema.values or Schema()
    go_type = (schema.go_type or f"map[string]{_go_type(values)}").replace("[]byte", "[]uint8")
    inner = go_type.removeprefix("map[string]") if go_type.startswith("map[string]") else _go_type(values)
    read_value = _element(values, inner)
    exact = str if values.type == "string" and not values.format else None

    def read_map(value: Any, unknown: list[str]) -> Any:
        if value.__class__ is not dict:
            raise Mistyped(_kind_of(value), go_type, shape="map")
        return {key: item if item.__class__ is exact else read_value(item, unknown) for key, item in value.items()}

    return read_map


def _element(schema: Schema, go_type: str) -> Read:
    """Of a list or map: an element, where null is the zero value."""
    nothing = zero(schema)
    if schema.type in ("string", "boolean") and not schema.format:
        read_ = _plain(str if schema.type == "string" else bool, go_type)
    else:
        read_ = _late(schema)
    return lambda value, unknown: nothing() if value is None else read_(value, unknown)


def _plain(exact: type, go_type: str) -> Read:
    def read_plain(value: Any, _unknown: list[str]) -> Any:
        if value.__class__ is not exact:
            raise Mistyped(_kind_of(value), go_type, shape="string" if exact is str else "bool")
        return value

    return read_plain


def _integer(schema: Schema) -> Read:
    limit = _INTEGER_LIMITS.get(schema.format, 1 << 63)
    go_type = schema.go_type or schema.format or "int64"

    def read_integer(value: Any, _unknown: list[str]) -> Any:
        if value.__class__ is not int:
            raise Mistyped(_numbered(value), go_type)
        if not -limit <= value < limit:
            raise Mistyped(f"number {value}", go_type)
        return value

    return read_integer


def _number(value: Any, _unknown: list[str]) -> Any:
    if value.__class__ not in (float, int, Number):
        raise Mistyped(_kind_of(value), "float64")
    return value


def _anything(value: Any, _unknown: list[str]) -> Any:
    return value


def _int_or_string(_schema: Schema) -> Read:
    as_integer = _integer(Schema(type="integer", format="int32", go_type="int32"))

    def read_either(value: Any, unknown: list[str]) -> Any:
        return value if value.__class__ is str else as_integer(value, unknown)

    return read_either


def _quantity(_schema: Schema) -> Read:
    def read_quantity(value: Any, _unknown: list[str]) -> Any:
        if value.__class__ is bool or not isinstance(value, str | int | float):
            raise Mistyped(text=_QUANTITY_FAULT)
        try:
            return quantity.canonical(value)
        except quantity.QuantityError:
            raise Mistyped(text=quantity_fault(str(value))) from None

    return read_quantity


def quantity_fault(text: str) -> str:
    """Why a text is not a quantity, as Go's parser says it."""
    form = _QUANTITY_FORM.fullmatch(text)
    if form is None or not any(char.isdigit() for char in form[1]):
        return _QUANTITY_FAULT
    return "unable to parse quantity's suffix" if form[1].count(".") < 2 else _QUANTITY_FAULT


def _bytes(_schema: Schema) -> Read:
    def read_byte(value: Any, _unknown: list[str]) -> int:
        if value is None:
            return 0
        if value.__class__ is not int or not 0 <= value < 256:
            raise Mistyped(_numbered(value), "uint8")
        return int(value)

    def read_bytes(value: Any, _unknown: list[str]) -> Any:
        if value.__class__ is list:
            return base64.b64encode(bytes(read_byte(item, []) for item in value)).decode()
        if value.__class__ is not str:
            raise Mistyped(_kind_of(value), "[]uint8")
        text = value.replace("\r", "").replace("\n", "")
        try:
            return base64.b64encode(base64.b64decode(text, validate=True)).decode()
        except (binascii.Error, ValueError):
            raise Mistyped(text=f"illegal base64 data at input byte {_bad_base64_at(text)}") from None

    return read_bytes


def _bad_base64_at(text: str) -> int:
    for i, char in enumerate(text):
        if not re.match(r"[A-Za-z0-9+/]", char):
            # Padding is looked at with the group of four that it should complete.
            return i
    return len(text) // 4 * 4


def _time(layout: str, write: Callable[[int], str]) -> Callable[[Schema], Read]:
    @short_cache(4096)
    def read_text(text: str) -> tuple[str, str | None]:
        """What is wrong with it, or else how it is kept. Most times are read many times: they are in every object."""
        if fault := time_fault(text, layout):
            return fault, None
        return "", None if text.startswith(_ZERO_TIME[:19]) else write(timestamp.parse_ns(text))

    def read_time(value: Any, _unknown: list[str]) -> Any:
        if value.__class__ is not str:
            raise Mistyped(_kind_of(value), "string")
        fault, kept = read_text(value)
        if fault:
            raise Mistyped(text=fault)
        return kept

    return lambda _schema: read_time


_TIME_PARTS: Final = (
    ("2006", 4, 0, 9999, "year"), ("-", 0, 0, 0, ""), ("01", 2, 1, 12, "month"), ("-", 0, 0, 0, ""),
    ("02", 2, 1, 31, "day"), ("T", 0, 0, 0, ""), ("15", 2, 0, 23, "hour"), (":", 0, 0, 0, ""),
    ("04", 2, 0, 59, "minute"), (":", 0, 0, 0, ""), ("05", 2, 0, 59, "second"),
)  # fmt: skip
_ZONE: Final = re.compile(r"Z|[+-][0-9]{2}:[0-9]{2}")


def time_fault(text: str, layout: str = _TIME_LAYOUT) -> str:
    """Why a text is not a time, as Go's parser says it; "" where it is one."""
    rest = text

    def cannot(part: str) -> str:
        return f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as "{part}"'

    range_fault = ""
    for part, digits, least, most, name in _TIME_PARTS:
        if not digits:
            if not rest.startswith(part):
                return cannot(part)
            rest = rest[1:]
            continue
        if len(rest) < digits or not (rest[:digits].isascii() and rest[:digits].isdigit()):
            return cannot(part)
        if not least <= int(rest[:digits]) <= most and not range_fault:
            range_fault = f'parsing time "{text}": {name} out of range'
            if name in ("hour", "minute", "second"):
                return range_fault
        rest = rest[digits:]
    if layout == _MICRO_TIME_LAYOUT:
        if not re.match(r"\.[0-9]{6}", rest):
            return cannot(".000000")
        rest = rest[7:]
    elif fraction := re.match(r"[.,][0-9]+", rest):
        rest = rest[fraction.end() :]
    if not (zone := _ZONE.match(rest)):
        return cannot("Z07:00")
    rest = rest[zone.end() :]
    if rest:
        return f'parsing time "{text}": extra text: "{rest}"'
    if not range_fault:
        try:
            timestamp.parse_ns(text)
        except timestamp.TimestampError:
            range_fault = f'parsing time "{text}": day out of range'
    return range_fault


def _schema_or(other: type) -> Callable[[Schema], Read]:
    """Of JSON schemas inside a CustomResourceDefinition: a schema, or something simpler."""

    def make(_schema: Schema) -> Read:
        def read_(value: Any, _unknown: list[str]) -> Any:
            if isinstance(value, dict):
                return reader(_json_schema())(value, [])
            if other is bool and not isinstance(value, bool):
                raise Mistyped(text="boolean or JSON schema expected")
            if other is list:
                read_schema = reader(_json_schema())
                if not isinstance(value, list):
                    raise Mistyped(_kind_of(value), "v1.JSONSchemaProps", shape="struct")
                return [read_schema(item if isinstance(item, dict) else {}, []) for item in value]
            return value

        return read_

    return make


def _json_schema() -> Schema:
    return schemas.builtin("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")


_SPECIAL: Final[dict[str, Callable[[Schema], Read]]] = {
    "quantity": _quantity,
    "int-or-string": _int_or_string,
    "byte": _bytes,
    "date-time": _time(_TIME_LAYOUT, lambda ns: timestamp.from_seconds(ns // 1_000_000_000)),
    "micro-time": _time(_MICRO_TIME_LAYOUT, timestamp.micro_from_ns),
    "raw": lambda _schema: _anything,
    "schema-or-bool": _schema_or(bool),
    "schema-or-array": _schema_or(list),
    "schema-or-strings": _schema_or(object),
}


def _go_type(schema: Schema) -> str:
    if schema.go_type:
        return schema.go_type if "." in schema.go_type or not schema.ref else f"v1.{schema.go_type}"
    if schema.ref:
        return f"v1.{schema.ref.rpartition('.')[2]}"
    return {"string": "string", "boolean": "bool", "integer": schema.format or "int64"}.get(schema.type, "string")


def _numbered(value: object) -> str:
    """Where an integer is wanted, a number is named with its value."""
    kind = _kind_of(value)
    return f"number {value}" if kind == "number" else kind


def _kind_of(value: object) -> str:
    """The JSON type of a value, as Go's messages name it."""
    match value:
        case bool():
            return "bool"
        case Number() | int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"
