"""How many examples of a property test the suite tries.

A test asks for as many as a search is worth. In the suite they are the same on every machine and in every run: what a
share of them shows, the rest shows rarely more. `make explore` tries all of them, with other seeds each time.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import settings

SHARE = 0.5
LEAST = 20
"""Tests that ask for no more than this get all of them."""


def examples(asked: int) -> int:
    """How many of those that a test asks for are tried."""
    return asked if asked <= LEAST else max(LEAST, math.ceil(SHARE * asked))


def try_a_share(item: pytest.Item) -> None:
    """Where `item` is a property test of the suite, and not of a search."""
    test = getattr(item, "obj", None)
    test = getattr(test, "__func__", test)
    asked = getattr(test, "_hypothesis_internal_use_settings", None)
    if isinstance(asked, settings) and asked.derandomize:
        fewer = settings(asked, max_examples=examples(asked.max_examples))
        test._hypothesis_internal_use_settings = fewer  # type: ignore[union-attr] # where hypothesis keeps them
