"""The name check counts variables with a filler for a name, and its allowance only shrinks."""

from __future__ import annotations

import pytest

from tools.names import complaints, fillers, main, shrunk


@pytest.mark.parametrize(
    "source",
    [
        "found = 1",
        "for each in pods: pass",
        "names = [each.name for each in pods]",
        "pods.sort(key=lambda each: each.name)",
        "if (known := pods.get('a')): pass",
        "def told(pod): pass",
        "def write(told): pass",
        "with path.open() as found: pass",
        "try: pass\nexcept OSError as told: pass",
        "match pod:\n    case {'name': known}: pass",
    ],
)
def test_whatever_gives_a_variable_such_a_name_counts_once(source: str) -> None:
    assert len(fillers("koord/x.py", source)) == 1


@pytest.mark.parametrize("source", ["entry.found = 1", "x = entry.told", "# found each", "text = 'each known'"])
def test_attributes_and_text_do_not_count(source: str) -> None:
    assert fillers("koord/x.py", source) == []


def test_a_line_says_where_and_what_would_be_better() -> None:
    (filler,) = fillers("koord/x.py", "\nfound = 1\n")
    assert str(filler) == "koord/x.py:2: found (better: what it holds, like pod, nodes_by_zone, stale)"


def test_a_folder_above_its_limit_fails_and_one_below_it_does_not() -> None:
    assert complaints({"tests": 2}, {"tests": 3}) == []
    assert complaints({"koord": 1}, {}) == [
        "koord: 1 variables named each, found, known, told, 0 allowed. List them: python -m tools.names koord"
    ]


def test_the_allowance_only_shrinks() -> None:
    assert shrunk({"koord": 4, "tests": 1}, {"koord": 3, "tests": 3, "tools": 1}) == {"koord": 3, "tests": 1}


def test_the_project_is_within_its_allowance(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0, capsys.readouterr().err
