"""What a Device says of a node's GPUs and cards."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from koord.agent.devices.device_infos import device_annotations, device_infos, device_labels
from koord.agent.devices.inventory import Inventory, RdmaCard, VendorDevice
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.protocol.annotations.device import GPU_PARTITIONS, GPUPartition
from koord.api.text.naming import label_value_fault
from tests.agent.devices.machines import AT, GIB, bus, composed, nowhere, recorded, two_sockets

LATER = "2026-11-16T09:00:00Z"


def test_a_whole_gpu_offers_all_of_itself() -> None:
    (gpu,) = device_infos(recorded("h200"), nowhere, (), AT)
    assert (gpu.type, gpu.minor, gpu.health) == ("gpu", 0, True)
    assert gpu.resources == {
        "koordinator.sh/gpu-core": "100",
        "koordinator.sh/gpu-memory": "143771Mi",
        "koordinator.sh/gpu-memory-ratio": "100",
    }
    assert gpu.topology is None, "where it is attached was not told"
    assert device_labels(recorded("h200")) == {
        "node.koordinator.sh/gpu-vendor": "nvidia",
        "node.koordinator.sh/gpu-model": "H200",
        "node.koordinator.sh/gpu-driver-version": "580.159.04",
    }


def test_of_a_gpu_that_is_split_only_its_instances_are_devices() -> None:
    found = device_infos(recorded("h200-mig"), nowhere, (), AT)
    assert [
        (device_info.labels["mig-profile"], device_info.resources["koordinator.sh/gpu-memory"]) for device_info in found
    ] == [
        ("2g.35gb", "33280Mi"),
        ("1g.18gb", "16Gi"),
    ]
    assert all(device_info.id.startswith("MIG-") and device_info.health for device_info in found)
    assert len({device_info.minor for device_info in found} | {0}) == 3, "no instance has the number of a GPU"


def test_a_gpu_that_is_split_into_nothing_cannot_be_used() -> None:
    seen = recorded("h200-mig")
    (gpu,) = device_infos(replace(seen, gpus=(replace(seen.gpus[0], instances=()),)), nowhere, (), AT)
    assert not gpu.health
    assert gpu.conditions[0].message == "MIG is on and there is no instance"


def test_a_fault_is_told_with_its_reason_and_since_when() -> None:
    sound = recorded("h200")
    broken = replace(sound, gpus=(replace(sound.gpus[0], trouble="Xid 79"),))
    before = device_infos(sound, nowhere, (), AT)
    (gpu,) = device_infos(broken, nowhere, before, LATER)
    assert not gpu.health
    (condition,) = gpu.conditions
    assert (condition.type, condition.status, condition.reason) == ("Healthy", "False", "Xid79")
    assert condition.last_transition_time == LATER
    assert device_infos(broken, nowhere, (gpu,), "2026-11-16T10:00:00Z") == (gpu,)


def test_a_gpu_that_stops_answering_stays_as_not_healthy_until_it_is_back() -> None:
    eight = composed({minor: {} for minor in range(8)})
    before = device_infos(eight, two_sockets, (), AT)
    seven = replace(eight, gpus=eight.gpus[:7])
    after = device_infos(seven, two_sockets, before, LATER)
    assert [device_info.health for device_info in after] == [True] * 7 + [False]
    assert after[7].conditions[0].reason == "Lost"
    assert all(device_info.health for device_info in device_infos(eight, two_sockets, after, LATER))


def test_instances_that_were_taken_away_are_gone_and_the_gpu_is_back() -> None:
    split = device_infos(recorded("h200-mig"), nowhere, (), AT)
    (gpu,) = device_infos(recorded("h200"), nowhere, split, LATER)
    assert gpu.minor == 0
    again = device_infos(recorded("h200-mig"), nowhere, (gpu,), LATER)
    assert len(again) == 2, "the whole GPU is not one that was lost"


def test_a_place_is_told_whole() -> None:
    found = device_infos(composed({minor: {} for minor in range(8)}), two_sockets, (), AT)
    places = [device_info.topology for device_info in found]
    assert [place.node_id for place in places if place] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert places[5] is not None
    assert (places[5].socket_id, places[5].pcie_id, places[5].bus_id) == (1, "pci0000:02", bus(5))


def test_gpus_of_several_models_have_no_model_in_common() -> None:
    one, other = composed({0: {}}), composed({1: {}}, "Tesla T4")
    both = replace(one, gpus=(*one.gpus, *other.gpus))
    assert "node.koordinator.sh/gpu-model" not in device_labels(both)
    assert device_labels(other)["node.koordinator.sh/gpu-model"] == "Tesla-T4"


def test_gpus_behind_the_same_switches_need_no_table() -> None:
    switches = {"0000:c0:00.0": 2, "0000:c1:00.0": 2}
    assert device_annotations(composed({minor: dict(switches) for minor in range(8)})) == {}


def test_gpus_that_are_all_linked_with_each_other_may_be_given_out_in_any_set() -> None:
    table = _partitions(composed({one: {bus(other): 4 for other in range(4) if other != one} for one in range(4)}))
    assert {size: len(sets) for size, sets in table.items()} == {1: 4, 2: 6, 4: 1}
    assert table[4][0] == GPUPartition((0, 1, 2, 3), gpu_link_type="NVLink", allocation_score=4)


def test_gpus_in_pairs_are_given_out_in_pairs() -> None:
    pairs = composed({0: {bus(1): 4}, 1: {bus(0): 4}, 2: {bus(3): 2}, 3: {bus(2): 2}})
    table = _partitions(pairs)
    assert [gpu_partition.minors for gpu_partition in table[2]] == [(0, 1), (2, 3)]
    assert [gpu_partition.allocation_score for gpu_partition in table[2]] == [4, 2]
    assert 4 not in table


def test_gpus_without_links_have_no_table() -> None:
    assert device_annotations(composed({0: {}, 1: {}})) == {}


def test_a_card_is_told_with_its_functions() -> None:
    card = RdmaCard("mlx5_1", 1, bus(1), "infiniband/uverbs1", {bus(9): "infiniband/uverbs9"})
    (device_info,) = device_infos(Inventory(cards=(card,)), two_sockets, (), AT)
    assert (device_info.type, device_info.minor, device_info.id, device_info.health) == ("rdma", 1, bus(1), True)
    assert device_info.resources == {"koordinator.sh/rdma": "100"}
    assert [vf.bus_id for vf in device_info.vf_groups[0].vfs] == [bus(9)]
    (down,) = device_infos(Inventory(cards=(replace(card, is_active=False),)), two_sockets, (device_info,), LATER)
    assert (down.health, down.conditions[0].reason) == (False, "PortDown")


def test_a_vendors_files_win_over_nvml() -> None:
    npu = VendorDevice(
        "huawei", "Ascend-910B", "uuid-0", 0, {"huawei.com/npu-core": "20"}, is_healthy=False, error="E1"
    )
    both = replace(recorded("h200"), others=(npu,))
    (device_info,) = device_infos(both, nowhere, (), AT)
    assert (device_info.id, device_info.health) == ("uuid-0", False)
    assert device_info.resources == {"koordinator.sh/gpu-memory-ratio": "100", "huawei.com/npu-core": "20"}
    assert device_labels(both)["node.koordinator.sh/gpu-vendor"] == "huawei"


def _partitions(inventory: Inventory) -> dict[int, tuple[GPUPartition, ...]]:
    found = GPU_PARTITIONS.read(ObjectMeta(annotations=device_annotations(inventory)))
    assert found is not None
    assert all(gpu.memory_bytes == 80 * GIB for gpu in inventory.gpus)
    return dict(found)


@pytest.mark.parametrize(
    ("model", "label"),
    [
        ("NVIDIA H200", "H200"),
        ("Quadro RTX 6000/8000", "Quadro-RTX-6000-8000"),
        ("Graphics Device (sample)", "Graphics-Device--sample"),
        ("x" * 80, "x" * 63),
        ("\n../{}", ""),
    ],
)
def test_whatever_a_model_is_called_its_label_is_one_that_the_api_takes(model: str, label: str) -> None:
    told = device_labels(Inventory("580", (replace(recorded("h200").gpus[0], model=model),)))
    assert told["node.koordinator.sh/gpu-model"] == label
    assert label_value_fault(label) is None
