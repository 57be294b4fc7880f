"""One page: Markdown to HTML, with links between pages rewritten, and the passages that the search finds."""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from tools.site.contents import HOME, INDEX, title_of

_RUNS_ON: Final = re.compile(r"\s+")
_BREAKS: Final = re.compile(r"(?<=[a-z\d])(?=[A-Z])|(?<=[_/.,=])(?=[A-Za-z])")
"""Where a long name may go on in the next line."""
_COMMENT: Final = re.compile(r"(^|\s{2,})(#\s.*)$")


@dataclass(frozen=True, slots=True)
class Heading:
    level: int
    anchor: str
    text: str


@dataclass(frozen=True, slots=True)
class Passage:
    """What one hit of the search shows: a heading, and the text below it."""

    anchor: str
    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class Page:
    path: str
    title: str
    body: str
    headings: tuple[Heading, ...]
    passages: tuple[Passage, ...]


def address(path: str) -> str:
    """Where a file of the project is in the site."""
    if path == HOME:
        return "index.html"
    if path == INDEX:
        return "all-pages.html"
    path = path.removeprefix("docs/")
    return path if is_picture(path) else f"{path.removesuffix('.md')}.html"


def is_picture(path: str) -> bool:
    return path.endswith((".png", ".jpg", ".svg"))


def relative(path: str, target: str) -> str:
    """The link from one address to another."""
    return posixpath.relpath(target, posixpath.dirname(path) or ".")


def page(path: str, text: str) -> Page:
    markdown = MarkdownIt("commonmark", {"html": False}, renderer_cls=_Renderer).enable("table")
    tokens = [token for token in markdown.parse(re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)) if not token.hidden]
    headings = tuple(_headings(tokens))
    env = {"path": path}
    body = markdown.renderer.render(tokens, markdown.options, env)
    return Page(path, title_of(text), body, headings, tuple(_passages(tokens, headings)))


def source(path: str, text: str) -> Page:
    """A file that pages link to, as a page of its own."""
    language = path.rpartition(".")[2]
    body = f"<h1>{html.escape(path)}</h1>\n{_highlighted(text, language)}"
    return Page(path, path, body, (), ())


def anchor_of(heading: str) -> str:
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _plain(inline: Token) -> str:
    return "".join(child.content if child.type != "softbreak" else " " for child in inline.children or ())


def _headings(tokens: Sequence[Token]) -> Iterator[Heading]:
    """Each heading, whose token gets its anchor too."""
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            text = _plain(tokens[at + 1])
            token.attrSet("id", anchor_of(text))
            yield Heading(int(token.tag[1]), anchor_of(text), text)


def _passages(tokens: Sequence[Token], headings: Sequence[Heading]) -> Iterator[Passage]:
    at, words = -1, list[str]()
    for number, token in enumerate(tokens):
        if token.type == "heading_open":
            if at >= 0:
                yield _passage(headings[at], words)
            at, words = at + 1, []
        elif token.type == "inline" and tokens[number - 1].type != "heading_open":
            words.append(_plain(token))
        elif token.type in ("code_block", "fence"):
            words.append(token.content)
    if at >= 0:
        yield _passage(headings[at], words)


def _passage(heading: Heading, words: Sequence[str]) -> Passage:
    return Passage(heading.anchor, heading.text, _RUNS_ON.sub(" ", " ".join(words)).strip())


class _Renderer(RendererHTML):
    def heading_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        opened = tokens[idx - 2]
        name = html.escape(_plain(tokens[idx - 1]), quote=True)
        link = f'<a class="here" href="#{opened.attrGet("id")}" aria-label="Link to: {name}">#</a>'
        return f"{link if opened.tag != 'h1' else ''}</{opened.tag}>\n"

    def link_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        target = str(tokens[idx].attrGet("href"))
        tokens[idx].attrSet("href", _href(str(env["path"]), target))
        return self.renderToken(tokens, idx, options, env)

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        picture = _href(str(env["path"]), str(tokens[idx].attrGet("src")))
        return f'<img src="{html.escape(picture)}" alt="{html.escape(_plain(tokens[idx]))}" loading="lazy">'

    def table_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return '<div class="wide" tabindex="0"><table>\n'

    def th_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return _aligned(tokens[idx])

    def td_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return _aligned(tokens[idx])

    def table_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return "</table></div>\n"

    def code_inline(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f"<code>{_BREAKS.sub('<wbr>', html.escape(tokens[idx].content, quote=False))}</code>"

    def code_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return _commands(tokens[idx].content)

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return _highlighted(tokens[idx].content, tokens[idx].info.strip())


def _aligned(cell: Token) -> str:
    """By a class, since the policy allows no style in a page."""
    _, _, side = str(cell.attrGet("style") or "").partition("text-align:")
    return f'<{cell.tag} class="{side}">' if side else f"<{cell.tag}>"


def _href(path: str, target: str) -> str:
    if target.startswith(("https:", "#")):
        return target
    file, hashed, anchor = target.partition("#")
    there = posixpath.normpath(posixpath.join(posixpath.dirname(path), file))
    return f"{relative(address(path), address(there))}{hashed}{anchor}"


def _commands(text: str) -> str:
    """Indented blocks are for pasting into a shell; what a line says about itself is dimmed."""
    lines = [
        _COMMENT.sub(r'\1<span class="c1">\2</span>', line) for line in html.escape(text, quote=False).splitlines()
    ]
    return _block("\n".join(lines), " commands")


def _highlighted(text: str, language: str) -> str:
    try:
        lexer = get_lexer_by_name(language)
    except ClassNotFound:
        return _block(html.escape(text, quote=False))
    return _block(highlight(text, lexer, HtmlFormatter(nowrap=True)))


def _block(code: str, kind: str = "") -> str:
    return f'<div class="code{kind}"><pre tabindex="0"><code>{code.rstrip()}</code></pre></div>\n'
