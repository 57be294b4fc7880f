"""The frame around a page: the bar with the search, the navigation, the headings beside the text, and what is next."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import pairwise
from typing import Final

from tools.site.contents import HOME, INDEX, Contents, Entry, Section
from tools.site.pages import Page, address, relative

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'"
)
_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="{root}mark.svg">
<link rel="stylesheet" href="{root}style.css">
<script src="{root}site.js" data-root="{root}"></script>
</head>
<body>
<a class="skip" href="#text">Skip to the text</a>
<header class="bar"><div>
<a class="brand" href="{root}index.html"><img src="{root}mark.svg" alt="" width="18" height="18">koord</a>
<a class="all" href="{root}all-pages.html">All pages</a>
<div class="find" role="search">
<input id="query" type="search" placeholder="Search" aria-label="Search all pages" autocomplete="off" spellcheck="false"
 role="combobox" aria-expanded="false" aria-controls="hits" aria-autocomplete="list"><kbd aria-hidden="true">/</kbd>
<div id="hits" role="listbox" aria-label="Results" hidden></div>
</div>
<button id="theme" type="button" hidden>Dark</button>
</div></header>
<div class="page">
<nav class="pages" aria-label="Pages"><details id="menu" open><summary>Pages</summary>
{navigation}
</details></nav>
<main id="text" tabindex="-1">
{crumb}{body}{steps}
<footer>koord {version}</footer>
</main>
{beside}
</div>
</body>
</html>
"""


def framed(page: Page, contents: Contents, version: str) -> str:
    here = address(page.path)
    return _PAGE.format(
        policy=POLICY,
        title=escape("koord" if page.path == HOME else f"{page.title} · koord"),
        root="../" * here.count("/"),
        navigation="\n".join(_section(section, page.path, here) for section in contents.sections),
        crumb=_crumb(contents.section_of(page.path)),
        body=page.body,
        steps=_steps(page.path, here, contents),
        beside=_beside(page),
        version=escape(version),
    )


def _section(section: Section, path: str, here: str) -> str:
    opened = " open" if section.shows(path) else ""
    items = "\n".join(_items(section, path, here))
    return f"<details{opened}><summary>{escape(section.title)}</summary>\n<ul>\n{items}\n</ul></details>"


def _items(section: Section, path: str, here: str) -> Iterator[str]:
    group = ""
    for entry in section.entries:
        if entry.group != group:
            group = entry.group
            yield f'<li class="group">{escape(group)}</li>'
        children = ""
        if entry.children and entry.shows(path):
            children = "<ul>" + "".join(f"<li>{_link(child, path, here)}</li>" for child in entry.children) + "</ul>"
        yield f"<li>{_link(entry, path, here)}{children}</li>"


def _link(entry: Entry, path: str, here: str) -> str:
    current = ' aria-current="page"' if entry.path == path else ""
    return f'<a href="{relative(here, address(entry.path))}"{current}>{escape(entry.title)}</a>'


def _crumb(section: Section | None) -> str:
    return "" if section is None else f'<p class="crumb">{escape(section.title)}</p>\n'


def _steps(path: str, here: str, contents: Contents) -> str:
    """The pages before and after this one."""
    order = [Entry(HOME, "koord"), *contents.pages()]
    links: list[str] = []
    for before, after in pairwise(order):
        if after.path == path:
            links.append(_step("before", "Previous", before, here))
        if before.path == path:
            links.append(_step("after", "Next", after, here))
    return f'<nav class="steps" aria-label="Previous and next page">{"".join(links)}</nav>\n' if links else ""


def _step(kind: str, label: str, entry: Entry, here: str) -> str:
    href = relative(here, address(entry.path))
    return f'<a class="{kind}" href="{href}"><small>{label}</small> {escape(entry.title)}</a>'


def _beside(page: Page) -> str:
    headings = [heading for heading in page.headings if heading.level == 2]
    if len(headings) < 2 or page.path == INDEX:
        return ""
    items = "".join(f'<li><a href="#{heading.anchor}">{escape(heading.text)}</a></li>' for heading in headings)
    return f'<nav class="beside" aria-label="On this page"><h2>On this page</h2><ul>{items}</ul></nav>'
