"""Labels and annotations that nobody can read are told to whoever writes them, and refused to nobody."""

from __future__ import annotations

from typing import Any

import pytest

from koord.admission.request import AdmissionAnswer, Request
from koord.admission.review import validate
from tests.admission.build import gates, known, pod, validated

MINIMUM = "gang.scheduling.koordinator.sh/min-available"
JOINT = "scheduling.koordinator.sh/device-joint-allocate"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"annotations": {MINIMUM: "many"}}, MINIMUM),
        ({"annotations": {MINIMUM: "-1"}}, MINIMUM),
        ({"annotations": {JOINT: "["}}, JOINT),
        ({"labels": {"pod-group.scheduling.sigs.k8s.io/min-available": "x"}}, "min-available"),
        ({"labels": {"koordinator.sh/priority": "first"}}, "koordinator.sh/priority"),
    ],
)
def test_what_cannot_be_read_is_told(more: dict[str, Any], told: str) -> None:
    answer = validated(pod(**more))
    assert answer.allowed
    (warning,) = answer.warnings
    assert told in warning


@pytest.mark.parametrize(
    "more",
    [
        {"annotations": {MINIMUM: "3", JOINT: '{"deviceTypes":["gpu","rdma"]}', "mine": "["}},
        {"labels": {"koordinator.sh/priority": "0x10", "app": "web"}},
        {},
    ],
)
def test_what_can_be_read_is_not_mentioned(more: dict[str, Any]) -> None:
    assert validated(pod(**more)).warnings == ()


def test_a_misspelt_field_of_an_annotation_is_told_as_one_without_effect() -> None:
    key = "scheduling.koordinator.sh/resource-spec"
    (warning,) = validated(pod(annotations={key: '{"preferredCPUBindPolizy": "FullPCPUs"}'})).warnings
    assert f"annotation {key}: preferredCPUBindPolizy: unknown field (did you mean preferredCPUBindPolicy?)" in warning
    assert warning.endswith("it has no effect")


def test_what_was_there_before_is_not_mentioned_again() -> None:
    odd = pod(annotations={MINIMUM: "many"})
    assert validated(odd, odd).warnings == ()
    assert validated(odd, pod()).warnings != ()


def test_nodes_are_looked_at_too() -> None:
    def told(operation: Any, old: dict[str, Any] | None) -> AdmissionAnswer:
        annotations = {"node.koordinator.sh/colocation-strategy": '{"enable": "yes"}'}
        obj = {"metadata": {"name": "n1", "annotations": annotations}}
        return validate(Request(operation, "nodes", object=obj, old=old and obj), known(), gates())

    assert "node.koordinator.sh/colocation-strategy" in told("CREATE", None).warnings[0]
    assert told("UPDATE", {"metadata": {}}).warnings == ()
