from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from koord.api.cel.declared import declare
from koord.api.cel.expressions import compiled
from koord.api.cel.sizes import LARGEST, Range, exactly
from koord.api.machinery.openapi_schema import from_openapi
from koord_minicluster.apiserver.rules.rule_checks import rule_faults
from koord_minicluster.apiserver.rules.validation import BUDGET, cel_validate
from tests.api.cel import costs
from tests.api.cel.cases import INTEGER, TEXT, fields, lists, ruled

RECORDED = json.loads((Path(__file__).parent / "data" / "cel_costs.json").read_text())["limits"]


def told(rule: str, length: int) -> str:
    """By how much a rule on a list's items passes the limit; empty if it does not."""
    schema = from_openapi(fields(spec=costs.under_list(rule, length)))
    faults = [cause.message for cause in rule_faults(schema, "x") if "estimated rule cost exceeds" in cause.message]
    return faults[0].partition("factor of ")[2].partition(" (")[0].removesuffix("x") if faults else ""


@pytest.mark.parametrize("rule", costs.RULES)
def test_a_rule_passes_the_limit_where_a_real_server_says_so(rule: str) -> None:
    limit = RECORDED[rule]
    if limit is None:
        assert told(rule, 40_000_000) == ""
        return
    length, factor = limit
    assert told(rule, length) == factor.removesuffix("x")
    assert told(rule, length - 1) == ""


def spent(rule: str, schema: dict[str, Any], value: Any) -> int:
    """What a rule costs for a value."""
    made = from_openapi(schema)
    declared = declare(made, is_resource=False)
    assert declared is not None
    return compiled(rule, {"self": declared.type}).evaluate({"self": value})[1]


@pytest.mark.parametrize(
    ("rule", "value", "cost"),
    [
        # A name costs 1, and so does each step from it; comparing numbers costs 1.
        ("self.n > 1", {"n": 1}, 3),
        ("has(self.n)", {"n": 1}, 1),
        ("self.n == 1 && self.n > 5", {"n": 2}, 3),
        ("self.n == 1 && self.n > 5", {"n": 1}, 6),
        # Ten characters cost 1 to compare, the shorter text counts; an empty one costs nothing.
        ("self.t == 'abcdefghijk'", {"t": "x" * 30}, 2 + 2),
        ("self.t == ''", {"t": "x" * 30}, 2),
        # Texts that are joined are walked through.
        ("(self.t + self.t).size() > 1", {"t": "x" * 30}, 2 + 2 + 6 + 1 + 1),
        # (31 characters / 10) * (8 characters of a pattern / 4)
        ("self.t.matches('^[a-z]+$')", {"t": "x" * 30}, 2 + 4 * 2),
        # What is in a list that is written down costs only the name.
        ("self.n in [1, 2, 3]", {"n": 1}, 2),
        ("self.n in self.l", {"n": 1, "l": [1, 2, 3]}, 2 + 2 + 3),
        # A round of `all`: 2 for looking on, 1 for the result so far, and its own 2; 1 for the result at the end.
        ("self.l.all(x, x > 0)", {"l": [1, 2, 3]}, 2 + 3 * 5 + 1),
        ("self.l.all(x, x > 1)", {"l": [1, 2, 3]}, 2 + 5 + 2 + 1),
        ("self.l.exists(x, x > 2)", {"l": [1, 2, 3]}, 2 + 3 * 6 + 1),
        ("self.l.exists_one(x, x > 2)", {"l": [1, 2, 3]}, 2 + 3 * 2 + 2 + 2),
        # A list that is made costs 10 each time that something is added.
        ("self.l.map(x, x + 1).size() > 0", {"l": [1, 2, 3]}, 2 + 3 * (2 + 10 + 2) + 1 + 2),
        ("self.l.filter(x, x > 1).size() > 0", {"l": [1, 2, 3]}, 2 + 3 * 2 + 2 * (1 + 10 + 2) + 1 + 2),
        # Of two branches only the one that is taken, without the name that is passed on.
        ("self.n > 0 ? self.b : self.n > 5", {"n": 1, "b": True}, 3 + 1),
    ],
)
def test_evaluation_counts_what_it_costs(rule: str, value: dict[str, Any], cost: int) -> None:
    schema = fields(n=INTEGER, t=TEXT, b={"type": "boolean"}, l=lists(INTEGER))
    assert spent(rule, schema, value) == cost


def test_a_dear_rule_is_stopped_soon_and_no_other_runs() -> None:
    dear = "self.all(x, self.all(y, self.all(z, x + y + z >= 0)))"
    spec = ruled(lists(INTEGER, maxItems=1000), dear, "self.size() > 5000")
    schema = from_openapi(fields(l=spec))
    started = time.process_time()
    causes = cel_validate(schema, {"l": list(range(1000))}, None, "")
    assert time.process_time() - started < 2
    assert [cause.message for cause in causes] == [
        "Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further validation rules will "
        f"be run due to call cost exceeds limit for rule: {dear}"
    ]


@pytest.mark.parametrize(
    "rule",
    [
        "self.l.distinct().size() > 0",
        "sets.equivalent(self.l, self.l)",
        "self.l.sort().size() > 0",
        "lists.range(self.n).size() > 0",
        "self.t.replace('', self.t.replace('', self.t.replace('', self.t))).size() > 1",
        "self.t.matches('(x+x+)+y') || self.t.matches('(x*)*y')",
    ],
)
def test_no_single_call_holds_the_server(rule: str) -> None:
    schema = from_openapi(ruled(fields(l=lists(INTEGER), n=INTEGER, t=TEXT), rule))
    value = {"l": list(range(100_000)), "n": 10**15, "t": "x" * 1000}
    started = time.process_time()
    cel_validate(schema, value, None, "")
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    "rule",
    [
        "self.l.all(x, self.o == oldSelf.o)",
        "self.ll.all(x, self.ll.exists_one(y, x == y))",
        "sets.equivalent(self.ll, self.ll)",
        "self.ll.all(x, x in self.ll)",
        "self.ll.distinct().size() > 1",
    ],
)
def test_what_is_deep_inside_of_values_cannot_hold_the_server_either(rule: str) -> None:
    deep = fields(a={"type": "array", "items": INTEGER})
    schema = from_openapi(ruled(fields(l=lists(INTEGER), o=deep, ll=lists(deep)), rule))
    value = {"l": [1] * 10_000, "o": {"a": [1] * 100_000}, "ll": [{"a": [1] * 300 + [i]} for i in range(300)]}
    started = time.process_time()
    cel_validate(schema, value, {**value, "o": {"a": [1] * 100_000}}, "")
    assert time.process_time() - started < 3


def test_all_rules_of_an_object_share_a_budget() -> None:
    schema = from_openapi(fields(l=ruled(lists(INTEGER), *["self.all(x, x >= 0)"] * 3)))
    obj = {"l": [1] * 10}
    # Each costs 1 + 10 * 5 + 1.
    assert cel_validate(schema, obj, None, "", budget=3 * 52) == []
    [cause] = cel_validate(schema, obj, None, "", budget=3 * 52 - 1)
    assert cause.field == "l"
    assert "running out of cost budget, no further validation rules will be run" in cause.message
    assert BUDGET == 10_000_000


def test_ranges_never_pass_the_largest_number() -> None:
    most = Range(0, LARGEST)
    assert most + exactly(1) == Range(1, LARGEST)
    assert most * exactly(3) == Range(0, LARGEST)
    assert most.times(2) == Range(0, LARGEST)
    assert Range(2, 5) | Range(1, 3) == Range(1, 5)
    assert exactly(31).times(0.1) == exactly(4)
