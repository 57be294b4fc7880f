"""The defaults of NodeSLO, field by field."""

from __future__ import annotations

import msgspec
import pytest

from koord.api.configuration import slo_defaults
from koord.api.configuration.slo_defaults import QOSClass
from koord.api.protocol.crd.resource_qos import CPUQOSCfg, MemoryQOSCfg, ResctrlQOSCfg, ResourceQOS, ResourceQOSStrategy


def test_what_the_manager_writes_where_nothing_is_set() -> None:
    assert msgspec.to_builtins(slo_defaults.default_node_slo()) == {
        "resourceUsedThresholdWithBE": {
            "enable": False,
            "cpuSuppressThresholdPercent": 65,
            "cpuSuppressPolicy": "cpuset",
            "memoryEvictThresholdPercent": 70,
            "cpuEvictPolicy": "evictByRealLimit",
        },
        "resourceQOSStrategy": {},
        "cpuBurstStrategy": {
            "policy": "none",
            "cpuBurstPercent": 1000,
            "cfsQuotaBurstPercent": 300,
            "cfsQuotaBurstPeriodSeconds": -1,
            "sharePoolThresholdPercent": 50,
        },
        "systemStrategy": {"totalNetworkBandwidth": "0"},
    }


# One row of the protocol's table: LSR, LS, BE, SYSTEM, off.
ROWS = {
    "cpuQOS.groupIdentity": (2, 2, -1, 0, 0),
    "cpuQOS.schedIdle": (0, 0, 0, 0, 0),
    "cpuQOS.coreExpeller": (True, True, False, False, False),
    "resctrlQOS.catRangeStartPercent": (0, 0, 0, 0, 0),
    "resctrlQOS.catRangeEndPercent": (100, 100, 30, 100, 100),
    "resctrlQOS.mbaPercent": (100, 100, 100, 100, 100),
    "memoryQOS.minLimitPercent": (0, 0, 0, 0, 0),
    "memoryQOS.lowLimitPercent": (0, 0, 0, 0, 0),
    "memoryQOS.throttlingPercent": (0, 0, 0, 0, 0),
    "memoryQOS.wmarkRatio": (95, 95, 95, 0, 0),
    "memoryQOS.wmarkScalePermill": (20, 20, 20, 50, 50),
    "memoryQOS.wmarkMinAdj": (-25, -25, 50, 0, 0),
    "memoryQOS.priorityEnable": (0, 0, 0, 0, 0),
    "memoryQOS.priority": (0, 0, 0, 0, 0),
    "memoryQOS.oomKillGroup": (0, 0, 0, 0, 0),
    "networkQOS.ingressRequest": (0, 0, 0, 0, 0),
    "networkQOS.ingressLimit": (0, 0, 0, 0, 0),
    "networkQOS.egressRequest": (0, 0, 0, 0, 0),
    "networkQOS.egressLimit": (0, 0, 0, 0, 0),
}
CLASSES: tuple[QOSClass, ...] = ("LSR", "LS", "BE", "SYSTEM")


@pytest.mark.parametrize("row", ROWS)
def test_the_default_of_every_class(row: str) -> None:
    part, field = row.split(".")
    columns = [msgspec.to_builtins(slo_defaults.default_qos(qos)) for qos in CLASSES]
    columns.append(msgspec.to_builtins(slo_defaults.qos_off()))
    assert tuple(column[part][field] for column in columns) == ROWS[row]


@pytest.mark.parametrize("qos", CLASSES)
def test_every_switch_of_a_class_is_off_by_default(qos: QOSClass) -> None:
    parts = msgspec.to_builtins(slo_defaults.default_qos(qos))
    assert {part: settings["enable"] for part, settings in parts.items()} == dict.fromkeys(
        ("cpuQOS", "memoryQOS", "blkioQOS", "resctrlQOS", "networkQOS"), False
    )


def test_the_root_has_disks_only() -> None:
    root = slo_defaults.default_qos_strategy().cgroup_root
    assert msgspec.to_builtins(root) == {"blkioQOS": {"enable": False}}


def test_policies_are_group_identity_and_tc() -> None:
    assert msgspec.to_builtins(slo_defaults.default_qos_strategy().policies) == {
        "cpuPolicy": "groupIdentity",
        "netQOSPolicy": "tc",
    }


def test_what_is_switched_on_gets_the_advised_values_and_the_rest_neutral_ones() -> None:
    written = ResourceQOSStrategy(be_class=ResourceQOS(cpu_qos=CPUQOSCfg(enable=True)))
    be = slo_defaults.effective_qos_strategy(written).be_class
    assert be is not None
    assert be.cpu_qos == CPUQOSCfg(enable=True, group_identity=-1, sched_idle=0, core_expeller=False)
    assert be.memory_qos == slo_defaults.qos_off().memory_qos
    assert be.resctrl_qos == slo_defaults.qos_off().resctrl_qos


def test_values_of_a_class_that_is_off_do_not_matter() -> None:
    off = ResourceQOS(
        cpu_qos=CPUQOSCfg(group_identity=2),
        memory_qos=MemoryQOSCfg(enable=False, wmark_ratio=80),
        resctrl_qos=ResctrlQOSCfg(cat_range_end_percent=10),
    )
    effective = slo_defaults.effective_qos_strategy(ResourceQOSStrategy(ls_class=off))
    assert effective.ls_class == slo_defaults.qos_off()


def test_without_anything_written_all_classes_are_neutral() -> None:
    effective = slo_defaults.effective_qos_strategy(None)
    off = slo_defaults.qos_off()
    assert (effective.lsr_class, effective.ls_class, effective.be_class) == (off, off, off)
