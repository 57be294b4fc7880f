from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.cel import types
from koord.api.cel.declared import declare, escape
from koord.api.cel.expressions import CALL_LIMIT, compiled
from koord.api.cel.syntax import CelError, CostExceeded
from koord.api.cel.types import BOOL, DYN, INT, STRING, assigned, list_of, map_of, most_general, param, type_text
from koord.api.cel.values import Duration, KeyedList, Maybe, SetList, StoredList, Timestamp, Uint, equal
from koord.api.machinery.openapi_schema import from_openapi
from koord_minicluster.apiserver.rules.cel_values import to_cel
from koord_minicluster.apiserver.rules.conditions import condition
from koord_minicluster.apiserver.rules.field_paths import normal_path
from tests.api.cel.cases import INTEGER, NUMBER, TEXT, fields, lists

ITEM = {**fields(k=TEXT, v=INTEGER), "required": ["k"]}
SCHEMA = from_openapi(
    fields(
        n=INTEGER,
        d=NUMBER,
        b={"type": "boolean"},
        s=TEXT,
        l=lists(TEXT),
        lo=lists(ITEM),
        m={"type": "object", "maxProperties": 5, "additionalProperties": INTEGER},
        q={"x-kubernetes-int-or-string": True},
        du={"type": "string", "format": "duration"},
    )
)
DECLARED = declare(SCHEMA, is_resource=False)
OBJECT = {
    "n": 7, "d": 2, "b": True, "s": "text", "l": ["a", "b"], "lo": [{"k": "x", "v": 1}, {"k": "y"}], "m": {"a": 1},
    "q": "5%", "du": "90s",
}  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "given_", "fits"),
    [
        ([INT], [INT], True),
        ([INT], [STRING], False),
        ([DYN], [STRING], True),
        ([param("A"), param("A")], [INT, INT], True),
        ([param("A"), param("A")], [INT, STRING], False),
        ([list_of(param("A"))], [list_of(INT)], True),
        ([list_of(param("A")), param("A")], [list_of(INT), STRING], False),
        ([map_of(STRING, param("A"))], [map_of(STRING, list_of(INT))], True),
        ([types.DURATION], [types.NULL], True),
        ([INT], [types.NULL], False),
        ([param("A")], [list_of(param("A"))], False),
    ],
)
def test_types_stand_where_they_fit(wanted: list[types.Type], given_: list[types.Type], fits: bool) -> None:
    assert (assigned({}, given_, wanted) is not None) == fits


def test_of_two_types_the_more_general_is_kept() -> None:
    assert most_general(list_of(DYN), list_of(INT)) == list_of(DYN)
    assert most_general(list_of(INT), list_of(param("A"))) == list_of(param("A"))
    assert type_text(map_of(STRING, list_of(types.TIMESTAMP))) == "map(string, list(timestamp))"
    assert str(types.optional_of(BOOL)) == "optional_type(bool)"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1.0, True),
        (1, Uint(1), True),
        (True, 1, False),
        ("1", 1, False),
        ([1, 2], [1.0, 2.0], True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        (Duration(5), Duration(5), True),
        (Timestamp(5, 3600), Timestamp(5), True),
        (SetList(["a", "b"]), ["b", "a"], True),
        (["a", "b"], SetList(["b", "a"]), False),
        (KeyedList([{"k": "a"}, {"k": "b"}], ("k",)), [{"k": "b"}, {"k": "a"}], True),
        (Maybe(1), Maybe(1), True),
        (Maybe(1), 1, False),
        (None, None, True),
    ],
)
def test_values_are_equal_if_they_mean_the_same(one: Any, other: Any, same: bool) -> None:
    assert equal(one, other) == same


def test_a_list_of_an_object_is_not_compared_with_what_is_none() -> None:
    with pytest.raises(CelError, match="no such overload"):
        equal(StoredList([1]), "text")


def test_objects_are_seen_by_their_schema() -> None:
    seen = to_cel(SCHEMA, {**OBJECT, "unknown": 1, "s": None})
    assert seen["d"] == 2.0
    assert isinstance(seen["d"], float)
    assert seen["du"] == Duration(90 * 10**9)
    assert "unknown" not in seen
    assert "s" not in seen
    assert seen.hidden == 2


@pytest.mark.parametrize(
    ("name", "escaped"),
    [("a", "a"), ("a-b", "a__dash__b"), ("namespace", "__namespace__"), ("1a", None), ("ä", None), ("", None)],
)
def test_names_that_cel_cannot_say_are_not_shown(name: str, escaped: str | None) -> None:
    assert escape(name) == escaped


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (".m", "m"),
        (".m.a", "m[a]"),
        (".m['a b']", "m[a b]"),
        (".n.x", None),
        ("n", None),
        (".zz", None),
        (".l[0]", None),
    ],
)
def test_field_paths_lead_through_the_schema(path: str, shown: str | None) -> None:
    assert normal_path(SCHEMA, path) == shown


def test_conditions_give_booleans_over_the_request() -> None:
    made = condition("request.operation == 'CREATE' && object.a > 1")
    assert made.evaluate({"request": {"operation": "CREATE"}, "object": {"a": 2}})[0] is True
    with pytest.raises(CelError, match="must evaluate to bool but got dyn"):
        condition("object.a")
    with pytest.raises(CelError, match="undefined field 'foo'"):
        condition("request.foo == 1")


def test_a_limit_stops_an_evaluation() -> None:
    value, cost = compiled("lists.range(n).all(x, x >= 0)", {"n": INT}).evaluate({"n": 500_000})
    assert isinstance(value, CostExceeded)
    assert CALL_LIMIT < cost < CALL_LIMIT + 20


_LEAVES = st.sampled_from(
    (
        "self.n", "self.d", "self.b", "self.s", "self.l", "self.lo", "self.m", "self.q", "self.du", "self.lo[1].v", "x",
        "1", "2.5", "'a'", "true", "null", "[]", "{'a': 1}", "['a']", "optional.none()", "duration('1s')",
        "quantity('1')",
    )
)  # fmt: skip
_EXPRESSIONS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.tuples(
            inner, st.sampled_from(["==", "!=", "<", ">=", "+", "-", "*", "/", "%", "&&", "||", "in"]), inner
        ).map(lambda parts: f"({' '.join(parts)})"),
        st.tuples(inner, st.sampled_from(["all", "exists", "exists_one", "map", "filter", "optMap"]), inner).map(
            lambda parts: f"{parts[0]}.{parts[1]}(x, {parts[2]})"
        ),
        st.tuples(
            inner, st.sampled_from(["size()", "sort()", "first()", "lowerAscii()", "join()", "sum()", "split('a')"])
        ).map(".".join),
        st.tuples(st.sampled_from(["size", "string", "int", "dyn", "type", "isIP", "quantity"]), inner).map(
            lambda parts: f"{parts[0]}({parts[1]})"
        ),
        st.tuples(inner, inner, inner).map(lambda parts: f"({parts[0]} ? {parts[1]} : {parts[2]})"),
        st.tuples(inner, inner).map(lambda parts: f"{parts[0]}[{parts[1]}]"),
    ),
    max_leaves=6,
)


@settings(max_examples=400, deadline=None)
@given(_EXPRESSIONS)
def test_whatever_compiles_gives_a_value_or_an_error_and_its_cost(source: str) -> None:
    assert DECLARED is not None
    try:
        made = compiled(source, {"self": DECLARED.type, "x": DYN})
    except CelError:
        return
    assert made.estimated_cost(DECLARED) >= 0
    for x in (1, "a", None, [1], {"a": 1}):
        value, cost = made.evaluate({"self": to_cel(SCHEMA, OBJECT), "x": x})
        assert cost >= 0
        if isinstance(value, CelError):
            assert str(value)
