"""Checking on after a fault: what is left of an input once its faulty parts are left out.

Checks that need a typed object (that two fields agree, that names are unique) can then run on the good parts, so
that a person gets the whole list of faults at once and not one kind after the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from koord.api.machinery.faults import Fault, Invalid, check
from koord.api.text.whole_number import natural_number

T = TypeVar("T")

_TOKEN: Final = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")
_ROUNDS: Final = 8


def salvage(type_: type[T], data: object, *, allow_unknown: bool = False) -> tuple[T | None, tuple[Fault, ...]]:
    """`data` as `type_` without its faulty parts, and all its faults. None: nothing is left."""
    faults: list[Fault] = []
    for _ in range(_ROUNDS):
        try:
            return check(type_, data, "", allow_unknown=allow_unknown), tuple(faults)
        except Invalid as invalid:
            paths = {fault.path for fault in faults}
            faults += [fault for fault in invalid.faults if not faults or fault.path not in paths]
            cured = data
            for fault in invalid.faults:
                cured = _without(cured, [key or name for key, name in _TOKEN.findall(fault.path)])
            if cured is None or cured == data:
                break
            data = cured
    return None, tuple(faults)


def _without(data: object, path: Sequence[str]) -> object:
    """`data` without what is at `path`, or without what that is in where it cannot go alone. None: all of it."""
    if not path:
        return None
    head, rest = path[0], path[1:]
    if isinstance(data, Mapping):
        if head not in data:
            return None  # a required field is missing: the object is of no use
        kept = _without(data[head], rest)
        return {key: kept if key == head else value for key, value in data.items() if key != head or kept is not None}
    if isinstance(data, list | tuple) and (at := natural_number(head, len(data) - 1)) is not None:
        kept = _without(data[at], rest)
        # Without one element the others would change their places, and the paths of later faults would mislead.
        return None if kept is None else [*data[:at], kept, *data[at + 1 :]]
    return data  # gone already, with an earlier fault
