"""Kubelet's answers with what the scheduler gave: nothing is lost, nothing is named twice."""

from __future__ import annotations

import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from koord.agent.pod_resources import given_to_pods
from koord.api.machinery.protobuf import MessageError, message
from koord.api.protocol.pod_resources import Given, GivenDevices
from koord.runtime.pod_resources.merge import with_given
from tests.agent import states
from tests.runtime.pod_resources.messages import OF_A_LATER_VERSION, answer, container, pod, read

GPU = "nvidia.com/gpu"
TRAIN = {"ml/train": Given((2, 3), (GivenDevices(GPU, ("GPU-a", "GPU-b")),))}


def test_the_first_container_gets_what_the_scheduler_gave_and_the_pod_its_cpus() -> None:
    told = answer(
        pod("ml", "train", container("main"), container("log")), pod("ml", "other", container("main", cpus=(7,)))
    )
    found = read(with_given(told, TRAIN))
    assert found["ml/train"] == {
        "cpus": [2, 3],
        "containers": {
            "main": {"cpus": [2, 3], "devices": {GPU: ["GPU-a", "GPU-b"]}},
            "log": {"cpus": [], "devices": {}},
        },
    }
    assert found["ml/other"]["containers"]["main"]["cpus"] == [7]


def test_a_device_that_kubelet_names_is_not_named_twice() -> None:
    told = answer(pod("ml", "train", container("main", {GPU: ["GPU-a"], "x.com/nic": ["n1"]})))
    devices = read(with_given(told, TRAIN))["ml/train"]["containers"]["main"]["devices"]
    assert devices == {GPU: ["GPU-a", "GPU-b"], "x.com/nic": ["n1"]}


def test_cpus_of_the_scheduler_take_the_place_of_those_that_kubelet_chose() -> None:
    told = answer(pod("ml", "train", container("main", cpus=(0, 1)), container("log", cpus=(4,))))
    containers = read(with_given(told, TRAIN))["ml/train"]["containers"]
    assert (containers["main"]["cpus"], containers["log"]["cpus"]) == ([2, 3], [])


def test_fields_of_other_versions_stay() -> None:
    changed = with_given(answer(pod("ml", "train", container("main"))), TRAIN)
    assert changed.count(OF_A_LATER_VERSION) == 3


def test_adding_twice_is_adding_once() -> None:
    once = with_given(answer(pod("ml", "train", container("main"), container("log"))), TRAIN)
    assert read(with_given(once, TRAIN)) == read(once)


@settings(max_examples=40)
@drawn(st.lists(st.tuples(st.sampled_from("ab"), st.lists(st.sampled_from("xyz"), max_size=3)), max_size=4))
def test_what_concerns_nobody_passes_byte_for_byte(pods: list[tuple[str, list[str]]]) -> None:
    told = answer(*(pod("ns", name, *(container(each, {GPU: ["1"]}, (1,)) for each in names)) for name, names in pods))
    assert with_given(told, TRAIN) == told


@pytest.mark.parametrize("bad", [b"\x0a", b"\x0a\xff", b"\x0b", message(1, b"\x0a\x05a")])
def test_what_is_no_message_is_said_to_be_none(bad: bytes) -> None:
    with pytest.raises(MessageError):
        with_given(bad, TRAIN)


def test_the_agent_tells_cpus_and_devices_of_annotations_and_passes_over_what_makes_no_sense() -> None:
    good = states.pod(
        "train",
        "LSR",
        annotations={
            "scheduling.koordinator.sh/resource-status": '{"cpuset": "2-3"}',
            "scheduling.koordinator.sh/device-allocated": (
                '{"gpu": [{"minor": 0, "id": "GPU-a", "resources": {}}, {"minor": 5, "resources": {}}],'
                ' "rdma": [{"minor": 0, "id": "0000:1f", "resources": {},'
                ' "extension": {"vfs": [{"busID": "0000:1f:00.2"}]}}]}'
            ),
        },
    )
    bad = states.pod("bad", "LS", annotations={"scheduling.koordinator.sh/device-allocated": "{", "x": "y"})
    found = given_to_pods(states.node(good, bad))
    assert found.pods == {
        "ns/train": Given(
            (2, 3), (GivenDevices(GPU, ("GPU-a",)), GivenDevices("koordinator.sh/rdma", ("0000:1f:00.2",)))
        )
    }
