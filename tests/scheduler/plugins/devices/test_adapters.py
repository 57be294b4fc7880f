"""What vendors' device plugins read on pods: by the gate DevicePluginAdaption, and not without it."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.configuration.features import SchedulerGate
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Profile
from koord.scheduler.plugins.devices.ledger import Devices
from koord.scheduler.plugins.devices.plugin import DeviceShare
from koord.scheduler.state.cluster import Cluster
from tests.scheduler.build import node, pod
from tests.scheduler.plugins.devices.machines import K, device, gpu

VENDOR, MODEL = "node.koordinator.sh/gpu-vendor", "node.koordinator.sh/gpu-model"


def written(percent: int, *, labels: dict[str, str], of_pod: dict[str, str] | None = None, on: bool = True) -> Any:
    """What is written on a pod for the vendor of a machine, without when and what it got."""
    cluster = Cluster()
    cluster.now_s = 1.5
    plugin = DeviceShare(gates={SchedulerGate.DEVICE_PLUGIN_ADAPTION: on})
    engine = Engine(cluster, Profile("s", (plugin,), {}))
    where = {"koordinator.sh/gpu-isolation-provider": "HAMi-core"} if of_pod else {}
    row = cluster.put_node(node("n", labels=where))
    cluster.notes(Devices).put_device(device("n", [gpu(0), gpu(1)], labels=labels))
    amounts = {f"{K}/gpu-core": percent, f"{K}/gpu-memory-ratio": percent}
    ask = Ask(pod("p", requests=amounts, labels=of_pod))
    assert engine.place(ask).node == "n"
    patch = engine.plan(ask, row).patch
    assert patch is not None
    meta = dict(patch.body["metadata"])
    said = {key: text for key, text in meta["annotations"].items() if not key.endswith("device-allocated")}
    if on:
        assert said.pop("scheduling.koordinator.sh/bind-timestamp") == "1500000000"
    return said, meta.get("labels")


@pytest.mark.parametrize(
    ("labels", "percent", "more"),
    [
        ({}, 200, {}),
        ({VENDOR: "huawei"}, 200, {"predicate-time": "1500000000", "huawei.com/npu-core": "0,1"}),
        (
            {VENDOR: "huawei", MODEL: "Ascend-310P3-300I-DUO"},
            200,
            {"predicate-time": "1500000000", "huawei.com/Ascend310P": "Ascend310P-0,Ascend310P-1"},
        ),
        (
            {VENDOR: "cambricon"},
            50,
            {"CAMBRICON_DSMLU_ASSIGHED": "false", "CAMBRICON_DSMLU_PROFILE": "0_50_160"},
        ),
        (
            {VENDOR: "metax"},
            50,
            {"metax-tech.com/gpu-devices-allocated": '[[{"uuid":"GPU-0","compute":50,"vRam":40960}]]'},
        ),
    ],
)
def test_a_vendors_plugin_finds_what_it_reads(labels: dict[str, str], percent: int, more: dict[str, str]) -> None:
    minors = "0,1" if percent == 200 else "0"
    assert written(percent, labels=labels) == ({"scheduling.koordinator.sh/gpu-minors": minors, **more}, None)


def test_a_share_that_hami_isolates_names_its_node() -> None:
    _, labels = written(50, labels={}, of_pod={"koordinator.sh/gpu-isolation-provider": "HAMi-core"})
    assert labels == {"hami.io/vgpu-node": "n"}


def test_without_the_gate_nothing_more_is_written() -> None:
    assert written(50, labels={VENDOR: "metax"}, on=False) == ({}, None)
