"""Labels and annotations that cannot be read: those that place a pod are refused, all others are told."""

from __future__ import annotations

from typing import Any

import pytest

from koord.admission.request import AdmissionAnswer, Request
from koord.admission.review import validate
from tests.admission.build import gates, known, mutated, pod, validated

MINIMUM = "gang.scheduling.koordinator.sh/min-available"
JOINT = "scheduling.koordinator.sh/device-joint-allocate"
HINT = "scheduling.koordinator.sh/device-allocate-hint"
BURST = "koordinator.sh/cpuBurst"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"annotations": {BURST: "much"}}, BURST),
        ({"annotations": {"gang.scheduling.koordinator.sh/mode": "Loose"}}, "mode"),
        ({"labels": {"koordinator.sh/priority": "first"}}, "koordinator.sh/priority"),
    ],
)
def test_what_cannot_be_read_is_told(more: dict[str, Any], told: str) -> None:
    answer = validated(pod(**more))
    assert answer.allowed
    (warning,) = answer.warnings
    assert told in warning


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({"annotations": {HINT: "gpu"}}, f"metadata.annotations[{HINT}]: is not JSON"),
        ({"annotations": {JOINT: "["}}, f"metadata.annotations[{JOINT}]: is not JSON"),
        ({"annotations": {MINIMUM: "many"}}, f"metadata.annotations[{MINIMUM}]: must be an integer"),
        ({"annotations": {MINIMUM: "-1"}}, f"metadata.annotations[{MINIMUM}]: must be an integer"),
        (
            {"labels": {"pod-group.scheduling.sigs.k8s.io/min-available": "x"}},
            "metadata.labels[pod-group.scheduling.sigs.k8s.io/min-available]: must be an integer",
        ),
    ],
)
def test_what_would_keep_the_scheduler_from_placing_the_pod_is_refused(more: dict[str, Any], path: str) -> None:
    answer = validated(pod(**more))
    assert not answer.allowed
    assert path in answer.message
    assert "koord's scheduler would find no node for the pod" in answer.message
    assert answer.warnings == ()
    assert validated(pod(**more), pod(**more)).allowed, "it is there already"
    assert not validated(pod(**more), pod()).allowed
    assert validated(pod(**more, nodeName="n1")).allowed, "it has its node"


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
    odd = pod(annotations={BURST: "much"})
    assert validated(odd, odd).warnings == ()
    assert validated(odd, pod()).warnings != ()


def test_nodes_are_looked_at_too() -> None:
    def told(operation: Any, old: dict[str, Any] | None) -> AdmissionAnswer:
        annotations = {"node.koordinator.sh/colocation-strategy": '{"enable": "yes"}'}
        obj = {"metadata": {"name": "n1", "annotations": annotations}}
        return validate(Request(operation, "nodes", object=obj, old=old and obj), known(), gates())

    assert "node.koordinator.sh/colocation-strategy" in told("CREATE", None).warnings[0]
    assert told("UPDATE", {"metadata": {}}).warnings == ()


def test_a_misspelt_key_of_the_protocol_is_warned_of() -> None:
    answer = validated(pod(labels={"koordinator.sh/qosclass": "LS"}))
    assert answer.allowed
    (warning,) = answer.warnings
    assert "[koordinator.sh/qosclass]: koord does not know this key (did you mean koordinator.sh/qosClass?)" in warning


def test_misspelt_fields_and_keys_in_the_template_of_a_reservation_are_warned_of() -> None:
    template = {
        "metadata": {"labels": {"koordinator.sh/qosclass": "LS"}},
        "spec": {"containers": [{"name": "c", "resources": {"request": {"cpu": 1}}}]},
    }
    answer = mutated({"metadata": {"name": "r"}, "spec": {"template": template}}, known(), resource="reservations")
    assert answer.allowed
    assert answer.warnings == (
        "spec.template.spec.containers[0].resources.request: unknown field (did you mean requests?); it has no effect",
        "spec.template.metadata.labels[koordinator.sh/qosclass]: koord does not know this key"
        " (did you mean koordinator.sh/qosClass?); it has no effect",
    )
