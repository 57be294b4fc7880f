from __future__ import annotations

from pathlib import Path

from tests.distribution import LONGEST_FIRST

ROOT = Path(__file__).parents[1]


def test_every_file_that_is_handed_out_early_exists() -> None:
    assert [path for path in LONGEST_FIRST if not (ROOT / path).is_file()] == []
