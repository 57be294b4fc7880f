"""A package's docstring, where it lists modules, lists the modules that exist."""

from __future__ import annotations

from pathlib import Path

from tools.maps import faults, listed


def test_maps_list_every_module_and_no_other() -> None:
    assert list(faults()) == []


def test_a_map_is_a_table_or_lines_of_files() -> None:
    assert listed("A package.\n\n| module | what |\n| --- | --- |\n| `a`, `b/` | things |\n") == {"a", "b"}
    assert listed("A package.\n\nplan.py   what changes\nlive/     carries it out\n") == {"plan", "live"}


def test_a_module_that_is_missing_or_extra_is_named(tmp_path: Path) -> None:
    package = tmp_path / "koord" / "room"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('"""A room.\n\n| module | what |\n| --- | --- |\n| `gone` | nothing |\n"""\n')
    (package / "fresh.py").write_text("")
    assert list(faults(tmp_path)) == [
        "koord/room/__init__.py: the map lacks fresh",
        "koord/room/__init__.py: the map lists gone, which the package does not have",
    ]
