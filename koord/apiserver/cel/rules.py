"""Validation rules of custom resources (x-kubernetes-validations): each is true of its part of the object, or a fault.

`self` is the part, `oldSelf` what it was; rules that look at `oldSelf` apply to changes only, unless they take it as
optional. What was wrong already and is not touched by an update is let be, as the real server does. Field names that
are no CEL names are escaped: `a-b` as `a__dash__b`.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from koord.api.duration import DurationError, parse_ns
from koord.apiserver.cel.expressions import CelError, Expression, OptionalValue, compiled
from koord.apiserver.schema import Schema
from koord.apiserver.status import Cause, duplicate, forbidden, invalid, required, shown

VARIABLES: Final = frozenset({"self", "oldSelf"})
_LONGEST_MESSAGE: Final = 5 * 1024
ROOT_FIELDS: Final = ("apiVersion", "kind")
ROOT_METADATA: Final = ("name", "generateName")
_RESERVED: Final = frozenset(
    {
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
    }
    | {"loop", "package", "namespace", "return", "var", "void", "while"}
)
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED: Final = re.compile(r"__|[.\-/]")


@dataclass(frozen=True, slots=True)
class _Rule:
    text: str
    condition: Expression
    uses_old: bool
    optional_old: bool
    message: str
    message_expression: Expression | None
    reason: str
    field_path: str

    @property
    def named(self) -> str:
        return self.message or self.text


def cel_validate(schema: Schema, obj: Mapping[str, Any], old: Mapping[str, Any] | None, path: str) -> list[Cause]:
    """All faults that the rules of a schema find in an object."""
    return list(_Walk(old is not None).check(schema, obj, old, path, unchanged=False, root=not path))


class _Walk:
    """One validation. `updating`: there is an old object to compare with."""

    def __init__(self, updating: bool) -> None:
        self._updating = updating

    def check(
        self, schema: Schema, value: Any, old: Any, path: str, *, unchanged: bool, root: bool = False
    ) -> Iterator[Cause]:
        if value is None:
            return
        if schema.rules:
            yield from self._apply(schema, value, old, path, unchanged, root)
        for part in schema.all_of:
            yield from self.check(part, value, old, path, unchanged=unchanged)
        if isinstance(value, dict):
            before = old if isinstance(old, dict) else {}
            for key, each in value.items():
                inner = schema.properties.get(key)
                place = f"{path}.{key}" if path else key
                if inner is None:
                    inner, place = schema.values, f"{path}[{key}]"
                if inner is not None:
                    was = before.get(key)
                    same = self._updating and ((each == was) if key in before else unchanged)
                    yield from self.check(inner, each, was, place, unchanged=same)
        elif isinstance(value, list) and schema.items is not None:
            were = _by_keys(schema, old)
            for i, each in enumerate(value):
                was = were.get(_keys(schema, each)) if were else None
                same = self._updating and ((each == was) if was is not None else unchanged)
                yield from self.check(schema.items, each, was, f"{path}[{i}]", unchanged=same)

    def _apply(self, schema: Schema, value: Any, old: Any, path: str, unchanged: bool, root: bool) -> Iterator[Cause]:
        variables: dict[str, Any] = {"self": to_cel(schema, value, root=root)}
        before = None if old is None else to_cel(schema, old, root=root)
        for rule in _rules(schema):
            if isinstance(rule, CelError):
                yield _at_type(path, schema, f"rule compile error: {rule}")
                continue
            if rule.uses_old:
                if before is None and not rule.optional_old:
                    continue
                optional = OptionalValue.none() if before is None else OptionalValue.of(before)
                variables["oldSelf"] = optional if rule.optional_old else before
            try:
                if rule.condition.evaluate(variables) is True:
                    continue
            except CelError as error:
                yield _at_type(path, schema, _evaluation_fault(error, rule))
                continue
            if unchanged and not rule.uses_old:
                continue
            yield _fault(rule, schema, value, _joined(path, rule.field_path), variables)


def to_cel(schema: Schema, value: Any, *, root: bool = False) -> Any:
    """A value as expressions see it: typed by the schema, fields under names that CEL can say."""
    if isinstance(value, dict):
        if root or schema.embedded:
            return _root(schema, value)
        return {
            escape(key) if key in schema.properties else key: to_cel(
                schema.properties.get(key) or schema.values or _ANY, each
            )
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [to_cel(schema.items or _ANY, each) for each in value]
    if isinstance(value, int) and not isinstance(value, bool) and schema.type == "number":
        return float(value)
    if isinstance(value, str) and schema.type == "string":
        return _formatted(schema.format, value)
    return value


_ANY: Final = Schema()


def _root(schema: Schema, value: Mapping[str, Any]) -> dict[str, Any]:
    """Of a whole object: its kind and name are known to every expression, the rest of its metadata to none."""
    shown_: dict[str, Any] = {key: value[key] for key in ROOT_FIELDS if key in value}
    metadata = value.get("metadata")
    if isinstance(metadata, dict):
        shown_["metadata"] = {key: metadata[key] for key in ROOT_METADATA if key in metadata}
    rest = {key: each for key, each in value.items() if key not in (*ROOT_FIELDS, "metadata")}
    return shown_ | {
        escape(key) if key in schema.properties else key: to_cel(schema.properties.get(key) or _ANY, each)
        for key, each in rest.items()
    }


def _formatted(format_: str, text: str) -> Any:
    try:
        match format_:
            case "date-time":
                return dt.datetime.fromisoformat(text.replace("Z", "+00:00"))
            case "date":
                return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)
            case "duration":
                return dt.timedelta(microseconds=parse_ns(text) / 1000)
            case "byte":
                return base64.b64decode(text, validate=True)
    except (ValueError, DurationError, binascii.Error):
        return text  # Validation of formats has its own word to say.
    return text


def _joined(path: str, below: str) -> str:
    """A place in the object; the object itself has none to name."""
    return (path + below if path else below.removeprefix(".")) or "<nil>"


def escape(name: str) -> str:
    """A field's name as CEL can say it."""
    if name in _RESERVED:
        return f"__{name}__"
    return _ESCAPED.sub(lambda match: _ESCAPES[match[0]], name)


@lru_cache(1024)
def _rules(schema: Schema) -> tuple[_Rule | CelError, ...]:
    return tuple(_compiled(rule) for rule in schema.rules)


def _compiled(rule: Mapping[str, object]) -> _Rule | CelError:
    text = str(rule.get("rule") or "").strip()
    try:
        condition = compiled(text, VARIABLES)
        message = str(rule.get("messageExpression") or "").strip()
        expression = compiled(message, VARIABLES) if message else None
    except CelError as error:
        return error
    return _Rule(
        text,
        condition,
        "oldSelf" in condition.names,
        bool(rule.get("optionalOldSelf")),
        str(rule.get("message") or "").strip(),
        expression,
        str(rule.get("reason") or ""),
        str(rule.get("fieldPath") or ""),
    )


def _fault(rule: _Rule, schema: Schema, value: Any, path: str, variables: Mapping[str, Any]) -> Cause:
    detail = _message(rule, variables)
    # Of a structure the value is left out: it can be large, and the fault is seldom all of it.
    structured = schema.type in ("object", "array")
    match rule.reason:
        case "FieldValueForbidden":
            return forbidden(path, detail)
        case "FieldValueRequired":
            return required(path, detail)
        case "FieldValueDuplicate":
            return Cause(path, "FieldValueDuplicate", "Duplicate value") if structured else duplicate(path, value)
    if structured:
        return Cause(path, "FieldValueInvalid", f"Invalid value: {detail}")
    return invalid(path, value, detail)


def _message(rule: _Rule, variables: Mapping[str, Any]) -> str:
    default = rule.message or f"failed rule: {rule.text}"
    if rule.message_expression is None:
        return default
    try:
        told = rule.message_expression.evaluate(variables)
    except CelError:
        return default
    told = told.strip() if isinstance(told, str) else ""
    return default if not told or "\n" in told or len(told.encode()) > _LONGEST_MESSAGE else told


def _evaluation_fault(error: CelError, rule: _Rule) -> str:
    if str(error).startswith("no such overload"):
        what = "call arguments did not match a supported operator, function or macro signature"
        return f"'{error}': {what} for rule: {rule.named}"
    return f"{error} evaluating rule: {rule.named}"


def _at_type(path: str, schema: Schema, detail: str) -> Cause:
    return invalid(path or "<nil>", schema.type, detail)


def _keys(schema: Schema, item: Any) -> tuple[str, ...]:
    return tuple(shown(item.get(key)) for key in schema.list_keys) if isinstance(item, dict) else ()


def _by_keys(schema: Schema, items: Any) -> Mapping[tuple[str, ...], Any]:
    if schema.list_type != "map" or not isinstance(items, list):
        return {}
    return {_keys(schema, item): item for item in items}
