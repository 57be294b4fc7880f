"""How a gang is put together from what its pods or its PodGroup say."""

from __future__ import annotations

import pytest

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.protocol.annotations import AnnotationError
from koord.api.protocol.annotations.gang import (
    GangDefaults,
    GatherRule,
    NetworkTopologySpec,
    gang_id,
    gang_name,
    gang_of_pod,
    gang_of_pod_group,
    has_pod_group,
)

GROUP = "pod-group.scheduling.sigs.k8s.io"
GROUP_NAME = "pod-group.scheduling.sigs.k8s.io/name"
GROUP_MIN = "pod-group.scheduling.sigs.k8s.io/min-available"
GANG = "gang.scheduling.koordinator.sh/"


def pod(labels: dict[str, str] | None = None, **gang: str) -> ObjectMeta:
    annotations = {GANG + key.replace("_", "-"): value for key, value in gang.items()}
    return ObjectMeta(name="worker-0", namespace="ml", labels=labels or {}, annotations=annotations)


@pytest.mark.parametrize(
    ("labels", "annotation", "name"),
    [
        ({GROUP: "a", GROUP_NAME: "b"}, "c", "a"),
        ({GROUP_NAME: "b"}, "c", "b"),
        ({GROUP: "", GROUP_NAME: "b"}, "c", "b"),
        ({}, "c", "c"),
        ({GROUP: "", GROUP_NAME: ""}, "", ""),
    ],
)
def test_the_first_place_that_names_a_gang_counts(labels: dict[str, str], annotation: str, name: str) -> None:
    meta = pod(labels, name=annotation)
    assert gang_name(meta) == name
    assert gang_id(meta) == (f"ml/{name}" if name else "")
    assert has_pod_group(meta) == (name == "a")


def test_a_gang_of_pods_has_the_protocols_defaults() -> None:
    gang = gang_of_pod(pod(name="train", min_available="3"))
    assert (gang.id, gang.min_available, gang.total_number) == ("ml/train", 3, 3)
    assert (gang.mode, gang.match_policy, gang.waiting_time_s) == ("Strict", "once-satisfied", 600)
    assert (gang.groups, gang.group_id, gang.network_topology) == (("ml/train",), "ml/train", None)


def test_a_gang_of_pods_has_what_it_says() -> None:
    gang = gang_of_pod(
        pod(
            name="train",
            min_available="3",
            total_number="5",
            mode="NonStrict",
            match_policy="only-waiting",
            waiting_time="90s",
            groups='["ml/train","data/load"]',
            network_topology_spec='{"gatherStrategy":[{"layer":"spine","strategy":"PreferGather"}]}',
        )
    )
    assert (gang.min_available, gang.total_number, gang.mode) == (3, 5, "NonStrict")
    assert (gang.match_policy, gang.waiting_time_s) == ("only-waiting", 90)
    assert gang.group_id == "data/load,ml/train"
    assert gang.network_topology == NetworkTopologySpec((GatherRule(layer="spine", strategy="PreferGather"),))


def test_the_label_for_the_minimum_beats_the_annotation() -> None:
    assert gang_of_pod(pod({GROUP_NAME: "a", GROUP_MIN: "2"}, min_available="9")).min_available == 2


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("total_number", "2"),
        ("total_number", "x"),
        ("mode", "strict"),
        ("match_policy", "sometimes"),
        ("waiting_time", "0s"),
        ("waiting_time", "-5s"),
        ("waiting_time", "5"),
        ("groups", "a,b"),
        ("network_topology_spec", "spine"),
    ],
)
def test_an_illegal_setting_counts_as_unset(setting: str, text: str) -> None:
    said = {"name": "g", "min_available": "3"}
    assert gang_of_pod(pod(None, **said, **{setting: text})) == gang_of_pod(pod(None, **said))


@pytest.mark.parametrize(
    ("meta", "says"),
    [
        (pod(name="g"), "Pod ml/worker-0: annotation gang.scheduling.koordinator.sh/min-available: is required"),
        (
            pod(name="g", min_available="x"),
            "annotation gang.scheduling.koordinator.sh/min-available: must be an",
        ),
        (pod({GROUP_NAME: "g", GROUP_MIN: "x"}), "label pod-group.scheduling.sigs.k8s.io/min-available: must be an"),
    ],
)
def test_without_a_proper_minimum_there_is_no_gang(meta: ObjectMeta, says: str) -> None:
    with pytest.raises(AnnotationError) as caught:
        gang_of_pod(meta)
    assert says in str(caught.value)


def test_the_schedulers_own_defaults_count_where_the_gang_is_silent() -> None:
    defaults = GangDefaults(match_policy="only-waiting", waiting_time_s=30)
    gang = gang_of_pod(pod(name="g", min_available="1"), defaults)
    assert (gang.match_policy, gang.waiting_time_s) == ("only-waiting", 30)


@pytest.mark.parametrize(("timeout_s", "waits_s"), [(None, 600), (0, 600), (-1, 600), (45, 45)])
def test_a_pod_group_waits_as_its_spec_says(timeout_s: int | None, waits_s: float) -> None:
    group = ObjectMeta(name="train", namespace="ml", annotations={GANG + "total-number": "8"})
    gang = gang_of_pod_group(group, 4, timeout_s)
    assert (gang.id, gang.min_available, gang.total_number, gang.waiting_time_s) == ("ml/train", 4, 8, waits_s)


def test_the_alias_of_the_match_policy_is_read() -> None:
    alias = {GROUP + "/match-policy": "waiting-and-running"}
    group = ObjectMeta(name="train", namespace="ml", annotations=alias)
    assert gang_of_pod_group(group, 1, None).match_policy == "waiting-and-running"
