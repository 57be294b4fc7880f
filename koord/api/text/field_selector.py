r"""Field selectors: `metadata.name=web,status.phase!=Running`.

All terms must hold; a field that is absent counts as empty. In a value `\`, `,` and `=` are written `\\`, `\,`, `\=`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from koord.api.machinery.faults import BadInput

_TERM: Final = re.compile(r"(?:[^\\,]|\\.?)+", re.DOTALL)
_OPERATOR: Final = re.compile(r"!=|==|=")
_SPECIAL: Final = re.compile(r"[\\,=]")
_ESCAPE: Final = re.compile(r"\\([\\,=])")
_UNESCAPED: Final = re.compile(r"(?:[^\\,=]|\\[\\,=])*")


class FieldSelectorError(BadInput):
    """A field selector that cannot be understood."""


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """A field that must have this value, or, where not `equal`, must not have it."""

    field: str
    value: str
    equal: bool = True

    def matches(self, fields: Mapping[str, str]) -> bool:
        return (fields.get(self.field, "") == self.value) is self.equal

    def __str__(self) -> str:
        return f"{self.field}{'=' if self.equal else '!='}{escape(self.value)}"


@dataclass(frozen=True, slots=True)
class FieldMatcher:
    """A compiled field selector. Its string parses to an equal one."""

    requirements: tuple[FieldRequirement, ...] = ()

    def matches(self, fields: Mapping[str, str]) -> bool:
        return all(requirement.matches(fields) for requirement in self.requirements)

    def exact(self, field: str) -> str | None:
        """The one value that `field` must have, if the selector says so: what an index can be asked for."""
        return next((r.value for r in self.requirements if r.equal and r.field == field), None)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


def parse_fields(text: str) -> FieldMatcher:
    """The matcher for a field selector. Empty text matches everything, and a bare `=` says nothing."""
    requirements = (_requirement(term, text) for term in sorted(_TERM.findall(text)))
    return FieldMatcher(tuple(requirement for requirement in requirements if requirement.field or requirement.value))


def escape(value: str) -> str:
    """A literal value, escaped for a field selector."""
    return _SPECIAL.sub(r"\\\g<0>", value)


def _requirement(term: str, text: str) -> FieldRequirement:
    operator = _OPERATOR.search(term)
    if operator is None:
        raise FieldSelectorError(f"field selector {text!r}: {term!r} must be field=value, field==value or field!=value")
    written = term[operator.end() :]
    if not _UNESCAPED.fullmatch(written):
        raise FieldSelectorError(
            rf"field selector {text!r}: in the value {written!r}, '\', ',' and '=' must be written '\\', '\,' and '\='"
        )
    return FieldRequirement(term[: operator.start()], _ESCAPE.sub(r"\1", written), operator[0] != "!=")
