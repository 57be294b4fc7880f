"""Values as Go prints them in messages: `%q` of a string, `%v` of a float."""

from __future__ import annotations

import math
from decimal import Decimal


def go_quoted(text: str) -> str:
    """A string as Go's `%q` prints it."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_go_character(character) for character in text) + '"'


def _go_character(character: str) -> str:
    if character in _GO_ESCAPES:
        return _GO_ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        # A byte that is no text; see `_sayable`.
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_GO_ESCAPES = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t",
    "\v": "\\v",
}  # fmt: skip


def go_float(number: float) -> str:
    """A float as Go prints it: 0.5, 2, 1e+06."""
    if not math.isfinite(number):
        return {math.inf: "+Inf", -math.inf: "-Inf"}.get(number, "NaN")
    if number == 0:
        return "0"
    exact = Decimal(repr(number)).normalize()
    power = exact.adjusted()
    if -4 <= power < 6:
        return f"{exact:f}"
    digits = "".join(map(str, exact.as_tuple().digits))
    mantissa = f"{digits[0]}.{digits[1:]}" if len(digits) > 1 else digits
    return f"{'-' if number < 0 else ''}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02}"
