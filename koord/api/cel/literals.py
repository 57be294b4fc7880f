"""What the literals of an expression say: numbers, strings, bytes, true, false and null."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from koord.api.cel.lexer import ESCAPE, Token
from koord.api.text.whole_number import whole_number


def read(token: Token, *, is_negative: bool) -> tuple[Any, str]:
    """A value and its type's name. Raises ValueError."""
    text, sign = token.text, "-" if is_negative else ""
    match token.kind:
        case "NUM_INT":
            number = int(sign + text, 16) if text.startswith("0x") else whole_number(sign + text)
            if not -(2**63) <= number < 2**63:
                raise ValueError("invalid int literal")
            return number, "int"
        case "NUM_UINT":
            number = int(text[:-1], 16) if text.startswith("0x") else whole_number(text[:-1])
            if number >= 2**64:
                raise ValueError("invalid uint literal")
            return number, "uint"
        case "NUM_FLOAT":
            value = float(sign + text)
            if math.isinf(value):
                raise ValueError("invalid double literal")
            return value, "double"
        case "STRING":
            return _string(text), "string"
        case "BYTES":
            return _bytes(text), "bytes"
        case "null":
            return None, "null_type"
    return token.kind == "true", "bool"


_SIMPLE_ESCAPES: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", "'": "'", '"': '"',
    "`": "`", "?": "?",
}  # fmt: skip


def _string(text: str) -> str:
    """What a string literal says. Raises ValueError."""
    body, is_raw = _body(text)
    if is_raw:
        return body
    return "".join(_char(match[0]) if match[0][0] == "\\" else match[0] for match in _pieces(body))


def _bytes(text: str) -> bytes:
    """What a literal of bytes says. Raises ValueError."""
    body, is_raw = _body(text[1:])
    if is_raw:
        return body.encode()
    parts = []
    for match in _pieces(body):
        piece = match[0]
        if piece[0] != "\\":
            parts.append(piece.encode())
        elif piece[1] in "xX":
            parts.append(bytes([int(piece[2:], 16)]))
        elif piece[1].isdigit():
            parts.append(bytes([int(piece[1:], 8)]))
        elif piece[1] in "uU":
            raise ValueError("unable to unescape string")
        else:
            parts.append(_SIMPLE_ESCAPES[piece[1]].encode())
    return b"".join(parts)


def _body(text: str) -> tuple[str, bool]:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    is_raw = text[0] in "rR"
    quoted = text[1:] if is_raw else text
    width = 3 if len(quoted) >= 6 and quoted[:3] in ('"""', "'''") else 1
    return quoted[width:-width], is_raw


def _pieces(body: str) -> list[re.Match[str]]:
    return list(re.finditer(rf"{ESCAPE.pattern}|[^\\]+", body))


def _char(escape: str) -> str:
    kind = escape[1]
    if kind in "xXuU":
        number = int(escape[2:], 16)
        if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
            raise ValueError("invalid unicode code point")
        return chr(number)
    return chr(int(escape[1:], 8)) if kind.isdigit() else _SIMPLE_ESCAPES[kind]
