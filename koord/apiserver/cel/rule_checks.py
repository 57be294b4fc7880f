"""What is wrong with the CEL rules of a CustomResourceDefinition, told to whoever defines it.

Expressions must compile, name fields that the schema has, give the type that is wanted, and look at `oldSelf` only
where an old value can be found. Types inside an expression are not checked: `self.count == "3"` compiles here, and is
false.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from koord.apiserver.cel.expressions import CelError, Expression, at_column, compiled, without_texts
from koord.apiserver.cel.rules import ROOT_FIELDS, ROOT_METADATA, VARIABLES, escape
from koord.apiserver.schema import Schema
from koord.apiserver.status import Cause, invalid

_PATH: Final = re.compile(r"(?<![\w.])(?:self|oldSelf)((?:\s*\.\s*[A-Za-z_]\w*(?!\w)(?!\s*\())+)")
_STEP: Final = re.compile(r"\.\s*([A-Za-z_]\w*)")
_FIELD_PATH: Final = re.compile(r"\.([^.\[\]]+)|\['((?:\\.|[^'\\])*)'\]")


def rule_faults(schema: Schema, path: str) -> list[Cause]:
    """All faults of the rules in a version's schema. `path` is where it stands."""
    return list(_faults(schema, path, "", is_root=True))


def _faults(schema: Schema, path: str, uncorrelatable: str, *, is_root: bool = False) -> Iterator[Cause]:
    """`uncorrelatable` is the innermost list above whose items have no old values to compare with."""
    for i, rule in enumerate(schema.rules):
        yield from _faults_of(rule, f"{path}.x-kubernetes-validations[{i}]", schema, uncorrelatable, is_root)
    for name, inner in schema.properties.items():
        yield from _faults(inner, f"{path}.properties[{name}]", uncorrelatable)
    if schema.values is not None:
        yield from _faults(schema.values, f"{path}.additionalProperties", uncorrelatable)
    if schema.items is not None:
        yield from _faults(schema.items, f"{path}.items", uncorrelatable if schema.list_type == "map" else path)
    parts: tuple[tuple[str, Sequence[Schema]], ...] = (
        ("allOf", schema.all_of),
        ("anyOf", schema.any_of),
        ("oneOf", schema.one_of),
    )
    for name, schemas in parts:
        for i, inner in enumerate(schemas):
            yield from _faults(inner, f"{path}.{name}[{i}]", uncorrelatable)


def _faults_of(
    rule: Mapping[str, object], place: str, schema: Schema, uncorrelatable: str, is_root: bool
) -> Iterator[Cause]:
    text, message = _text(rule, "rule"), _text(rule, "messageExpression")
    field_path = _text(rule, "fieldPath")
    if field_path and not _is_field(schema, field_path):
        yield invalid(f"{place}.fieldPath", field_path, "must be a valid path")
    try:
        expression = _checked(text, schema, is_root)
        if _plain_type(text, schema) not in ("", "boolean"):
            raise CelError("cel expression must evaluate to a bool")
    except CelError as error:
        yield _at_rule(f"{place}.rule", rule, str(error))
        return
    uses_old = "oldSelf" in expression.names
    if uses_old and uncorrelatable:
        detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelatable}"
        yield invalid(f"{place}.rule", text, detail)
    if rule.get("optionalOldSelf") is not None and not uses_old:
        shown = bool(rule["optionalOldSelf"])
        yield invalid(f"{place}.optionalOldSelf", shown, "may not be set if oldSelf is not used in rule")
    if not message:
        return
    try:
        _checked(message, schema, is_root)
        if _plain_type(message, schema) not in ("", "string"):
            raise CelError("messageExpression must evaluate to a string")
    except CelError as error:
        detail = str(error)
        prefixed = f"messageExpression {detail}" if detail.startswith("compilation failed") else detail
        yield _at_rule(f"{place}.messageExpression", rule, prefixed)


def _checked(text: str, schema: Schema, is_root: bool) -> Expression:
    """The compiled expression, if all fields that it plainly names exist. Raises CelError."""
    expression = compiled(text, VARIABLES)
    unknown = list(_undefined_fields(text, schema, is_root))
    if unknown:
        told = "\n".join(at_column(text, column, f"undefined field '{name}'") for column, name in unknown)
        raise CelError(f"compilation failed: {told}")
    return expression


def _undefined_fields(text: str, schema: Schema, is_root: bool) -> Iterator[tuple[int, str]]:
    for match in _PATH.finditer(without_texts(text)):
        at: Schema | None = schema
        root = is_root
        for step in _STEP.finditer(match[1]):
            name = step[1]
            if at is None or at.preserve_unknown or at.type in ("", "any") or at.int_or_string:
                break
            if root or at.embedded:
                if name in ROOT_FIELDS:
                    break
                if name == "metadata":
                    at, root = _METADATA, False
                    continue
            known = {escape(each): inner for each, inner in at.properties.items()}
            if name in known:
                at, root = known[name], False
            elif at.values is not None:
                at, root = at.values, False
            else:
                yield match.start(1) + step.start() + 1, name
                break


_METADATA: Final = Schema(type="object", properties={name: Schema(type="string") for name in ROOT_METADATA})


def _plain_type(text: str, schema: Schema) -> str:
    """The type of an expression that is nothing but a field; empty of any other."""
    if not re.fullmatch(r"self(?:\.\w+)*", text):
        return ""
    at: Schema | None = schema
    for name in text.split(".")[1:]:
        at = {escape(each): inner for each, inner in at.properties.items()}.get(name) if at is not None else None
    return "" if at is None or at.type == "any" or at.int_or_string else at.type


def _is_field(schema: Schema, path: str) -> bool:
    at: Schema | None = schema
    end = 0
    for match in _FIELD_PATH.finditer(path):
        if match.start() != end or at is None:
            return False
        end = match.end()
        name = match[1] if match[1] is not None else re.sub(r"\\(.)", r"\1", match[2])
        at = at.properties.get(name) if at.properties else at.values
    return end == len(path) and at is not None


def _text(rule: Mapping[str, object], key: str) -> str:
    return str(rule.get(key) or "").strip()


def _at_rule(field: str, rule: Mapping[str, Any], detail: str) -> Cause:
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
    return Cause(field, "FieldValueInvalid", f"Invalid value: {text}: {detail}")
