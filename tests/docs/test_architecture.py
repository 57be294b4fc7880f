"""The pages about the design name packages and files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.layers import parse, project_rows, rewritten

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
IMPORTS = ROOT / "docs" / "architecture" / "imports.md"


def test_the_import_table_is_the_one_that_is_checked() -> None:
    page = IMPORTS.read_text()
    assert rewritten(page, project_rows()) == page, "run: python -m tools.layers docs/architecture/imports.md"


def test_every_package_has_a_line_that_says_what_it_is_for() -> None:
    named = set(re.findall(r"^\| `(koord[\w/]*)` \|", PAGE.read_text(), re.MULTILINE))
    rows = [row for row in parse(project_rows()).values() if not row.above]
    packages = {("koord/" if row.is_product else "") + row.package.replace(".", "/") for row in rows}
    quiet = {"koord/__main__", "koord_minicluster"}
    assert named == {package for package in packages - quiet if not package.endswith("live")}


def test_the_first_look_at_the_product_shows_few_packages() -> None:
    assert len(list((ROOT / "koord").glob("*/__init__.py"))) <= 16


def test_the_files_on_the_way_of_the_data_exist() -> None:
    page = PAGE.read_text()
    begin = page.index("## The loop")
    table = page[begin : page.index("\n## ", begin + 3)]
    paths = [each for each in re.findall(r"`([a-z_]+/[a-z_/]+(?:\.py)?)`", table) if "/" in each]
    assert len(paths) >= 15
    missing = [path for path in paths if not (ROOT / "koord" / path).exists()]
    assert not missing


@pytest.mark.parametrize("page", [PAGE, *sorted(IMPORTS.parent.glob("*.md"))], ids=lambda page: str(page.stem))
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    files = [f"/{path.relative_to(ROOT)}" for path in ROOT.glob("[a-z]*/**/*.py")]
    named = re.findall(r"`([\w/]+\.py)`", page.read_text())
    assert [each for each in named if not any(path.endswith(f"/{each}") for path in files)] == []
