"""What profiles give to pods that wait for a node already."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.machinery.codec import convert
from koord.api.protocol.crd.colocation_profile import ClusterColocationProfile
from koord.manager.waiting_pods import WaitingPod, change, managed

ASKS = {"config.koordinator.sh/controller-managed": "true"}


def profile(name: str = "p", labels: dict[str, str] = ASKS, **spec: Any) -> ClusterColocationProfile:
    given = {"selector": {"matchLabels": {"app": "job"}}, **spec}
    return convert(ClusterColocationProfile, {"metadata": {"name": name, "labels": labels}, "spec": given})


def pod(**labels: str) -> WaitingPod:
    return WaitingPod("shop", "a", "u1", "1", {"app": "job", **labels}, {"note": "y"})


def given(*profiles: ClusterColocationProfile, of: WaitingPod | None = None) -> Any:
    found = change(of or pod(), {"pool": "a"}, managed(profiles))
    return None if found is None else {k: v for k, v in found["metadata"].items() if k != "uid"}


def test_labels_and_annotations_are_given_and_nothing_else() -> None:
    assert given(
        profile(
            labels={**ASKS},
            qosClass="BE",
            koordinatorPriority=3,
            annotations={"k": "v"},
            schedulerName="other",
            priorityClassName="koord-batch",
            patch={"spec": {"dnsPolicy": "None"}, "metadata": {"labels": {"by": "patch"}}},
        )
    ) == {
        "labels": {"koordinator.sh/qosClass": "BE", "koordinator.sh/priority": "3", "by": "patch"},
        "annotations": {"k": "v"},
    }


def test_a_pod_that_has_it_is_left_alone() -> None:
    giving = profile(labels={**ASKS})
    assert given(profile_with({"team": "x"}), of=pod(team="x")) is None
    assert given(giving) is None


def profile_with(labels: dict[str, str], name: str = "p") -> ClusterColocationProfile:
    spec = {"selector": {"matchLabels": {"app": "job"}}, "labels": labels}
    return convert(ClusterColocationProfile, {"metadata": {"name": name, "labels": ASKS}, "spec": spec})


def test_of_two_that_say_different_things_the_later_holds_for_good() -> None:
    both = (profile_with({"team": "z"}, "b"), profile_with({"team": "x"}, "a"))
    assert given(*both) == {"labels": {"team": "z"}}
    assert given(*both, of=pod(team="z")) is None


@pytest.mark.parametrize(
    ("labels", "spec"),
    [
        ({}, {}),
        ({"config.koordinator.sh/controller-managed": "false"}, {}),
        (ASKS, {"selector": None}),
        (ASKS, {"selector": {"matchLabels": {"app": "web"}}}),
        (ASKS, {"namespaceSelector": {"matchLabels": {"pool": "b"}}}),
        (ASKS, {"selector": {"matchExpressions": [{"key": "app", "operator": "In"}]}}),
        (ASKS, {"probability": 0}),
    ],
    ids=["does not ask", "asks not to", "no selector", "others", "other namespaces", "nonsense", "no chance"],
)
def test_who_does_not_ask_or_select_gives_nothing(labels: dict[str, str], spec: dict[str, Any]) -> None:
    whole = {"selector": {"matchLabels": {"app": "job"}}, "annotations": {"k": "v"}, **spec}
    made = convert(ClusterColocationProfile, {"metadata": {"name": "p", "labels": labels}, "spec": whole})
    assert given(made) is None


def test_a_pod_in_a_namespace_that_nobody_knows_is_left_alone() -> None:
    assert change(pod(), None, managed([profile(annotations={"k": "v"})])) is None
