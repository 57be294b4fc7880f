from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.cel.lexer import KINDS
from koord.api.cel.parser import parse
from koord.api.cel.syntax import Call, CelError, CompileError, Fold, Literal, Select

OPERAND = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)


@pytest.mark.parametrize(
    ("source", "at", "fault"),
    [
        ("self.n >", "1:9", f"mismatched input '<EOF>' expecting {OPERAND}"),
        ("self.n 1", "1:8", "extraneous input '1' expecting <EOF>"),
        ("(self.n", "1:8", "missing ')' at '<EOF>'"),
        ("[1,2", "1:5", "mismatched input '<EOF>' expecting {']', ','}"),
        ("[1 2]", "1:4", "extraneous input '2' expecting {']', ','}"),
        ("{1", "1:3", "mismatched input '<EOF>' expecting ':'"),
        ("self.", "1:6", "no viable alternative at input '.'"),
        ("self.'x'", "1:6", "no viable alternative at input '.'x''"),
        ("self.true", "1:6", "mismatched input 'true' expecting IDENTIFIER"),
        ("a | b", "1:3", "token recognition error at: '| '"),
        ("'abc", "1:1", "token recognition error at: ''abc'"),
        ("&& true", "1:1", f"extraneous input '&&' expecting {OPERAND}"),
        ("x [ 1, 2 ]", "1:6", "mismatched input ',' expecting ']'"),
        ("f(1 2)", "1:5", "extraneous input '2' expecting ')'"),
        ("a\n+\n", "3:1", f"mismatched input '<EOF>' expecting {OPERAND}"),
    ],
)
def test_faults_of_syntax_are_told_as_the_real_parser_does(source: str, at: str, fault: str) -> None:
    with pytest.raises(CompileError) as refused:
        parse(source)
    assert str(refused.value).split("\n")[0] == f"ERROR: <input>:{at}: Syntax error: {fault}"


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("if", "reserved identifier: if"),
        ("self.l.all(1, true)", "argument must be a simple name"),
        ("self.l.map(x.y, true)", "argument is not an identifier"),
        ("has(self)", "invalid argument to has() macro"),
        ("l.all(x, x, true)", "duplicate variable name: x"),
        ("99999999999999999999", "invalid int literal"),
        ("1e999", "invalid double literal"),
        ("b'\\u1234'", "unable to unescape string"),
    ],
)
def test_what_can_be_read_and_still_is_wrong(source: str, fault: str) -> None:
    with pytest.raises(CompileError, match=fault.replace("(", r"\(").replace(")", r"\)")):
        parse(source)


def test_the_place_of_a_fault_is_marked_below_its_line() -> None:
    with pytest.raises(CompileError) as refused:
        parse("'é' + \t)")
    assert str(refused.value).split("\n")[1:] == [" | 'é' +  )", " | .．.....^"]


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("-7", -7),
        ("0x1F", 31),
        ("12u", 12),
        (".5e1", 5.0),
        (r"'\x41\u00e9\101\n'", "AéA\n"),
        (r"r'\n'", r"\n"),
        ("'''a'b'''", "a'b"),
        (r"b'\xff\101é'", b"\xffA\xc3\xa9"),
        ("null", None),
        ("// all of it\n true", True),
    ],
)
def test_literals_say_what_they_say(source: str, value: object) -> None:
    tree = parse(source)
    assert isinstance(tree, Literal)
    assert tree.value == value


def test_operators_bind_as_they_should() -> None:
    tree = parse("a + b * c == d && !e || f ? g : h")
    assert isinstance(tree, Call)
    assert tree.function == "_?_:_"
    either = tree.args[0]
    assert isinstance(either, Call)
    assert either.function == "_||_"
    both = either.args[0]
    assert isinstance(both, Call)
    same = both.args[0]
    assert isinstance(same, Call)
    assert (both.function, same.function) == ("_&&_", "_==_")


def test_long_chains_are_balanced() -> None:
    def depth(tree: object) -> int:
        return 1 + max(map(depth, tree.args)) if isinstance(tree, Call) else 0

    assert depth(parse(" && ".join(["a"] * 1024))) == 10


def test_macros_become_loops() -> None:
    tree = parse("self.l.all(x, x > 1)")
    assert isinstance(tree, Fold)
    assert (tree.kind, tree.var, tree.var2) == ("all", "x", "")
    assert isinstance(tree.range, Select)
    two = parse("m.exists(k, v, k == v)")
    assert isinstance(two, Fold)
    assert (two.kind, two.var, two.var2) == ("exists", "k", "v")


def test_what_nests_too_deep_is_refused() -> None:
    with pytest.raises(CompileError, match="expression recursion limit exceeded: 250"):
        parse("(" * 5000 + "1" + ")" * 5000)


_WORDS = st.sampled_from(
    [*(kind for kind in KINDS if not kind.isupper() and kind != "<EOF>"), "x", "1", "'s'", "all", "has"]
)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=30), st.lists(_WORDS, max_size=14).map(" ".join)))
def test_any_text_is_read_or_refused(source: str) -> None:
    with contextlib.suppress(CelError):
        parse(source)
