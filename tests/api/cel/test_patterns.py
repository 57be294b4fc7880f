from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.cel.patterns import Pattern, compiled, find_all, matches, pattern_fault


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("[a-z]+", "Hello, world", ["ello", "world"]),
        ("l*", "all", ["", "ll"]),
        ("(?i)HE(l)+", "hello", ["hell"]),
        ("(?s)a.b", "a\nb", ["a\nb"]),
        ("a.b", "a\nb", []),
        ("(?m)^b$", "a\nb\nc", ["b"]),
        ("^b$", "a\nb\nc", []),
        ("a+?", "aaa", ["a", "a", "a"]),
        ("(?U)a+", "aa", ["a", "a"]),
        (r"\bw\w*", "a word", ["word"]),
        (r"\Qa.b\E", "a.b axb", ["a.b"]),
        (r"\x41\x{42}\103", "ABC", ["ABC"]),
        (r"\p{Lu}\pL", "äÖü", ["Öü"]),
        ("[[:alpha:]-]+", "a-1", ["a-"]),
        ("[]a]+", "a]b", ["a]"]),
        ("a|ab", "ab", ["a"]),
        ("(?P<x>a{2,3})", "aaaa", ["aaa"]),
        (r"\z", "a", [""]),
    ],
)
def test_patterns_find_what_they_find_in_go(pattern: str, text: str, found: list[str]) -> None:
    assert find_all(text, pattern) == found
    assert matches(text, pattern) == bool(found)


def test_as_many_are_found_as_are_wanted() -> None:
    assert find_all("aaa", "a", 2) == ["a", "a"]
    assert find_all("aaa", "a", 0) == []


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        ("(", "missing closing ): `(`"),
        ("a)", "unexpected ): `a)`"),
        ("[a", "missing closing ]: `[a`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        (r"\q", r"invalid escape sequence: `\q`"),
        ("\\", "trailing backslash at end of expression: ``"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?<=a)", "invalid named capture: `(?<=a)`"),
        (r"\1", r"invalid escape sequence: `\1`"),
        (r"\p{Foo}", r"invalid character class range: `\p{Foo}`"),
        ("(a{1000}){1000}", "expression too large: `(a{1000}){1000}`"),
    ],
)
def test_what_is_no_pattern_is_told_as_go_tells_it(pattern: str, fault: str) -> None:
    assert pattern_fault(pattern) == f"error parsing regexp: {fault}"


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*$", "(a*)*b", "a*a*a*a*b", "(.*)(.*)(.*)x", "([a-z]+[0-9]?)+!"])
def test_no_pattern_takes_long(pattern: str) -> None:
    started = time.process_time()
    compiled(pattern).matches("a" * 50_000 + "?")
    assert time.process_time() - started < 1


_PIECES = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\w", r"\d", r"\b"])
_PATTERNS = st.recursive(
    _PIECES,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda both: f"(?:{both[0]}|{both[1]})"),
        st.tuples(_PIECES.filter(lambda piece: piece != r"\b"), st.sampled_from(["*", "+", "?", "*?", "{1,2}"])).map(
            "".join
        ),
        inner.map(lambda one: f"(?:{one})?"),
    ),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(_PATTERNS, st.text("ab1 ", max_size=8))
def test_patterns_without_empty_loops_match_as_in_python(pattern: str, text: str) -> None:
    known = re.compile(pattern, re.ASCII)
    made = Pattern(pattern)
    assert made.matches(text) == (known.search(text) is not None)
    first = known.search(text)
    assert made.find(text, 0) == (first.span() if first else None)
