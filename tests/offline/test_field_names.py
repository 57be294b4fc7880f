"""Fields that a kind does not have, in manifests that no server has seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from koord.api.machinery.faults import Fault
from koord.api.text.yaml import load, load_all
from koord.offline.field_names import misnamed_fields

EXAMPLES = Path(__file__).parents[2] / "examples"
POD = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, %s}]}}"
RESERVATION = "{apiVersion: scheduling.koordinator.sh/v1alpha1, kind: Reservation, metadata: {name: r}, spec: {%s}}"
NODE_METRIC = "{apiVersion: slo.koordinator.sh/v1alpha1, kind: NodeMetric, metadata: {name: n}, status: {%s}}"


def faults(text: str) -> list[Fault]:
    document = load(text, "f")
    assert isinstance(document, dict)
    return misnamed_fields(document)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (POD % "resorces: {}", "spec.containers[0].resorces: unknown field (did you mean resources?)"),
        (
            POD % "resources: {request: {}}",
            "spec.containers[0].resources.request: unknown field (did you mean requests?)",
        ),
        (RESERVATION % "allocateOnze: true", "spec.allocateOnze: unknown field (did you mean allocateOnce?)"),
        (
            RESERVATION % "template: {spec: {containers: [{name: c, resources: {request: {}}}]}}",
            "spec.template.spec.containers[0].resources.request: unknown field (did you mean requests?)",
        ),
        (
            "{apiVersion: scheduling.koordinator.sh/v1alpha1, kind: PodMigrationJob, metadata: {name: j}, spec: "
            "{reservationOptions: {template: {spec: {template: {spec: {containrs: []}}}}}}}",
            "spec.reservationOptions.template.spec.template.spec.containrs: unknown field (did you mean containers?)",
        ),
        (NODE_METRIC % "updatTime: x", "status.updatTime: unknown field (did you mean updateTime?)"),
        (
            "{apiVersion: v1, kind: Node, metadata: {lables: {}}}",
            "metadata.lables: unknown field (did you mean labels?)",
        ),
        ("{apiVersion: v1, kind: Secret, strinData: {}}", "strinData: unknown field (did you mean stringData?)"),
    ],
)
def test_a_misspelt_field_is_named_with_the_nearest_valid_one(text: str, said: str) -> None:
    assert [str(fault) for fault in faults(text)] == [said]


@pytest.mark.parametrize(
    "text",
    [
        POD % "resources: {requests: {example.com/anything: 1}}",
        RESERVATION % "template: {metadata: {annotations: {anything: x}}, spec: {nodeSelector: {any: x}}}",
        "{apiVersion: example.com/v1, kind: Elsewhere, spec: {anything: 1}}",
        "{apiVersion: v1, kind: ConfigMap, data: {anything: x}, metadata: {annotations: {any: x}}}",
    ],
)
def test_what_may_be_called_anything_is_no_fault(text: str) -> None:
    assert not faults(text)


def test_the_examples_have_no_unknown_fields() -> None:
    documents = [
        document
        for file in EXAMPLES.rglob("*.yaml")
        for document in load_all(file.read_text(), str(file))
        if isinstance(document, dict) and "apiVersion" in document and "kind" in document
    ]
    assert len(documents) > 50
    assert not [fault for document in documents for fault in misnamed_fields(document)]
