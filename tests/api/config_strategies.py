"""Random valid values of koord's configuration types, made from the types themselves.

So a property holds for every field of every type, also for those that are added later.
"""

from __future__ import annotations

from typing import Any, TypeVar

from hypothesis import strategies as st
from msgspec import inspect

from koord.api.machinery.struct import Struct
from koord.api.text.selector import LabelSelector

S = TypeVar("S", bound=Struct)

LABEL_WORDS = st.sampled_from(("a", "b", "zone", "pool", "kubernetes.io/arch"))
SELECTORS = st.builds(
    LabelSelector, match_labels=st.dictionaries(LABEL_WORDS, st.sampled_from(("x", "y", "")), max_size=2)
)
DURATIONS = st.sampled_from(("0s", "300ms", "1m0s", "5m0s", "1h30m0s"))
QUANTITIES = st.sampled_from(("0", "1", "1500m", "2Gi", "10G"))
WORDS = st.sampled_from(("", "a", "cpu", "memory", "usage"))
RESOURCES = st.sampled_from(("cpu", "memory", "kubernetes.io/batch-cpu"))


def structs(type_: type[S], **fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[S]:
    """Values of a struct type, each field set or left at its default; `fixed` gives fields their own strategy."""
    info = inspect.type_info(type_)
    assert isinstance(info, inspect.StructType)
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for field in info.fields:
        strategy = fixed[field.name] if field.name in fixed else _values(field.type)
        (required if field.required else optional)[field.name] = strategy
    return st.fixed_dictionaries(required, optional=optional).map(lambda fields: type_(**fields))


def _values(type_: inspect.Type) -> st.SearchStrategy[Any]:
    match type_:
        case inspect.Metadata(type=inner, extra=extra):
            schema = (extra or {}).get("schema")
            if schema == "duration" or getattr((extra or {}).get("check"), "__name__", "") == "_not_negative":
                return DURATIONS
            if schema == "quantity":
                return QUANTITIES
            return _values(inner)
        case inspect.UnionType(types=types):
            members = [_values(member) for member in types if not isinstance(member, inspect.NoneType)]
            return st.one_of(members)
        case inspect.StructType(cls=cls) if cls is LabelSelector:
            return SELECTORS
        case inspect.StructType(cls=cls):
            return structs(cls)
        case inspect.BoolType():
            return st.booleans()
        case inspect.IntType() | inspect.FloatType():
            return _numbers(type_)
        case inspect.LiteralType(values=values):
            return st.sampled_from(values)
        case inspect.EnumType(cls=enum):
            return st.sampled_from(list(enum))
        case inspect.VarTupleType(item_type=item):
            return st.lists(_values(item), max_size=2).map(tuple)
        case inspect.DictType(value_type=value):
            return st.dictionaries(RESOURCES, _values(value), max_size=2)
        case inspect.AnyType():
            return WORDS
        case _:
            return WORDS


def _numbers(type_: inspect.IntType | inspect.FloatType) -> st.SearchStrategy[Any]:
    """Numbers in the type's range, or a small one where it has no bound on a side. Floats are exact in binary."""
    low = type_.ge if type_.ge is not None else type_.gt if type_.gt is not None else -50
    high = type_.le if type_.le is not None else type_.lt if type_.lt is not None else low + 100
    if isinstance(type_, inspect.IntType):
        return st.integers(int(low) + (type_.gt is not None), int(high) - (type_.lt is not None))
    return st.integers(1, 7).map(lambda eighths: low + eighths / 8 * (high - low))
