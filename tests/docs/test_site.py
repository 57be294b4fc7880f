"""The site that `make docs` builds: complete, without requests elsewhere, for keyboard, phone and dark rooms."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest

from tests.browser import opened
from tools.site.build import build, markdown_of
from tools.site.contents import contents
from tools.site.layout import POLICY
from tools.site.pages import address, page

ROOT = Path(__file__).parents[2]
DESK, PHONE = 1280, 390
RUNS_CODE = re.compile(r"^on|^style$|^srcdoc$")


class Read(HTMLParser):
    """What a browser would follow in a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.resources: list[str] = []
        self.anchors: set[str] = set()
        self.inline: list[str] = []
        self._tag = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._tag = tag
        for name, value in attrs:
            if name == "id":
                self.anchors.add(str(value))
            if name == "href" and tag == "a":
                self.links.append(str(value))
            elif name in ("href", "src"):
                self.resources.append(str(value))
            if RUNS_CODE.match(name):
                self.inline.append(f"{tag} {name}")

    def handle_endtag(self, tag: str) -> None:
        self._tag = ""

    def handle_data(self, data: str) -> None:
        if self._tag in ("script", "style") and data.strip():
            self.inline.append(data)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "docs"
    build(ROOT, folder)
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Read]:
    return {file.relative_to(site).as_posix(): Read(file.read_text()) for file in site.rglob("*.html")}


def test_each_page_of_the_project_is_in_it_and_in_its_navigation(pages: dict[str, Read]) -> None:
    texts = markdown_of(ROOT)
    assert {address(path) for path in texts} <= set(pages)
    assert {entry.path for entry in contents(texts).pages()} == set(texts) - {"README.md", "docs/README.md"}


def test_all_links_lead_somewhere_and_nothing_is_loaded_from_elsewhere(pages: dict[str, Read], site: Path) -> None:
    for name, read in pages.items():
        for link in read.links:
            if link.startswith("https:"):
                continue
            there = urlsplit(urljoin(name, link))
            assert there.path in pages, f"{name}: {link}"
            assert not there.fragment or there.fragment in pages[there.path].anchors, f"{name}: {link}"
        for resource in read.resources:
            assert (site / urljoin(name, resource)).is_file(), f"{name}: {resource}"


def test_no_page_has_code_in_it_that_a_strict_policy_would_refuse(pages: dict[str, Read], site: Path) -> None:
    for name, read in pages.items():
        assert read.inline == [], name
        assert POLICY in (site / name).read_text(), name
    assert "unsafe" not in POLICY


def test_no_page_has_an_anchor_twice(site: Path) -> None:
    for file in site.rglob("*.html"):
        anchors = re.findall(r' id="([^"]+)"', file.read_text())
        assert len(anchors) == len(set(anchors)), file.name


def test_markup_in_a_page_is_shown_and_not_run() -> None:
    made = page("docs/x.md", "# `<b>`\n\n<script>alert(1)</script>\n\n[x](javascript:alert)\n\n    echo '<img>'\n")
    assert "<script" not in made.body
    assert "javascript:" not in made.body.replace("[x](javascript:alert)", "")
    assert "<img" not in made.body


def test_links_follow_the_files_into_the_site() -> None:
    made = page("docs/runbooks/A.md", "# A\n\n[b](../b.md#c) [home](../../README.md) [all](../README.md)\n")
    assert re.findall(r'href="([^"]+)"', made.body) == ["../b.html#c", "../index.html", "../all-pages.html"]


def test_columns_are_aligned_by_a_class() -> None:
    made = page("docs/x.md", "# X\n\n| a | b |\n| --- | ---: |\n| 1 | 2 |\n")
    assert '<th class="right">b</th>' in made.body
    assert "<td>1</td>" in made.body


def test_pictures_come_along_with_their_texts() -> None:
    made = page("docs/runbooks/A.md", "# A\n\n[![The *map*](../pictures/map.png)](../b.md)\n")
    assert '<a href="../b.html"><img src="../pictures/map.png" alt="The map" loading="lazy"></a>' in made.body
    assert address("docs/pictures/map.png") == "pictures/map.png"


def test_a_page_that_no_listed_page_links_to_is_refused() -> None:
    index = "# All\n\n## One\n\n| page | x |\n| --- | --- |\n| [A](a.md) | a |\n"
    texts = {"docs/README.md": index, "docs/a.md": "# A\n", "docs/parts/b.md": "# B\n"}
    with pytest.raises(ValueError, match=r"no listed page links to docs/parts/b\.md"):
        contents(texts)
    linked = contents({**texts, "docs/a.md": "# A\n\n[b](parts/b.md)\n"})
    assert [entry.path for entry in linked.pages()] == ["docs/a.md", "docs/parts/b.md"]


def test_a_row_may_have_several_pages_below_a_bold_row_that_groups_them() -> None:
    index = "# All\n\n## One\n\n| page | x |\n| --- | --- |\n| **More** | |\n| From [A](a.md), [B](b.md) | how |\n"
    (section,) = contents({"docs/README.md": index, "docs/a.md": "# From A\n", "docs/b.md": "# From B\n"}).sections
    assert [(entry.title, entry.group) for entry in section.entries] == [("From A", "More"), ("From B", "More")]


@pytest.mark.browser
async def test_people_read_it_from_a_folder_on_desk_and_phone_and_find_pages_by_keyboard(
    site: Path, tmp_path: Path
) -> None:
    async with opened(site / "index.html", tmp_path) as browser:
        for name in ("index", "all-pages", "co-locate-batch-jobs", "runbooks/KoordAgentDown", "reference/commands"):
            for width in (DESK, PHONE):
                await browser.go((site / f"{name}.html").as_uri())
                looks = await browser.look(width)
                assert looks["wide"] <= width, f"{name}: people have to scroll sideways"
        # Light and dark, as the system is, until the reader chooses.
        shade = "document.documentElement.dataset.theme"
        for scheme in ("light", "dark"):
            media = [{"name": "prefers-color-scheme", "value": scheme}]
            await browser.ask("Emulation.setEmulatedMedia", features=media)
            await browser.go((site / "index.html").as_uri())
            assert await browser.evaluate(shade) == scheme
        await browser.look(DESK)
        await browser.click("#theme", "Light")
        await browser.go((site / "demo.html").as_uri())
        assert await browser.evaluate(shade) == "light"
        # The search, without a mouse.
        await browser.press("/")
        await browser.write("reconcile nothing here xyzzy")
        await browser.until("document.querySelector('#hits').innerText.includes('No page has all of these words')")
        await browser.press("Escape")
        assert await browser.evaluate("document.querySelector('#hits').hidden")
        await browser.press("/")
        await browser.write("koord agent suppress")
        await browser.until("document.querySelectorAll('#hits a').length > 3")
        await browser.press("ArrowDown")
        chosen = await browser.evaluate("document.querySelector('[aria-selected=true]').href")
        await browser.press("Enter")
        await browser.until(f"location.href == {chosen!r}")
        assert browser.complaints == []
        assert {urlsplit(url).scheme for url in browser.requests} == {"file"}
