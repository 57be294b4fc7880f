"""Where a rule points with its fieldPath: `.a.b['c']`, through the properties and maps of its schema."""

from __future__ import annotations

import re
from typing import Final

from koord.api.cel.declared import is_described
from koord.api.machinery.object_schema import Schema

_STEP: Final = re.compile(r"\.([^.\[\]]+)|\['((?:\\.|[^'\\])*)'\]", re.DOTALL)
_ESCAPES: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\",
}  # fmt: skip


def normal_path(schema: Schema, path: str) -> str | None:
    """The path as messages show it, or None where it leads nowhere."""
    at, end, shown = schema, 0, ""
    for match in _STEP.finditer(path):
        if match.start() != end:
            return None
        end = match.end()
        name = match[1] if match[1] is not None else _unescaped(match[2])
        if name is None:
            return None
        if at.properties:
            if name not in at.properties:
                return None
            at, shown = at.properties[name], f"{shown}.{name}" if shown else name
        elif at.values is not None and is_described(at.values):
            at, shown = at.values, f"{shown}[{name}]"
        else:
            return None
    return shown if end == len(path) else None


def _unescaped(text: str) -> str | None:
    unknown = [match[1] for match in re.finditer(r"\\(.)", text, re.DOTALL) if match[1] not in _ESCAPES]
    return None if unknown else re.sub(r"\\(.)", lambda match: _ESCAPES[match[1]], text, flags=re.DOTALL)
