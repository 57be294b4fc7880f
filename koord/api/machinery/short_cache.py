"""A cache for functions of one short text, bounded in bytes and not only in entries.

Clients decide which texts a cache holds. Texts that are longer than usual ones are computed again each time, so
that strangers cannot fill memory with them: a cache never holds more than `most * LONGEST` characters of keys.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Final, TypeVar

LONGEST: Final = 256
"Characters of a text that is remembered. Names, quantities, labels and selectors in use are shorter."

K = TypeVar("K")
R = TypeVar("R")


def short_cache(most: int) -> Callable[[Callable[[K], R]], Callable[[K], R]]:
    """As `lru_cache(most, typed=True)`, for one argument: a text that may be long, or a number."""

    def remembering(function: Callable[[K], R]) -> Callable[[K], R]:
        kept = lru_cache(most, typed=True)(function)

        @wraps(function)
        def call(argument: K) -> R:
            if argument.__class__ is str and len(argument) > LONGEST:  # type: ignore[arg-type]  # a str has a length
                return function(argument)
            return kept(argument)

        return call

    return remembering
