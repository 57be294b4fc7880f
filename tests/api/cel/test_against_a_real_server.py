"""Random expressions, defined and evaluated by a real server and here: faults, costs and values are the same."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest

from koord.api.machinery.openapi_schema import from_openapi
from koord_minicluster.apiserver.rules.rule_checks import rule_faults
from koord_minicluster.apiserver.rules.validation import cel_validate
from tests.api.cel.cases import fields, ruled
from tests.api.cel.random_expressions import OBJECT, SCHEMA, expression
from tests.control_plane import ControlPlane
from tests.minicluster.apiserver.plain_client import PlainClient
from tests.minicluster.apiserver.record_access import CRDS, definition
from tests.waiting import until

pytestmark = pytest.mark.cluster

RULES = 40
_PLACE = re.compile(r"x-kubernetes-validations\[(\d+)\]")
_MADE_UP = re.compile(r"\b(selfType|_var)\d+")


@pytest.fixture
def server(control_plane: ControlPlane) -> PlainClient:
    return PlainClient(control_plane.url, control_plane.dir / "ca.crt", {"admin": "admin-token"})


def _by_rule(causes: Iterable[tuple[str, str]]) -> dict[int, list[str]]:
    """The message about each rule, without names that are made up each time."""
    told: dict[int, list[str]] = defaultdict(list)
    for place, message in causes:
        if (match := _PLACE.search(place)) and "contributed to" not in message:
            told[int(match[1])].append(_MADE_UP.sub(r"\1", message))
    return told


def _causes(body: dict[str, Any]) -> list[tuple[str, str]]:
    return [(cause["field"], cause["message"]) for cause in body.get("details", {}).get("causes", ())]


@pytest.mark.parametrize("seed", range(8))
def test_random_rules_are_judged_alike_when_they_are_defined(server: PlainClient, seed: int) -> None:
    random = Random(seed)
    rules = [expression(random, random.choice((1, 2, 2, 3, 3, 4))) for _ in range(RULES)]
    rules = [rule if random.random() < 0.5 else f"type({rule}) == int" for rule in rules]
    spec = ruled(SCHEMA, *rules)
    _, body = server.post(f"{CRDS}?dryRun=All", definition("random.example.com", spec, {}))
    ours = rule_faults(from_openapi(fields(spec=spec)), "spec.validation.openAPIV3Schema")
    real, mine = _by_rule(_causes(body)), _by_rule((cause.field, cause.message) for cause in ours)
    assert {rules[i]: mine.get(i) for i in range(RULES)} == {rules[i]: real.get(i) for i in range(RULES)}


@pytest.mark.parametrize("seed", range(4))
def test_random_expressions_have_the_same_values_and_errors(server: PlainClient, seed: int) -> None:
    random = Random(f"values {seed}")
    rules: list[dict[str, Any]] = []
    while len(rules) < 20:
        source = expression(random, random.choice((2, 2, 3, 3, 4)))
        shown = {"rule": f"dyn({source}) == dyn('~')", "messageExpression": f"'is %s'.format([{source}])"}
        rule = {**shown, "message": f"not shown: {source}"}
        if not rule_faults(from_openapi(fields(spec=ruled(SCHEMA, rule))), "x"):
            rules.append(rule)
    spec, group = ruled(SCHEMA, *rules), f"random{seed}.example.com"
    code, body = server.post(CRDS, definition(group, spec, {}))
    assert code == 201, body
    obj = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": OBJECT}

    def answer() -> list[Any]:
        code, body = server.post(f"/apis/{group}/v1/namespaces/default/widgets?dryRun=All", obj)
        return [body] if code != 404 else []

    (body,) = until(answer)
    ours = cel_validate(from_openapi(fields(spec=spec)), obj, None, "")
    assert [(cause.field, cause.message) for cause in ours] == _causes(body)
