"""Settings laid over settings: default <- cluster <- node.

What is set on top replaces what is below, maps are merged by key, lists are replaced whole, objects are overlaid
field by field. An absent or empty field on top lets the one below show through. So laying over is associative, and
laying a thing over itself changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from koord.api.machinery.struct import Struct

S = TypeVar("S", bound=Struct)


def overlay(base: S, top: Struct | None) -> S:
    """`base` with everything that `top` sets. `top` is of the same type or one derived from it.

    The result is of the type of `base`. The values of a map are replaced, not overlaid, as JSON readers do.
    """
    if top is None:
        return base
    assert isinstance(top, type(base)), f"{type(top).__name__} cannot be laid over {type(base).__name__}"
    names, defaults = base.__struct_fields__, base.__struct_defaults__
    assert len(names) == len(defaults), f"{type(base).__name__} has fields that cannot be absent"
    merged = (_laid(getattr(base, n), getattr(top, n), absent) for n, absent in zip(names, defaults, strict=True))
    return type(base)(*merged)


def _laid(below: object, above: object, absent: object) -> object:
    if above is None or (above == "" and absent == ""):
        return below
    if isinstance(above, Mapping):
        if not above:
            return below
        return {**below, **above} if isinstance(below, Mapping) else above
    if isinstance(above, tuple):
        return above or below
    if isinstance(above, Struct) and isinstance(below, type(above)):
        return overlay(below, above)
    return above
