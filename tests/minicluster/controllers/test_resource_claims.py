"""Claims of devices: made for pods, and released when no pod uses them."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.kubernetes.dynamic_resources import ResourceClaim, ResourceClaimTemplate
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.workloads.pod_claims import generated_base
from koord_minicluster.controllers.actions import Create, Delete, Patch, Tell
from koord_minicluster.controllers.resource_claims import creation, made_for, tidied, uses, wants_claims

FINALIZER = "resource.kubernetes.io/delete-protection"
SPEC = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}


def pod(name: str = "p", *, phase: str = "Pending", node: str = "", deleted: bool = False) -> Pod:
    meta = {"name": name, "namespace": "shop", "uid": f"{name}-uid"}
    meta |= {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {}
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    spec = {"resourceClaims": claims, "nodeName": node}
    return convert(Pod, {"metadata": meta, "spec": spec, "status": {"phase": phase}})


def claim(
    *users: str, allocated: bool = True, finalizers: tuple[str, ...] = (FINALIZER,), **meta: Any
) -> ResourceClaim:
    consumers = [{"resource": "pods", "name": name, "uid": f"{name}-uid"} for name in users]
    status = {"reservedFor": consumers, **({"allocation": {}} if allocated else {})}
    metadata = {"name": "c", "namespace": "shop", "uid": "c-uid", "resourceVersion": "7", "finalizers": finalizers}
    return convert(ResourceClaim, {"metadata": metadata | meta, "spec": SPEC, "status": status})


def gone(name: str) -> None:
    """No pod is there."""


def test_a_claim_is_made_for_a_pod_as_its_template_says() -> None:
    template = convert(
        ResourceClaimTemplate,
        {"metadata": {"name": "one-gpu"}, "spec": {"metadata": {"labels": {"a": "b"}}, "spec": SPEC}},
    )
    (entry,) = pod().spec.resource_claims
    made = creation(pod(), entry, template)
    assert isinstance(made, Create)
    meta = made.body["metadata"]
    assert (meta["generateName"], meta["labels"]) == ("p-gpu-", {"a": "b"})
    assert meta["annotations"] == {"resource.kubernetes.io/pod-claim-name": "gpu"}
    assert meta["ownerReferences"][0]["uid"] == "p-uid"
    assert made.body["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpu"
    named = convert(ResourceClaim, {"metadata": {**meta, "name": "p-gpu-x"}})
    assert made_for(pod(), entry, [named]) is named
    missing = creation(pod(), entry, None)
    assert isinstance(missing, Tell)
    assert "resource claim template shop/one-gpu not found" in missing.note


@pytest.mark.parametrize(
    ("given", "wants"),
    [(pod(), True), (pod(phase="Succeeded"), False), (pod(deleted=True), False)],
)
def test_no_claim_is_made_for_a_pod_that_ends(given: Pod, wants: bool) -> None:
    assert wants_claims(given) is wants


def test_generated_names_leave_room_for_both_parts() -> None:
    assert generated_base("web", "gpu") == "web-gpu-"
    for one, other in (("p" * 80, "gpu"), ("pod", "g" * 80), ("p" * 80, "g" * 80)):
        base = generated_base(one, other)
        assert len(base) <= 57
        assert base.startswith("p")
        assert "-g" in base


@pytest.mark.parametrize(
    ("given", "still"),
    [
        (None, False),
        (pod("other"), False),
        (pod(), True),
        (pod(phase="Failed", node="n1"), False),
        (pod(node="n1", deleted=True), True),
        (pod(deleted=True), False),
    ],
)
def test_which_pods_still_use_their_claims(given: Pod | None, still: bool) -> None:
    assert uses(given, "p-uid") is still


def test_the_last_user_that_goes_frees_the_devices() -> None:
    pods = {"a": pod("a", node="n1")}
    (kept,) = tidied(claim("a", "b"), lambda name: pods.get(name), None)
    assert isinstance(kept, Patch)
    assert kept.body["status"] == {"reservedFor": [{"resource": "pods", "name": "a", "uid": "a-uid"}]}
    freed, released = tidied(claim("a", "b"), gone, None)
    assert isinstance(freed, Patch)
    assert freed.body["status"] == {"reservedFor": None, "allocation": None, "devices": None}
    assert isinstance(released, Patch)
    assert released.body["metadata"]["$deleteFromPrimitiveList/finalizers"] == [FINALIZER]


def test_devices_that_no_pod_used_yet_stay_with_their_claim() -> None:
    assert tidied(claim(), gone, None) == []
    # Between the finalizer and the allocation, a scheduler is at work.
    assert tidied(claim(allocated=False), gone, None) == []


def test_a_claim_that_is_deleted_goes_once_no_pod_uses_it() -> None:
    leaving: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert tidied(claim("a", **leaving), lambda name: pod(name, node="n1"), None) == []
    assert len(tidied(claim(**leaving), gone, None)) == 2
    assert len(tidied(claim(allocated=False, **leaving), gone, None)) == 1


def test_a_claim_of_a_template_goes_when_its_pod_has_finished() -> None:
    annotated: dict[str, Any] = {"annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"}}
    finished = pod("a", phase="Succeeded", node="n1")
    actions = tidied(claim("a", **annotated), lambda name: finished, finished)
    assert isinstance(actions[-1], Delete)
    assert not any(isinstance(action, Delete) for action in tidied(claim("a"), lambda name: finished, finished))
