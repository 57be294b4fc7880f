"""What a container is created with for the devices that the scheduler gave its pod."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from koord.agent.devices.inventory import Gpu, Inventory, RdmaCard
from koord.agent.hooks.registry import wishes_for
from koord.agent.state import NodeState
from koord.agent.wish import CdiDevice, Device, Env, Mount, Setting
from koord.api.configuration.features import AgentGate
from tests.agent.states import node, pod

ALLOCATED = "scheduling.koordinator.sh/device-allocated"
CARD = RdmaCard(
    "mlx5_1",
    1,
    "0000:3b:00.0",
    "infiniband/uverbs1",
    {"0000:3b:00.2": "infiniband/uverbs7"},
)


def state(*gates: AgentGate) -> NodeState:
    on = {gate: gate in gates or gate in (AgentGate.GPU_ENV_INJECT, AgentGate.RDMA_DEVICE_INJECT) for gate in AgentGate}
    return replace(node(slo={}), gates=on, devices=Inventory(cards=(CARD,)))


NAMES = ("nvidia.com/gpu=GPU-5e", "x.org/net-pci=0000:3b:00.2", "x.org/net-rdma=0000:3b:00.2")


def test_devices_that_specifications_of_the_node_name_are_asked_for_by_name() -> None:
    found = Gpu(minor=0, uuid="GPU-5e", model="H100", memory_bytes=80 << 30, bus_id="0000:3a:00.0")
    specified = replace(state(), devices=Inventory(gpus=(found,), cards=(CARD,), cdi=NAMES))
    function = {"minor": 1, "resources": {}, "extension": {"vfs": [{"minor": 0, "busID": "0000:3b:00.2"}]}}
    whole = {"core": "100", "memory_ratio": "100", "memory": "80Gi"}
    text = json.dumps({"gpu": [gpu(0, **whole), gpu(1, **whole)], "rdma": [function]})
    own = pod("train", annotations={ALLOCATED: text})
    named = [
        wish.value for wish in wishes_for(specified, own, own.containers[0]) if isinstance(wish.setting, CdiDevice)
    ]
    assert named == ["nvidia.com/gpu=GPU-5e", "x.org/net-rdma=0000:3b:00.2"], "no other name is asked for"


def wanted(given: Any, labels: Mapping[str, str] | None = None, *gates: AgentGate) -> dict[Setting, Any]:
    text = given if isinstance(given, str) else json.dumps(given)
    own = pod("train", labels=labels, annotations={ALLOCATED: text})
    return {wish.setting: wish.value for wish in wishes_for(state(*gates), own, own.containers[0])}


def gpu(minor: int, **resources: str) -> dict[str, Any]:
    amounts = {f"koordinator.sh/gpu-{key.replace('_', '-')}": text for key, text in resources.items()}
    return {"minor": minor, "resources": amounts}


def test_a_container_sees_the_gpus_of_its_pod() -> None:
    whole = {"core": "100", "memory_ratio": "100", "memory": "80Gi"}
    assert wanted({"gpu": [gpu(2, **whole), gpu(0, **whole)]}) == {Env("NVIDIA_VISIBLE_DEVICES"): "2,0"}


def test_an_instance_of_mig_is_named_by_its_uuid() -> None:
    instance = {**gpu(1049, core="100", memory_ratio="100"), "id": "MIG-1690b4e9"}
    assert wanted({"gpu": [instance]}) == {Env("NVIDIA_VISIBLE_DEVICES"): "MIG-1690b4e9"}


def test_nothing_is_wanted_for_who_got_nothing_or_what_cannot_be_read() -> None:
    assert wanted({}) == {}
    assert wanted("{") == {}
    assert wanted({"gpu": "all"}) == {}


SHARE = gpu(1, core="50", memory_ratio="50", memory="40Gi")
HAMI = {"koordinator.sh/gpu-isolation-provider": "HAMi-core"}


def test_a_share_is_held_to_by_the_library_of_the_isolation_provider() -> None:
    assert wanted({"gpu": [SHARE]}, HAMI) == {
        Env("NVIDIA_VISIBLE_DEVICES"): "1",
        Env("CUDA_DEVICE_MEMORY_LIMIT"): str(40 << 30),
        Env("CUDA_DEVICE_SM_LIMIT"): "50",
        Env("LD_PRELOAD"): "/usr/local/vgpu/libvgpu.so",
        Mount("/usr/local/vgpu/libvgpu.so"): "/usr/local/vgpu/libvgpu.so",
        Mount("/tmp/vgpulock", is_read_only=False): "/tmp/vgpulock",
    }
    assert wanted({"gpu": [SHARE]}) == {Env("NVIDIA_VISIBLE_DEVICES"): "1"}, "nothing holds it to its share"
    whole = gpu(1, core="100", memory_ratio="100", memory="80Gi")
    assert wanted({"gpu": [whole]}, HAMI) == {Env("NVIDIA_VISIBLE_DEVICES"): "1"}


def test_the_monitor_of_shares_gets_a_place_for_each_container() -> None:
    found = wanted({"gpu": [SHARE]}, HAMI, AgentGate.HAMI_CORE_VGPU_MONITOR)
    assert found[Env("CUDA_DEVICE_MEMORY_SHARED_CACHE")] == "/usr/local/vgpu/train_main.cache"
    assert found[Mount("/usr/local/vgpu", is_read_only=False)] == "/usr/local/vgpu/containers/train_main"


def test_a_card_comes_with_the_file_through_which_connections_are_made() -> None:
    paths = ["/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs1"]
    assert wanted({"rdma": [{"minor": 1, "resources": {}}]}) == {Device(path): path for path in paths}


def test_of_a_virtual_function_only_its_own_file_is_given() -> None:
    function = {"minor": 1, "resources": {}, "extension": {"vfs": [{"minor": -1, "busID": "0000:3b:00.2"}]}}
    paths = ["/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs7"]
    assert wanted({"rdma": [function]}) == {Device(path): path for path in paths}


def test_a_card_that_is_not_here_gives_no_files() -> None:
    assert wanted({"rdma": [{"minor": 5, "resources": {}}]}) == {}
