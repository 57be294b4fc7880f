"""Parts of NPUs by templates: a part is exactly one that the ConfigMap has for the node's model."""

from __future__ import annotations

import json
from typing import Any

import pytest

from koord.api.configuration.features import SchedulerGate
from koord.api.configuration.scheduler_args import DeviceShareArgs, GPUSharedResourceTemplates
from koord.api.kinds import CONFIG_MAPS
from koord.api.kubernetes.core import ConfigMap
from koord.api.machinery.codec import convert
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Profile
from koord.scheduler.plugins.devices.ledger import Devices
from koord.scheduler.plugins.devices.plugin import DeviceShare
from koord.scheduler.plugins.devices.templates import faults, read
from koord.scheduler.state.cluster import Cluster
from tests.scheduler.build import node, pod
from tests.scheduler.plugins.devices.machines import K, device

VENDOR, MODEL = "node.koordinator.sh/gpu-vendor", "node.koordinator.sh/gpu-model"
H = "huawei.com"
ASCEND = {VENDOR: "huawei", MODEL: "Ascend-310P"}
TEMPLATES = f"""
huawei-Ascend-310P:
  vir02: {{{H}/npu-core: 2, {H}/npu-cpu: 2, {H}/npu-dvpp: 25, {K}/gpu-memory: 6Gi}}
  vir04: {{{H}/npu-core: 4, {H}/npu-cpu: 4, {H}/npu-dvpp: 50, {K}/gpu-memory: 12Gi}}
  vir04_3c_ndvpp: {{{H}/npu-core: 4, {H}/npu-cpu: 3, {K}/gpu-memory: 12Gi}}
"""


def config(text: str, name: str = "gpu-shared-resource-templates") -> ConfigMap:
    meta = {"name": name, "namespace": "koordinator-system"}
    return convert(ConfigMap, {"metadata": meta, "data": {"data.yaml": text}})


def npu(minor: int) -> dict[str, Any]:
    offers = {f"{H}/npu-core": 8, f"{H}/npu-cpu": 7, f"{H}/npu-dvpp": 100, f"{K}/gpu-memory": "24Gi"}
    resources = {key: str(amount) for key, amount in {**offers, f"{K}/gpu-memory-ratio": 100}.items()}
    return {"type": "gpu", "id": f"NPU-{minor}", "minor": minor, "health": True, "resources": resources}


def part(core: int, cpu: int, memory: str, dvpp: int = 0) -> dict[str, Any]:
    asked = {f"{K}/gpu.shared": 1, f"{H}/npu-core": core, f"{H}/npu-cpu": cpu, f"{K}/gpu-memory": memory}
    return asked | ({f"{H}/npu-dvpp": dvpp} if dvpp else {})


class Machines:
    """Two nodes of two NPUs each; the second one's labels say another model."""

    def __init__(self, text: str | None = TEMPLATES, gate: bool = False, args: DeviceShareArgs | None = None) -> None:
        self.cluster = Cluster()
        self.plugin = DeviceShare(args, gates={SchedulerGate.DEVICE_PLUGIN_ADAPTION: gate})
        self.engine = Engine(self.cluster, Profile("s", (self.plugin,), {}))
        for name, model in (("n", "Ascend-310P"), ("other", "Ascend-910B")):
            self.cluster.put_node(node(name, labels={VENDOR: "huawei", MODEL: model}))
            self.cluster.notes(Devices).put_device(device(name, [npu(0), npu(1)], labels=ASCEND))
        if text is not None:
            self.learn(text)
        self._number = 0

    def learn(self, text: str) -> None:
        (taking,) = [each for each in self.plugin.takes() if each.kind == CONFIG_MAPS]
        taking.put(config(text))

    def place(self, requests: dict[str, Any]) -> tuple[Ask, str | None]:
        self._number += 1
        ask = Ask(pod(f"p{self._number}", requests=requests))
        return ask, self.engine.place(ask).node

    def said(self, ask: Ask) -> dict[str, Any]:
        patch = self.engine.plan(ask, self.cluster.pods[ask.key][1]).patch
        assert patch is not None
        found: dict[str, Any] = patch.body["metadata"]["annotations"]
        return found

    def why(self, requests: dict[str, Any]) -> str:
        placement = self.engine.place(Ask(pod("asks", requests=requests)), explain=True)
        return " ".join(placement.why_not.get("DeviceShare", {})) or placement.refusal


def test_a_part_is_a_template_of_the_nodes_model_and_says_so() -> None:
    machines = Machines(gate=True)
    ask, found = machines.place(part(4, 4, "12Gi", 50))
    assert found == "n"
    said = machines.said(ask)
    (grant,) = json.loads(said["scheduling.koordinator.sh/device-allocated"])["gpu"]
    assert (grant["minor"], grant["extension"]) == (0, {"gpuSharedResourceTemplate": "vir04"})
    assert grant["resources"][f"{H}/npu-core"] == "4"
    assert grant["resources"][f"{K}/gpu-memory-ratio"] == "50"
    assert said["huawei.com/npu-core"] == "0-vir04"
    note = dict(machines.cluster.pods[ask.key][0].notes)[Devices.name]
    assert machines.cluster.notes(Devices).words(note) == "vir04 of gpu 0"


def test_parts_fill_an_npu_and_no_more() -> None:
    machines = Machines()
    nodes = [machines.place(part(4, 3, "12Gi"))[1] for _ in range(5)]
    assert nodes == ["n"] * 4 + [None]
    usage = machines.cluster.notes(Devices).usage(machines.cluster.table.row_of["n"])
    assert usage is not None
    assert [usage.amounts["gpu", minor][f"{H}/npu-core"] for minor in (0, 1)] == [8, 8]


def test_a_whole_npu_takes_no_template_and_an_npu_in_parts_is_not_whole() -> None:
    machines = Machines(None)
    whole = {f"{H}/npu-core": 8, f"{K}/gpu-memory-ratio": 100}
    assert machines.place(whole)[1] is not None
    machines = Machines()
    machines.place(part(2, 2, "6Gi", 25))
    for _ in range(3):
        assert machines.place(whole)[1] is not None
    assert machines.place(whole)[1] is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "no template is known (ConfigMap koordinator-system/gpu-shared-resource-templates)"),
        (TEMPLATES, "templates are vir02 of huawei-Ascend-310P (2 huawei.com/npu-core"),
    ],
)
def test_a_part_that_is_no_template_is_refused_with_those_that_are(text: str | None, told: str) -> None:
    message = Machines(text).why(part(3, 4, "12Gi", 50))
    assert "3 huawei.com/npu-core, 4 huawei.com/npu-cpu, 50 huawei.com/npu-dvpp, 12Gi" in message
    assert told in message


def test_a_node_whose_model_has_no_such_template_is_turned_away_for_good() -> None:
    machines = Machines()
    machines.cluster.remove_node("n")
    assert machines.why(part(2, 2, "6Gi", 25)) == "no matched GPU shared resource template"


def test_templates_that_come_later_let_waiting_pods_in_and_go_with_their_config_map() -> None:
    machines = Machines(None)
    wanted = part(2, 2, "6Gi", 25)
    assert machines.place(wanted)[1] is None
    machines.learn(TEMPLATES)
    assert machines.place(wanted)[1] == "n"
    (taking,) = [each for each in machines.plugin.takes() if each.kind == CONFIG_MAPS]
    taking.remove(config(TEMPLATES))
    assert machines.place(wanted)[1] is None


def test_the_arguments_say_where_templates_are_and_what_needs_one() -> None:
    where = GPUSharedResourceTemplates("gpus", "parts", (f"{K}/gpu-core",))
    machines = Machines(None, args=DeviceShareArgs(gpu_shared_resource_templates_config=where))
    (taking,) = [each for each in machines.plugin.takes() if each.kind == CONFIG_MAPS]
    assert taking.named == ("gpus", "parts")
    assert "(ConfigMap gpus/parts)" in machines.why({f"{K}/gpu-core": 50, f"{K}/gpu-memory-ratio": 50})


@pytest.mark.parametrize(
    ("text", "fault", "known"),
    [
        ("{", "data[data.yaml]", []),
        ("- a", "data[data.yaml]: must be an object", []),
        ("good: {a: {x: 1}}\nbad: {b: {x: much}}", "data[data.yaml].bad.b", ["good"]),
    ],
)
def test_what_cannot_be_read_of_the_config_map_is_told_and_the_rest_counts(
    text: str, fault: str, known: list[str]
) -> None:
    told = [str(fault) for fault in faults(config(text))]
    assert len(told) == 1
    assert told[0].startswith(fault)
    assert list(read(config(text))) == known
