"""What is promised to claims whose pods have just been placed."""

from __future__ import annotations

from koord.api.kubernetes.storage import PersistentVolumeClaim
from koord.api.machinery.codec import convert
from koord.scheduler.state.storage import BIND_COMPLETED_ANNOTATION, Storage


def claim(name: str, *, volume: str = "") -> PersistentVolumeClaim:
    notes = {BIND_COMPLETED_ANNOTATION: "yes"} if volume else {}
    meta = {"name": name, "namespace": "shop", "annotations": notes}
    return convert(PersistentVolumeClaim, {"metadata": meta, "spec": {"volumeName": volume}})


def storage(*names: str) -> Storage:
    found = Storage()
    for name in names:
        found.put(claim(name))
    return found


def test_a_promise_ends_when_its_claim_has_a_volume() -> None:
    found = storage("a", "b")
    found.promise("shop/p", "shop/a", "disk-1", "n")
    found.promise("shop/p", "shop/b", None, "n")
    found.put(claim("a", volume="disk-1"))
    assert (found.kept_for, found.selected_nodes) == ({}, {"shop/b": "n"})
    assert found.take_back("shop/p") == [("shop/b", None, "n")]
    assert found.selected_nodes == {}


def test_a_promise_ends_with_its_claim() -> None:
    found = storage("a")
    found.promise("shop/p", "shop/a", None, "n")
    found.remove(claim("a"))
    found.put(claim("a"))
    assert found.selected_nodes == {}
    assert found.take_back("shop/p") == []


def test_what_two_pods_were_promised_is_free_when_both_are_gone() -> None:
    found = storage("a")
    for pod in ("shop/p", "shop/q"):
        found.promise(pod, "shop/a", "disk-1", "n")
    found.take_back("shop/p")
    assert found.kept_for == {"disk-1": "shop/a"}
    found.take_back("shop/q")
    assert found.kept_for == {}
