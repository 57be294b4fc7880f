"""The map of the house is that of the house."""

from __future__ import annotations

import re
from pathlib import Path

from tools.layers import parse, project_rows, rewritten

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"


def test_the_import_table_is_the_one_that_is_checked() -> None:
    page = PAGE.read_text()
    assert rewritten(page, project_rows()) == page, "run: python -m tools.layers docs/architecture.md"


def test_every_package_has_a_line_that_says_what_it_is_for() -> None:
    named = set(re.findall(r"^\| `koord/([\w/]+)` \|", PAGE.read_text(), re.MULTILINE))
    packages = {each.replace(".", "/") for each in parse(project_rows())}
    assert named == {each for each in packages if not each.endswith(("live", "__main__")) and each != "minicluster"}


def test_the_files_on_the_way_of_the_data_exist() -> None:
    page = PAGE.read_text()
    begin = page.index("## The way of the data")
    table = page[begin : page.index("\n## ", begin + 3)]
    paths = [each for each in re.findall(r"`([a-z_]+/[a-z_/]+(?:\.py)?)`", table) if "/" in each]
    assert len(paths) >= 15
    missing = [each for each in paths if not (ROOT / "koord" / each).exists()]
    assert not missing
