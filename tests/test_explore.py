"""Random search finds what fixed examples do not, and says how to see it again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from tests.explore import run, searches

PROPERTIES = """
from hypothesis import given, settings, strategies as st

settings.register_profile("explore", derandomize=False, database=None)

@given(st.integers(0, 2**40))
def test_breaks_now_and_then(number):
    assert number < 1000

@given(st.integers())
def test_holds(number):
    assert number == number

def test_is_no_property():
    assert False
"""


def test_the_suite_has_the_same_examples_for_everybody() -> None:
    assert settings.default is not None
    assert settings.default.derandomize
    assert settings.default.database is None


def test_a_failure_is_printed_with_the_command_that_repeats_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("conftest.py").write_text("import test_them\n")
    Path("test_them.py").write_text(PROPERTIES)
    monkeypatch.syspath_prepend(tmp_path)
    (search,) = searches(["test_them.py"])
    assert search.tests == ("test_them.py::test_breaks_now_and_then", "test_them.py::test_holds")
    status, printed = run(search, 7, 60.0)
    assert status
    assert "number=1000" in printed, "hypothesis' falsifying example"
    assert search.again(7) == "make explore T='test_them.py' SEED=7"
    assert run(search, 7, 0.01)[0] is None, "no more time than was given"
