"""Which class of storage a claim gets that names none."""

from __future__ import annotations

from typing import Any

from koord_minicluster.apiserver.admission.default_class import complete


def _class(name: str, made: str, *, default: bool = True) -> dict[str, Any]:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true" if default else "false"}
    return {"metadata": {"name": name, "creationTimestamp": made, "annotations": annotations}}


def _completed(claim: dict[str, Any], *classes: dict[str, Any]) -> Any:
    complete(claim, classes)
    return claim["spec"].get("storageClassName")


def test_the_newest_default_is_taken_and_of_equally_new_ones_the_first_by_name() -> None:
    old, new = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    classes = (_class("a", old), _class("c", new), _class("b", new), _class("d", "2027-01-01T00:00:00Z", default=False))
    assert _completed({"metadata": {}, "spec": {}}, *classes) == "b"


def test_a_claim_that_says_is_left_alone() -> None:
    made = _class("a", "2026-01-01T00:00:00Z")
    assert _completed({"metadata": {}, "spec": {"storageClassName": ""}}, made) == ""
    annotated = {"annotations": {"volume.beta.kubernetes.io/storage-class": "x"}}
    assert _completed({"metadata": annotated, "spec": {}}, made) is None
    assert _completed({"metadata": {}, "spec": {}}) is None
