"""The suite tries a share of a property test's examples; a search tries all of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples, try_a_share


@pytest.mark.parametrize(("asked", "tried"), [(5, 5), (20, 20), (30, 20), (100, 50), (1501, 751)])
def test_those_that_ask_for_few_get_all(asked: int, tried: int) -> None:
    assert examples(asked) == tried


@pytest.mark.parametrize(("fixed", "tried"), [(True, 50), (False, 100)])
def test_the_share_is_what_is_tried(fixed: bool, tried: int) -> None:
    seen = []

    @settings(max_examples=100, derandomize=fixed, database=None)
    @given(st.integers())
    def a_property(number: int) -> None:
        seen.append(number)

    try_a_share(cast(pytest.Item, SimpleNamespace(obj=a_property)))
    a_property()
    assert len(seen) == tried
