"""The door lets pods in as admission does: the short way and the long way say the same."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from koord.admission.typed import pod as typed_pod
from koord.api import kinds
from koord.api.configuration.features import ManagerGate, parse_gates
from koord.api.machinery.codec import convert
from koord.api.text.manifest import Manifest, Manifests
from koord.offline.admit import admit_all
from koord.offline.plan_admission import PlanAdmission
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
    items += [manifest(kinds.PODS, given_pod) for given_pod in given_pods]
    door = PlanAdmission(items, GATES, 0)
    expected = admit_all(Manifests(tuple(items), (), (), {}), GATES)[len(given_) :]
    for obj, answer in zip(given_pods, expected, strict=True):
        pod, refusal = door.admitted(typed_pod(obj), obj)
        assert refusal == answer.message.removeprefix("the API server would refuse it: ")
        if answer.allowed:
            found = typed_pod(answer.object)
            assert (pod.spec, pod.metadata.labels) == (found.spec, found.metadata.labels)
