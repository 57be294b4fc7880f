"""The order of pages, read from the tables of docs/README.md: its headings are sections, its bold rows are groups."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

HOME: Final = "README.md"
INDEX: Final = "docs/README.md"
_GROUP: Final = re.compile(r"\*\*([^*]+)\*\*")
_LINK: Final = re.compile(r"\[([^\]]+)\]\(([^)#]+)\)")


@dataclass(frozen=True, slots=True)
class Entry:
    path: str
    "The Markdown file, from the root of the project."
    title: str
    group: str = ""
    children: tuple[Entry, ...] = ()
    "Pages that only this one leads to: parts of an architecture, runbooks."

    def shows(self, path: str) -> bool:
        return path == self.path or any(child.path == path for child in self.children)


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    entries: tuple[Entry, ...]

    def shows(self, path: str) -> bool:
        return any(entry.shows(path) for entry in self.entries)


@dataclass(frozen=True, slots=True)
class Contents:
    sections: tuple[Section, ...]

    def pages(self) -> Iterator[Entry]:
        """All pages, in the order in which they are read."""
        for section in self.sections:
            for entry in section.entries:
                yield entry
                yield from entry.children

    def section_of(self, path: str) -> Section | None:
        return next((section for section in self.sections if section.shows(path)), None)


def contents(pages: Mapping[str, str]) -> Contents:
    """`pages`: Markdown by path."""
    sections: list[Section] = []
    for chapter in re.split(r"^## ", pages[INDEX], flags=re.MULTILINE)[1:]:
        title, _, text = chapter.partition("\n")
        sections.append(Section(title.strip(), tuple(_entries(text, pages))))
    listed = {entry.path for section in sections for entry in section.entries}
    rest = [path for path in pages if path not in (HOME, INDEX) and path not in listed]
    sections = [
        replace(section, entries=tuple(_with_children(entry, rest, pages) for entry in section.entries))
        for section in sections
    ]
    unreachable = sorted(set(rest) - {page.path for section in sections for page in _children(section)})
    if unreachable:
        raise ValueError(f"no listed page links to {', '.join(unreachable)}")
    return Contents(tuple(sections))


def _entries(text: str, pages: Mapping[str, str]) -> Iterator[Entry]:
    """The links in the first cell of each row. Of several, each page says its own title."""
    group = ""
    for line in text.splitlines():
        if not line.startswith("| "):
            continue
        cell = line.split("|")[1].strip()
        links_of_row = _LINK.findall(cell)
        if (heading := _GROUP.fullmatch(cell)) is not None:
            group = heading[1]
        for title, target in links_of_row:
            path = posixpath.normpath(posixpath.join("docs", target))
            yield Entry(path, title if len(links_of_row) == 1 else title_of(pages[path]), group)


def _with_children(entry: Entry, rest: Sequence[str], pages: Mapping[str, str]) -> Entry:
    """Pages of a folder belong to the page that links to all of them."""
    folders = {posixpath.dirname(path) for path in rest}
    linked = links(entry.path, pages[entry.path])
    children = [
        Entry(path, title_of(pages[path]))
        for folder in sorted(folders)
        if (inside := [path for path in rest if posixpath.dirname(path) == folder]) and set(inside) <= linked
        for path in inside
    ]
    return replace(entry, children=tuple(children))


def _children(section: Section) -> Iterator[Entry]:
    for entry in section.entries:
        yield from entry.children


def links(path: str, text: str) -> set[str]:
    """The files of the project that a page links to."""
    targets = re.findall(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)", text)
    return {posixpath.normpath(posixpath.join(posixpath.dirname(path), target)) for target in targets}


def title_of(text: str) -> str:
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    if title is None:
        raise ValueError("a page begins with a heading: # Title")
    return title[1].replace("`", "")
