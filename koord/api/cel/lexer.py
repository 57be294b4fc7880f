"""The tokens of a CEL expression, and the texts that are none.

The longest token wins. What cannot go on as any token is told with the character at which that showed, as ANTLR does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from koord.api.cel.syntax import Issue

EOF: Final = "<EOF>"

# In the order of the grammar, which is the order in which messages list what was expected.
KINDS: Final = (
    "==", "!=", "in", "<", "<=", ">=", ">", "&&", "||", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":",
    "+", "*", "/", "%", "true", "false", "null", "NUM_FLOAT", "NUM_INT", "NUM_UINT", "STRING", "BYTES", "IDENTIFIER",
    "ESC_IDENTIFIER", EOF,
)  # fmt: skip
_NAMED: Final = frozenset(
    {"NUM_FLOAT", "NUM_INT", "NUM_UINT", "STRING", "BYTES", "IDENTIFIER", "ESC_IDENTIFIER", EOF},
)
_WORDS: Final = frozenset({"in", "true", "false", "null"})

_SKIPPED: Final = re.compile(r"[\t \r\n\f]+|//[^\n]*")
_TOKEN: Final = re.compile(
    r"(?P<NUM_FLOAT>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)"
    r"|(?P<NUM_UINT>0x[0-9a-fA-F]+[uU]|\d+[uU])"
    r"|(?P<NUM_INT>0x[0-9a-fA-F]+|\d+)"
    r"|(?P<IDENTIFIER>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<ESC_IDENTIFIER>`[A-Za-z0-9_.\-/ ]+`)"
    r"|(?P<symbol>==|!=|<=|>=|&&|\|\||[<>\[\]{}().,\-!?:+*/%])"
)
_STRING_START: Final = re.compile(r"([bB]?)([rR]?)(\"{3}|'{3}|\"|')")
ESCAPE: Final = re.compile(r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})")


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    at: int


def shown_kind(kind: str) -> str:
    return kind if kind in _NAMED else f"'{kind}'"


def tokens(source: str) -> tuple[list[Token], list[Issue]]:
    """The tokens, with one for the end after them, and what could not be read."""
    listed: list[Token] = []
    issues: list[Issue] = []
    at = 0
    while at < len(source):
        if skipped := _SKIPPED.match(source, at):
            at = skipped.end()
            continue
        token, end = _next(source, at)
        if token is None:
            issues.append(Issue(at, f"Syntax error: token recognition error at: '{source[at:end]}'"))
        else:
            listed.append(token)
        at = end
    return [*listed, Token(EOF, EOF, len(source))], issues


def _next(source: str, at: int) -> tuple[Token | None, int]:
    """The token here and its end; or none, and the end of what it might have been."""
    failed_at = at
    if start := _STRING_START.match(source, at):
        end, failed_at = _string_end(source, start)
        if end:
            return Token("BYTES" if start[1] else "STRING", source[at:end], at), end
    if match := _TOKEN.match(source, at):
        kind = match.lastgroup or ""
        text = match[0]
        return Token(text if kind == "symbol" or text in _WORDS else kind, text, at), match.end()
    if source[at] in "=|&" and at + 1 < len(source):
        failed_at = at + 1
    elif source[at] == "`":
        failed_at = at + 1
        while failed_at < len(source) and re.match(r"[A-Za-z0-9_.\-/ ]", source[failed_at]):
            failed_at += 1
    return None, min(failed_at + 1, len(source))


def _string_end(source: str, start: re.Match[str]) -> tuple[int, int]:
    """Where a string ends, or 0 and where it cannot go on."""
    quote, is_raw, at = start[3], bool(start[2]), start.end()
    while at < len(source):
        if source.startswith(quote, at):
            return at + len(quote), 0
        if source[at] == "\\" and not is_raw:
            escape = ESCAPE.match(source, at)
            if escape is None:
                if len(quote) == 3:
                    break
                return 0, min(at + 1, len(source) - 1)
            at = escape.end()
            continue
        if len(quote) == 1 and source[at] in "\n\r":
            return 0, at
        at += 1
    if len(quote) == 3:
        # Two quotes are a string by themselves.
        return start.end() - 1, 0
    return 0, len(source) - 1
