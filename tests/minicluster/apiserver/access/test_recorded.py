from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from koord_minicluster.apiserver.access.bootstrap import priority_classes, roles_and_bindings
from tests.control_plane import ControlPlane
from tests.minicluster.apiserver import record_access


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """This module's own: no other test has made roles there."""
    with ControlPlane() as running:
        yield running


@pytest.mark.cluster
@pytest.mark.kubectl
def test_the_usual_roles_are_those_that_a_real_server_makes(plane: ControlPlane) -> None:
    listed = plane.kubectl("get", "clusterroles,clusterrolebindings,roles,rolebindings", "-A", "-o", "json").stdout
    classes = json.loads(plane.kubectl("get", "priorityclasses", "-o", "json").stdout)["items"]
    real = {_key(obj): obj for obj in json.loads(listed)["items"]}
    for obj in roles_and_bindings():
        theirs = real[_key(obj)]
        for key in ("uid", "resourceVersion", "creationTimestamp"):
            theirs["metadata"].pop(key)
        assert {key: value for key, value in theirs.items() if value is not None} == obj
    values = {class_["metadata"]["name"]: class_["value"] for class_ in classes}
    assert {
        priority_class["metadata"]["name"]: priority_class["value"] for priority_class in priority_classes()
    } == values


@pytest.mark.cluster
def test_a_real_server_still_answers_as_recorded(plane: ControlPlane) -> None:
    for name, answers in record_access.real_answers(plane).items():
        recorded = json.loads(record_access.RECORDS[name].read_text())
        assert {**answers, "about": None} == {**recorded, "about": None}


def _key(obj: dict[str, Any]) -> tuple[str, str, str]:
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
