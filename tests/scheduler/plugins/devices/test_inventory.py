"""Devices that come, change, fall ill and disappear, and objects that cannot be understood whole."""

from __future__ import annotations

import json

import pytest

from koord.api.kinds import DEVICES
from koord.scheduler.framework.ask import Ask
from koord.scheduler.object_faults import faults_of
from koord.scheduler.plugins.devices.alignment import hints
from koord.scheduler.plugins.devices.inventory import faults, machine_of
from koord.scheduler.plugins.devices.judge import DeviceJudge
from koord.scheduler.plugins.numa.hints import Hint
from tests.scheduler.build import node, pod
from tests.scheduler.plugins.devices.machines import (
    ALLOCATED,
    HINT,
    K,
    Scene,
    asking,
    device,
    eight,
    fpga,
    gpu,
    held,
    rdma,
    share,
)


def test_without_a_device_object_nothing_is_chosen_and_nothing_refused() -> None:
    got = Scene().node("n").place(gpu=100)
    assert (got.node, got.granted) == ("n", None)


def test_a_node_that_offers_devices_of_which_nobody_has_told_yet_gives_none() -> None:
    offers = {"koordinator.sh/gpu-core": 200, "koordinator.sh/gpu-memory-ratio": 200}
    scene = Scene().node("n", more=offers)
    assert scene.place(gpu=100).why_not == "Insufficient gpu devices"
    assert scene.place(gpu_core=50, gpu_memory_ratio=50).why_not == "Insufficient gpu devices"
    assert scene.place(rdma=10).why_not == "Insufficient rdma devices"
    scene.devices.put_device(device("n", [gpu(0), gpu(1)]))
    assert scene.place(gpu=100).minors() == [0]


def test_a_node_that_offers_devices_no_longer_is_as_any_other() -> None:
    scene = Scene().node("n", more={"koordinator.sh/gpu-core": 200})
    assert scene.place(gpu=100).node is None
    scene.node("n")
    assert (scene.place(gpu=100).node, Scene().node("n").place(gpu=100).node) == ("n", "n")


def test_a_node_without_devices_of_the_type_is_turned_away_for_good() -> None:
    scene = Scene().node(devices=[fpga(0)])
    assert scene.place(gpu=100).why_not == "Insufficient gpu devices"
    assert scene.place(fpga=50).minors("fpga") == [0]


def test_a_device_that_falls_ill_keeps_its_pods_and_takes_no_more() -> None:
    scene = Scene().node(devices=[gpu(0), gpu(1)])
    assert scene.place(gpu=50).minors() == [0]
    scene.devices.put_device(device("n", [gpu(0, health=False), gpu(1)]))
    assert [scene.place(gpu=50).minors() for _ in range(3)] == [[1], [1], []]
    scene.devices.put_device(device("n", [gpu(0), gpu(1)]))
    assert [scene.place(gpu=50).minors() for _ in range(2)] == [[0], []]


def test_a_device_that_disappears_with_a_pod_on_it_is_not_given_twice_when_it_comes_back() -> None:
    scene = Scene().node(devices=[gpu(0), gpu(1)])
    assert scene.place(gpu=70).minors() == [0]
    scene.devices.put_device(device("n", [gpu(1)]))
    assert [scene.place(gpu=70).minors() for _ in range(2)] == [[1], []]
    scene.devices.put_device(device("n", [gpu(0), gpu(1)]))
    assert scene.place(gpu=70).minors() == []
    assert scene.place(gpu=30).minors() == [0]


def test_a_device_object_that_is_deleted_closes_its_devices_until_it_is_back() -> None:
    scene = Scene().node(devices=[gpu(0), rdma(0)])
    scene.place(gpu=70)
    there = device("n", [gpu(0), rdma(0)])
    scene.devices.remove_device(there)
    assert scene.place(gpu=10).why_not == "Insufficient gpu devices"
    assert scene.place(rdma=10).why_not == "Insufficient rdma devices"
    scene.devices.put_device(there)
    assert scene.place(gpu=31).node is None
    assert scene.place(gpu=30).minors() == [0]


def test_a_node_that_flaps_has_its_devices_again() -> None:
    scene = Scene().node(devices=[gpu(0)])
    scene.cluster.remove_node("n")
    scene.cluster.put_node(node("n"))
    assert [scene.place(gpu=60).minors() for _ in range(2)] == [[0], []]


def test_devices_with_the_same_minor_are_reported_and_not_used_and_the_others_are() -> None:
    twice = [gpu(0), gpu(1), gpu(1), {**gpu(2), "minor": None}]
    told = [str(fault) for fault in faults(device("n", twice))]
    assert told == [
        "spec.devices[1].minor: 1 is the minor of 2 gpu devices: none of them is used",
        "spec.devices[3].minor: is missing: the device is not used",
    ]
    scene = Scene().node(devices=twice)
    assert [scene.place(gpu=100).minors() for _ in range(2)] == [[0], []]


def test_an_amount_that_is_none_is_reported_and_its_device_is_not_used() -> None:
    wrong = [gpu(0, memory="much"), gpu(1)]
    (fault,) = faults(device("n", wrong))
    assert fault.path == "spec.devices[0].resources"
    assert Scene().node(devices=wrong).place(gpu=100).minors() == [1]


def test_what_nobody_can_ask_for_and_a_numa_node_that_none_is_are_reported() -> None:
    far = {"topology": {"socketID": 0, "nodeID": 9999, "pcieID": "a"}}
    told = [str(fault) for fault in faults(device("n", [{**gpu(0), **far}, {**gpu(1), "type": "GPU"}]))]
    assert told == [
        "spec.devices[0].topology.nodeID: must be from 0 to 63, or -1 if unknown, not 9999: it counts as unknown",
        "spec.devices[1].type: must be one of fpga, gpu, rdma, not 'GPU': no pod can request it",
    ]


def test_a_virtual_function_that_two_cards_claim_is_given_to_nobody() -> None:
    groups = [
        [{"labels": {}, "vfs": [{"minor": 0, "busID": "f0"}, {"minor": 1, "busID": f"f{card}"}]}] for card in (1, 2)
    ]
    cards = [{**rdma(i), "vfGroups": of} for i, of in enumerate(groups)]
    assert [str(fault) for fault in faults(device("n", cards))] == [
        f"spec.devices[{i}].vfGroups[0].vfs[0].busID: f0 is a virtual function of several devices: it is not used"
        for i in (0, 1)
    ]
    machine = machine_of(device("n", cards))
    assert [[vf.bus_id for vf in unit.vf_groups[0].vfs] for unit in machine.units["rdma"]] == [["f1"], ["f2"]]


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"gpu": [{"minor": "zero"}]}', '{"gpu": [{"minor": 0, "resources": {"a/b": "x"}}]}']
)
def test_a_pod_whose_allocation_cannot_be_read_counts_for_nothing_and_others_count(text: str) -> None:
    scene = Scene().node(devices=[gpu(0)])
    scene.put(pod("odd", on="n", annotations={ALLOCATED: text}))
    scene.busy(0, percent=60)
    assert scene.place(gpu=50).node is None
    assert scene.place(gpu=40).minors() == [0]


def test_a_pod_on_a_minor_that_does_not_exist_counts_nowhere() -> None:
    scene = Scene().node(devices=[gpu(0)])
    scene.busy(7)
    assert scene.place(gpu=100).minors() == [0]


def test_a_table_of_partitions_that_cannot_be_read_is_as_none() -> None:
    scene = Scene().node(devices=eight(), annotations={"scheduling.koordinator.sh/gpu-partitions": "{"})
    assert scene.place(nvidia=2).minors() == [0, 1]


@pytest.mark.parametrize("minors", [[0], [0, 0], [0, 1, 2], []])
def test_a_partition_that_has_not_as_many_gpus_as_it_is_listed_for_is_never_given(minors: list[int]) -> None:
    table = {"scheduling.koordinator.sh/gpu-partitions": json.dumps({"2": [{"minors": minors}]})}
    scene = Scene().node(devices=eight(), annotations=table)
    assert len(scene.place(nvidia=2).minors()) == 2
    (fault,) = faults_of(DEVICES, device("n", eight(), annotations=table))
    assert "[2][0].minors: must be 2 different GPUs" in fault


@pytest.mark.parametrize("amount", ["1e30", "9223372036854775808"])
def test_a_pod_that_says_to_have_more_than_can_be_counted_has_all_of_its_device(amount: str) -> None:
    scene = Scene().node(devices=[gpu(0), gpu(1)])
    scene.holds(gpu={0: {"gpu-core": amount, "gpu-memory-ratio": amount}})
    assert scene.place(gpu=1).minors() == [1]


def test_selectors_choose_devices_by_their_labels() -> None:
    labelled = [gpu(0, labels={"speed": "slow"}), gpu(1, labels={"speed": "fast"})]
    scene = Scene().node(devices=labelled)
    fast = {HINT: '{"gpu": {"selector": {"matchLabels": {"speed": "fast"}}}}'}
    assert [scene.place(gpu=60, annotations=fast).minors() for _ in range(2)] == [[1], []]
    assert scene.place(gpu=60).minors() == [0]


def test_virtual_functions_are_given_out_one_by_one_the_lowest_bus_first() -> None:
    groups = [
        {
            "labels": {"kind": "fast"},
            "vfs": [{"minor": 1, "busID": "0000:1f:00.3"}, {"minor": 0, "busID": "0000:1f:00.2"}],
        },
        {"labels": {"kind": "slow"}, "vfs": [{"minor": 2, "busID": "0000:1f:00.1"}]},
    ]
    scene = Scene().node(devices=[rdma(0, vfGroups=groups), rdma(1)])
    wanted = {HINT: '{"rdma": {"vfSelector": {"matchLabels": {"kind": "fast"}}}}'}
    got = [scene.place(rdma=1, annotations=wanted) for _ in range(3)]
    vfs = [each.granted.of("rdma")[0].vfs[0].bus_id for each in got if each.granted]
    assert vfs == ["0000:1f:00.2", "0000:1f:00.3"]
    assert got[2].why_not == "Insufficient rdma devices"
    anything = {HINT: '{"rdma": {"vfSelector": {}}}'}
    last = scene.place(rdma=1, annotations=anything)
    assert last.granted is not None
    assert last.granted.of("rdma")[0].vfs[0].bus_id == "0000:1f:00.1"


def test_a_node_without_virtual_functions_cannot_give_any() -> None:
    scene = Scene().node(devices=[rdma(0)])
    found = scene.place(rdma=1, annotations={HINT: '{"rdma": {"vfSelector": {}}}'})
    assert found.why_not == "Insufficient rdma VirtualFunctions"


def test_a_pod_with_a_switch_to_itself_shares_it_with_nobody_before_or_after() -> None:
    alone = {HINT: '{"rdma": {"exclusivePolicy": "PCIeLevel"}}'}
    scene = Scene().node(devices=[rdma(0, pcie=0), rdma(1, pcie=0), rdma(2, pcie=1), rdma(3, pcie=1)])
    assert scene.place(rdma=10).minors("rdma") == [0]
    assert scene.place(rdma=10, annotations=alone).minors("rdma") == [2]
    assert scene.place(rdma=10, annotations=alone).minors("rdma") == []
    assert [scene.place(rdma=60).minors("rdma") for _ in range(3)] == [[1], [0], []]


def test_a_pod_with_devices_to_itself_gets_unused_ones() -> None:
    alone = {HINT: '{"gpu": {"exclusivePolicy": "DeviceLevel"}}'}
    scene = Scene(scoringStrategy={"type": "MostAllocated"}).node(devices=[gpu(0), gpu(1)])
    scene.busy(0, percent=10)
    assert scene.place(gpu=50, annotations=alone).minors() == [1]
    assert scene.place(gpu=50, annotations=alone).minors() == []


def test_shares_need_a_node_that_isolates_them_as_the_pod_says() -> None:
    scene = Scene().node("bare", devices=[gpu(0)])
    scene.node("hami", devices=[gpu(0)], labels={"koordinator.sh/gpu-isolation-provider": "HAMi-core"})
    label = {"koordinator.sh/gpu-isolation-provider": "HAMi-core"}
    requests = {"koordinator.sh/gpu-core": 50, "koordinator.sh/gpu-memory-ratio": 50}
    got = [scene.ask(Ask(pod(f"p{i}", labels=label, requests=requests))) for i in range(3)]
    assert [each.node for each in got] == ["hami", "hami", None]
    assert "node(s) do not isolate pods on shared GPUs by HAMi-core" in got[2].why_not


def test_models_that_cannot_be_shared_take_whole_requests_alone() -> None:
    listed = [{"vendor": "huawei", "model": "A310"}]
    labels = {"node.koordinator.sh/gpu-vendor": "huawei", "node.koordinator.sh/gpu-model": "A310"}
    scene = Scene(gpuShareUnsupportedModels=listed).node(devices=[gpu(0)], labels=labels)
    assert scene.place(gpu=50).why_not == "node(s) have GPUs of a model that cannot be shared"
    assert scene.place(gpu=100).minors() == [0]


def test_memory_in_bytes_counts_by_the_cards_own_size() -> None:
    scene = Scene().node(devices=[gpu(0, memory="16Gi"), gpu(1, memory="80Gi")])
    assert scene.place(gpu_memory="20Gi").minors() == [1]
    assert scene.place(gpu_memory="61Gi").minors() == []
    assert scene.place(gpu_memory="60Gi").minors() == [1]
    assert share(50)["gpu-memory-ratio"] == 50


def test_more_devices_than_a_node_may_have_are_reported_and_not_used() -> None:
    many = [gpu(i) for i in range(66)]
    told = [str(fault) for fault in faults(device("n", many))]
    assert told == [
        f"spec.devices[{i}].minor: {i} is beyond the 64 gpu devices that a node may have: it is not used"
        for i in (64, 65)
    ]
    scene = Scene().node(devices=many)
    assert len(scene.place(gpu=6400).minors()) == 64
    assert scene.place(gpu=100).minors() == []


@pytest.mark.parametrize("numa", [-1, -7, 2**31 - 1])
def test_a_numa_node_that_no_machine_has_counts_as_unknown(numa: int) -> None:
    scene = Scene().node(devices=[gpu(0, pcie=0, numa=numa), gpu(1, pcie=0, numa=0)])
    ask = Ask(pod("p", requests={"koordinator.sh/gpu": 200}))
    judge = scene.engine.class_of(ask).parts[0].judge
    assert isinstance(judge, DeviceJudge)
    assert judge.exact is not None
    room = judge.exact.room(ask, 0)
    assert room is not None
    assert hints(room, judge.wanted, judge.exact.score_in(room)) == {"gpu": (Hint(0b1, True, 500),)}
    assert scene.place(gpu=200).minors() == [0, 1]


def test_a_machine_of_many_numa_nodes_offers_each_and_all_of_them() -> None:
    scene = Scene().node(devices=[gpu(i, pcie=i, numa=i) for i in range(20)])
    ask = Ask(pod("p", requests={"koordinator.sh/gpu": 100}))
    judge = scene.engine.class_of(ask).parts[0].judge
    assert isinstance(judge, DeviceJudge)
    assert judge.exact is not None
    room = judge.exact.room(ask, 0)
    assert room is not None
    assert len(hints(room, judge.wanted, judge.exact.score_in(room))["gpu"] or ()) == 21


def test_a_minor_below_0_is_told_and_its_device_not_used() -> None:
    told = device("n", [gpu(-5), gpu(0)])
    (fault,) = faults(told)
    assert str(fault) == "spec.devices[0].minor: -5 must be 0 or more: the device is not used"
    scene = Scene().node(devices=[gpu(-5), gpu(0)])
    assert [scene.place(gpu=100).minors() for _ in range(2)] == [[0], []]


def test_an_amount_below_0_is_told_and_its_device_not_used() -> None:
    less = {"koordinator.sh/gpu-core": "-100", "koordinator.sh/gpu-memory-ratio": "100"}
    told = [{**gpu(0), "resources": less}, gpu(1)]
    (fault,) = faults(device("n", told))
    where = "spec.devices[0].resources[koordinator.sh/gpu-core]"
    assert str(fault) == f"{where}: -100 must be 0 or more: the device is not used"
    scene = Scene().node(devices=told)
    assert [scene.place(gpu_core=50, gpu_memory_ratio=50).minors() for _ in range(3)] == [[1], [1], []]


@pytest.mark.parametrize(
    ("requests", "counts"),
    [({}, False), ({"cpu": "1"}, False), (asking(rdma=1), False), (asking(gpu=1), True), ({f"{K}/gpu": "7"}, True)],
)
def test_devices_that_a_pod_did_not_ask_for_are_not_taken_by_what_it_says(
    requests: dict[str, str], counts: bool
) -> None:
    scene = Scene().node(devices=[gpu(0)])
    scene.put(pod("says", on="n", requests=requests, annotations=held(gpu={0: share(100)})))
    assert (scene.place(gpu=100).minors() == []) == counts
