"""Validation rules of custom resources (x-kubernetes-validations): each is true of its part of the object, or a fault.

`self` is the part, `oldSelf` what it was; rules that look at `oldSelf` apply to changes only, unless they take it as
optional. What was wrong already and is not touched by an update is only warned of. All rules of an object share a
budget; when it is spent, no further rule runs, and the object is refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from koord.api.cel import types
from koord.api.cel.declared import Declared, declare, escape
from koord.api.cel.expressions import Expression, compiled
from koord.api.cel.syntax import CelError, CostExceeded
from koord.api.cel.values import NONE, Maybe
from koord.api.machinery.object_schema import Schema
from koord.api.text.go_format import go_quoted
from koord_minicluster.apiserver.rules.cel_values import to_cel
from koord_minicluster.apiserver.rules.correlation import Correlation, OldItems
from koord_minicluster.apiserver.rules.field_paths import normal_path
from koord_minicluster.apiserver.status import Cause, duplicate, forbidden, invalid, required

BUDGET: Final = 10_000_000
"""What all rules may cost for one object."""
_LONGEST_MESSAGE: Final = 5 * 1024
_SPENT: Final = "no further validation rules will be run"
_OUT_OF_BUDGET: Final = f"validation failed due to running out of cost budget, {_SPENT}"


@dataclass(frozen=True, slots=True)
class ValidationRule:
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
    rules: tuple[ValidationRule, ...]
    properties: Mapping[str, _Node]
    values: _Node | None
    items: _Node | None


def compile_rule(rule: Mapping[str, object], schema: Schema, declared: Declared) -> ValidationRule:
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
    return ValidationRule(
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
    return _node(schema, is_resource=True)


def _node(schema: Schema, *, is_resource: bool) -> _Node | None:
    rules: tuple[ValidationRule, ...] = ()
    if schema.rules and (declared := declare(schema, is_resource=is_resource)) is not None:
        written = [rule for rule in schema.rules if str(rule.get("rule") or "").strip()]
        rules = tuple(compile_rule(rule, schema, declared) for rule in written)
    properties: dict[str, _Node] = {}
    for name, inner in schema.properties.items():
        if (made := _node(inner, is_resource=inner.embedded)) is not None:
            properties[name] = made
    values = None if schema.values is None else _node(schema.values, is_resource=schema.values.embedded)
    items = None if schema.items is None else _node(schema.items, is_resource=schema.items.embedded)
    if not (rules or properties or values or items):
        return None
    return _Node(schema, is_resource, rules, properties, values, items)


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
    correlation = None if old is None else Correlation(schema, obj, old)
    with contextlib.suppress(_Spent):
        walk.check(node, obj, old, path, correlation, None)
    return walk.causes


class _Spent(Exception):
    """No further rule is to run."""


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
        correlation: Correlation | None,
        nearest: Correlation | None,
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
        if isinstance(value, dict):
            self._check_map(node, value, old, path, correlation, nearest, seen, old_seen)
        elif isinstance(value, list) and node.items is not None:
            old_items = OldItems(node.schema, old)
            for i, item in enumerate(value):
                was = old_items.counterpart(item)
                inner = None if correlation is None else correlation.item(item)
                known_value = seen[i] if isinstance(seen, list) else _UNSEEN
                around = nearest if correlation is None else correlation
                self.check(node.items, item, was, f"{path}[{i}]", inner, around, known_value)

    def _check_map(
        self,
        node: _Node,
        value: dict[str, Any],
        old: Any,
        path: str,
        correlation: Correlation | None,
        nearest: Correlation | None,
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
            known_value = seen.get(name, _UNSEEN) if isinstance(seen, dict) else _UNSEEN
            was_known = old_seen.get(name, _UNSEEN) if isinstance(old_seen, dict) else _UNSEEN
            self.check(below, item, before.get(key), place, inner, around, known_value, was_known)

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
        self, node: _Node, rule: ValidationRule, value: Any, path: str, variables: Mapping[str, Any], is_same: bool
    ) -> None:
        detail, is_spent = self._message(rule, variables)
        cause = _at_type(path, node.schema, detail) if is_spent else _fault(rule, node.schema, value, path, detail)
        if is_same and not rule.uses_old:
            self.warnings.append(f"{cause.field}: {cause.message}")
        else:
            self.causes.append(cause)
        if is_spent:
            raise _Spent

    def _message(self, rule: ValidationRule, variables: Mapping[str, Any]) -> tuple[str, bool]:
        """What to say, and whether that is that the budget is spent."""
        default = rule.message or f"failed rule: {rule.text}"
        expression = rule.message_expression
        if not isinstance(expression, Expression):
            return default, False
        message, cost = expression.evaluate(variables)
        if cost > self.budget:
            return f"messageExpression evaluation failed due to running out of cost budget, {_SPENT}", True
        self.budget -= cost
        if isinstance(message, CostExceeded):
            text = f"{_SPENT} due to call cost exceeds limit for messageExpression"
            return f"{text}: {go_quoted(expression.source)}", True
        text = message.strip() if isinstance(message, str) else ""
        is_usable = text and "\n" not in text and len(text.encode()) <= _LONGEST_MESSAGE
        return (text if is_usable else default), False


def _below(path: str, field_path: str) -> str:
    """A place in the object; the object itself has none to name."""
    return f"{path}.{field_path}" if path and field_path else path or field_path or "<nil>"


def _fault(rule: ValidationRule, schema: Schema, value: Any, path: str, detail: str) -> Cause:
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


def _evaluation_fault(error: CelError, rule: ValidationRule) -> str:
    if isinstance(error, CostExceeded):
        return f"'{error}': {_SPENT} due to call cost exceeds limit for rule: {rule.named}"
    if str(error).startswith("no such overload"):
        what = "call arguments did not match a supported operator, function or macro signature"
        return f"'{error}': {what} for rule: {rule.named}"
    return f"{error} evaluating rule: {rule.named}"


def _at_type(path: str, schema: Schema, detail: str) -> Cause:
    shown_type = "" if schema.type == "any" else schema.type
    return invalid(path or "<nil>", shown_type, detail)
