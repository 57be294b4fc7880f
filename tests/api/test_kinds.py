from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from koord.api import kinds
from koord.api.kinds import ALL, NODES, PODS, RESERVATIONS, Kind, find
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.codec import convert
from koord.api.machinery.struct import Struct


@pytest.mark.parametrize("kind", ALL, ids=str)
def test_every_kind_has_a_type_of_its_name_with_metadata(kind: Kind[Any]) -> None:
    assert issubclass(kind.type, Struct)
    assert kind.type.__name__ == kind.kind
    assert kind.type.__annotations__["metadata"] in ("ObjectMeta", ObjectMeta)
    assert kind.plural == kind.plural.lower()


def test_every_constant_is_in_the_one_list() -> None:
    constants = [value for value in vars(kinds).values() if isinstance(value, Kind)]
    assert len(constants) == len(ALL)
    assert set(constants) == set(ALL)


def test_kinds_are_found_by_what_manifests_say() -> None:
    assert find("v1", "Pod") is PODS
    assert find("scheduling.koordinator.sh/v1alpha1", "Reservation") is RESERVATIONS
    assert find("v1", "Reservation") is None
    assert find("v2", "Pod") is None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (PODS.path(), "/api/v1/pods"),
        (PODS.path(namespace="shop"), "/api/v1/namespaces/shop/pods"),
        (PODS.path("web", namespace="shop"), "/api/v1/namespaces/shop/pods/web"),
        (PODS.path("web", namespace="shop", subresource="eviction"), "/api/v1/namespaces/shop/pods/web/eviction"),
        (NODES.path("n1", namespace="ignored"), "/api/v1/nodes/n1"),
        (RESERVATIONS.path("a/b"), "/apis/scheduling.koordinator.sh/v1alpha1/reservations/a%2Fb"),
    ],
)
def test_paths(path: str, expected: str) -> None:
    assert path == expected


def test_names_as_people_and_rbac_have_them() -> None:
    assert PODS.resource == "pods"
    assert RESERVATIONS.resource == "reservations.scheduling.koordinator.sh"
    assert (PODS.api_version, RESERVATIONS.api_version) == ("v1", "scheduling.koordinator.sh/v1alpha1")
    assert str(PODS) == "Pod"


def test_a_manifest_can_be_sent_and_read_back() -> None:
    node = convert(NODES.type, {"metadata": {"name": "n1"}, "spec": {"unschedulable": True}})
    manifest = NODES.manifest(node)
    assert manifest == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "spec": {"unschedulable": True},
    }
    assert convert(NODES.type, manifest) == node


def test_naming_a_kind_imports_no_types() -> None:
    script = "import sys; from koord.api.kinds import PODS; print(*(m for m in sys.modules if m.startswith('koord.')))"
    modules = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert sorted(modules) == ["koord.api", "koord.api.kinds", "koord.api.machinery", "koord.api.machinery.struct"]
