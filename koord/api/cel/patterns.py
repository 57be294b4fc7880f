"""Regular expressions of CEL rules and schemas: RE2, whose time grows with the text alone, whatever the pattern.

Go's regexp package has the same syntax and the same faults, in other words: `_GO_WORDS` translates them.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

import re2

from koord.api.cel.syntax import CelError

_GO_WORDS: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
_TOKEN: Final = re.compile(
    r"""\\Q.*?(?:\\E|\Z)
    |\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*+\]
    |(?P<byte>\\C)|\\.
    |(?P<count>\{(?:\d{9,}(?:,\d*)?|\d+,\d{9,})\})
    |(?P<name>\(\?P?<[^>]*[^>\x00-\x7f][^>]*>)
    |.""",
    re.DOTALL | re.VERBOSE,
)
_REFUSED_BY_GO: Final = {
    "byte": "invalid escape sequence", "count": "invalid repeat count", "name": "invalid named capture",
}  # fmt: skip
"Tokens that RE2 accepts: any byte, huge counts as plain text, names that are not ASCII."
_LOOK_BEHIND: Final = re.compile(r"\(\?<[=!](?:[^>]*>|.*)", re.DOTALL)
"Go takes `(?<=` for the start of a named group."

_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True


class PatternError(ValueError):
    """An invalid pattern, in Go's words."""

    def __init__(self, fault: str, part: str) -> None:
        super().__init__(f"error parsing regexp: {fault}: `{part}`")


@lru_cache(128)
def compiled(pattern: str) -> Any:
    """Raises PatternError. The cache is bounded because each entry may grow to 8 MiB while it is used."""
    try:
        program = re2.compile(_utf8(pattern), _OPTIONS)
    except re2.error as error:
        raise _go_error(error.args[0].decode("utf-8", "replace"), pattern) from None
    for token in _TOKEN.finditer(pattern):
        if token.lastgroup:
            raise PatternError(_REFUSED_BY_GO[token.lastgroup], token[0])
    return program


def _go_error(said: str, pattern: str) -> PatternError:
    fault, _, part = said.partition(": ")
    if fault.startswith("pattern too large"):
        return PatternError("expression too large", pattern)
    if fault == "invalid perl operator" and part.startswith("(?<") and (behind := _LOOK_BEHIND.search(pattern)):
        return PatternError("invalid named capture", behind[0])
    if fault == "invalid repetition size":
        part = part.removesuffix("?")
    return PatternError(_GO_WORDS.get(fault, fault), part)


def _utf8(text: str) -> bytes:
    # Parts of a request's path may hold lone surrogates.
    return text.encode("utf-8", "surrogatepass")


def pattern_fault(pattern: str) -> str:
    """Why a pattern is invalid; "" if it is valid."""
    try:
        compiled(pattern)
    except PatternError as error:
        return str(error)
    return ""


def matches(text: str, pattern: str) -> bool:
    """Whether the pattern matches anywhere in the text. Raises CelError."""
    try:
        return compiled(pattern).search(_utf8(text)) is not None
    except PatternError as error:
        raise CelError(str(error)) from None


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """The matches of a pattern in a text, from left to right, as Go lists them. Raises CelError."""
    try:
        search = compiled(pattern).search
    except PatternError as error:
        raise CelError(f"Illegal regex: {error}") from None
    data = _utf8(text)
    parts: list[str] = []
    at, last_end = 0, -1
    while at <= len(data) and not 0 <= limit <= len(parts) and (match := search(data, at)):
        start, end = match.span()
        if end > start or end != last_end:
            parts.append(data[start:end].decode("utf-8", "replace"))
        last_end = end
        at = end if end > start else _next_character(data, end)
    return parts


def _next_character(data: bytes, at: int) -> int:
    at += 1
    while at < len(data) and data[at] & 0xC0 == 0x80:
        at += 1
    return at
