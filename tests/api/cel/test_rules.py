from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from koord.api.cel.declared import escape
from koord.api.cel.expressions import compiled as compiled_expression
from koord.api.cel.syntax import CelError
from koord.api.cel.types import DYN
from koord.api.machinery.openapi_schema import from_openapi
from koord_minicluster.apiserver.patch import merge_patch
from koord_minicluster.apiserver.rules.rule_checks import rule_faults
from koord_minicluster.apiserver.rules.validation import cel_validate
from tests.api.cel import cases

RECORDED = json.loads((Path(__file__).parent / "data" / "cel.json").read_text())
ROOT = "spec.validation.openAPIV3Schema"


def compiled(case: cases.Case) -> Any:
    return from_openapi({"type": "object", "properties": {"spec": case.schema}, **case.root})


LONG = "9" * 5000
"""More digits than Python reads."""


def judged(case: cases.Case) -> list[dict[str, Any]]:
    """The answers to the case's objects, as a server would give them."""
    schema, answers = compiled(case), []
    for i, spec in enumerate(case.specs):
        first, *rest = spec if isinstance(spec, list) else [spec]
        live: Any = {"apiVersion": "x/v1", "kind": "Widget", "metadata": {"name": f"o{i}"}, "spec": first}
        answers.append(_answer(schema, live, None))
        for change in rest:
            new = merge_patch.apply(live, {"spec": change})
            answers.append(_answer(schema, new, live))
            live = new if answers[-1]["code"] == 200 else live
    return answers


def _answer(schema: Any, obj: Any, old: Any) -> dict[str, Any]:
    causes = cel_validate(schema, obj, old, "")
    code = 422 if causes else 201 if old is None else 200
    return {"code": code, "causes": [[cause.field, cause.reason, cause.message] for cause in causes]}


@pytest.mark.parametrize("case", cases.CASES, ids=[case.name for case in cases.CASES])
def test_rules_judge_as_a_real_server_does(case: cases.Case) -> None:
    assert judged(case) == RECORDED["cases"][case.name]


@pytest.mark.parametrize("name", cases.FAULTY)
def test_faulty_rules_are_refused_as_a_real_server_does(name: str) -> None:
    schema = from_openapi({"type": "object", "properties": {"spec": cases.FAULTY[name]}})
    assert [[cause.field, cause.message] for cause in rule_faults(schema, ROOT)] == RECORDED["faulty"][name]


def evaluate(expression: str, variables: dict[str, Any]) -> Any:
    """The value of an expression over unknown variables; raises what it gives instead of one."""
    value, _ = compiled_expression(expression, dict.fromkeys(variables, DYN)).evaluate(variables)
    if isinstance(value, CelError):
        raise value
    return value


@pytest.mark.parametrize(
    ("expression", "variables", "value"),
    [
        ('size("é")', {}, 1),
        ('"size(x)".size()', {}, 7),
        ('["a", "b"].join("-")', {}, "a-b"),
        ("sets.contains([1, 2], [1])", {}, True),
        ('quantity("1Gi") == quantity("1024Mi")', {}, True),
        ('quantity("100m").compareTo(quantity("0.1"))', {}, 0),
        ('quantity("1.5").isInteger()', {}, False),
        ('url("https://u@h:1/p?a=b").getHostname()', {}, "h"),
        ('url("https://h/p?a=b&a=c").getQuery()["a"]', {}, ["b", "c"]),
        ('ip("::ffff:1.2.3.4").isLoopback() || ip("127.0.0.1").isLoopback()', {}, True),
        ('cidr("10.1.2.3/8").masked() == cidr("10.0.0.0/8")', {}, True),
        ('cidr("10.1.2.3/8").prefixLength()', {}, 8),
        ('"a1b22".findAll("[0-9]+")', {}, ["1", "22"]),
        ("[1, 2, 2].lastIndexOf(2)", {}, 2),
        ("x.y", {"x": {"y": None}}, None),
    ],
)
def test_expressions_have_kubernetes_functions(expression: str, variables: dict[str, Any], value: object) -> None:
    assert evaluate(expression, variables) == value


@pytest.mark.parametrize(
    ("expression", "variables", "fault"),
    [
        ("x.y", {"x": {}}, "no such key: y"),
        ("x[2]", {"x": [1]}, "index out of bounds: 2"),
        ("1 / x", {"x": 0}, "division by zero"),
        ("x + 1", {"x": "a"}, "no such overload"),
        ("y", {"x": 1}, "undeclared reference to 'y'"),
        ("x.all(i, i > z)", {"x": [1]}, "undeclared reference to 'z'"),
        ("(", {}, "Syntax error"),
        ("int(x)", {"x": LONG}, "type conversion error"),
        ("uint(x)", {"x": LONG}, "type conversion error"),
        (LONG, {}, "invalid int literal"),
        (f"{LONG}u", {}, "invalid uint literal"),
        ("semver(x)", {"x": f"1.{LONG}.0"}, "value out of range"),
        ("semver(x)", {"x": f"1.0.0-{LONG}"}, "value out of range"),
        ("quantity(x)", {"x": f"1e{LONG}"}, "quantit"),
        ("cidr(x)", {"x": f"10.0.0.0/{LONG}"}, "prefix length out of range"),
        ("ip(x)", {"x": f"1.2.3.{LONG}"}, "value >255"),
        ("x.format([1.5])", {"x": f"%.{LONG}f"}, "value out of range"),
        ("x.format([1.5])", {"x": "%.999999999f"}, "value out of range"),
        ("'a'.matches(x)", {"x": f"a{{{LONG}}}"}, "invalid repeat count"),
    ],
)
def test_faults_are_told_in_the_real_librarys_words(expression: str, variables: dict[str, Any], fault: str) -> None:
    with pytest.raises(CelError, match=fault):
        evaluate(expression, variables)


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("a", "a"),
        ("a-b", "a__dash__b"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("x__y", "x__underscores__y"),
        ("in", "__in__"),
    ],
)
def test_field_names_that_are_no_names_are_escaped(name: str, escaped: str) -> None:
    assert escape(name) == escaped
