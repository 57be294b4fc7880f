"""Field names as Go's encoding/json takes them: in any case.

Annotations and ConfigMaps are read by Go programs too, which accept `reservedCpus` for `reservedCPUs`. To drop this
field silently would be to do the opposite of what its writer saw working. (Kubernetes' own API is strict about case.)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from msgspec import inspect


def fold_names(type_: Any, data: object) -> object:
    """`data`, meant as a `type_`, with its fields under their proper names. An exact name beats a similar one."""
    return _folded(_type_info(type_), data)


@cache
def _type_info(type_: Any) -> inspect.Type:
    return inspect.type_info(type_)


def _folded(type_: inspect.Type, data: object) -> object:
    match type_, data:
        case inspect.Metadata(type=inner), _:
            return _folded(inner, data)
        case inspect.UnionType(types=types), _:
            # Optional fields; unions of several objects or lists do not occur.
            return _folded(next(t for t in types if not isinstance(t, inspect.NoneType)), data)
        case inspect.StructType(fields=fields), dict():
            types_by_name = {field.encode_name: field.type for field in fields}
            renamed = data if data.keys() <= types_by_name.keys() else _renamed(types_by_name, data)
            return {
                key: _folded(types_by_name[key], item) if key in types_by_name else item
                for key, item in renamed.items()
            }
        case inspect.DictType(value_type=value_type), dict():
            return {key: _folded(value_type, item) for key, item in data.items()}
        case inspect.VarTupleType(item_type=item_type), list():
            return [_folded(item_type, item) for item in data]
        case _:
            return data


def _renamed(proper_names: Mapping[str, object], data: Mapping[str, object]) -> dict[str, object]:
    proper = {name.casefold(): name for name in proper_names}
    renamed: dict[str, object] = {}
    for key, item in data.items():
        name = key if key in proper_names else proper.get(key.casefold(), key)
        if name == key or name not in data:
            renamed[name] = item
    return renamed
