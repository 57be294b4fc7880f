"""The pages that koord ships are what their sources give, and small; users need no Node."""

from __future__ import annotations

import gzip
import re
import shutil
from pathlib import Path

import pytest

from tests.console.packages import LOCK, ROOT, SOURCES, installed, npm
from tools import console_types

SHIPPED = ROOT / "koord" / "console" / "static"
MOST_BYTES = 100_000
"""Of scripts and styles together, compressed."""


def files(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


@pytest.mark.npm
def test_the_shipped_pages_are_what_the_sources_give(tmp_path: Path) -> None:
    at = tmp_path / "console"
    shutil.copytree(SOURCES, at, ignore=shutil.ignore_patterns("node_modules"))
    (at / "node_modules").symlink_to(installed())
    npm("run", "build", at=at)
    built = files(tmp_path / "koord" / "console" / "static")
    shipped = files(SHIPPED)
    assert built.keys() == shipped.keys(), "build them with: make console"
    assert [name for name in built if built[name] != shipped[name]] == []


def test_scripts_and_styles_are_small() -> None:
    sent = [gzip.compress(content, 6) for name, content in files(SHIPPED).items() if name.endswith((".js", ".css"))]
    assert sum(map(len, sent)) < MOST_BYTES


def test_the_first_page_names_nothing_elsewhere_and_has_nothing_inline() -> None:
    page = (SHIPPED / "index.html").read_text()
    assert "://" not in page
    assert "<style" not in page
    assert " style=" not in page
    assert page.count("<script") == page.count('<script type="module" crossorigin src="/assets/')


def test_the_types_are_those_of_the_answers() -> None:
    written = (ROOT / console_types.FILE).read_text()
    assert written == console_types.types(), "write them with: python -m tools.console_types"


def test_the_lock_file_names_no_registry() -> None:
    assert "resolved" not in (SOURCES / LOCK).read_text()


def test_the_pictures_of_the_tour_are_small_and_shown() -> None:
    page = (ROOT / "docs" / "console.md").read_text()
    pictures = sorted((ROOT / "docs" / "pictures").glob("*.png"))
    assert {f"pictures/{picture.name}" for picture in pictures} == set(re.findall(r"\]\((pictures/[^)]+)\)", page))
    assert sum(picture.stat().st_size for picture in pictures) < 1_500_000
