"""Regular expressions, in the syntax that Go's are written in."""

from __future__ import annotations

from koord.apiserver.cel.syntax import CelError
from koord.apiserver.custom.schema_validation import compiled_pattern


def pattern_fault(pattern: str) -> str:
    """Why a pattern is none, "" where it is one."""
    return "" if compiled_pattern(pattern) is not None else "error parsing regexp"


def matches(text: str, pattern: str) -> bool:
    compiled = compiled_pattern(pattern)
    if compiled is None:
        raise CelError("error parsing regexp")
    return compiled.search(text) is not None


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """What a pattern matches in a text, from left to right."""
    compiled = compiled_pattern(pattern)
    if compiled is None:
        raise CelError("Illegal regex: error parsing regexp")
    found: list[str] = []
    for match in compiled.finditer(text):
        if 0 <= limit <= len(found):
            break
        found.append(match[0])
    return found
