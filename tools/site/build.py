"""All files of the site: a page for each Markdown file, the files that pages link to, assets, and the search index."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from koord import __version__
from tools.site.contents import HOME, Contents, contents, links
from tools.site.layout import framed
from tools.site.pages import Page, address, is_picture, page, source

ASSETS: Final = Path(__file__).parent / "assets"


def markdown_of(root: Path) -> dict[str, str]:
    """The text of each page, by its path below the root."""
    files = [root / HOME, *sorted((root / "docs").rglob("*.md"))]
    return {file.relative_to(root).as_posix(): file.read_text() for file in files}


def files_of(root: Path) -> dict[str, str]:
    """The site's own files, by address."""
    pages = markdown_of(root)
    order = contents(pages)
    made = [page(path, text) for path, text in pages.items()]
    made += [source(path, (root / path).read_text()) for path in sorted(_linked(pages)) if not is_picture(path)]
    files = {address(made_page.path): framed(made_page, order, __version__) for made_page in made}
    files["search.js"] = _index({made_page.path: made_page for made_page in made}, order)
    return files


def pictures(root: Path) -> dict[str, Path]:
    """The pictures that pages show, by address."""
    return {address(path): root / path for path in _linked(markdown_of(root)) if is_picture(path)}


def _linked(pages: Mapping[str, str]) -> set[str]:
    """The files that pages link to, and that are no pages."""
    return {target for path, text in pages.items() for target in links(path, text) if target not in pages}


def _index(pages: Mapping[str, Page], order: Contents) -> str:
    """A script, since a browser reads no other file of a folder: [address, title of the page, heading, text]."""
    paths = [HOME, *(entry.path for entry in order.pages())]
    rows = [
        [f"{address(path)}#{passage.anchor}" if number else address(path), pages[path].title, heading, passage.text]
        for path in paths
        for number, passage in enumerate(pages[path].passages)
        for heading in ["" if number == 0 else passage.heading]
    ]
    return f"searchRows({json.dumps(rows, ensure_ascii=False, separators=(',', ':'))});\n"


def build(root: Path, out: Path) -> int:
    """Writes the site; returns the number of its pages."""
    files = files_of(root)
    if out.exists():
        shutil.rmtree(out)
    shutil.copytree(ASSETS, out)
    for name, text in files.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(text)
    for name, picture in pictures(root).items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, out / name)
    return sum(name.endswith(".html") for name in files)
