"""The prose check counts what people read, and its allowance only shrinks."""

from __future__ import annotations

import pytest

from tools.prose import complaints, folder_of, main, shrunk, suspects, too_wide, tracked

WIDE = "words " * 20


def rules_of(path: str, source: str) -> list[tuple[int, str]]:
    return [(suspect.line, suspect.rule.name) for suspect in suspects(path, source)]


def test_comments_docstrings_strings_and_names_are_read_and_code_is_not() -> None:
    source = '"""A pod that nobody\nwants, as it is."""\n\nnobody = 1  # made anew each time\nclass Seen:\n    pass\n'
    assert rules_of("koord/x.py", source) == [
        (1, "unnamed actor"),
        (2, "'as it is'"),
        (4, "dated word"),
        (5, "empty name"),
    ]


def test_a_string_of_one_or_two_words_is_a_value_and_not_prose() -> None:
    assert rules_of("koord/x.py", "user = 'nobody'\n") == []


def test_a_quote_inside_a_comment_does_not_hide_what_follows() -> None:
    assert rules_of("koord/x.py", "# kubelet's pods\nx = 'it is told of a pod'\n") == [(2, "verb with 'of'")]


def test_code_in_a_page_is_not_prose() -> None:
    page = "Such a pod waits.\n\n    echo such a pod\n\n```\nsuch a pod\n```\n"
    assert rules_of("docs/x.md", page) == [(1, "'such' for a noun")]


@pytest.mark.parametrize(
    ("line", "is_too_wide"),
    [
        (WIDE, True),
        (f"- {WIDE}", True),
        (f"| {WIDE} |", False),
        (f"    {WIDE}", False),
        (f"`{WIDE}`", False),
        ("short enough", False),
    ],
)
def test_prose_wraps_at_100_columns(line: str, is_too_wide: bool) -> None:
    assert bool(too_wide("docs/x.md", f"# Title\n\n{line}\n")) == is_too_wide


def test_a_folder_above_its_allowance_fails_and_so_does_one_below_it() -> None:
    assert complaints({"koord": 3, "docs": 1}, {"koord": 3, "docs": 1}) == []
    (above,) = complaints({"koord": 4}, {"koord": 3})
    assert above.startswith("koord: 4 suspects, 3 allowed. List them:")
    (below,) = complaints({"koord": 2}, {"koord": 3})
    assert below == "koord: 2 suspects, 3 allowed. Lower the allowance: python -m tools.prose --shrink"
    assert complaints({"new": 1}, {}) != []
    assert complaints({}, {"gone": 1}) != []


def test_the_allowance_follows_files_that_move_and_its_total_never_rises() -> None:
    assert shrunk({"koord": 2, "bench": 1}, {"koord": 3}) == {"bench": 1, "koord": 2}
    assert shrunk({"koord": 0}, {"koord": 3}) == {}
    with pytest.raises(ValueError, match="4 suspects, 3 allowed: rewrite 1 first"):
        shrunk({"koord": 4}, {"koord": 3})


def test_files_at_the_top_are_a_folder_of_their_own() -> None:
    assert folder_of("README.md") == "."
    assert folder_of("koord/agent/core.py") == "koord"


def test_the_readme_and_the_pages_wrap() -> None:
    pages = {path: text for path, text in tracked(["README.md", "docs"]).items() if path.endswith(".md")}
    assert "README.md" in pages
    assert [line for path, text in pages.items() for line in too_wide(path, text)] == []


def test_suspects_of_a_path_are_listed_with_a_count(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tools/prose.py"]) == 0
    assert " suspects in " in capsys.readouterr().out
