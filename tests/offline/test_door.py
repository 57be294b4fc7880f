"""The door lets pods in as admission does: the short way and the long way say the same."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from koord.admission.request import Request
from koord.admission.review import admit
from koord.admission.typed import pod as typed_pod
from koord.api import kinds
from koord.api.configuration.features import ManagerGate, parse_gates
from koord.api.machinery.codec import convert
from koord.api.text.manifest import Manifest
from koord.offline.admit import known_of
from koord.offline.door import Door
from tests.admission.test_properties import pods, profiles

GATES = parse_gates(ManagerGate)


def manifest(kind: Any, data: dict[str, Any]) -> Manifest:
    return Manifest(kind, convert(kind.type, data), data, "test", 1)


@settings(max_examples=100, deadline=None)
@given(st.lists(pods(), min_size=1, max_size=3), profiles())
def test_pods_come_in_as_they_would_on_a_cluster(
    given_pods: list[dict[str, Any]], given_: list[dict[str, Any]]
) -> None:
    items = [manifest(kinds.CLUSTER_COLOCATION_PROFILES, each) for each in given_]
    items += [manifest(kinds.PODS, each) for each in given_pods]
    door, known = Door(items, GATES, 0), known_of(items)
    for obj in given_pods:
        pod, refusal = door.admitted(typed_pod(obj), obj)
        answer = admit(Request("CREATE", "pods", object=obj, namespace="shop", name="web"), known, GATES)
        assert refusal == answer.message
        if answer.allowed:
            found = typed_pod(answer.object or {})
            assert (pod.spec, pod.metadata.labels) == (found.spec, found.metadata.labels)
