"""DeviceShare on one node: the specification's worked examples, with cards of 80Gi."""

from __future__ import annotations

import json
from typing import Any

import pytest

from koord.scheduler.framework.ask import Ask
from tests.scheduler.build import pod
from tests.scheduler.plugins.devices.machines import (
    GI,
    HINT,
    JOINT,
    PARTITION,
    Scene,
    eight,
    gpu,
    rdma,
    share,
)
from tests.scheduler.world import judged

LEAST, MOST = "LeastAllocated", "MostAllocated"
SCOPE_PCIE = {HINT: '{"gpu": {"requiredTopologyScope": "PCIe"}}'}


def test_memory_in_bytes_is_also_told_as_a_ratio_and_the_other_way_round() -> None:
    scene = Scene().node(devices=eight())
    by_bytes = scene.place(gpu_core=30, gpu_memory="20Gi")
    assert by_bytes.of(by_bytes.minors()[0]) == {"gpu-core": 30, "gpu-memory": 20 * GI, "gpu-memory-ratio": 25}
    by_ratio = scene.place(gpu=50)
    assert by_ratio.of(by_ratio.minors()[0]) == {"gpu-core": 50, "gpu-memory": 40 * GI, "gpu-memory-ratio": 50}


def test_a_pod_gets_its_devices_with_their_ids_written_on_it() -> None:
    got = Scene().node(devices=eight()).place(gpu=200)
    (text,) = got.patch["metadata"]["annotations"].values()
    assert json.loads(text) == {
        "gpu": [
            {
                "minor": minor,
                "id": f"GPU-{minor}",
                "resources": {
                    "koordinator.sh/gpu-core": "100",
                    "koordinator.sh/gpu-memory": "80Gi",
                    "koordinator.sh/gpu-memory-ratio": "100",
                },
            }
            for minor in (0, 1)
        ]
    }


@pytest.mark.parametrize(("strategy", "minor", "raw"), [(LEAST, 2, 71), (MOST, 1, 28)])
def test_a_share_goes_to_the_emptiest_or_fullest_card_that_has_enough(strategy: str, minor: int, raw: int) -> None:
    """60 %, 30 % and two free cards; 50 % is asked for. Least: -, 45, 75, 75. Most: 80 (has 40), 55, 25, 25."""
    scene = Scene(scoringStrategy={"type": strategy}).node(devices=[gpu(i) for i in range(4)])
    scene.busy(0, percent=60)
    scene.busy(1, percent=30)
    (facet,) = scene.engine.class_of(ask(gpu=50)).parts[0].judge.facets
    facet.refresh(None)
    assert facet.groups[scene.cluster.table.row_of["n"]] == raw
    assert scene.place(gpu=50).minors() == [minor]


def ask(**requests: int) -> Ask:
    return Ask(pod("asks", requests={f"koordinator.sh/{name}": amount for name, amount in requests.items()}))


@pytest.mark.parametrize(
    ("busy", "cards", "got"),
    [
        ([6], 1, [7]),
        ([0], 2, [2, 3]),
        ([0, 2, 4, 6], 2, [1, 3]),
        ([4], 3, [5, 6, 7]),
        ([], 8, [0, 1, 2, 3, 4, 5, 6, 7]),
        ([0], 8, []),
    ],
)
def test_whole_gpus_lie_close_together_and_leave_whole_switches_free(
    busy: list[int], cards: int, got: list[int]
) -> None:
    scene = Scene().node(devices=eight())
    for minor in busy:
        scene.busy(minor)
    assert scene.place(nvidia=cards).minors() == got


def test_a_required_scope_is_not_left() -> None:
    scene = Scene().node(devices=eight())
    for minor in (0, 2, 4, 6):
        scene.busy(minor)
    assert scene.place(nvidia=2, annotations=SCOPE_PCIE).why_not == "Insufficient gpu devices"
    assert scene.place(nvidia=1, annotations={HINT: '{"gpu": {"requiredTopologyScope": "Device"}}'}).minors() == [1]


@pytest.mark.parametrize(("strategy", "minor"), [(LEAST, 2), (MOST, 3)])
def test_a_share_is_packed_into_a_switch_in_use(strategy: str, minor: int) -> None:
    scene = Scene(scoringStrategy={"type": strategy}).node(devices=eight())
    scene.busy(3, percent=50)
    assert scene.place(gpu=25).minors() == [minor]


@pytest.mark.parametrize(
    ("policy", "busy", "cards", "got"),
    [
        ("Honor", [6], 1, [7]),
        ("Honor", [3], 2, [0, 1]),
        ("Honor", [0, 4], 4, "Insufficient Partitioned GPU Devices"),
        ("Prefer", [0, 4], 4, [1, 2, 3, 5]),
        ("Honor", [], 3, "node(s) Unsupported number of GPU requests"),
        ("Prefer", [], 3, [0, 1, 2]),
    ],
)
def test_linked_gpus_of_a_known_model(policy: str, busy: list[int], cards: int, got: Any) -> None:
    labels = {"node.koordinator.sh/gpu-model": "H20", "node.koordinator.sh/gpu-partition-policy": policy}
    scene = Scene().node(devices=eight(), labels=labels)
    for minor in busy:
        scene.busy(minor)
    found = scene.place(nvidia=cards)
    assert (found.minors() or found.why_not) == got


TABLE = {
    "2": [
        {"minors": [0, 1], "allocationScore": 3},
        {"minors": [2, 3], "allocationScore": 1},
        {"minors": [4, 5], "allocationScore": 1, "ringBusBandwidth": "400Gi"},
    ]
}


@pytest.mark.parametrize(
    ("busy", "spec", "got"),
    [
        ([], {}, [0, 1]),
        ([0], {}, [2, 3]),
        ([0, 2], {}, [4, 5]),
        ([0], {"allocatePolicy": "Restricted"}, "Insufficient Partitioned GPU Devices"),
        ([], {"ringBusBandwidth": "200Gi"}, [4, 5]),
        ([], {"ringBusBandwidth": "500Gi"}, "Insufficient Partitioned GPU Devices"),
    ],
)
def test_the_partition_with_the_highest_score_is_tried_first(busy: list[int], spec: dict[str, str], got: Any) -> None:
    """As documented; the original tries the lowest score first."""
    table = {"scheduling.koordinator.sh/gpu-partitions": json.dumps(TABLE)}
    scene = Scene().node(devices=eight(), annotations=table)
    for minor in busy:
        scene.busy(minor)
    found = scene.place(nvidia=2, annotations={PARTITION: json.dumps(spec)})
    assert (found.minors() or found.why_not) == got


def test_a_partition_spec_needs_a_table() -> None:
    found = Scene().node(devices=eight()).place(nvidia=2, annotations={PARTITION: "{}"})
    assert found.why_not == "node(s) missing GPU Partition Table"


def jointly(scope: str = "") -> dict[str, str]:
    return {JOINT: json.dumps({"deviceTypes": ["gpu", "rdma"], **({"requiredScope": scope} if scope else {})})}


@pytest.mark.parametrize(
    ("exhausted", "scope", "gpus", "cards"),
    [
        ([], "", [0, 1, 2], [0, 1]),
        ([1], "", [0, 1, 2], [0, 2]),
        ([], "SamePCIe", [0, 1, 2], [0, 1]),
        ([1], "SamePCIe", [4, 5, 6], [2, 3]),
        ([1, 2], "SamePCIe", [0, 1, 6], [0, 3]),
        ([1, 2, 3], "SamePCIe", [], []),
    ],
)
def test_gpus_and_network_cards_on_the_same_switches(
    exhausted: list[int], scope: str, gpus: list[int], cards: list[int]
) -> None:
    scene = Scene().node(devices=[*eight(), *(rdma(i, pcie=i, numa=i // 2) for i in range(4))])
    for minor in exhausted:
        scene.holds(rdma={minor: {"rdma": 100}})
    found = scene.place(nvidia=3, rdma=1, annotations=jointly(scope))
    assert (found.minors(), found.minors("rdma")) == (gpus, cards)
    if not gpus:
        assert found.why_not == "Insufficient rdma devices"


@pytest.mark.parametrize("level", ["PCIeLevel", "DeviceLevel"])
def test_pods_that_want_a_switch_each_fill_all_switches(level: str) -> None:
    scene = Scene().node(devices=[*eight(), *(rdma(i, pcie=i, numa=i // 2) for i in range(4))])
    wishes = {**jointly("SamePCIe"), HINT: json.dumps({"rdma": {"exclusivePolicy": level}})}
    found = [scene.place(nvidia=1, rdma=1, annotations=wishes) for _ in range(5)]
    assert [(each.minors(), each.minors("rdma")) for each in found] == [
        *(([2 * switch], [switch]) for switch in range(4)),
        ([], []),
    ]


def test_a_switch_with_enough_cards_is_found_wherever_it_lies() -> None:
    """Two network cards on the switch of one GPU: only the third switch has two."""
    scene = Scene().node(devices=[*eight(), *(rdma(i, pcie=pcie) for i, pcie in enumerate((0, 1, 2, 2, 3)))])
    wishes = {**jointly("SamePCIe"), HINT: '{"rdma": {"allocateStrategy": "RequestsAsCount"}}'}
    found = scene.place(nvidia=1, rdma=2, annotations=wishes)
    assert (found.minors(), found.minors("rdma")) == ([4], [2, 3])


def test_gpus_follow_the_network_card_that_leads() -> None:
    scene = Scene().node(devices=[*eight(), *(rdma(i, pcie=i, numa=i // 2) for i in range(4))])
    scene.holds(rdma={0: {"rdma": 100}, 1: {"rdma": 100}})
    leading = {JOINT: json.dumps({"deviceTypes": ["rdma", "gpu"]})}
    found = scene.place(nvidia=2, rdma=1, annotations=leading)
    assert (found.minors("rdma"), found.minors()) == ([2], [4, 5])


@pytest.mark.parametrize(
    ("hint", "amount", "got"),
    [
        ({"allocateStrategy": "RequestsAsCount"}, 3, {0: 1, 1: 1, 2: 1}),
        ({"allocateStrategy": "RequestsAsCount", "exclusivePolicy": "DeviceLevel"}, 3, {0: 100, 1: 100, 2: 100}),
        ({"allocateStrategy": "ApplyForAll"}, 10, {0: 10, 1: 10, 2: 10, 3: 10}),
        ({}, 10, {0: 10}),
    ],
)
def test_network_cards_by_number_and_all_of_them(hint: dict[str, str], amount: int, got: dict[int, int]) -> None:
    scene = Scene().node(devices=[rdma(i) for i in range(4)])
    found = scene.place(rdma=amount, annotations={HINT: json.dumps({"rdma": hint})})
    assert {minor: found.of(minor, "rdma")["rdma"] for minor in found.minors("rdma")} == got


ALL_CARDS = {"allocateStrategy": "ApplyForAll"}


@pytest.mark.parametrize(
    ("hint", "cards"),
    [
        (ALL_CARDS, [rdma(0), rdma(1, health=False)]),
        ({**ALL_CARDS, "exclusivePolicy": "DeviceLevel"}, [rdma(0), rdma(1), rdma(9)]),
        ({**ALL_CARDS, "exclusivePolicy": "PCIeLevel"}, [rdma(0, pcie=0), rdma(8, pcie=1), rdma(9, pcie=1)]),
        ({**ALL_CARDS, "selector": {"matchLabels": {"of": "me"}}}, [rdma(i, labels={"of": "me"}) for i in (0, 9)]),
    ],
)
def test_all_cards_are_all_of_them_or_none(hint: dict[str, Any], cards: list[dict[str, Any]]) -> None:
    """Card 9 is in use by another pod that has it to itself in the last case."""
    scene = Scene().node(devices=cards)
    if any(card["minor"] == 9 for card in cards):
        scene.holds(rdma={9: {"rdma": 100 if "selector" in hint else 10}})
    found = scene.place(rdma=10, annotations={HINT: json.dumps({"rdma": hint})})
    assert (found.minors("rdma"), found.why_not) == ([], "Insufficient rdma devices")


def test_all_cards_are_not_had_beside_a_pod_that_has_a_switch_to_itself() -> None:
    scene = Scene().node(devices=[rdma(0, pcie=0), rdma(1, pcie=1), rdma(2, pcie=1)])
    assert scene.place(rdma=10, annotations={HINT: '{"rdma": {"exclusivePolicy": "PCIeLevel"}}'}).minors("rdma") == [0]
    assert scene.place(rdma=10, annotations={HINT: json.dumps({"rdma": ALL_CARDS})}).minors("rdma") == []


@pytest.mark.parametrize(("busy", "raw"), [(None, 93), (0, 81)])
def test_a_node_is_scored_by_what_one_card_takes_of_all(busy: int | None, raw: int) -> None:
    """4 whole cards of 8: ratio (800 - 100) / 800 = 87, memory 100; with one busy 75 and 87."""
    scene = Scene().node(devices=eight())
    if busy is not None:
        scene.busy(busy)
    (facet,) = scene.engine.class_of(ask(gpu=400)).parts[0].judge.facets
    facet.refresh(None)
    assert facet.groups[scene.cluster.table.row_of["n"]] == raw


def test_nodes_score_in_proportion_to_the_best() -> None:
    """Idle: 93; one of eight busy: 81, 81 * 100 // 93."""
    scene = Scene().node("a", devices=eight()).node("b", devices=eight())
    scene.busy(0, on="b")
    found = judged(scene.engine, pod("p", requests={"nvidia.com/gpu": 4}))
    assert found.scores["DeviceShare"] == {"a": 100, "b": 87}


def test_a_shared_gpu_is_full_at_100_percent_and_no_pod_gets_more() -> None:
    scene = Scene().node(devices=[gpu(0)])
    assert [scene.place(gpu=40).minors() for _ in range(3)] == [[0], [0], []]
    assert scene.place(gpu=21).why_not == "Insufficient gpu devices"
    assert scene.place(gpu=20).minors() == [0]
    assert scene.devices.usage(scene.cluster.table.row_of["n"]).amounts["gpu", 0] == {  # type: ignore[union-attr]
        f"koordinator.sh/{name}": amount for name, amount in share(100).items()
    }
