"""Admission refuses an unreadable label or annotation exactly if the scheduler would not place a pod that has it."""

from __future__ import annotations

from typing import Any, Final

import pytest

from koord.admission.readable import PLACES_BY
from koord.api.kinds import DEVICES
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.codec import convert
from koord.api.protocol import names
from koord.api.protocol.annotations import ALL
from koord.api.protocol.annotations.value import Label, Value
from tests.offline.test_plan import node, plan_of, pod

GPU: Final = {"koordinator.sh/gpu-core": "10", "koordinator.sh/gpu-memory-ratio": "10"}
CARD: Final = {"type": "gpu", "minor": 0, "health": True, "id": "g0", "resources": dict.fromkeys(GPU, "100")}
GANG: Final = {str(names.ANNOTATION_GANG_NAME): "g", str(names.ANNOTATION_GANG_MIN_AVAILABLE): "1"}
WRITTEN_FOR_PODS: Final = {names.ANNOTATION_EXTENDED_RESOURCE_SPEC}
"""Admission writes it, and has its own rule for it."""


def _unreadable(value: Value[Any, Any]) -> dict[str, Any] | None:
    """Metadata with a text that the value cannot be; None where it can be any text."""
    field = "labels" if isinstance(value, Label) else "annotations"
    for text in ("[", "{", "-x"):
        own = {field: {str(value.key): text}}
        if value.check(convert(ObjectMeta, own)):
            return own
    return None


OF_PODS: Final = [
    value for value in ALL if "Pod" in value.on and value.key not in WRITTEN_FOR_PODS and _unreadable(value)
]


@pytest.mark.parametrize("value", OF_PODS, ids=lambda value: str(value.key))
def test_only_what_is_refused_would_keep_a_pod_from_a_node(value: Value[Any, Any]) -> None:
    own = _unreadable(value) or {}
    # With a uid it is in a cluster already, so admission is not asked.
    metadata = {"uid": "p", "labels": own.get("labels", {}), "annotations": {**GANG, **own.get("annotations", {})}}
    if value.key == names.LABEL_POD_GROUP_MIN_AVAILABLE:
        metadata["annotations"] = {}
        metadata["labels"] = {**metadata["labels"], str(names.LABEL_POD_GROUP_NAME): "g"}
    asking = pod("p", metadata=metadata)
    asking["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1", **GPU}, "limits": GPU}
    offering = node("n1")
    offering["status"]["allocatable"] |= dict.fromkeys(GPU, "100")
    cards = {
        "apiVersion": DEVICES.api_version,
        "kind": "Device",
        "metadata": {"name": "n1"},
        "spec": {"devices": [CARD]},
    }
    placed = plan_of(offering, cards, asking).pods["shop/p"]
    assert (placed.outcome != "scheduled") is (value in PLACES_BY), placed.reason
