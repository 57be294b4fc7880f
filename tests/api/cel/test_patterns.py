from __future__ import annotations

import time

import pytest

from koord.api.cel.patterns import find_all, matches, pattern_fault


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
        ("x*", "é\udc80", ["", "", ""]),
        (r"\p{Greek}+", "aβγ", ["βγ"]),
        (r"\QC\C\E[{]123456789}", r"C\C{123456789}", [r"C\C{123456789}"]),
        ("(" * 400 + "a" + ")" * 400, "a", ["a"]),
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
        ("(a{1000}){1000}", "invalid repeat count: `{1000}`"),
        ("a{1001}?", "invalid repeat count: `{1001}`"),
        (r"a\C", r"invalid escape sequence: `\C`"),
        ("[{]a{123456789}", "invalid repeat count: `{123456789}`"),
        ("(?P<é>a)", "invalid named capture: `(?P<é>`"),
        ("(?P<é", "invalid named capture: `(?P<é`"),
        (r"\x{110000}", r"invalid escape sequence: `\x{110000`"),
    ],
)
def test_an_invalid_pattern_is_refused_in_the_words_of_go(pattern: str, fault: str) -> None:
    assert pattern_fault(pattern) == f"error parsing regexp: {fault}"


def test_a_pattern_that_needs_too_much_memory_is_refused() -> None:
    pattern = "x{1000}" * 1000
    assert pattern_fault(pattern) == f"error parsing regexp: expression too large: `{pattern}`"


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*$", "(a*)*b", "a*a*a*a*b", "(.*)(.*)(.*)x", "([a-z]+[0-9]?)+!"])
def test_no_pattern_takes_long(pattern: str) -> None:
    started = time.process_time()
    matches("a" * 50_000 + "?", pattern)
    assert time.process_time() - started < 1
