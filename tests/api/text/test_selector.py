from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.machinery.codec import decode
from koord.api.machinery.faults import Invalid, check
from koord.api.text.selector import (
    EVERYTHING,
    NOTHING,
    LabelMatcher,
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
    SelectorError,
    compile_labels,
    compile_nodes,
    match_labels,
    node_selector_faults,
    parse_labels,
    selector_faults,
)

RECORDED = json.loads(Path(__file__).with_name("data").joinpath("selectors.json").read_text())


@pytest.mark.parametrize("row", RECORDED["labels"], ids=lambda row: row["in"])
def test_the_string_form_is_read_as_kubernetes_reads_it(row: dict[str, Any]) -> None:
    if "error" in row:
        with pytest.raises(SelectorError, match="label selector"):
            parse_labels(row["in"])
        return
    matcher = parse_labels(row["in"])
    assert str(matcher) == row["string"]
    assert [matcher.matches(labels) for labels in RECORDED["label_sets"]] == row["matches"]
    assert parse_labels(str(matcher)) == matcher


@pytest.mark.parametrize("row", RECORDED["label_selectors"], ids=lambda row: json.dumps(row["in"]))
def test_the_struct_form_is_read_as_kubernetes_reads_it(row: dict[str, Any]) -> None:
    selector = None if row["in"] is None else msgspec.convert(row["in"], LabelSelector)
    if "error" in row:
        assert selector is not None
        assert selector_faults(selector)
        with pytest.raises(SelectorError):
            compile_labels(selector, absent=NOTHING)
        return
    matcher = compile_labels(selector, absent=NOTHING)
    assert str(matcher) == row["string"]
    assert [matcher.matches(labels) for labels in RECORDED["label_sets"]] == row["matches"]


@pytest.mark.parametrize("row", RECORDED["node_selectors"], ids=lambda row: json.dumps(row["in"]))
def test_a_node_selector_is_read_as_kubernetes_reads_it(row: dict[str, Any]) -> None:
    selector = msgspec.convert({"nodeSelectorTerms": row["in"]}, NodeSelector)
    if "error" in row:
        assert node_selector_faults(selector)
        with pytest.raises(SelectorError, match=r"nodeSelectorTerms\[\d\]\.match"):
            compile_nodes(selector)
        return
    matcher = compile_nodes(selector)
    assert [matcher.matches(node["Labels"], node["Name"]) for node in RECORDED["nodes"]] == row["matches"]


def test_an_absent_selector_matches_what_the_caller_says_and_an_empty_one_everything() -> None:
    assert not compile_labels(None, absent=NOTHING).matches({"a": "b"})
    assert compile_labels(None, absent=EVERYTHING).matches({})
    assert compile_labels(LabelSelector(), absent=NOTHING).matches({})


def test_an_empty_term_matches_no_node() -> None:
    assert not compile_nodes(NodeSelectorTerm()).matches({"a": "b"}, "n1")
    assert not compile_nodes(NodeSelector(node_selector_terms=())).matches({"a": "b"}, "n1")


def test_plain_labels_match_where_all_are_there() -> None:
    matcher = match_labels({"b": "2", "a": "1"})
    assert str(matcher) == "a=1,b=2"
    assert matcher.matches({"a": "1", "b": "2", "c": "3"})
    assert not matcher.matches({"a": "1"})
    assert match_labels({}).matches({})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a b", "found 'b', expected ',' or an operator (= == != in notin > <)"),
        ("a,", "found the end, expected a label key"),
        (",a", "found ',', expected '!' or a label key"),
        ("a in b", "found 'b', expected '('"),
        ("a in (b c)", "found 'c', expected ',' or ')'"),
        ("a>b", "> needs exactly one value, an integer"),
        ("-a", "'-a': must be letters"),
        ("a=-b", "'-b': must be empty or letters"),
    ],
)
def test_a_wrong_selector_is_told_what_is_valid(text: str, said: str) -> None:
    with pytest.raises(SelectorError) as refused:
        parse_labels(text)
    assert said in str(refused.value)


def test_every_fault_of_a_selector_is_reported_with_its_path() -> None:
    selector = LabelSelector(
        match_labels={"-a": "b"},
        match_expressions=(
            LabelSelectorRequirement(key="a", operator="In"),
            LabelSelectorRequirement(key="b", operator="Exists", values=("x", "y z")),
            LabelSelectorRequirement(key="c", operator="Near", values=("x",)),
        ),
    )
    paths = [fault.path for fault in selector_faults(selector)]
    assert paths == [
        "matchLabels[-a].key",
        "matchExpressions[0].values",
        "matchExpressions[1].values",
        "matchExpressions[1].values[1]",
        "matchExpressions[2].operator",
    ]


@pytest.mark.parametrize("operator", ["Near", "Gt", ""])
def test_an_operator_that_nobody_knows_is_read_and_refused_where_it_is_asked(operator: str) -> None:
    expression = {"key": "a", "operator": operator, "values": ["1"]}
    selector = decode(LabelSelector, json.dumps({"matchExpressions": [expression]}))
    with pytest.raises(SelectorError, match="must be one of In, NotIn, Exists, DoesNotExist"):
        compile_labels(selector, absent=NOTHING)


def test_fields_of_manifests_are_checked() -> None:
    data = {"matchLabels": {"a": "b c"}, "matchExpressions": [{"key": "-", "operator": "Near"}]}
    with pytest.raises(Invalid) as refused:
        check(LabelSelector, data, "selector")
    assert {fault.path for fault in refused.value.faults} == {
        "matchLabels.a",
        "matchExpressions[0].key",
        "matchExpressions[0].operator",
    }


def test_only_the_name_is_a_field_of_a_node() -> None:
    term = msgspec.convert(
        {"matchFields": [{"key": "metadata.namespace", "operator": "In", "values": ["x"]}]}, NodeSelectorTerm
    )
    assert [fault.path for fault in node_selector_faults(term)] == ["matchFields[0].key"]


words = st.from_regex(r"[a-z]([a-z0-9._-]{0,4}[a-z0-9])?", fullmatch=True)
values = words | st.just("")
requirements = st.one_of(
    st.builds(Requirement, words, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])),
    st.builds(
        Requirement,
        words,
        st.sampled_from([Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.NOT_EQUALS]),
        st.tuples(values),
    ),
    st.builds(
        Requirement,
        words,
        st.sampled_from([Operator.IN, Operator.NOT_IN]),
        st.sets(values, min_size=1, max_size=4).map(lambda chosen: tuple(sorted(chosen))),
    ),
    st.builds(
        Requirement,
        words,
        st.sampled_from([Operator.GREATER, Operator.LESS]),
        st.tuples(st.integers(0, 2**63 - 1).map(str)),
    ),
)


@given(st.lists(requirements, max_size=5))
def test_printing_and_reading_gives_the_same_selector(chosen: list[Requirement]) -> None:
    matcher = LabelMatcher(tuple(sorted(chosen, key=lambda requirement: requirement.key)))
    assert parse_labels(str(matcher)) == matcher


@given(st.text(max_size=20) | st.text("ab=!<>(), in", max_size=20))
def test_any_text_is_a_selector_or_a_named_error(text: str) -> None:
    with contextlib.suppress(SelectorError):
        parse_labels(text)
