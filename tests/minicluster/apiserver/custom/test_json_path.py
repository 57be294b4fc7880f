"""Paths of printer columns."""

from __future__ import annotations

from typing import Any

import pytest

from koord_minicluster.apiserver.custom.json_path import JsonPathError, compile_path, lookup, simple_path

OBJECT = {
    "metadata": {"name": "a", "annotations": {"x.io/y": "z"}},
    "spec": {"replicas": 3, "list": [{"n": 1}, {"n": 2}, {"n": 3}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Old", "status": "False"}]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".metadata.name", ["a"]),
        (".spec.replicas", [3]),
        (".spec.list[0].n", [1]),
        (".spec.list[-1].n", [3]),
        (".spec.list[*].n", [1, 2, 3]),
        (".spec.list[1:].n", [2, 3]),
        (".spec.list[7].n", []),
        (".spec.missing.deep", []),
        (".metadata.annotations['x.io/y']", ["z"]),
        (".metadata.annotations.x\\.io/y", ["z"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type=='Old')].status", ["False"]),
        ('.status.conditions[?(@.type!="Ready")].type', ["Old"]),
        (".spec.list[?(@.n>1)].n", [2, 3]),
        (".spec.list[?(@.m)].n", []),
    ],
)
def test_a_path_finds_what_kubernetes_finds(path: str, found: list[Any]) -> None:
    assert compile_path(path)(OBJECT) == found


@pytest.mark.parametrize("path", ["spec", ".spec[", ".spec.list[a]", ".a[?(b)]"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(JsonPathError):
        compile_path(path)


def test_a_simple_path_leads_to_a_value_or_nothing() -> None:
    assert lookup(OBJECT, simple_path(".spec.replicas")) == 3
    assert lookup(OBJECT, simple_path(".spec.replicas.x")) is None
