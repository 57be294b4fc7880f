"""CEL expressions from text to something that runs: read, typed, checked, priced.

`compiled` finds everything that is wrong with an expression over declared variables; what it gives can be asked for the
most that it can cost, and be evaluated under a limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from koord.api.cel.checker import Checked, check
from koord.api.cel.declared import Declared
from koord.api.cel.estimate import estimated_cost
from koord.api.cel.literal_checks import check_literals
from koord.api.cel.parser import parse
from koord.api.cel.program import Instantiation, Program, build
from koord.api.cel.syntax import CelError, CompileError, Issue
from koord.api.cel.types import Type

CALL_LIMIT: Final = 1_000_000
"""What one evaluation may cost."""


@dataclass(frozen=True, slots=True)
class Expression:
    source: str
    checked: Checked
    _program: Program

    @property
    def type(self) -> Type:
        return self.checked.type

    def uses(self, variable: str) -> bool:
        return variable in self.checked.names

    def estimated_cost(self, root: Declared | None) -> int:
        """The most that it can cost. `root`: what its variables are."""
        return estimated_cost(self.checked, root)

    def evaluate(self, variables: Mapping[str, Any]) -> tuple[Any, int]:
        """Its value, or a CelError in its place; and what that cost."""
        return self._program.evaluate(variables, CALL_LIMIT)


def compiled(source: str, variables: Mapping[str, Type], *, binds: bool = False) -> Expression:
    """Raises CelError, with a text that says what failed. `binds`: whether `cel.bind` may be used."""
    try:
        checked = check(source, parse(source, binds=binds), variables)
        check_literals(checked)
        program = build(checked, tuple(variables))
    except Instantiation as error:
        raise CelError(f"program instantiation failed: {error}") from None
    except CompileError as error:
        raise CelError(f"compilation failed: {error}") from None
    except RecursionError:
        fault = CompileError(source, [Issue(None, "expression recursion limit exceeded: 250")])
        raise CelError(f"compilation failed: {fault}") from None
    return Expression(source, checked, program)
