"""YAML as manifests are written, read line by line instead of event by event.

Measured: 5,000 pods (2.7 MiB) take 0.21 s by lines, 0.91 s by the events of libyaml and 1.0 s by PyYAML's C loader;
`koord plan` with these pods and 1,000 nodes takes 2.0 s instead of 2.7 s.

Understands maps and lists in block style whose scalars stand on one line; the lines of pods are mostly those of other
pods, so what a line says is remembered. Whatever else stands behind a key or a dash (blocks of text, flow style,
folded strings) is left to the full reader, entry by entry; what does not even look like entries raises `NotPlain`, and
is left to it whole. Both must agree wherever this one answers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from koord.api.text.yaml_scalars import as_json, resolve

MAX_DEPTH: Final = 50
REMEMBERED: Final = 1 << 15
LONGEST_REMEMBERED: Final = 120
LONGEST_KEY: Final = 1000

Full = Callable[[str], object]
"""Reads a whole text as its only document. Raises `NotPlain` where it is none, or more than one."""


class NotPlain(Exception):
    """More than this reader understands; or faulty, which is for the full reader to say."""


class _Mark:
    """Stands for a value that is made for each line, or is not on the line."""


_NOTHING: Final = _Mark()
"The value is on the lines below, or null."
_MAP: Final = _Mark()
_LIST: Final = _Mark()
_MORE: Final = _Mark()
"Something for the full reader."


class _Line(NamedTuple):
    column: int
    "Where its key begins, or its first dash."
    key: str
    "Empty for an item without a key; and where the line is neither, without dashes too."
    value: object
    dashes: tuple[int, ...]
    "The columns of its dashes."
    key_column: int


_SHAPE: Final = re.compile(
    r"""(?P<indent>[ ]*)
    (?:(?P<dashes>(?:-[ ]+)*)
       (?:(?:(?P<plain>[A-Za-z0-9_.$/(~<=;^+][A-Za-z0-9_./\-]*)|'(?P<single>[ !#-&(-~]*)'|"(?P<double>[ !#-\[\]-~]*)")
          :(?=[ ]|$)[ ]*)?
       (?P<value>.*)
    )""",
    re.VERBOSE,
)
_VALUE: Final = re.compile(
    r"""(?P<plain>(?:[A-Za-z0-9_./$(^+\\~<=;]|-(?=[A-Za-z0-9\-]))[ -~]*)
    |'(?P<single>[ -&(-~]*)'
    |"(?P<double>[ !#-\[\]-~]*)"
    |(?P<map>\{\})
    |(?P<list>\[\])
    """,
    re.VERBOSE,
)
_IGNORED: Final = re.compile(r"[ ]*(?:\#[ -~]*)?")
_LONE_DASH: Final = re.compile(r"[ ]*(?:-[ ]+)*-[ ]*")
_SYNTAX: Final = re.compile(r":[ ]|[ ]\#|:$")
_FAR_REACHING: Final = re.compile(r"[&*!]")
"Anchors, aliases and tags can mean something beyond their entry."

_known: Final[dict[str, _Line | None]] = {}
"What a line says; None where it says nothing."


def read(text: str, full: Full) -> object:
    """The only document of a text that has no document markers; None where it is empty. May raise `NotPlain`."""
    return _Document(text, full).value()


class _Document:
    def __init__(self, text: str, full: Full) -> None:
        self.lines, self.full = text.split("\n"), full
        self.root: list[object] = [None]
        # Containers that are still open, with the columns of their entries. The innermost is kept at hand.
        self.stack: list[tuple[int, dict[str, object] | list[object]]] = []
        self.inner: dict[str, object] | list[object] = self.root
        self.column = -1
        self.last_key = ""
        self.open = True
        "Whether the last entry has no value yet."

    def value(self) -> object:
        lines_read = _known
        last = skip_to = 0
        for i, text in enumerate(self.lines):
            if i < skip_to:
                continue
            try:
                line = lines_read[text]
            except KeyError:
                line = _line(text)
            if line is None:
                continue
            column, key, value, dashes, key_column = line
            if column > self.column and not (self.open and (key or dashes)):
                # The entry above goes on here.
                skip_to = self.more(last, i)
                continue
            for dash in dashes:
                self.item(dash)
            if key:
                if key_column != self.column or type(self.inner) is not dict:
                    self.enter_map(key_column)
                if key in self.inner:
                    raise NotPlain
                self.last_key = key
            elif not dashes:
                raise NotPlain
            last = i
            self.open = False
            if not isinstance(value, _Mark):
                self.put(value)
            elif value is _MORE:
                skip_to = self.more(i, i)
            elif value is _NOTHING:
                self.put(None)
                self.open = True
            else:
                self.put({} if value is _MAP else [])
        return self.root[0]

    def item(self, column: int) -> None:
        """Begin another item of the list at a column."""
        while self.column > column:
            self.leave()
        inner = self.inner
        if self.column == column and isinstance(inner, list):
            inner.append(None)
        elif self.open and (self.column < column or isinstance(inner, dict)):
            # Below a key, a list may stand at the key's own column.
            self.enter(column, [None])
        else:
            raise NotPlain
        self.open = True

    def enter_map(self, column: int) -> None:
        """Go on with the map at a column, or begin it."""
        if self.open and column > self.column:
            self.enter(column, {})
            return
        while self.column > column or (self.column == column and isinstance(self.inner, list)):
            self.leave()
        if self.column != column:
            raise NotPlain

    def enter(self, column: int, container: dict[str, object] | list[object]) -> None:
        if len(self.stack) >= MAX_DEPTH:
            raise NotPlain
        self.put(container)
        self.stack.append((self.column, self.inner))
        self.column, self.inner = column, container

    def leave(self) -> None:
        self.column, self.inner = self.stack.pop()
        self.open = False

    def put(self, value: object) -> None:
        """Give the last entry its value."""
        if isinstance(self.inner, dict):
            self.inner[self.last_key] = value
        else:
            self.inner[-1] = value

    def more(self, start: int, until: int) -> int:
        """Have the last entry read by the full reader. It begins in one line and goes on until another; gives the line
        behind it."""
        lines, column = self.lines, self.column
        end = next((i for i in range(start + 1, len(lines)) if _indents_at_most(lines[i], column)), len(lines))
        # The last line has its end only where another one follows.
        own = [" " * column + lines[start][column:], *lines[start + 1 : end]] + ([""] if end < len(lines) else [])
        text = "\n".join(own)
        if end <= until or column < 0 or _FAR_REACHING.search(text):
            raise NotPlain
        last_item = self.full(text)
        if isinstance(self.inner, dict):
            if not isinstance(last_item, dict) or list(last_item) != [self.last_key]:
                raise NotPlain
            self.put(last_item[self.last_key])
        else:
            if not isinstance(last_item, list) or len(last_item) != 1:
                raise NotPlain
            self.put(last_item[0])
        self.open = False
        return end


def _indents_at_most(text: str, column: int) -> bool:
    stripped = text.lstrip(" ")
    return bool(stripped) and len(text) - len(stripped) <= column


def _line(text: str) -> _Line | None:
    line = _parse(text)
    if len(text) <= LONGEST_REMEMBERED:
        if len(_known) >= REMEMBERED:
            _known.clear()
        _known[text] = line
    return line


def _parse(text: str) -> _Line | None:
    if _IGNORED.fullmatch(text):
        return None
    if _LONE_DASH.fullmatch(text):
        text = text.rstrip() + " "
    shape = _SHAPE.match(text)
    assert shape is not None
    begin, key_column = shape.end("indent"), shape.end("dashes")
    dashes = tuple(begin + i for i, char in enumerate(shape["dashes"]) if char == "-")
    plain, single, double = shape.group("plain", "single", "double")
    key = next((style for style in (plain, single, double) if style is not None), None)
    value = _value(shape["value"].rstrip(" "))
    if key is None:
        return _Line(begin, "", value, dashes, 0)
    if not key or len(key) > LONGEST_KEY or key == "<<" or (plain and resolve(plain) != plain):
        return _Line(begin, "", value, (), 0)
    return _Line(begin, key, value, dashes, key_column)


def _value(text: str) -> object:
    if _IGNORED.fullmatch(text):
        return _NOTHING
    token = _VALUE.fullmatch(text)
    if token is None or token.lastgroup is None:
        return _MORE
    value = token[token.lastgroup]
    match token.lastgroup:
        case "plain":
            return _MORE if _SYNTAX.search(value) else _meaning(value)
        case "map":
            return _MAP
        case "list":
            return _LIST
        case _:
            return value


def _meaning(text: str) -> object:
    value = resolve(text)
    if not isinstance(value, float):
        return value
    return as_json(value) if math.isfinite(value) else _MORE
