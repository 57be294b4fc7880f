"""Links between pages lead to a file and a heading, and the index lists every page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)]*))?\)")


def text_of(page: Path) -> str:
    """The page without blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_a_file_and_a_heading(page: Path) -> None:
    for target, anchor in LINK.findall(text_of(page)):
        if target.startswith("https:"):
            continue
        there = (page.parent / target).resolve() if target else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), f"{target}#{anchor}"


def test_the_index_lists_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    listed = {(index.parent / target).resolve() for target, _ in LINK.findall(index.read_text())}
    assert {page for page in (ROOT / "docs").glob("*.md") if page != index} <= listed


def test_the_page_about_the_design_lists_the_pages_of_its_parts() -> None:
    page = ROOT / "docs" / "architecture.md"
    listed = {(page.parent / target).resolve() for target, _ in LINK.findall(page.read_text())}
    assert set((ROOT / "docs" / "architecture").glob("*.md")) <= listed
