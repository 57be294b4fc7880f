"""The worked examples of the protocol. Base: 64 CPUs and 256Gi, thresholds 60 and 65, system 2.5 CPUs and 6Gi;
web (LS) asks for 16 CPUs and 32Gi and uses 6.2 and 20Gi, api (LSR) 8 and 16Gi, 3 and 12Gi, job (batch) uses 9 and 18Gi.
"""

from __future__ import annotations

import json

import pytest

from koord.api.configuration.slo_config import SloConfig
from koord.manager.figures import total
from koord.manager.node_resource.plugins import choose
from koord.manager.node_resource.writing import decide
from koord.manager.node_state import NodeState
from tests.manager.builders import (
    API,
    JOB,
    NOW_S,
    WEB,
    base,
    batch,
    config,
    config_of,
    metric,
    mid,
    node,
    outcomes,
    pod,
    prepared,
    settings,
    state,
    topology,
)

FRESH = pod("fresh", cpu="4", memory="8Gi", qos="LS", phase="Pending")
RESERVING = node(
    allocatable={"cpu": "62", "memory": "250Gi"},
    annotations={"node.koordinator.sh/reservation": json.dumps({"reservedCPUs": "0-3"})},
)
BUSY_WEB = base(pods={"web": ("18", "20Gi")})
MAX = config(cpuCalculatePolicy="maxUsageRequest", memoryCalculatePolicy="maxUsageRequest")


@pytest.mark.parametrize(
    ("given", "slo", "cpu_milli", "memory_bytes"),
    [
        # 64000 - 25600 - 2500 - 9200; 274877906944 - 96207267430 - 6442450944 - 34359738368
        pytest.param(state(report=base()), config(), 26700, 137868450202, id="1 usage"),
        # reserved: max(2, 4) CPUs and 6Gi
        pytest.param(
            state(RESERVING, report=base(system=("2.5", "5Gi"))), config(), 25200, 137868450202, id="2 reserved"
        ),
        # 256Gi - 96207267430 - 6Gi - 48Gi
        pytest.param(
            state(RESERVING, report=base(system=("2.5", "5Gi"))),
            config(memoryCalculatePolicy="request"),
            25200,
            120688581018,
            id="3 memory by request",
        ),
        pytest.param(
            state(pods=(WEB, API, JOB, FRESH), report=base()), config(), 22700, 129278515610, id="4 not measured yet"
        ),
        pytest.param(
            state(pods=(WEB, API, JOB, FRESH), report=BUSY_WEB), config(), 10900, 129278515610, id="5 busy, usage"
        ),
        # 64000 - 25600 - 2500 - (18000 + 8000), the fresh pod left out
        pytest.param(
            state(pods=(WEB, API, JOB, FRESH), report=BUSY_WEB), MAX, 9900, 120688581018, id="5 busy, maxUsageRequest"
        ),
        pytest.param(
            state(pods=(WEB, pod("api", cpu="8", memory="16Gi", qos="LSE"), JOB), report=base()),
            config(),
            21700,
            137868450202,
            id="6 LSE",
        ),
        pytest.param(
            state(report=base(pods={"gone": ("1.5", "3Gi"), "goneb": ("5", "9Gi")}, bands={"goneb": "batch"})),
            config(),
            25200,
            134647224730,
            id="7 dangling",
        ),
        pytest.param(
            state(report=base()),
            config(batchCPUThresholdPercent=30, batchMemoryThresholdPercent=40),
            19200,
            109951162777,
            id="8 limits",
        ),
        pytest.param(
            state(node(labels={"node.koordinator.sh/cpu-reclaim-ratio": "0.8"}), report=base()),
            config(),
            39500,
            137868450202,
            id="9 reclaim ratio",
        ),
        pytest.param(state(report=base(system=("40", "6Gi"))), config(), 0, 137868450202, id="10 nothing left"),
        pytest.param(
            state(report=base(host={"db": ("prod", "1", "1Gi"), "yarn": ("batch", "7", "9Gi")})),
            config(),
            25700,
            136794708378,
            id="11 host applications",
        ),
    ],
)
def test_batch_resources(given: NodeState, slo: SloConfig, cpu_milli: int, memory_bytes: int) -> None:
    assert batch(given, slo) == (cpu_milli, memory_bytes)


def test_12_zones_get_their_part_of_everything() -> None:
    pinned = pod("api", cpu="8", memory="16Gi", qos="LSR", numa=(1,))
    zones = prepared(state(pods=(WEB, pinned, JOB), report=base(), zones=topology()), config()).zones
    assert zones == {
        # 32000 - 12800 - 1250 - 3100
        "node-0": {"kubernetes.io/batch-cpu": 14850, "kubernetes.io/batch-memory": 75376676045},
        "node-1": {"kubernetes.io/batch-cpu": 11850, "kubernetes.io/batch-memory": 62491774157},
    }


@pytest.mark.parametrize(
    ("usage", "slo", "cpu_milli", "memory_bytes"),
    [
        # min(10000 + 18750, 12800); 30Gi + 202Gi/2
        (("20.7", "56Gi"), config(midUnallocatedPercent=50, midCPUThresholdPercent=20), 12800, 140660178944),
        (("58", "56Gi"), config(midUnallocatedPercent=50), 24750, 140660178944),
        (
            ("20.7", "56Gi"),
            config(
                midReclaimMode="static",
                midStaticCPUReservedPercent=25,
                midStaticMemoryReservedPercent=10,
                midCPUThresholdPercent=20,
            ),
            12800,
            27487790694,
        ),
    ],
    ids=["dynamic", "little unused", "static"],
)
def test_13_mid_resources(usage: tuple[str, str], slo: SloConfig, cpu_milli: int, memory_bytes: int) -> None:
    given = state(report=base(node_usage=usage, reclaimable=("10", "30Gi")))
    assert mid(given, slo) == (cpu_milli, memory_bytes)


@pytest.mark.parametrize("published", [{}, {"kubernetes.io/batch-cpu": "26700", "kubernetes.io/mid-cpu": "5k"}])
def test_14_a_stale_report_takes_everything_back(published: dict[str, str]) -> None:
    given = state(node(published=published), report=base(age_s=15 * 60 + 1))
    assert batch(given) == (None, None)
    assert mid(given) == (None, None)
    origin = prepared(given, config()).annotations["node.koordinator.sh/originExtendedAllocatable"]
    assert json.loads(origin or "") == {
        "resources": {"kubernetes.io/batch-cpu": "0", "kubernetes.io/batch-memory": "0"}
    }


def test_14_a_report_counts_to_the_last_second() -> None:
    assert batch(state(report=base(age_s=15 * 60)))[0] == 26700


@pytest.mark.parametrize(
    ("published", "batch_cpu", "written_before_s", "writes"),
    [("20k", 22000, 100, False), ("20k", 22001, 100, True), ("20k", 20001, 301, True), ("0", 1, 100, True)],
)
def test_15_the_write_rule(published: str, batch_cpu: int, written_before_s: float, writes: bool) -> None:
    # 64000 - 25600 - system = batch-cpu: what the system uses decides.
    shown = {
        "kubernetes.io/batch-cpu": published,
        "kubernetes.io/batch-memory": "172228188570",
        "kubernetes.io/mid-cpu": "0",
        "kubernetes.io/mid-memory": "0",
    }
    given = state(
        node(published=shown, annotations={"node.koordinator.sh/cpu-normalization-ratio": "1.00"}),
        pods=(),
        report=metric(system=(f"{38400 - batch_cpu}m", "6Gi")),
    )
    assert batch(given) == (batch_cpu, 172228188570)
    strategy = settings(given, config()).colocation
    decision = decide(given.node, prepared(given, config()), strategy, NOW_S - written_before_s, NOW_S)
    assert (decision.patch is not None) == writes
    assert decision.status == writes


NORMALIZED = config_of(
    {
        "colocation-config": {"enable": True},
        "cpu-normalization-config": {"enable": True, "ratioModel": {"M1": {"baseRatio": 1.29}}},
        "resource-amplification-config": {"enable": True, "resourceAmplificationRatio": {"cpu": 1.5}},
    }
)


def test_16_normalisation_and_amplification() -> None:
    given = state(
        node(annotations={"node.koordinator.sh/cpu-normalization-ratio": "1.29"}),
        report=base(),
        zones=topology(info={"cpuModel": "M1"}),
    )
    shown = prepared(given, NORMALIZED)
    assert shown.resources["kubernetes.io/batch-cpu"] == 34443
    assert shown.resources["kubernetes.io/batch-memory"] == 137868450202
    assert shown.annotations["node.koordinator.sh/cpu-normalization-ratio"] == "1.29"
    # 1.5 * 1.29 = 1.935
    assert shown.annotations["node.koordinator.sh/resource-amplification-ratio"] == '{"cpu":1.94}'


def test_17_what_another_system_holds_is_not_lent_twice() -> None:
    held = {"kubernetes.io/batch-cpu": "12k", "kubernetes.io/batch-memory": str(24576 * 2**20)}
    allocation = {"name": "hadoop-yarn", "priority": "koord-batch", "resources": held}
    given = state(
        node(annotations={"node.koordinator.sh/thirdPartyAllocations": json.dumps({"allocations": [allocation]})}),
        report=base(),
    )
    assert batch(given) == (14700, 112098646426)
    origin = prepared(given, config()).annotations["node.koordinator.sh/originExtendedAllocatable"]
    assert json.loads(origin or "")["resources"] == {
        "kubernetes.io/batch-cpu": "26700",
        "kubernetes.io/batch-memory": "137868450202",
    }


def test_every_figure_is_what_its_terms_come_to() -> None:
    given = state(
        node(annotations={"node.koordinator.sh/cpu-normalization-ratio": "1.29"}),
        pods=(WEB, API, JOB, FRESH),
        report=base(reclaimable=("10", "30Gi")),
        zones=topology(info={"cpuModel": "M1"}),
    )
    figures = list(prepared(given, NORMALIZED).figures)
    for outcome in outcomes(given, NORMALIZED, plugins=choose()):
        figures += outcome.figures
        for zone in outcome.zones.values():
            figures += zone
    assert len(figures) >= 10
    for figure in figures:
        assert total(figure.terms) == figure.amount, figure
