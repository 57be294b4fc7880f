"""An agent writes about its own node alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from koord.admission.hooks import hooks
from koord.admission.request import Operation, Request
from koord.admission.review import validate
from koord.operate.install.access import rights_of
from koord.operate.install.settings import AGENT, Settings
from tests.admission.build import gates, known

AGENT_USER = "system:serviceaccount:koordinator-system:koord-agent"
OWN, OTHER = "n1", "n2"
PATHS: list[tuple[str, Operation]] = [
    ("nodes", "UPDATE"),
    ("nodemetrics/status", "UPDATE"),
    ("devices", "CREATE"),
    ("devices", "UPDATE"),
    ("noderesourcetopologies", "CREATE"),
    ("noderesourcetopologies", "UPDATE"),
    ("pods/status", "UPDATE"),
    ("pods/eviction", "CREATE"),
]


def asked(path: str, operation: Operation, target: str, **more: Any) -> Request:
    resource, _, subresource = path.partition("/")
    obj: dict[str, Any] = {"metadata": {"name": target}}
    if resource == "pods":
        obj = {"metadata": {"name": "web", "namespace": "shop"}}
        if subresource == "status":
            obj = {**obj, "spec": {"nodeName": target}}
    return Request(
        operation,
        resource,
        subresource=subresource,
        object=obj,
        old=obj if operation == "UPDATE" else None,
        namespace="shop" if resource == "pods" else "",
        name="web" if resource == "pods" else target,
        **{"user": AGENT_USER, "node": OWN, **more},
    )


def answer(request: Request, on: str) -> str:
    facts = replace(known(), pod_nodes={"shop/web": on})
    return validate(request, facts, gates()).message


@pytest.mark.parametrize(("path", "operation"), PATHS)
def test_of_its_own_node_and_no_other(path: str, operation: Operation) -> None:
    assert answer(asked(path, operation, OWN), OWN) == ""
    refusal = answer(asked(path, operation, OTHER), OTHER)
    assert "node n1, and its agent may write nothing else" in refusal


@pytest.mark.parametrize(("path", "operation"), PATHS)
def test_nothing_is_said_of_others_and_of_tokens_without_a_node(path: str, operation: Operation) -> None:
    assert answer(asked(path, operation, OTHER, node=""), OTHER) == ""
    assert answer(asked(path, operation, OTHER, user="system:node:n1"), OTHER) == ""


def test_a_pod_that_nobody_knows_is_not_evicted() -> None:
    request = asked("pods/eviction", "CREATE", OTHER)
    assert "pod shop/web is not on node n1" in validate(request, known(), gates()).message


def test_every_object_that_agents_may_write_has_an_entry() -> None:
    """Events, and jobs that ask for a move, are of no node."""
    elsewhere = {"events", "podmigrationjobs", "tokenreviews", "subjectaccessreviews", "configmaps"}
    written = {
        resource.partition("/")[0].partition(".")[0] + ("/" + resource.partition("/")[2] if "/" in resource else "")
        for right in rights_of(AGENT, Settings(image="koord:1", version="1"))
        if {"create", "patch", "update", "delete"} & {*right.verbs}
        for resource in right.resources
    }
    reviewed = {hook.resource for hook in hooks(gates()) if hook.object_type == "agent"}
    assert {path for path in written if path not in elsewhere} == reviewed
