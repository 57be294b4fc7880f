"""Selectors in a request's query, and the real server's words for those that cannot be understood.

koord.api parses selectors; here it is only asked whether it can. Where it cannot, the text is read once more to find
the first fault and to tell it as the real server does, since clients show that to people.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from koord.api.text import formats
from koord.api.text.field_selector import FieldMatcher, FieldSelectorError, parse_fields
from koord.api.text.selector import LabelMatcher, SelectorError, parse_labels
from koord_minicluster.apiserver.status import StatusError, bad_request

EVERY_KIND: Final = frozenset({"metadata.name", "metadata.namespace"})
_WITHOUT_NAMESPACE: Final = ("Namespace", "Node")
"Kinds whose objects cannot be asked for by a namespace, not even by none."

_TOKEN: Final = re.compile(r"[ \t\r\n]*(!=|==|=|!|<|>|\(|\)|,|[^ \t\r\n=!<>(),]+|$)")
_SYMBOLS: Final = frozenset({"!=", "==", "=", "!", "<", ">", "(", ")", ",", ""})
_OPERATORS: Final = frozenset({"=", "==", "!=", "in", "notin", ">", "<"})
_EXPECTED: Final = "in, notin, =, ==, !=, gt, lt"
_FIELD_TERM: Final = re.compile(r"(?:[^\\,]|\\.?)+", re.DOTALL)


def label_matcher(text: str) -> LabelMatcher:
    """The matcher; 400 for a text that is none."""
    # The real server reads up to a zero byte.
    text = text.partition("\0")[0]
    try:
        return parse_labels(text)
    except SelectorError as error:
        raise bad_request(_LabelFaults(text).first() or str(error)) from None


def field_matcher(text: str, selectable: Iterable[str], *, kind: str = "", custom: bool = False) -> FieldMatcher:
    """The matcher; 400 for a text that is none, or names a field that this kind cannot be selected by."""
    try:
        matcher = parse_fields(text)
    except FieldSelectorError:
        raise _field_fault(text) from None
    selectable_fields = {*selectable, *EVERY_KIND}
    if kind in _WITHOUT_NAMESPACE and not custom:
        selectable_fields.discard("metadata.namespace")
    for requirement in matcher.requirements:
        if requirement.field not in selectable_fields:
            raise bad_request(_unknown_field(requirement.field, selectable_fields, kind, custom))
    return matcher


def _unknown_field(field: str, selectable: set[str], kind: str, custom: bool) -> str:
    if kind == "Job" and not custom:
        return f'field label "{field}" not supported for Job'
    if selectable == EVERY_KIND and not custom:
        return f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'
    return f"field label not supported: {field}"


def _field_fault(text: str) -> StatusError:
    for term in sorted(_FIELD_TERM.findall(text)):
        operator = re.search("!=|==|=", term)
        if operator is None:
            return bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        value = term[operator.end() :]
        rest = re.sub(r"\\[\\,=]", "", value)
        if odd := re.search(r"\\(.?)|[,=]", rest, re.DOTALL):
            if odd[0].startswith("\\"):
                return bad_request(f"invalid field selector: invalid escape sequence: {odd[0]}")
            return bad_request(f"invalid field selector: unescaped character in value: {ord(odd[0])}")
    return bad_request(f"invalid selector: '{text}'")


class _LabelFaults:
    """Reads a label selector to its first fault."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = [*filter(None, _TOKEN.findall(text)), ""]
        self._at = 0

    def first(self) -> str | None:
        while (token := self._tokens[self._at]) != "":
            if token in _SYMBOLS and token != "!":
                return f"found '{token}', expected: !, identifier, or 'end of string'"
            if fault := self._requirement():
                return f"unable to parse requirement: {fault}"
            follows = self._next()
            if follows == "":
                return None
            if follows != ",":
                return f"found '{follows}', expected: ',' or 'end of string'"
            after = self._tokens[self._at]
            if after in _SYMBOLS and after != "!":
                return f"found '{after}', expected: identifier after ','"
        return None

    def _next(self) -> str:
        token = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _requirement(self) -> str | None:
        key = self._next()
        absent = key == "!"
        if absent:
            key = self._next()
        if key in _SYMBOLS:
            return f"found '{key}', expected: identifier"
        if faults := formats.label_key(key):
            return f'<nil>: Invalid value: "{key}": {"; ".join(faults)}'
        if self._tokens[self._at] in ("", ",") or absent:
            return None
        operator = self._next()
        if operator not in _OPERATORS:
            return f"found '{operator}', expected: {_EXPECTED}"
        if operator in ("in", "notin"):
            return self._set(key)
        return self._exact(key, operator)

    def _exact(self, key: str, operator: str) -> str | None:
        if self._tokens[self._at] in ("", ","):
            value = ""
        else:
            value = self._next()
            if value in _SYMBOLS:
                return f"found '{value}', expected: identifier"
        if operator in "<>" and not re.fullmatch(r"[+-]?\d+", value):
            return f"values[0]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the value must be an integer"
        return _value_faults(key, [value])

    def _set(self, key: str) -> str | None:
        opened = self._next()
        if opened != "(":
            return f"found '{opened}' expected: '('"
        values: list[str] = []
        token = self._next()
        while token != ")":
            if token == ",":
                token = self._next()
                continue
            if token in _SYMBOLS:
                if values or self._tokens[self._at - 2] == ",":
                    return f"found '{token}', expected: ',', or identifier"
                return f"found '{token}', expected: ',', ')' or identifier"
            values.append(token)
            token = self._next()
            if token not in (",", ")"):
                return f"found '{token}', expected: ',' or ')'"
        return _value_faults(key, sorted(values))


def _value_faults(key: str, values: list[str]) -> str | None:
    faulty = [
        f'values[{index}][{key}]: Invalid value: "{value}": {"; ".join(faults)}'
        for index, value in enumerate(values)
        if (faults := formats.label_value(value))
    ]
    return None if not faulty else faulty[0] if len(faulty) == 1 else f"[{', '.join(faulty)}]"
