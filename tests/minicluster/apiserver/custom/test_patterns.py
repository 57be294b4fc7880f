"""Patterns in the schemas of custom kinds: Go's syntax, and no text that takes for ever."""

from __future__ import annotations

import time

import pytest

from koord.api.machinery.openapi_schema import from_openapi
from koord_minicluster.apiserver.custom.schema_validation import matches, validate


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("^[a-z]+$", "abc", True),
        ("^[a-z]+$", "abc\n", False),
        ("b", "abc", True),
        (r"^\p{Lu}\pL*$", "Ärger", True),
        (r"^[[:alpha:]_]+\z", "a_b", True),
        (r"(?i)^ok$", "OK", True),
        (r"^\d+$", "٣", False),
    ],
)
def test_a_pattern_is_read_as_go_reads_it(pattern: str, text: str, fits: bool) -> None:
    assert matches(pattern, text) is fits


def test_no_pattern_takes_longer_than_its_text_is_long() -> None:
    schema = from_openapi(
        {
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}},
        }
    )
    began_s = time.process_time()
    faults = validate(schema, {"metadata": {}, "spec": {"a": "a" * 5000 + "b"}})
    assert [fault.field for fault in faults] == ["spec.a"]
    # By going back and forth it would take longer than the world is old.
    assert time.process_time() - began_s < 5
