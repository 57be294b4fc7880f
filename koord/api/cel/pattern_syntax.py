"""Regular expressions as Go writes them (RE2): from text to a tree, or Go's reason why it is none.

There are no back references and no looking around; that is what makes it possible to match in linear time.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal

from koord.api.text.whole_number import whole_number

Ranges = tuple[tuple[int, int], ...]
"""Characters, from each first to each last."""

_MOST_REPEATS: Final = 1000
_DEEPEST: Final = 200
_LAST: Final = sys.maxunicode
_REPEAT: Final = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_FLAGS: Final = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
_NAMED: Final = re.compile(r"\(\?P?<([A-Za-z0-9_]+)>")
_PERL: Final[dict[str, Ranges]] = {
    "d": ((48, 57),),
    "s": ((9, 10), (12, 13), (32, 32)),
    "w": ((48, 57), (65, 90), (95, 95), (97, 122)),
}
_POSIX: Final[dict[str, Ranges]] = {
    "alnum": ((48, 57), (65, 90), (97, 122)),
    "alpha": ((65, 90), (97, 122)),
    "ascii": ((0, 127),),
    "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 31), (127, 127)),
    "digit": ((48, 57),),
    "graph": ((33, 126),),
    "lower": ((97, 122),),
    "print": ((32, 126),),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ((9, 13), (32, 32)),
    "upper": ((65, 90),),
    "word": _PERL["w"],
    "xdigit": ((48, 57), (65, 70), (97, 102)),
}
_ESCAPES: Final = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}


class PatternError(ValueError):
    """Not a pattern; in Go's words."""

    def __init__(self, fault: str, part: str) -> None:
        super().__init__(f"error parsing regexp: {fault}: `{part}`")


@dataclass(frozen=True, slots=True)
class Chars:
    """One character out of some."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Edge:
    """A place between characters: where the text, a line or a word begins or ends."""

    kind: Literal["text-start", "text-end", "line-start", "line-end", "word", "no-word"]


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`most` is None if nothing bounds it; `is_greedy`: it prefers more."""

    part: Node
    least: int
    most: int | None
    is_greedy: bool


Node = Chars | Edge | Sequence | Choice | Repeat


@dataclass(frozen=True, slots=True)
class _Flags:
    ignore_case: bool = False
    lines: bool = False
    dot_all: bool = False
    lazy: bool = False


def negated(ranges: Ranges) -> Ranges:
    out: list[tuple[int, int]] = []
    at = 0
    for low, high in sorted(ranges):
        if low > at:
            out.append((at, low - 1))
        at = max(at, high + 1)
    if at <= _LAST:
        out.append((at, _LAST))
    return tuple(out)


@lru_cache(64)
def _category(name: str) -> Ranges:
    """The characters of a Unicode category (L, Lu, ...); empty if there is none of that name."""
    out: list[tuple[int, int]] = []
    for code in range(_LAST + 1):
        if unicodedata.category(chr(code)).startswith(name):
            if out and out[-1][1] == code - 1:
                out[-1] = (out[-1][0], code)
            else:
                out.append((code, code))
    return tuple(out)


def _both_cases(ranges: Ranges) -> Ranges:
    out = list(ranges)
    for low, high in ranges:
        if high - low > 1000:
            continue
        for code in range(low, high + 1):
            for other in (chr(code).lower(), chr(code).upper()):
                if len(other) == 1 and ord(other) != code:
                    out.append((ord(other), ord(other)))
    return tuple(sorted(out))


def parse(pattern: str) -> Node:
    """Raises PatternError."""
    reader = _Reader(pattern)
    node = reader.choice(_Flags(), 0)
    if reader.at < len(pattern):
        raise PatternError("unexpected )", pattern)
    return node


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0

    def _rest(self, prefix: str) -> bool:
        return self._text.startswith(prefix, self.at)

    def choice(self, flags: _Flags, depth: int) -> Node:
        """Alternatives, up to a closing parenthesis or the end."""
        if depth > _DEEPEST:
            raise PatternError("expression nests too deeply", self._text)
        branches: list[Node] = []
        parts: list[Node] = []
        last_repeat = -1, -1
        while self.at < len(self._text) and not self._rest(")"):
            char = self._text[self.at]
            if char == "|":
                self.at += 1
                branches.append(_sequence(parts))
                parts = []
            elif char == "(":
                made, flags = self._group(flags, depth)
                if made is not None:
                    parts.append(made)
            elif char in "*+?" or (char == "{" and _REPEAT.match(self._text, self.at)):
                start = self.at
                parts.append(self._repeat(parts, flags, last_repeat[0] if last_repeat[1] == start else None))
                last_repeat = start, self.at
            else:
                parts += self._atom(flags)
        branches.append(_sequence(parts))
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def _group(self, flags: _Flags, depth: int) -> tuple[Node | None, _Flags]:
        """A group, or the flags that hold from here on."""
        inner = flags
        if self._rest("(?"):
            if named := _NAMED.match(self._text, self.at):
                self.at = named.end()
            elif self._rest("(?P<") or self._rest("(?<"):
                end = self._text.find(">", self.at)
                part = self._text[self.at :] if end < 0 else self._text[self.at : end + 1]
                raise PatternError("invalid named capture", part)
            else:
                match = _FLAGS.match(self._text, self.at)
                if match is None or match[0] == "(?)":
                    raise PatternError("invalid or unsupported Perl syntax", self._bad_flags())
                inner = _flagged(_flagged(flags, match[1], True), match[2] or "", False)
                self.at = match.end()
                if match[3] == ")":
                    return None, inner
        else:
            self.at += 1
        made = self.choice(inner, depth + 1)
        if not self._rest(")"):
            raise PatternError("missing closing )", self._text)
        self.at += 1
        return made, flags

    def _bad_flags(self) -> str:
        end = self.at + 2
        while end < len(self._text) and self._text[end] in "imsU-":
            end += 1
        return self._text[self.at : end + 1]

    def _repeat(self, parts: list[Node], flags: _Flags, last: int | None) -> Node:
        """`last`: where the operator right before this one began, if there is one; two cannot stand together."""
        start = self.at
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(self._text[start], (0, 0))
        if match := _REPEAT.match(self._text, start):
            self.at = match.end()
            least = whole_number(match[1])
            most = least if not match[2] else whole_number(match[3]) if match[3] else None
            if least > _MOST_REPEATS or (most is not None and (most > _MOST_REPEATS or most < least)):
                raise PatternError("invalid repeat count", match[0])
        else:
            self.at += 1
        is_greedy = not flags.lazy
        if self._rest("?"):
            self.at += 1
            is_greedy = not is_greedy
        if last is not None:
            raise PatternError("invalid nested repetition operator", self._text[last : self.at])
        if not parts:
            raise PatternError("missing argument to repetition operator", self._text[start : self.at])
        return Repeat(parts.pop(), least, most, is_greedy)

    def _atom(self, flags: _Flags) -> list[Node]:
        char = self._text[self.at]
        if char == "[":
            return [self._class(flags)]
        if char == "\\":
            return self._escaped(flags)
        self.at += 1
        if char == ".":
            return [Chars(((0, _LAST),) if flags.dot_all else ((0, 9), (11, _LAST)))]
        if char == "^":
            return [Edge("line-start" if flags.lines else "text-start")]
        if char == "$":
            return [Edge("line-end" if flags.lines else "text-end")]
        return [_one(ord(char), flags)]

    def _escaped(self, flags: _Flags) -> list[Node]:
        text = self._text
        if self.at + 1 >= len(text):
            raise PatternError("trailing backslash at end of expression", "")
        kind = text[self.at + 1]
        edges: dict[str, Edge] = {
            "A": Edge("text-start"), "z": Edge("text-end"), "b": Edge("word"), "B": Edge("no-word"),
        }  # fmt: skip
        if kind in edges:
            self.at += 2
            return [edges[kind]]
        if kind == "Q":
            end = text.find("\\E", self.at)
            quoted = text[self.at + 2 : end if end >= 0 else len(text)]
            self.at = end + 2 if end >= 0 else len(text)
            return [_one(ord(each), flags) for each in quoted]
        ranges = self._shorthand(flags)
        return [Chars(ranges)] if ranges is not None else [_one(self._escape(), flags)]

    def _shorthand(self, flags: _Flags) -> Ranges | None:
        """A class written as an escape: `\\d`, `\\pL`, `\\P{Lu}`."""
        kind = self._text[self.at + 1 : self.at + 2]
        if kind.lower() in _PERL and kind:
            self.at += 2
            found = _PERL[kind.lower()]
            return negated(found) if kind.isupper() else found
        if kind in ("p", "P"):
            match = re.compile(r"\\[pP](?:\{(\^?)(\w*)\}|(.))", re.DOTALL).match(self._text, self.at)
            if match is None:
                raise PatternError("invalid character class range", self._text[self.at :])
            self.at = match.end()
            name = match[2] if match[2] is not None else match[3]
            found = ((0, _LAST),) if name == "Any" else _category(name)
            if not found or not name:
                raise PatternError("invalid character class range", match[0])
            found = _both_cases(found) if flags.ignore_case else found
            return negated(found) if (kind == "P") != bool(match[1]) else found
        return None

    def _escape(self) -> int:
        """The character that an escape stands for."""
        text, start = self._text, self.at
        if start + 1 >= len(text):
            raise PatternError("trailing backslash at end of expression", "")
        kind = text[start + 1]
        self.at += 2
        if (kind in "1234567" and text[self.at : self.at + 1] in tuple("01234567")) or kind == "0":
            match = re.compile(r"[0-7]{1,3}").match(text, start + 1)
        else:
            match = None
        if match is not None:
            self.at = match.end()
            return int(match[0], 8)
        if kind == "x":
            found = re.compile(r"x(?:\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{2}))").match(text, start + 1)
            if found is not None and int(found[1] or found[2], 16) <= _LAST:
                self.at = found.end()
                return int(found[1] or found[2], 16)
        elif kind in _ESCAPES:
            return _ESCAPES[kind]
        elif kind.isascii() and not kind.isalnum():
            return ord(kind)
        raise PatternError("invalid escape sequence", text[start : start + 2])

    def _class(self, flags: _Flags) -> Node:
        text, start = self._text, self.at
        self.at += 1
        is_negated = self._rest("^")
        if is_negated:
            self.at += 1
        ranges: list[tuple[int, int]] = []
        is_first = True
        while is_first or not self._rest("]"):
            if self.at >= len(text):
                raise PatternError("missing closing ]", text[start:])
            is_first = False
            ranges += self._class_item(start, flags)
        self.at += 1
        if flags.ignore_case:
            ranges = list(_both_cases(tuple(ranges)))
        made = tuple(sorted(ranges))
        return Chars(negated(made) if is_negated else made)

    def _class_item(self, start: int, flags: _Flags) -> Ranges:
        text = self._text
        if self._rest("[:"):
            match = re.compile(r"\[:(\^?)(\w*):\]").match(text, self.at)
            if match is not None:
                if match[2] not in _POSIX:
                    raise PatternError("invalid character class range", match[0])
                self.at = match.end()
                found = _POSIX[match[2]]
                return negated(found) if match[1] else found
        if self._rest("\\") and (ranges := self._shorthand(flags)) is not None:
            return ranges
        begin = self.at
        low = self._class_char(start)
        if not self._rest("-") or self._rest("-]") or self.at + 1 >= len(text):
            return ((low, low),)
        self.at += 1
        high = self._class_char(start)
        if high < low:
            raise PatternError("invalid character class range", text[begin : self.at])
        return ((low, high),)

    def _class_char(self, start: int) -> int:
        if self.at >= len(self._text):
            raise PatternError("missing closing ]", self._text[start:])
        if self._text[self.at] == "\\":
            return self._escape()
        self.at += 1
        return ord(self._text[self.at - 1])


def _sequence(parts: list[Node]) -> Node:
    return parts[0] if len(parts) == 1 else Sequence(tuple(parts))


def _one(code: int, flags: _Flags) -> Node:
    ranges: Ranges = ((code, code),)
    return Chars(_both_cases(ranges) if flags.ignore_case else ranges)


def _flagged(flags: _Flags, letters: str, is_on: bool) -> _Flags:
    names = {"i": "ignore_case", "m": "lines", "s": "dot_all", "U": "lazy"}
    return replace(flags, **{names[letter]: is_on for letter in letters})
