"""Validates the CEL rules of a CustomResourceDefinition when it is written.

Expressions must compile, return the required type, use `oldSelf` only where an old value can be found, and stay within
cost limits. One limit applies to the cost of a rule, multiplied by how often its part of the schema can occur; another
applies to all rules together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from koord.api.cel.declared import LARGEST_REQUEST, Declared, declare
from koord.api.cel.expressions import Expression
from koord.api.cel.sizes import LARGEST
from koord.api.cel.syntax import CelError
from koord.api.machinery.object_schema import Schema
from koord_minicluster.apiserver.rules.field_paths import normal_path
from koord_minicluster.apiserver.rules.validation import ValidationRule, compile_rule
from koord_minicluster.apiserver.status import Cause, forbidden, invalid

RULE_LIMIT: Final = 10_000_000
TOTAL_LIMIT: Final = 100_000_000
_MOST_TOLD: Final = 4


def rule_faults(schema: Schema, path: str, faulty: Collection[str] = (), *, is_structural: bool = True) -> list[Cause]:
    """All faults of the rules in a version's schema. `path` is where it stands; `faulty` are the places of other faults
    in it: what is around them has no rules that could be judged, nor has a schema that is not structural."""
    check = _Check(faulty, is_structural)
    check.visit(schema, path, _Place(count=1, is_root=True))
    faults = [*check.of_paths, *check.of_rules]
    if check.total > TOTAL_LIMIT:
        text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        dearest = sorted(check.dear, key=lambda rule: -rule[0])[:_MOST_TOLD]
        faults += [forbidden(where, text) for _, where in dearest]
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        faults.append(forbidden(path, _too_dear(name, check.total, TOTAL_LIMIT)))
    return faults


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a schema stands. `count`: how often it can occur, None if nothing bounds that. `uncorrelatable`: the
    innermost list above whose items have no old values to compare with."""

    count: int | None
    uncorrelatable: str = ""
    is_root: bool = False


@dataclass(slots=True)
class _Check:
    faulty: Collection[str]
    is_structural: bool
    of_paths: list[Cause] = field(default_factory=list)
    of_rules: list[Cause] = field(default_factory=list)
    total: int = 0
    dear: list[tuple[int, str]] = field(default_factory=list)
    "What rules cost that are worth naming, and where they stand."

    def visit(self, schema: Schema, path: str, place: _Place) -> bool:
        """Whether there is a fault in the schema, or below, that keeps rules from being judged."""
        inside = _Place(_times(place.count, _elements(schema)), place.uncorrelatable)
        is_faulty = any(where == path or where.startswith((f"{path}.", f"{path}[")) for where in self.faulty)
        below = [(f"{path}.properties[{name}]", inner, inside) for name, inner in schema.properties.items()]
        if schema.values is not None:
            below.append((f"{path}.additionalProperties", schema.values, inside))
        if schema.items is not None:
            below_place = inside if schema.list_type == "map" else replace(inside, uncorrelatable=path)
            below.append((f"{path}.items", schema.items, below_place))
        for where, inner, there in below:
            is_faulty |= self.visit(inner, where, there)
        return self._rules(schema, path, place, is_faulty) if schema.rules else is_faulty

    def _rules(self, schema: Schema, path: str, place: _Place, is_faulty: bool) -> bool:
        for i, rule in enumerate(schema.rules):
            field_path = str(rule.get("fieldPath") or "")
            if field_path and normal_path(schema, field_path) is None:
                where = f"{path}.x-kubernetes-validations[{i}].fieldPath"
                self.of_paths.append(invalid(where, field_path, "must be a valid path"))
                is_faulty = True
        if is_faulty or not self.is_structural:
            return is_faulty
        declared = declare(schema, is_resource=place.is_root or schema.embedded)
        if declared is None:
            text = "internal error: failed to construct type information for x-kubernetes-validations rules"
            reason = "unable to convert structural schema to CEL declarations"
            where = f"{path}.x-kubernetes-validations"
            self.of_rules.append(Cause(where, "InternalError", f"Internal error: {text}: {reason}"))
            return False
        for i, rule in enumerate(schema.rules):
            made = compile_rule(rule, schema, declared)
            self.of_rules += self._faults(rule, made, f"{path}.x-kubernetes-validations[{i}]", declared, place)
        return False

    def _faults(
        self, rule: Mapping[str, Any], made: ValidationRule, where: str, declared: Declared, place: _Place
    ) -> Iterator[Cause]:
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
            detail = str(message).removeprefix("program ")
            prefix = "messageExpression " if detail.startswith(("compilation failed", "instantiation failed")) else ""
            yield _at_rule(f"{where}.messageExpression", rule, prefix + detail)
        if made.uses_old:
            if place.uncorrelatable:
                around = "oldSelf cannot be used on the uncorrelatable portion of the schema within"
                yield invalid(f"{where}.rule", rule.get("rule", ""), f"{around} {place.uncorrelatable}")
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
