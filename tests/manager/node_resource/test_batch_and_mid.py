"""Batch and mid resources in the cases that clusters of the original have met."""

from __future__ import annotations

import json
from typing import Any

import pytest

from koord.api.configuration.slo_config import SloConfig
from koord.api.configuration.slo_config_types import ColocationConfig
from koord.manager.node_state import NodeState
from tests.manager.builders import (
    API,
    JOB,
    NOW_S,
    WEB,
    base,
    batch,
    config,
    metric,
    mid,
    node,
    outcomes,
    pod,
    prepared,
    state,
    topology,
)

G = 10**9
BIG = node(cpu="100", memory="120G")
SLO = config(cpuReclaimThresholdPercent=65, memoryReclaimThresholdPercent=65)
BY_REQUEST = config(cpuReclaimThresholdPercent=65, memoryReclaimThresholdPercent=65, memoryCalculatePolicy="request")
PODS = (
    pod("prod", cpu="10", memory="10G", qos="LS", band="none"),
    pod("prod1", cpu="10", memory="10G"),
    pod("batch", cpu="10", memory="10G", qos="BE", band="none"),
    pod("mid", cpu="20", memory="40G", qos="BE", band="mid", phase="Pending"),
    pod("ended", cpu="10", memory="10G", band="none", phase="Succeeded"),
)
REPORT = metric(
    {"prod": ("5", "5G"), "prod1": ("6", "6G"), "batch": ("10", "10G"), "mid": ("22", "22G")},
    system=("7", "12G"),
    bands={"batch": "batch", "mid": "mid"},
)


def test_pods_count_by_their_class_whether_said_or_derived() -> None:
    # cpu is 100 - 35 - 7 - (5 + 6 + 22), memory 120 - 42 - 12 - 33
    assert batch(state(BIG, PODS, REPORT), SLO) == (25_000, 33 * G)


def test_a_pod_that_ended_counts_as_it_was_measured_while_one_not_measured_counts_as_it_asked() -> None:
    pods = (PODS[0], PODS[1], pod("ended", cpu="1", phase="Succeeded"))
    report = metric({"prod": ("5", "5G"), "ended": ("10", "10G")}, system=("5", "10G"))
    # What is left of cpu is 100 - 35 - 5 - (5 + 10 + 10).
    assert batch(state(BIG, pods, report), SLO) == (35_000, 43 * G)


def test_an_lse_pod_lends_none_of_its_cpus_but_its_unused_memory() -> None:
    pods = (pod("prod", cpu="10", memory="10G", qos="LSE", band="none"), *PODS[1:])
    assert batch(state(BIG, pods, REPORT), SLO) == (20_000, 33 * G)


@pytest.mark.parametrize(
    ("reservation", "system", "allocatable", "cpu_milli", "memory_bytes"),
    [
        ({}, ("7", "12G"), {}, 25_000, 33 * G),
        ({"reservedCPUs": "0-1"}, ("7", "12G"), {}, 25_000, 33 * G),
        ({"reservedCPUs": "0-9"}, ("7", "12G"), {}, 22_000, 33 * G),
        ({"resources": {"cpu": "10"}}, ("7", "12G"), {}, 22_000, 33 * G),
        ({"resources": {"cpu": "20"}, "reservedCPUs": "0-9"}, ("7", "12G"), {}, 22_000, 33 * G),
        ({"resources": {"memory": "15G"}}, ("7", "12G"), {}, 25_000, 30 * G),
        ({"resources": {"cpu": "10", "memory": "5G"}}, ("7", "12G"), {}, 22_000, 33 * G),
        ({"resources": {"cpu": "10"}, "applyPolicy": "ReservedCPUsOnly"}, ("7", "12G"), {}, 22_000, 33 * G),
        ({"resources": {"cpu": "10", "memory": "15G"}}, ("7", "12G"), {"cpu": "80", "memory": "100G"}, 12_000, 25 * G),
        ("nonsense", ("7", "12G"), {}, 25_000, 33 * G),
    ],
)
def test_the_larger_of_system_usage_and_reservations_is_kept(
    reservation: Any, system: tuple[str, str], allocatable: dict[str, str], cpu_milli: int, memory_bytes: int
) -> None:
    annotations = {"node.koordinator.sh/reservation": json.dumps(reservation)} if reservation else {}
    given = state(node(cpu="100", memory="120G", allocatable=allocatable, annotations=annotations), PODS, REPORT)
    assert batch(given, SLO) == (cpu_milli, memory_bytes)


def test_memory_by_request_heeds_reservations_but_not_usage() -> None:
    # 120 - 42 - 0 - 60
    assert batch(state(BIG, PODS, REPORT), BY_REQUEST) == (25_000, 18 * G)


@pytest.mark.parametrize(
    ("slo", "cpu_milli", "memory_bytes"),
    [
        (config(cpuReclaimThresholdPercent=110, memoryReclaimThresholdPercent=100), 70_000, 75 * G),
        (config(batchCPUThresholdPercent=0, batchMemoryThresholdPercent=0), 0, 0),
        (config(cpuReclaimThresholdPercent=65, cpuCalculatePolicy="request"), 25_000, 33 * G),
        (config(cpuReclaimThresholdPercent=65, cpuCalculatePolicy="maxUsageRequest"), 16_000, 33 * G),
        (config(cpuReclaimThresholdPercent=65, memoryCalculatePolicy="maxUsageRequest"), 25_000, 6 * G),
    ],
    ids=["oversell", "limit of nothing", "cpu knows no request", "cpu by the larger", "memory by the larger"],
)
def test_policies(slo: SloConfig, cpu_milli: int, memory_bytes: int) -> None:
    assert batch(state(BIG, PODS, REPORT), slo) == (cpu_milli, memory_bytes)


def test_no_node_lends_more_than_it_is_whatever_is_stored() -> None:
    stored = SloConfig(
        colocation=ColocationConfig(
            enable=True, cpu_reclaim_threshold_percent=10**12, memory_reclaim_threshold_percent=900
        )
    )
    assert batch(state(BIG, PODS, REPORT), stored) == (100_000, 120 * G)


@pytest.mark.parametrize("ratio", ["9", "2.01", "1e12"])
def test_a_label_with_a_ratio_that_nobody_can_mean_counts_as_missing(ratio: str) -> None:
    labels = {"node.koordinator.sh/cpu-reclaim-ratio": ratio, "node.koordinator.sh/memory-reclaim-ratio": ratio}
    labelled = node(cpu="100", memory="120G", labels=labels)
    assert batch(state(labelled, PODS, REPORT), SLO) == batch(state(BIG, PODS, REPORT), SLO)


@pytest.mark.parametrize(
    ("band", "batch_cpu", "mid_cpu"), [("prod", 23_000, 27_500), ("mid", 23_000, 28_500), ("batch", 25_000, 28_500)]
)
def test_a_host_application_counts_for_those_below_it(band: str, batch_cpu: int, mid_cpu: int) -> None:
    report = metric(
        {"prod": ("5", "5G"), "prod1": ("6", "6G"), "batch": ("10", "10G"), "mid": ("22", "22G")},
        system=("7", "12G"),
        bands={"batch": "batch", "mid": "mid"},
        host={"app": (band, "2", "1G")},
    )
    slo = config(cpuReclaimThresholdPercent=65, memoryReclaimThresholdPercent=65, midUnallocatedPercent=50)
    given = state(BIG, (PODS[0], PODS[1], PODS[3], pod("more", cpu="16", memory="1G", phase="Failed")), report)
    assert batch(given, slo)[0] == batch_cpu
    # (100 - 7 or 9 - 20 - 16 of no pod) / 2
    assert mid(given, slo)[0] == mid_cpu + 8_000


def test_zones_split_what_nobody_attributes_and_keep_what_is_pinned() -> None:
    zones = topology(cpu="50", memory="60G")
    pods = (pod("prod", cpu="10", memory="10G", qos="LSE", band="none", numa=(0,)), *PODS[1:])
    report = metric(
        {"prod1": ("6", "6G"), "ended": ("2", "4G"), "batch": ("10", "10G"), "mid": ("22", "22G")},
        system=("7", "12G"),
        bands={"batch": "batch", "mid": "mid"},
    )
    shown = prepared(state(BIG, pods, report, zones=zones), BY_REQUEST).zones
    assert [zone["kubernetes.io/batch-cpu"] for zone in shown.values()] == [
        4_000,  # 50 - 17.5 - 3.5 - (14 + 10 of the one not measured + 1 of the one that ended)
        14_000,
    ]
    # the zones have 60 - 21 - (25 + 10) and 60 - 21 - 25
    assert [zone["kubernetes.io/batch-memory"] for zone in shown.values()] == [4 * G, 14 * G]


@pytest.mark.parametrize("numa", [(7,), (-1,), (0, 1), ()])
def test_numa_nodes_that_are_not_there_are_all_of_them(numa: tuple[int, ...]) -> None:
    pods = (WEB, pod("api", cpu="8", memory="16Gi", qos="LSR", numa=numa), JOB)
    zones = prepared(state(pods=pods, report=base(), zones=topology()), config()).zones
    assert [zone["kubernetes.io/batch-cpu"] for zone in zones.values()] == [13350, 13350]


def test_zones_of_which_nothing_is_said_are_left_alone() -> None:
    bare = topology()
    zones = tuple(type(zone)(zone.name, zone.type) for zone in bare.zones)
    given = state(report=base(), zones=type(bare)(metadata=bare.metadata, zones=zones))
    assert prepared(given, config()).zones == {}


def test_a_zone_that_cannot_be_read_does_not_keep_the_node_from_its_own() -> None:
    given = state(report=base(), zones=topology(cpu="many"))
    (found,) = [outcome for outcome in outcomes(given, config()) if outcome.plugin == "BatchResource"]
    assert "many" in found.note
    assert batch(given)[0] == 26700


@pytest.mark.parametrize(
    "given",
    [
        state(report=None),
        state(report=type(base())(metadata=base().metadata)),
        state(report=base(age_s=15 * 60 + 0.001 + 1)),
    ],
    ids=["no NodeMetric", "no report in it", "too old"],
)
def test_without_a_fresh_report_nothing_is_lent_and_it_is_said_why(given: NodeState) -> None:
    assert batch(given) == (None, None)
    assert mid(given) == (None, None)
    notes = [
        outcome.note for outcome in outcomes(given, config()) if outcome.plugin in ("BatchResource", "MidResource")
    ]
    assert all(notes)


@pytest.mark.parametrize(
    ("reclaimable", "usage", "expected"),
    [
        (("10", "15G"), ("20", "45G"), (10_000, 15 * G)),
        (None, ("30", "50G"), (0, 0)),
        (("10", "15G"), None, (0, 0)),
        (("30", "90G"), ("95", "115G"), (5_000, 5 * G)),
        (("30", "90G"), ("101", "121G"), (0, 0)),
    ],
    ids=["predicted", "not predicted", "usage unknown", "hardly anything unused", "more used than there is"],
)
def test_mid_is_what_is_predicted_and_not_used(
    reclaimable: tuple[str, str] | None, usage: tuple[str, str] | None, expected: tuple[int, int]
) -> None:
    given = state(BIG, PODS, metric(node_usage=usage, reclaimable=reclaimable))
    assert mid(given) == expected


def test_mid_is_limited_by_its_thresholds() -> None:
    slo = config(midCPUThresholdPercent=10, midMemoryThresholdPercent=20, midUnallocatedPercent=10)
    given = state(BIG, PODS, metric(node_usage=("30", "50G"), reclaimable=("15", "30G")))
    # cpu is min(15 + 8, 10), memory min(30 + 10, 24)
    assert mid(given, slo) == (10_000, 24 * G)


def test_off_in_the_cluster_beats_on_for_a_node() -> None:
    node_on = node(annotations={"node.koordinator.sh/colocation-strategy": '{"enable":true}'})
    assert batch(state(node_on, report=base()), config(enable=False)) == (None, None)


def test_a_node_can_be_switched_off_by_itself() -> None:
    off = node(annotations={"node.koordinator.sh/colocation-strategy": '{"enable":false}'})
    given = state(off, report=base())
    assert batch(given) == (None, None)
    assert "colocation-strategy" in outcomes(given, config())[-1].note


def test_what_a_plugin_does_not_know_is_left_alone_when_co_location_is_off() -> None:
    shown = prepared(state(report=base()), config(enable=False))
    assert set(shown.resources) == {
        "kubernetes.io/batch-cpu",
        "kubernetes.io/batch-memory",
        "kubernetes.io/mid-cpu",
        "kubernetes.io/mid-memory",
    }
    assert shown.annotations == {"node.koordinator.sh/resource-amplification-ratio": None}


def test_a_pod_on_its_way_out_still_counts() -> None:
    given = state(pods=(WEB, API), report=metric({"web": ("6.2", "20Gi"), "api": ("3", "12Gi")}))
    assert batch(given)[0] == 26700


def test_the_clock_decides_by_itself_that_a_report_is_stale() -> None:
    given = state(report=base(age_s=0))
    assert batch(given, now_s=NOW_S + 900)[0] == 26700
    assert batch(given, now_s=NOW_S + 901) == (None, None)


@pytest.mark.parametrize("used", [("-900", "-1Ti"), ("900E", "900E")])
def test_a_report_of_impossible_figures_lends_no_more_than_one_of_nothing_used(used: tuple[str, str]) -> None:
    nothing = batch(state(report=metric({"web": ("0", "0")}, system=("0", "0"))))
    lying = batch(state(report=metric({"web": used}, system=used)))
    for lent, most in zip(lying, nothing, strict=True):
        assert lent is not None
        assert most is not None
        assert 0 <= lent <= most
