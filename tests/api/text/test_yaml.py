from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml as pyyaml
from hypothesis import example, given
from hypothesis import strategies as st

from koord.api.text.yaml import MAX_DEPTH, YamlError, dump, load, load_all

RECORDED = json.loads(Path(__file__).with_name("data").joinpath("yaml_scalars.json").read_text())

# Where koord means to differ from kubectl.
STRICTER = {"&k a: 1\n*k : 2\n"}
LAXER = {"%YAML 1.2\n---\na: yes\n", '{"a": "b\\/c"}'}


def as_loaded(value: object) -> object:
    """Recorded JSON with the numbers that only a float holds as floats, which is what kubectl makes of them."""
    if isinstance(value, dict):
        return {key: as_loaded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_loaded(item) for item in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return float(value)
    if value in (-9223372036854776000, 9223372036854776000, 18446744073709552000, 1000000000000000100):
        return float(str(value))
    return value


@pytest.mark.parametrize("row", [row for row in RECORDED["documents"] if "json" in row], ids=lambda row: row["in"])
def test_a_document_is_what_kubectl_makes_of_it(row: dict[str, Any]) -> None:
    if row["in"] in STRICTER:
        with pytest.raises(YamlError, match="already set in line 1"):
            load_all(row["in"], "t.yaml")
        return
    loaded = load_all(row["in"], "t.yaml")
    expected = as_loaded(json.loads(row["json"]))
    assert (loaded[0] if loaded else None) == expected
    if loaded and isinstance(expected, dict) and "a" in expected:
        assert isinstance(loaded[0], dict)
        assert type(loaded[0]["a"]) is type(expected["a"])


@pytest.mark.parametrize("row", [row for row in RECORDED["documents"] if "error" in row], ids=lambda row: row["in"])
def test_what_kubectl_refuses_is_refused_with_its_place(row: dict[str, Any]) -> None:
    if row["in"] in LAXER:
        assert len(load_all(row["in"], "t.yaml")) == 1
        return
    with pytest.raises(YamlError, match=r"^t\.yaml:\d+:\d+: .{8}"):
        load_all(row["in"], "t.yaml")


@pytest.mark.parametrize("row", RECORDED["streams"], ids=lambda row: row["in"])
def test_a_stream_has_the_documents_that_kubectl_sees(row: dict[str, Any]) -> None:
    if "error" in row:
        with pytest.raises(YamlError):
            load_all(row["in"], "t.yaml")
    else:
        assert load_all(row["in"], "t.yaml") == [document for document in row["docs"] if document is not None]


@pytest.mark.parametrize(
    ("text", "line", "column", "problem"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, 1, "the key 'a' is already set in line 1"),
        ('{"a": 1,\n "b": {"c": 1, "c": 2}}', 2, 16, "the key 'c' is already set in line 2"),
        ("1: x\n'1': y\n", 2, 1, "the key '1' is already set in line 1"),
        ("spec:\n  x: .inf\n", 2, 6, "cannot be said in JSON"),
        ("spec:\n\tx: 1\n", 2, 1, "a tab cannot indent; use spaces"),
        ("a: @x\n", 1, 4, "'@' cannot begin a value; quote it"),
        ("a: [1\n", 2, 1, "(while parsing a flow sequence that begins in line 1)"),
        ("a: é\nb: \x01\n", 2, 4, "control characters are not allowed"),
        ("a: *nowhere\n", 1, 4, "no anchor &nowhere"),
    ],
)
def test_an_error_names_file_line_column_and_fault(text: str, line: int, column: int, problem: str) -> None:
    with pytest.raises(YamlError) as refused:
        load_all(text, "web.yaml")
    assert (refused.value.source, refused.value.line, refused.value.column) == ("web.yaml", line, column)
    assert problem in str(refused.value)


def test_aliases_cannot_expand_without_bound() -> None:
    levels = ["l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(YamlError, match="aliases stand for more than"):
        load_all("\n".join(levels), "bomb.yaml")


def test_values_behind_an_alias_are_not_shared() -> None:
    loaded: Any = load("a: &x {k: [1]}\nb: *x\n", "t.yaml")
    loaded["a"]["k"].append(2)
    assert loaded["b"] == {"k": [1]}


@pytest.mark.parametrize(
    ("nested", "depth"),
    [("[", MAX_DEPTH + 2), ("[", 100_000), ("- ", 100_000), ("{a: ", 100_000), ('{"a":', 100_000)],
)
def test_deep_nesting_is_refused_not_a_crash(nested: str, depth: int) -> None:
    with pytest.raises(YamlError, match="nested more than"):
        load_all(nested * depth, "deep.yaml")


def test_aliases_cannot_nest_without_bound() -> None:
    lines = ["l0: &l0 " + "[" * 90 + "]" * 90]
    lines += [f"l{i}: &l{i} " + "[" * 90 + f"*l{i - 1}" + "]" * 90 for i in range(1, 20)]
    with pytest.raises(YamlError, match="nest too deeply"):
        load_all("\n".join(lines), "deep.yaml")


def test_one_document_is_one() -> None:
    assert load("# nothing\n", "t.yaml") is None
    assert load("a: 1\n---\n", "t.yaml") == {"a": 1}
    with pytest.raises(YamlError, match="2 documents"):
        load("a: 1\n---\nb: 1\n", "t.yaml")


def test_a_manifest_prints_as_a_person_would_write_it() -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "web", "labels": {"app.kubernetes.io/name": "web", "version": "1.10", "on": "yes"}},
        "data": {"run.sh": "#!/bin/sh\nexec web --port=80\n", "empty": "", "note": "colon: here", "when": "2026-11-01"},
        "args": ["-c", "--flag=1", {"name": "x", "list": [1, [2, 3], []], "none": None}, "two\nlines"],
        "nothing": {},
    }
    assert dump(manifest) == (
        "apiVersion: v1\n"
        "kind: ConfigMap\n"
        "metadata:\n"
        "  name: web\n"
        "  labels:\n"
        "    app.kubernetes.io/name: web\n"
        '    version: "1.10"\n'
        '    "on": "yes"\n'
        "data:\n"
        "  run.sh: |\n"
        "    #!/bin/sh\n"
        "    exec web --port=80\n"
        '  empty: ""\n'
        '  note: "colon: here"\n'
        '  when: "2026-11-01"\n'
        "args:\n"
        "- -c\n"
        "- --flag=1\n"
        "- name: x\n"
        "  list:\n"
        "  - 1\n"
        "  - - 2\n"
        "    - 3\n"
        "  - []\n"
        "  none: null\n"
        "- |-\n"
        "  two\n"
        "  lines\n"
        "nothing: {}\n"
    )


@pytest.mark.parametrize("value", [float("inf"), float("nan"), {1: "x"}, object(), b"x"])
def test_what_is_not_json_is_not_dumped(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        dump(value)


tricky = st.sampled_from(
    [row["in"][3:-1] for row in RECORDED["documents"] if row["in"].startswith("a: ")]
    + [" x", "x ", "\n", "\n\n", "a\n", "a\n\n", "\na", " a\nb", "a\n b\n", "a\n  ", "\ta\nb", "a\n\tb", "a\r\nb"]
    + ["---", "...", "- a", "? a", ": a", "# a", "a #b", "x # c", "a: b", "a:", "k" * 2000, "a\n \nb"]
    + ["\u2028", "\x85", "\x7f", "\ufeff", "\x00", "😀\n😀"]
)
strings = st.one_of(tricky, st.text(max_size=12), st.text(" \n\t:#-ab'\"", max_size=10))
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    strings,
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(strings, inner, max_size=4),
    max_leaves=12,
)


@given(values)
@example([{"": None}])
@example({"a": [{"": 1}, {"": "x", "b": 2}]})
def test_what_is_dumped_loads_as_the_same(value: object) -> None:
    assert load(dump(value), "t.yaml") == value


@given(strings)
def test_a_dumped_string_is_a_string_to_other_readers_too(text: str) -> None:
    assert pyyaml.safe_load(dump({"key": text})) == {"key": text}


@given(values)
def test_json_is_yaml(value: object) -> None:
    assert load_all(json.dumps({"x": value}), "t.json") == [{"x": value}]


@given(st.text(max_size=40) | st.text(" \n\t-:[]{}&*!|>'\"%@#,?~ab1", max_size=40))
def test_any_text_loads_or_gives_a_named_error(text: str) -> None:
    with contextlib.suppress(YamlError):
        load_all(text, "t.yaml")
