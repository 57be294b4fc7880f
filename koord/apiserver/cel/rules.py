"""Validation rules of custom resources (x-kubernetes-validations): each is true of its part of the object, or a fault.

`self` is the part, `oldSelf` what it was; rules that look at `oldSelf` apply to changes only, unless they take it as
optional. What was wrong already and is not touched by an update is only warned of. All rules of an object share a
budget; when it is spent, no further rule runs, and the object is refused.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from koord.api.duration import DurationError, parse_ns
from koord.apiserver.cel import types
from koord.apiserver.cel.declared import Declared, as_resource, declare, escape
from koord.apiserver.cel.expressions import Expression, compiled
from koord.apiserver.cel.field_paths import normal_path
from koord.apiserver.cel.standard import to_timestamp
from koord.apiserver.cel.syntax import CelError, CostExceeded
from koord.apiserver.cel.values import NONE, Duration, KeyedList, Maybe, Obj, SetList, StoredList, StoredMap
from koord.apiserver.schema import ANYTHING, NOTHING, Schema
from koord.apiserver.status import Cause, duplicate, forbidden, go_quoted, invalid, required, shown

BUDGET: Final = 10_000_000
"""What all rules may cost for one object."""
_LONGEST_MESSAGE: Final = 5 * 1024
_SPENT: Final = "no further validation rules will be run"
_OUT_OF_BUDGET: Final = f"validation failed due to running out of cost budget, {_SPENT}"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that compiled, or why it did not."""

    text: str
    condition: Expression | CelError
    uses_old: bool
    optional_old: bool
    message: str
    message_expression: Expression | CelError | None
    reason: str
    field_path: str

    @property
    def named(self) -> str:
        return self.message or self.text


@dataclass(frozen=True, slots=True)
class _Node:
    """A part of a schema that has rules, or parts that have some."""

    schema: Schema
    is_resource: bool
    rules: tuple[Rule, ...]
    all_of: tuple[_Node, ...]
    properties: Mapping[str, _Node]
    values: _Node | None
    items: _Node | None


def compile_rule(rule: Mapping[str, object], schema: Schema, declared: Declared) -> Rule:
    """A rule of a schema whose values are declared like this."""
    text = str(rule.get("rule") or "")
    source = str(rule.get("messageExpression") or "")
    optional_old = bool(rule.get("optionalOldSelf"))
    old_type = types.optional_of(declared.type) if optional_old else declared.type
    variables = {"self": declared.type, "oldSelf": old_type}
    condition = _typed(text, variables, types.BOOL, "cel expression must evaluate to a bool")
    message: Expression | CelError | None = None
    if source and isinstance(condition, Expression):
        message = _typed(source, variables, types.STRING, "messageExpression must evaluate to a string")
    path = str(rule.get("fieldPath") or "")
    return Rule(
        text.strip(),
        condition,
        isinstance(condition, Expression) and condition.uses("oldSelf"),
        optional_old,
        str(rule.get("message") or "").strip(),
        message,
        str(rule.get("reason") or ""),
        (normal_path(schema, path) or "") if path else "",
    )


def _typed(
    source: str, variables: Mapping[str, types.Type], wanted: types.Type, otherwise: str
) -> Expression | CelError:
    try:
        made = compiled(source, variables)
    except CelError as error:
        return error
    return made if made.type == wanted else CelError(otherwise)


@lru_cache(256)
def _root(schema: Schema) -> _Node | None:
    return _node(schema, schema, is_resource=True)


def _node(ruled: Schema, schema: Schema, *, is_resource: bool) -> _Node | None:
    """`ruled` has the rules: the schema itself, or a part of its allOf."""
    rules: tuple[Rule, ...] = ()
    if ruled.rules and (declared := declare(schema, is_resource=is_resource)) is not None:
        rules = tuple(
            compile_rule(rule, schema, declared) for rule in ruled.rules if str(rule.get("rule") or "").strip()
        )
    all_of = tuple(made for part in ruled.all_of if (made := _node(part, schema, is_resource=is_resource)) is not None)
    properties: dict[str, _Node] = {}
    for name, inner in ruled.properties.items():
        own = schema.properties.get(name)
        if own is not None and (made := _node(inner, own, is_resource=own.embedded)) is not None:
            properties[name] = made
    values = items = None
    if ruled.values is not None and schema.values is not None:
        values = _node(ruled.values, schema.values, is_resource=schema.values.embedded)
    if ruled.items is not None and schema.items is not None:
        items = _node(ruled.items, schema.items, is_resource=schema.items.embedded)
    if not (rules or all_of or properties or values or items):
        return None
    return _Node(schema, is_resource, rules, all_of, properties, values, items)


def _is_described(values: Schema | None) -> bool:
    return values is not None and values is not ANYTHING and values is not NOTHING


def cel_validate(
    schema: Schema,
    obj: Mapping[str, Any],
    old: Mapping[str, Any] | None,
    path: str,
    warnings: list[str] | None = None,
    budget: int = BUDGET,
) -> list[Cause]:
    """All faults that the rules of a schema find in an object. Those that an update did not bring become warnings."""
    node = _root(schema)
    if node is None:
        return []
    walk = _Walk(budget, [] if warnings is None else warnings)
    correlation = None if old is None else _Correlation(schema, obj, old)
    with contextlib.suppress(_Spent):
        walk.check(node, obj, old, path, correlation, None)
    return walk.causes


class _Spent(Exception):
    """No further rule is to run."""


@dataclass(slots=True)
class _Correlation:
    """A value beside what it was."""

    schema: Schema
    value: Any
    old: Any
    _is_same: bool | None = None

    def key(self, name: str) -> _Correlation | None:
        old, value = self.old, self.value
        if not isinstance(old, dict) or not isinstance(value, dict) or name not in old or name not in value:
            return None
        inner = self.schema.properties.get(name) or (self.schema.values if _is_described(self.schema.values) else None)
        return None if inner is None else _Correlation(inner, value[name], old[name])

    def index(self, item: Any) -> _Correlation | None:
        old = _counterpart(self.schema, self.old, item)
        if old is None or self.schema.items is None:
            return None
        return _Correlation(self.schema.items, item, old)

    def is_same(self) -> bool:
        if self._is_same is None:
            self._is_same = self._compare()
        return self._is_same

    def _compare(self) -> bool:
        value, old = self.value, self.old
        if isinstance(value, list) and isinstance(old, list):
            if self.schema.list_type != "map" or not value:
                return value == old
            inner = [self.index(item) for item in value]
            return len(value) == len(old) and all(each is not None and each.is_same() for each in inner)
        if isinstance(value, dict) and isinstance(old, dict):
            inner = [self.key(name) for name in value]
            return len(value) == len(old) and all(each is not None and each.is_same() for each in inner)
        return type(value) is type(old) and bool(value == old)


def _counterpart(schema: Schema, items: Any, item: Any) -> Any:
    """What stands for a list's item in the old list: by its keys, if it has some."""
    if schema.list_type != "map" or not isinstance(items, list) or not isinstance(item, dict):
        return None
    key = _keys(schema, item)
    return next((each for each in items if _keys(schema, each) == key), None)


def _keys(schema: Schema, item: Any) -> tuple[str, ...]:
    return tuple(shown(item.get(key)) for key in schema.list_keys) if isinstance(item, dict) else ()


_UNSEEN: Final = object()


@dataclass(slots=True)
class _Walk:
    """One validation."""

    budget: int
    warnings: list[str]
    causes: list[Cause] = field(default_factory=list)

    def check(
        self,
        node: _Node,
        value: Any,
        old: Any,
        path: str,
        correlation: _Correlation | None,
        nearest: _Correlation | None,
        seen: Any = _UNSEEN,
        old_seen: Any = _UNSEEN,
    ) -> None:
        """`nearest`: the innermost part around this that has an old value. `seen`: this, as expressions see it."""
        if value is None:
            return
        if node.rules:
            if seen is _UNSEEN:
                seen = to_cel(node.schema, value, is_resource=node.is_resource)
            if old_seen is _UNSEEN:
                old_seen = None if old is None else to_cel(node.schema, old, is_resource=node.is_resource)
            around = correlation if correlation is not None else nearest
            is_same = around is not None and around.is_same()
            self._apply(node, value, seen, None if old is None else old_seen, path, is_same)
        for part in node.all_of:
            self.check(part, value, old, path, None, nearest, seen, old_seen)
        if isinstance(value, dict):
            self._check_map(node, value, old, path, correlation, nearest, seen, old_seen)
        elif isinstance(value, list) and node.items is not None:
            for i, item in enumerate(value):
                was = _counterpart(node.schema, old, item)
                inner = None if correlation is None else correlation.index(item)
                known = seen[i] if isinstance(seen, list) else _UNSEEN
                around = nearest if correlation is None else correlation
                self.check(node.items, item, was, f"{path}[{i}]", inner, around, known)

    def _check_map(
        self,
        node: _Node,
        value: dict[str, Any],
        old: Any,
        path: str,
        correlation: _Correlation | None,
        nearest: _Correlation | None,
        seen: Any,
        old_seen: Any,
    ) -> None:
        before = old if isinstance(old, dict) else {}
        for key, item in value.items():
            if node.values is not None:
                below, place, name = node.values, f"{path}[{key}]", key
            elif key in node.properties:
                below, place, name = node.properties[key], f"{path}.{key}" if path else key, escape(key) or key
            else:
                continue
            if correlation is not None and nearest is None and key in ("apiVersion", "kind"):
                inner = around = None
            else:
                inner = None if correlation is None else correlation.key(key)
                around = nearest if correlation is None else correlation
            known = seen.get(name, _UNSEEN) if isinstance(seen, dict) else _UNSEEN
            was_known = old_seen.get(name, _UNSEEN) if isinstance(old_seen, dict) else _UNSEEN
            self.check(below, item, before.get(key), place, inner, around, known, was_known)

    def _apply(self, node: _Node, value: Any, seen: Any, old: Any, path: str, is_same: bool) -> None:
        plain: dict[str, Any] = {"self": seen}
        if old is not None:
            plain["oldSelf"] = old
        optional = {"self": seen, "oldSelf": NONE if old is None else Maybe(old)}
        for rule in node.rules:
            if self.budget <= 0:
                self._stop(_at_type(path, node.schema, _OUT_OF_BUDGET))
            if isinstance(rule.condition, CelError):
                self.causes.append(_at_type(path, node.schema, f"rule compile error: {rule.condition}"))
                continue
            if rule.uses_old and old is None and not rule.optional_old:
                continue
            result, cost = rule.condition.evaluate(optional if rule.optional_old else plain)
            if cost > self.budget:
                self._stop(_at_type(path, node.schema, _OUT_OF_BUDGET))
            self.budget -= cost
            if isinstance(result, CelError):
                cause = _at_type(path, node.schema, _evaluation_fault(result, rule))
                if isinstance(result, CostExceeded):
                    self._stop(cause)
                self.causes.append(cause)
            elif result is not True:
                self._note(node, rule, value, _below(path, rule.field_path), plain, is_same)

    def _stop(self, cause: Cause) -> None:
        self.causes.append(cause)
        raise _Spent

    def _note(
        self, node: _Node, rule: Rule, value: Any, path: str, variables: Mapping[str, Any], is_same: bool
    ) -> None:
        detail, is_spent = self._message(rule, variables)
        cause = _at_type(path, node.schema, detail) if is_spent else _fault(rule, node.schema, value, path, detail)
        if is_same and not rule.uses_old:
            self.warnings.append(f"{cause.field}: {cause.message}")
        else:
            self.causes.append(cause)
        if is_spent:
            raise _Spent

    def _message(self, rule: Rule, variables: Mapping[str, Any]) -> tuple[str, bool]:
        """What to say, and whether that is that the budget is spent."""
        default = rule.message or f"failed rule: {rule.text}"
        expression = rule.message_expression
        if not isinstance(expression, Expression):
            return default, False
        told, cost = expression.evaluate(variables)
        if cost > self.budget:
            return f"messageExpression evaluation failed due to running out of cost budget, {_SPENT}", True
        self.budget -= cost
        if isinstance(told, CostExceeded):
            text = f"{_SPENT} due to call cost exceeds limit for messageExpression"
            return f"{text}: {go_quoted(expression.source)}", True
        told = told.strip() if isinstance(told, str) else ""
        is_usable = told and "\n" not in told and len(told.encode()) <= _LONGEST_MESSAGE
        return (told if is_usable else default), False


def _below(path: str, field_path: str) -> str:
    """A place in the object; the object itself has none to name."""
    return f"{path}.{field_path}" if path and field_path else path or field_path or "<nil>"


def _fault(rule: Rule, schema: Schema, value: Any, path: str, detail: str) -> Cause:
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


def _evaluation_fault(error: CelError, rule: Rule) -> str:
    if isinstance(error, CostExceeded):
        return f"'{error}': {_SPENT} due to call cost exceeds limit for rule: {rule.named}"
    if str(error).startswith("no such overload"):
        what = "call arguments did not match a supported operator, function or macro signature"
        return f"'{error}': {what} for rule: {rule.named}"
    return f"{error} evaluating rule: {rule.named}"


def _at_type(path: str, schema: Schema, detail: str) -> Cause:
    shown_type = "" if schema.type == "any" else schema.type
    return invalid(path or "<nil>", shown_type, detail)


def to_cel(schema: Schema, value: Any, *, is_resource: bool = False) -> Any:
    """A value as expressions see it: typed by the schema, fields under names that CEL can say."""
    if isinstance(value, dict):
        return _map_to_cel(schema, value, is_resource=is_resource or schema.embedded)
    if isinstance(value, list):
        if schema.items is None:
            return value
        items = [to_cel(schema.items, item) for item in value]
        if schema.list_type == "map":
            return KeyedList(items, tuple(escape(key) or key for key in schema.list_keys))
        return SetList(items) if schema.list_type == "set" else StoredList(items)
    if schema.type == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if schema.format and schema.type == "string" and isinstance(value, str):
        return _formatted(schema.format, value)
    return value


def _map_to_cel(schema: Schema, value: dict[str, Any], *, is_resource: bool) -> Any:
    if schema.type != "object":
        return value
    if not is_resource and not schema.properties and _is_described(schema.values):
        assert schema.values is not None
        return StoredMap({key: to_cel(schema.values, each) for key, each in value.items()})
    properties = as_resource(schema) if is_resource else schema.properties
    fields: dict[str, Any] = {}
    for key, each in value.items():
        inner = properties.get(key)
        name = None if inner is None or each is None else escape(key)
        if inner is not None and name is not None:
            fields[name] = to_cel(inner, each)
    return Obj(fields, len(value) - len(fields))


def _formatted(format_: str, text: str) -> Any:
    try:
        match format_:
            case "date-time":
                return to_timestamp(re.sub(r"[tT ]", "T", text, count=1).replace("z", "Z"))
            case "date":
                return to_timestamp(f"{text}T00:00:00Z")
            case "duration":
                return Duration(parse_ns(text))
            case "byte":
                return base64.b64decode(text, validate=True)
    except (CelError, DurationError, binascii.Error, ValueError):
        return text  # Validation of formats has its own word to say.
    return text
