"""JSON text to plain data, and what is wrong with it in the words of Go's parser.

The fast way is for text without spaces, as programs send it. Other text takes the C parser of the standard library with
one hook, which sees keys that are given twice. Only where the text is refused is it read again, by a slow scanner that
knows the real server's messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final, NoReturn

import msgspec

MAX_DEPTH: Final = 500
"""How deep maps and lists may nest. The real server allows 10,000; more than this no stored object needs."""

_SPACE: Final = b" \t\r\n"
_WITHIN_TOKEN: Final = ("in literal", "in numeric", "after decimal", "in exponent", "in \\u", "in string escape")
_INEXACT: Final = re.compile(rb"[0-9][.eE]|[0-9]{19}")


class JsonFault(ValueError):
    """Text that is not JSON; the message is Go's."""


class Number(str):
    """A number with a fraction or exponent, spelled as in the text."""


class Pairs(list[tuple[str, object]]):
    """An object with its keys in order, repeated ones included."""


class _Repeated(Exception):
    pass


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise _Repeated
    return mapping


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


_unique_decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
_last_decoder = json.JSONDecoder(parse_constant=_no_constant)
_exact_decoder = json.JSONDecoder(parse_constant=_no_constant, parse_float=Number)
_pairs_decoder = json.JSONDecoder(object_pairs_hook=Pairs, parse_constant=_no_constant)


def loads(body: bytes) -> tuple[object, bool]:
    """The value, and whether some object in it gives a key twice (the last one counts)."""
    value = compact(body)
    if value is not None:
        return value, False
    text = _text(body)
    try:
        try:
            return _clean(body, _unique_decoder.decode(text)), False
        except _Repeated:
            return _clean(body, _last_decoder.decode(text)), True
    except (ValueError, RecursionError):
        raise JsonFault(fault(body) or "invalid number") from None


def loads_untyped(body: bytes) -> tuple[object, bool]:
    """As `loads`, with numbers as an object without a Go type holds them: 64-bit integers, else floats."""
    value, repeats = loads(body)
    if _INEXACT.search(body):
        value = _numbered(value)
    return value, repeats


def _numbered(value: object) -> object:
    match value:
        case dict():
            return {key: _numbered(item) for key, item in value.items()}
        case list():
            if {item.__class__ for item in value} == {int, float}:
                # Among integers a float stays one until it is stored: to Go, 1 and 1.0 are not the same item.
                return value
            return [_numbered(item) for item in value]
        case float():
            return int(value) if value.is_integer() and abs(value) < 2**63 else value
        case int() if not -(2**63) <= value < 2**63:
            return float(value)
    return value


def whole_numbers(encoded: bytes) -> bytes:
    """JSON as Go writes it: a float without a fraction has no point."""
    return encoded if b".0" not in encoded else msgspec.json.encode(_without_points(msgspec.json.decode(encoded)))


def _without_points(value: object) -> object:
    match value:
        case dict():
            return {key: _without_points(item) for key, item in value.items()}
        case list():
            return [_without_points(item) for item in value]
        case float():
            return int(value) if value.is_integer() and abs(value) < 2**63 else value
    return value


def loads_exact(body: bytes) -> object:
    """The value with inexact numbers as `Number`, for messages; the text must be valid."""
    return _exact_decoder.decode(_text(body))


def loads_pairs(body: bytes) -> object:
    """The value with every object as `Pairs`; the text must be valid."""
    return _pairs_decoder.decode(_text(body))


def _text(body: bytes) -> str:
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH and (too_deep := _too_deep(body)):
        raise JsonFault(f"invalid character '{too_deep}' exceeded max depth")
    return body.decode(errors="replace")


def compact(body: bytes) -> object | None:
    """The value of text that is written as we would write it, as programs do: then no key can be there twice."""
    stripped = body.strip(_SPACE)
    if not stripped.startswith(b"{") or body.count(b"[") + body.count(b"{") > MAX_DEPTH:
        return None
    try:
        value: object = msgspec.json.decode(stripped)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return value if msgspec.json.encode(value) == stripped else None


def _clean(body: bytes, value: object) -> object:
    """Without halves of surrogate pairs, which JSON can say in escapes and UTF-8 cannot hold."""
    return _whole(value) if b"\\ud" in body or b"\\uD" in body else value


def _whole(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list) else value


def _too_deep(body: bytes) -> str:
    depth = 0
    for char, _ in _structure(body):
        if char in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                return char
        else:
            depth -= 1
    return ""


def _structure(body: bytes) -> Iterator[tuple[str, int]]:
    """The brackets outside of strings."""
    quoted = escaped = False
    for at, byte in enumerate(body):
        if quoted:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                quoted = False
        elif byte == 0x22:
            quoted = True
        elif byte in b"[]{}":
            yield chr(byte), at


def fault(body: bytes) -> str:
    """What Go's parser says of a text, or "" where it takes it."""
    try:
        scanner = _Scanner(body)
        scanner.value()
        scanner.space()
        if scanner.at < len(body):
            scanner.fail("after top-level value")
    except JsonFault as error:
        return str(error)
    except RecursionError:
        return "invalid character '[' exceeded max depth"
    return ""


class _Scanner:
    """Reads JSON by its grammar, byte for byte."""

    def __init__(self, body: bytes) -> None:
        self.body, self.at = body, 0

    def fail(self, context: str) -> NoReturn:
        if self.at >= len(self.body):
            # Go ends a text with a space, which is a fault of its own within a word, a number or an escape.
            if context.startswith(_WITHIN_TOKEN):
                raise JsonFault(f"invalid character ' ' {context}")
            raise JsonFault("unexpected end of JSON input")
        raise JsonFault(f"invalid character {_quoted(self.body[self.at])} {context}")

    def peek(self) -> int:
        return self.body[self.at] if self.at < len(self.body) else 0

    def space(self) -> None:
        while self.at < len(self.body) and self.body[self.at] in _SPACE:
            self.at += 1

    def value(self) -> None:
        self.space()
        first = self.peek()
        if first == 0x7B:
            self.object()
        elif first == 0x5B:
            self.array()
        elif first == 0x22:
            self.string()
        elif first == 0x2D or 0x30 <= first <= 0x39:
            self.number()
        elif first in b"tfn":
            self.literal({0x74: b"true", 0x66: b"false", 0x6E: b"null"}[first])
        else:
            self.fail("looking for beginning of value")

    def object(self) -> None:
        self.at += 1
        self.space()
        if self.peek() == 0x7D:
            self.at += 1
            return
        while True:
            self.space()
            if self.peek() != 0x22:
                self.fail("looking for beginning of object key string")
            self.string()
            self.space()
            if self.peek() != 0x3A:
                self.fail("after object key")
            self.at += 1
            self.value()
            self.space()
            if self.peek() == 0x2C:
                self.at += 1
            elif self.peek() == 0x7D:
                self.at += 1
                return
            else:
                self.fail("after object key:value pair")

    def array(self) -> None:
        self.at += 1
        self.space()
        if self.peek() == 0x5D:
            self.at += 1
            return
        while True:
            self.value()
            self.space()
            if self.peek() == 0x2C:
                self.at += 1
            elif self.peek() == 0x5D:
                self.at += 1
                return
            else:
                self.fail("after array element")

    def string(self) -> None:
        self.at += 1
        while (byte := self.peek()) != 0x22:
            if byte < 0x20:
                self.fail("in string literal")
            self.at += 1
            if byte == 0x5C:
                escape = self.peek()
                if escape == 0x75:
                    for _ in range(4):
                        self.at += 1
                        if self.peek() not in b"0123456789abcdefABCDEF":
                            self.fail("in \\u hexadecimal character escape")
                elif escape not in b'"\\/bfnrt':
                    self.fail("in string escape code")
                self.at += 1
        self.at += 1

    def number(self) -> None:
        if self.peek() == 0x2D:
            self.at += 1
            if not 0x30 <= self.peek() <= 0x39:
                self.fail("in numeric literal")
        if self.peek() == 0x30:
            self.at += 1
        else:
            self.digits()
        if self.peek() == 0x2E:
            self.at += 1
            if not 0x30 <= self.peek() <= 0x39:
                self.fail("after decimal point in numeric literal")
            self.digits()
        if self.peek() in (0x65, 0x45):
            self.at += 1
            if self.peek() in (0x2B, 0x2D):
                self.at += 1
            if not 0x30 <= self.peek() <= 0x39:
                self.fail("in exponent of numeric literal")
            self.digits()

    def digits(self) -> None:
        while 0x30 <= self.peek() <= 0x39:
            self.at += 1

    def literal(self, word: bytes) -> None:
        for expected in word[1:]:
            self.at += 1
            if self.peek() != expected:
                self.fail(f"in literal {word.decode()} (expecting '{chr(expected)}')")
        self.at += 1


def _quoted(byte: int) -> str:
    """A byte as Go names it in syntax errors."""
    if byte == 0x27:
        return "'\\''"
    if byte == 0x22:
        return "'\"'"
    char = chr(byte)
    if char.isprintable():
        return f"'{char}'"
    named = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r"}
    return f"'{named[byte]}'" if byte in named else f"'\\x{byte:02x}'" if byte < 0x80 else f"'\\u{byte:04x}'"
