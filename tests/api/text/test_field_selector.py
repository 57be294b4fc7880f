from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.text.field_selector import FieldMatcher, FieldRequirement, FieldSelectorError, parse_fields

RECORDED = json.loads(Path(__file__).with_name("data").joinpath("selectors.json").read_text())


@pytest.mark.parametrize("row", RECORDED["fields"], ids=lambda row: row["in"])
def test_a_field_selector_is_read_as_kubernetes_reads_it(row: dict[str, Any]) -> None:
    if "error" in row:
        with pytest.raises(FieldSelectorError, match="field selector"):
            parse_fields(row["in"])
        return
    matcher = parse_fields(row["in"])
    assert str(matcher) == row["string"]
    assert [matcher.matches(fields) for fields in RECORDED["field_sets"]] == row["matches"]


def test_an_exact_value_can_be_asked_for() -> None:
    matcher = parse_fields("spec.nodeName=n1,status.phase!=Failed")
    assert matcher.exact("spec.nodeName") == "n1"
    assert matcher.exact("status.phase") is None


@pytest.mark.parametrize("text", ["=", "==", "!=", "=,!="])
def test_a_term_without_field_and_value_says_nothing(text: str) -> None:
    assert parse_fields(text) == FieldMatcher()


names = st.from_regex(r"[a-z]+(\.[a-zA-Z]+)?", fullmatch=True)
requirements = st.builds(FieldRequirement, names, st.text(max_size=8) | st.text("\\,=a", max_size=8), st.booleans())


@given(st.lists(requirements, max_size=4))
def test_printing_and_reading_gives_the_same_selector(chosen: list[FieldRequirement]) -> None:
    matcher = FieldMatcher(tuple(sorted(chosen, key=str)))
    assert parse_fields(str(matcher)) == matcher


@given(st.text(max_size=20) | st.text("a=!\\,.", max_size=20))
def test_any_text_is_a_selector_or_a_named_error(text: str) -> None:
    with contextlib.suppress(FieldSelectorError):
        parse_fields(text)
