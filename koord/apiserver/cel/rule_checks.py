"""What is wrong with the CEL rules of a CustomResourceDefinition, told to whoever defines it.

Expressions must compile, give the type that is wanted, look at `oldSelf` only where an old value can be found, and not
cost too much: one rule not more than its limit, counted for as often as its part of the schema can occur, and all of
them together not more than another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from koord.apiserver.cel.declared import LARGEST_REQUEST, Declared, declare
from koord.apiserver.cel.expressions import Expression
from koord.apiserver.cel.field_paths import normal_path
from koord.apiserver.cel.rules import compile_rule
from koord.apiserver.cel.sizes import LARGEST
from koord.apiserver.cel.syntax import CelError
from koord.apiserver.schema import Schema
from koord.apiserver.status import Cause, forbidden, invalid

RULE_LIMIT: Final = 10_000_000
TOTAL_LIMIT: Final = 100_000_000
_MOST_TOLD: Final = 4


def rule_faults(schema: Schema, path: str) -> list[Cause]:
    """All faults of the rules in a version's schema. `path` is where it stands."""
    check = _Check()
    found = list(check.faults(schema, path, _Place(count=1, is_root=True)))
    if check.total > TOTAL_LIMIT:
        text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        dearest = sorted(check.dear, key=lambda each: -each[0])[:_MOST_TOLD]
        found += [forbidden(where, text) for _, where in dearest]
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        found.append(forbidden(path, _too_dear(name, check.total, TOTAL_LIMIT)))
    return found


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a schema stands. `count`: how often it can occur, None if nothing bounds that. `uncorrelatable`: the
    innermost list above whose items have no old values to compare with."""

    count: int | None
    uncorrelatable: str = ""
    is_root: bool = False


@dataclass(slots=True)
class _Check:
    total: int = 0
    dear: list[tuple[int, str]] = field(default_factory=list)
    "What rules cost that are worth naming, and where they stand."

    def faults(self, schema: Schema, path: str, place: _Place) -> Iterator[Cause]:
        inside = _Place(_times(place.count, _elements(schema)), place.uncorrelatable)
        if schema.values is not None:
            yield from self.faults(schema.values, f"{path}.additionalProperties", inside)
        for name, inner in schema.properties.items():
            yield from self.faults(inner, f"{path}.properties[{name}]", inside)
        if schema.items is not None:
            below = inside if schema.list_type == "map" else replace(inside, uncorrelatable=path)
            yield from self.faults(schema.items, f"{path}.items", below)
        if not schema.rules:
            return
        declared = declare(schema, is_resource=place.is_root or schema.embedded)
        if declared is None:
            text = "internal error: failed to construct type information for x-kubernetes-validations rules"
            reason = "unable to convert structural schema to CEL declarations"
            where = f"{path}.x-kubernetes-validations"
            yield Cause(where, "InternalError", f"Internal error: {text}: {reason}")
            return
        for i, rule in enumerate(schema.rules):
            yield from self._faults_of(rule, f"{path}.x-kubernetes-validations[{i}]", schema, declared, place)

    def _faults_of(
        self, rule: Mapping[str, Any], where: str, schema: Schema, declared: Declared, place: _Place
    ) -> Iterator[Cause]:
        field_path = str(rule.get("fieldPath") or "")
        if field_path and normal_path(schema, field_path) is None:
            yield invalid(f"{where}.fieldPath", field_path, "must be a valid path")
            return
        made = compile_rule(rule, schema, declared)
        if isinstance(made.condition, CelError):
            yield _at_rule(f"{where}.rule", rule, str(made.condition))
        else:
            times = LARGEST_REQUEST // (declared.min_bytes + 1) if place.count is None else place.count
            cost = min(made.condition.estimated_cost(declared) * times, LARGEST)
            if cost > RULE_LIMIT:
                yield forbidden(f"{where}.rule", _too_dear("estimated rule cost", cost, RULE_LIMIT))
            self._count(f"{where}.rule", cost)
        message = made.message_expression
        if isinstance(message, Expression):
            cost = message.estimated_cost(declared)
            if cost > RULE_LIMIT:
                text = _too_dear("estimated messageExpression cost", cost, RULE_LIMIT)
                yield forbidden(f"{where}.messageExpression", text)
            self._count(f"{where}.messageExpression", cost)
        elif message is not None:
            detail = str(message)
            prefix = "messageExpression " if detail.startswith("compilation failed") else ""
            yield _at_rule(f"{where}.messageExpression", rule, prefix + detail)
        if made.uses_old:
            if place.uncorrelatable:
                around = (
                    f"oldSelf cannot be used on the uncorrelatable portion of the schema within {place.uncorrelatable}"
                )
                yield invalid(f"{where}.rule", rule.get("rule", ""), around)
        elif rule.get("optionalOldSelf") is not None:
            text = "may not be set if oldSelf is not used in rule"
            yield invalid(f"{where}.optionalOldSelf", bool(rule["optionalOldSelf"]), text)

    def _count(self, where: str, cost: int) -> None:
        self.total = min(self.total + cost, LARGEST)
        if cost >= TOTAL_LIMIT // 100:
            self.dear.append((cost, where))


def _times(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else min(one * other, LARGEST)


def _elements(schema: Schema) -> int | None:
    """How many values a schema's value can hold of what is below it; None if nothing bounds that."""
    most: int | None = 1
    if schema.type == "array":
        most = schema.max_items
    elif schema.type == "object" and schema.values is not None:
        most = schema.max_properties
    return None if most is None else max(most, 0)


def _too_dear(name: str, cost: int, limit: int) -> str:
    factor = cost / limit
    if factor > 100:
        shown = "more than 100x"
    else:
        shown = f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    hint = "try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings"
    return f"{name} exceeds budget by factor of {shown} ({hint} are declared)"


def _at_rule(where: str, rule: Mapping[str, Any], detail: str) -> Cause:
    """With the rule as the real server shows it: all its fields by their names in Go."""
    shown = {
        "Rule": rule.get("rule", ""),
        "Message": rule.get("message", ""),
        "MessageExpression": rule.get("messageExpression", ""),
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath", ""),
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }
    text = msgspec.json.encode(shown).decode()
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Cause(where, "FieldValueInvalid", f"Invalid value: {text}: {detail}")
