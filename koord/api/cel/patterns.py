"""Matching regular expressions in time that grows with the text alone, whatever the pattern.

Whether a text matches is found by walking through sets of states, each made when it is first met. What a pattern finds
is found by threads that run side by side, the preferred one first, as Go does it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from koord.api.cel.pattern_syntax import Chars, Choice, Edge, Node, PatternError, Ranges, Repeat, Sequence, parse
from koord.api.cel.syntax import CelError

_LARGEST: Final = 20_000
"Steps of a program; Go has a limit of its own, by memory."
_MOST_STATES: Final = 2_000

_BEGIN, _END, _NEWLINE, _WORD, _OTHER = range(5)


class _Step:
    """A step of a program: reads a character, splits in two, looks at an edge, or ends."""

    __slots__ = ("edge", "first", "highs", "lows", "second")

    def __init__(self, ranges: Ranges | None = None, edge: str = "", first: int = -1, second: int = -1) -> None:
        merged = _merged(ranges or ())
        self.lows = [low for low, _ in merged] if ranges is not None else None
        self.highs = [high for _, high in merged]
        self.edge = edge
        self.first = first
        self.second = second

    def reads(self, code: int) -> bool:
        assert self.lows is not None
        at = bisect_right(self.lows, code) - 1
        return at >= 0 and code <= self.highs[at]


def _merged(ranges: Ranges) -> Ranges:
    out: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if out and low <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], high))
        else:
            out.append((low, high))
    return tuple(out)


class _State:
    __slots__ = ("before", "next", "steps")

    def __init__(self, steps: tuple[int, ...], before: int) -> None:
        self.steps = steps
        self.before = before
        self.next: dict[str, _State | None] = {}


class Pattern:
    """A compiled pattern. Raises PatternError."""

    def __init__(self, text: str) -> None:
        self._steps: list[_Step] = [_Step()]
        self._start = self._compile(parse(text), 0)
        if len(self._steps) > _LARGEST:
            raise PatternError("expression too large", text)
        self._states: dict[tuple[tuple[int, ...], int], _State] = {}

    def _add(self, step: _Step) -> int:
        if len(self._steps) <= _LARGEST:
            self._steps.append(step)
        return len(self._steps) - 1

    def _compile(self, node: Node, then: int) -> int:
        """Where to begin in order to match a node and go on with a step."""
        if len(self._steps) > _LARGEST:
            return then
        match node:
            case Chars():
                return self._add(_Step(node.ranges, first=then))
            case Edge():
                return self._add(_Step(edge=node.kind, first=then))
            case Sequence():
                for part in reversed(node.parts):
                    then = self._compile(part, then)
                return then
            case Choice():
                at = self._compile(node.parts[-1], then)
                for part in reversed(node.parts[:-1]):
                    at = self._add(_Step(first=self._compile(part, then), second=at))
                return at
        return self._compile_repeat(node, then)

    def _compile_repeat(self, node: Repeat, then: int) -> int:
        if node.most is None:
            loop = self._add(_Step())
            inside = self._compile(node.part, loop)
            self._branch(loop, inside, then, node.is_greedy)
            if node.least == 0 and not _can_be_empty(node.part):
                return loop
            # What can be empty is tried once before it is looped over, or the loop would not prefer it rightly.
            then = inside if node.least else self._branch(self._add(_Step()), inside, then, node.is_greedy)
            copies = node.least - 1
        else:
            after = then
            for _ in range(node.most - node.least):
                inside = self._compile(node.part, then)
                then = self._branch(self._add(_Step()), inside, after, node.is_greedy)
            copies = node.least
        for _ in range(copies):
            then = self._compile(node.part, then)
        return then

    def _branch(self, at: int, inside: int, past: int, is_greedy: bool) -> int:
        step = self._steps[at]
        step.first, step.second = (inside, past) if is_greedy else (past, inside)
        return at

    def _reached(self, steps: Iterator[int], before: int, after: int) -> Iterator[int]:
        """The steps that read or end, reached from some without reading; the preferred first."""
        seen: set[int] = set()
        for start in steps:
            stack = [start]
            while stack:
                at = stack.pop()
                if at in seen:
                    continue
                seen.add(at)
                step = self._steps[at]
                if at == 0 or step.lows is not None:
                    yield at
                elif step.edge:
                    if _holds(step.edge, before, after):
                        stack.append(step.first)
                else:
                    stack += (step.second, step.first)

    def matches(self, text: str) -> bool:
        """Whether it matches anywhere."""
        state = self._state((self._start,), _BEGIN)
        for char in text:
            try:
                following = state.next[char]
            except KeyError:
                following = self._advance(state, char)
            if following is None:
                return True
            state = following
        return 0 in self._reached(iter(state.steps), state.before, _END)

    def _state(self, steps: tuple[int, ...], before: int) -> _State:
        key = (steps, before)
        found = self._states.get(key)
        if found is None:
            if len(self._states) > _MOST_STATES:
                self._states.clear()
            found = self._states[key] = _State(steps, before)
        return found

    def _advance(self, state: _State, char: str) -> _State | None:
        """The state after a character; None if there is a match already."""
        code = ord(char)
        following: set[int] = {self._start}
        kind = _kind(char)
        made: _State | None = None
        for at in self._reached(iter(state.steps), state.before, kind):
            if at == 0:
                break
            if self._steps[at].reads(code):
                following.add(self._steps[at].first)
        else:
            made = self._state(tuple(sorted(following)), kind)
        if len(state.next) < _MOST_STATES:
            state.next[char] = made
        return made

    def find(self, text: str, start: int) -> tuple[int, int] | None:
        """The first match from a place on."""
        threads: list[tuple[int, int]] = []
        found: tuple[int, int] | None = None
        before = _BEGIN if start == 0 else _kind(text[start - 1])
        for at in range(start, len(text) + 1):
            char = text[at] if at < len(text) else ""
            after = _kind(char) if char else _END
            if found is None:
                threads.append((self._start, at))
            elif not threads:
                break
            following: list[tuple[int, int]] = []
            seen: set[int] = set()
            for step, began in self._threads(threads, before, after):
                if step == 0:
                    found = (began, at)
                    break
                if char and self._steps[step].reads(ord(char)) and self._steps[step].first not in seen:
                    seen.add(self._steps[step].first)
                    following.append((self._steps[step].first, began))
            threads, before = following, after
        return found

    def _threads(self, threads: list[tuple[int, int]], before: int, after: int) -> Iterator[tuple[int, int]]:
        seen: set[int] = set()
        for start, began in threads:
            for at in self._reached(iter((start,)), before, after):
                if at not in seen:
                    seen.add(at)
                    yield at, began


def _can_be_empty(node: Node) -> bool:
    match node:
        case Chars():
            return False
        case Sequence():
            return all(map(_can_be_empty, node.parts))
        case Choice():
            return any(map(_can_be_empty, node.parts))
        case Repeat():
            return node.least == 0 or _can_be_empty(node.part)
    return True


def _kind(char: str) -> int:
    if char == "\n":
        return _NEWLINE
    return _WORD if char == "_" or (char.isascii() and char.isalnum()) else _OTHER


def _holds(edge: str, before: int, after: int) -> bool:
    match edge:
        case "text-start":
            return before == _BEGIN
        case "text-end":
            return after == _END
        case "line-start":
            return before in (_BEGIN, _NEWLINE)
        case "line-end":
            return after in (_END, _NEWLINE)
    return ((before == _WORD) != (after == _WORD)) == (edge == "word")


@lru_cache(512)
def compiled(pattern: str) -> Pattern:
    """Raises PatternError."""
    return Pattern(pattern)


def pattern_fault(pattern: str) -> str:
    """Why a pattern is none, "" where it is one."""
    try:
        compiled(pattern)
    except PatternError as error:
        return str(error)
    return ""


def matches(text: str, pattern: str) -> bool:
    """Raises CelError."""
    try:
        return compiled(pattern).matches(text)
    except PatternError as error:
        raise CelError(str(error)) from None


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """What a pattern matches in a text, from left to right. Raises CelError."""
    try:
        searched = compiled(pattern)
    except PatternError as error:
        raise CelError(f"Illegal regex: {error}") from None
    found: list[str] = []
    at, last_end = 0, -1
    while at <= len(text) and not 0 <= limit <= len(found):
        match = searched.find(text, at)
        if match is None:
            break
        start, end = match
        if end > start or end != last_end:
            found.append(text[start:end])
        last_end = end
        at = end if end > start else end + 1
    return found
