"""Writes the types of the console's pages from the answers of its API: `koord.console.shapes`.

    python -m tools.console_types

A test says when they are out of date.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import inspect

from koord.console import shapes
from koord.manager.node_resource.explain import NodeExplanation
from koord.offline.explain import Explained
from koord.operate.health import Finding

ROOT: Final = Path(__file__).parents[1]
FILE: Final = "console/src/shapes.ts"
HEAD: Final = "// Made by `python -m tools.console_types` from koord/console/shapes.py.\n\n"
MARKS: Final = shapes.MARKS
SETTING_VALUE: Final = "export type SettingValue = string | number | boolean | number[] | null"
OTHERS: Final = (Explained, NodeExplanation, Finding)
"""Answers that commands print, too."""
_ANY: Final = {
    ("Page", "columns"): "C",
    ("Explanation", "explained"): "Explained | null",
    ("HealthAnswer", "status"): "{ version: string; checks: Finding[]; notes: string[] }",
    ("WorthAnswer", "right_sizing"): "{ total: Saving; workloads: (Saving & { workload: string })[] }",
}
"""Fields whose type Python does not tell, by struct."""


def types() -> str:
    """The TypeScript file."""
    named: dict[str, inspect.StructType] = {}
    for cls in (*_shapes(), *OTHERS):
        _collect(inspect.type_info(cls), named)
    parts = [_interface(name, shape) for name, shape in named.items()]
    marks = ", ".join(f"{name}: {bit}" for name, bit in MARKS.items())
    saving = "export interface Saving { cores: number; gib: number; nodes: number }\n"
    acts = " | ".join(f'"{act}"' for act in shapes.ACTS)
    aliases = (
        f"export type ActName = {acts};\nexport type SettingValue = string | number | boolean | number[] | null;\n"
    )
    return HEAD + f"export const MARKS = {{ {marks} }} as const;\n{aliases}\n" + saving + "\n" + "\n".join(parts)


def _shapes() -> list[type[msgspec.Struct]]:
    return [
        shape
        for shape in vars(shapes).values()
        if isinstance(shape, type)
        and issubclass(shape, msgspec.Struct)
        and shape.__module__ == shapes.__name__
        and shape.__struct_fields__
    ]


def _name(cls: type) -> str:
    # The explanation of a pod, and the answer that holds one, have the same name in Python.
    return "PodExplained" if cls.__name__ == "Explanation" and cls.__module__ != shapes.__name__ else cls.__name__


def _collect(shape: inspect.Type, named: dict[str, inspect.StructType]) -> None:
    match shape:
        case inspect.StructType():
            if _name(shape.cls) not in named:
                named[_name(shape.cls)] = shape
                for field in shape.fields:
                    _collect(field.type, named)
        case inspect.UnionType(types=parts):
            for part in parts:
                _collect(part, named)
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            _collect(item, named)
        case inspect.DictType(value_type=value):
            _collect(value, named)
        case inspect.Metadata(type=inner):
            _collect(inner, named)
        case _:
            pass


def _interface(name: str, shape: inspect.StructType) -> str:
    lines = [f"export interface {name}{'<C>' if name == 'Page' else ''} {{"]
    for field in shape.fields:
        union = field.type.types if isinstance(field.type, inspect.UnionType) else ()
        absent = any(isinstance(part, inspect.CustomType) and part.cls is msgspec.UnsetType for part in union)
        written = _ANY.get((name, field.name)) or _type(field.type)
        lines.append(
            f"  {field.encode_name}{'?' if absent or (_asked(name) and not field.required) else ''}: {written};"
        )
    return "\n".join((*lines, "}\n"))


def _asked(name: str) -> bool:
    """What a page sends: what it leaves out has a default."""
    return name in ("Scope", "PreviewRequest", "ActRequest")


def _type(shape: inspect.Type) -> str:
    match shape:
        case inspect.StructType():
            return _name(shape.cls)
        case inspect.UnionType(types=parts):
            plain = [part for part in parts if not isinstance(part, inspect.CustomType)]
            return " | ".join(dict.fromkeys(_type(part) for part in plain))
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            inner = _type(item)
            return f"({inner})[]" if " " in inner else f"{inner}[]"
        case inspect.DictType(value_type=value):
            return f"Record<string, {_type(value)}>"
        case inspect.LiteralType(values=values):
            return " | ".join(f'"{value}"' for value in values)
        case inspect.Metadata(type=inner_type):
            return _type(inner_type)
        case inspect.EnumType(cls=cls):
            return " | ".join(f'"{member.value}"' for member in cls)
    return _PLAIN.get(type(shape), "unknown")


_PLAIN: Final[dict[type[Any], str]] = {
    inspect.StrType: "string",
    inspect.IntType: "number",
    inspect.FloatType: "number",
    inspect.BoolType: "boolean",
    inspect.NoneType: "null",
}


if __name__ == "__main__":
    (ROOT / FILE).write_text(types())
