"""What the fields of a struct mean, in the words that stand below them in the source.

A string literal below a field describes it to users (`kubectl explain`, the configuration's reference). Python drops
these literals, so they are read from the module's source, on demand.
"""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache

import msgspec


def field_descriptions(type_: type[msgspec.Struct]) -> dict[str, str]:
    """Description by (Python) name of the field, inherited fields included. Fields without one are absent."""
    descriptions: dict[str, str] = {}
    for base in reversed(type_.__mro__):
        descriptions.update(_module(base.__module__).get(base.__qualname__, {}))
    return descriptions


def type_description(type_: type[msgspec.Struct]) -> str:
    """The first paragraph of a type's own docstring, as one line; empty if it has none."""
    own = type_.__dict__.get("__doc__")
    return " ".join(inspect.cleandoc(own).partition("\n\n")[0].split()) if own else ""


@cache
def _module(name: str) -> dict[str, dict[str, str]]:
    """Descriptions in one module, by class and field."""
    module = sys.modules.get(name)
    try:
        source = inspect.getsource(module) if module else ""
    except (OSError, TypeError):  # built in, or shipped without source
        source = ""
    return {node.name: _class(node) for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}


def _class(node: ast.ClassDef) -> dict[str, str]:
    descriptions: dict[str, str] = {}
    for field, below in zip(node.body, node.body[1:], strict=False):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                descriptions[name] = " ".join(text.split())
    return descriptions
