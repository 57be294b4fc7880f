"""CEL expressions: compiled once, refused early, evaluated with Kubernetes' functions.

Needs the extra `[cel]`: importing this module without it raises ImportError, and callers say so. The package does not
check types, so what the real server finds wrong with the types of an expression shows when it is evaluated; syntax,
unknown names and functions that are not there are found at compilation.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import cel
from cel.stdlib import STDLIB_FUNCTIONS

from koord.apiserver.cel.functions import FUNCTIONS

OptionalValue = cel.OptionalValue

# What a function of ours could not do comes back as the expression's error.
logging.getLogger("cel").setLevel(logging.CRITICAL)

_LIBRARY: Final = {**STDLIB_FUNCTIONS, **FUNCTIONS}
_BUILT_IN: Final = frozenset(
    {"matches", "contains", "startsWith", "endsWith", "int", "uint", "double", "string", "bytes", "type", "dyn", "has"}
    | {"timestamp", "duration", "getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"}
    | {"getHours", "getMinutes", "getSeconds", "getMilliseconds"}
    | {"hasValue", "value", "orValue", "or", "of", "none", "ofNonZeroValue"}
)
_TYPES: Final = frozenset(
    {"bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"},
)
_TOKEN: Final = re.compile(
    r"""(?P<text>[rR]?[bB]?[rR]?(?:\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))|(?P<comment>//[^\n]*)"""
    r"|(?P<word>[A-Za-z_]\w*)",
    re.DOTALL,
)
_BOUND: Final = re.compile(r"\.\s*(?:all|exists|exists_one|map|filter)\s*\(\s*([A-Za-z_]\w*)\s*,")
_NAMESPACED: Final = re.compile(r"(?<![\w.])(\w+)\s*\.\s*(\w+)\s*\(")
_OPTIONAL_SYNTAX: Final = re.compile(r"\.\?|\[\?|\bcel\s*\.\s*bind\b|\.\s*opt(?:Flat)?Map\s*\(")

_FUNCTION_FAILED: Final = re.compile(r"^Function '\w+' error: (?:Python function call failed: \w+: )?")
_ELSEWHERE: Final = frozenset(
    {"semver", "isSemver", "major", "minor", "patch", "format", "validate", "named", "group", "resource", "check"}
    | {"transformList", "transformMap", "transformMapEntry", "existsOne"}
)
"Functions that Kubernetes has, and this has not."


class CelError(Exception):
    """An expression that cannot be compiled, or not be evaluated; in cel-go's words where it has some."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression. `names` are the variables that it uses."""

    source: str
    names: frozenset[str]
    _program: cel.Program
    _context: cel.Context

    def evaluate(self, variables: Mapping[str, Any]) -> Any:
        """Its value. Raises CelError."""
        for name in self.names:
            if name in variables:
                self._context.add_variable(name, variables[name])
        try:
            return self._program.execute(self._context)
        except KeyError as error:
            raise CelError(f"no such key: {error.args[0] if error.args else error}") from error
        except IndexError as error:
            raise CelError(str(error)) from error
        except ZeroDivisionError as error:
            raise CelError("division by zero") from error
        except OverflowError as error:
            raise CelError("integer overflow") from error
        except TypeError as error:
            raise CelError("no such overload") from error
        except (RuntimeError, ValueError) as error:
            raise CelError(_told(str(error))) from error


@lru_cache(2048)
def compiled(source: str, variables: frozenset[str]) -> Expression:
    """An expression over these variables. Raises CelError."""
    if found := _OPTIONAL_SYNTAX.search(without_texts(source)):
        raise CelError(f"{found[0]!r} is not supported here; use has(...) and conditions instead")
    try:
        program = cel.compile(_with_own_size(source))
    except ValueError as error:
        raise CelError(f"compilation failed: {_syntax_fault(str(error))}") from error
    bare = without_texts(source)
    spaces = {name for name, function in _NAMESPACED.findall(bare) if f"{name}.{function}" in _LIBRARY}
    bound = set(_BOUND.findall(bare))
    used = set(program.variables()) - spaces - bound - {"optional"}
    faults = [
        at_column(source, _column(bare, rf"(?<![\w.]){name}\b"), f"undeclared reference to '{name}' (in container '')")
        for name in sorted(used - variables - _TYPES)
    ]
    needed: dict[str, Any] = {}
    for function in program.functions():
        candidates = [f"{space}.{function}" for space in spaces] + [function]
        known = [each for each in candidates if each in _LIBRARY]
        needed |= {each: _LIBRARY[each] for each in known}
        if known or function in _BUILT_IN or not function[0].isalpha():
            continue
        if function in _ELSEWHERE:
            raise CelError(f"compilation failed: the function '{function}' is not supported here")
        column = _column(bare, rf"\b{function}\s*\(") + len(function)
        faults.append(at_column(source, column, f"undeclared reference to '{function}' (in container '')"))
    if faults:
        raise CelError("compilation failed: " + "\n".join(faults))
    return Expression(source, frozenset(used & variables), program, cel.Context({}, needed))


def evaluate(source: str, variables: Mapping[str, Any]) -> Any:
    """The value of an expression over these variables. Raises CelError."""
    return compiled(source, frozenset(variables)).evaluate(variables)


def at_column(source: str, column: int, fault: str) -> str:
    """A fault and where it is, as the real compiler shows it."""
    return f"ERROR: <input>:1:{column}: {fault}\n | {source}\n | {'.' * (column - 1)}^"


def _column(text: str, pattern: str) -> int:
    found = re.search(pattern, text)
    return found.start() + 1 if found else 1


def _with_own_size(source: str) -> str:
    """With our function for sizes, since the package's cannot be replaced under its own name."""
    return _TOKEN.sub(lambda match: "kubernetes_size" if _is_size(source, match) else match[0], source)


def _is_size(source: str, match: re.Match[str]) -> bool:
    return match["word"] == "size" and source[match.end() :].lstrip().startswith("(")


def without_texts(source: str) -> str:
    """The expression with its string literals blanked out, so that words in them are not taken for names."""
    return _TOKEN.sub(lambda match: match[0] if match["word"] else " " * len(match[0]), source)


def _syntax_fault(text: str) -> str:
    at = text.find("ERROR:")
    return text[at:].replace("\n| ", "\n | ") if at >= 0 else _first_line(text)


def _told(text: str) -> str:
    """What a function said that failed, without the package's words around it."""
    return _FUNCTION_FAILED.sub("", _first_line(text)).removesuffix(".")


def _first_line(text: str) -> str:
    return text.partition("\n")[0].removesuffix(" Check function arguments and their types.")
