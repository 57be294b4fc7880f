"""What pods may ask of devices, and what it comes to for each: the specification's table and its worked examples."""

from __future__ import annotations

import pytest

from koord.api.kubernetes.meta import ObjectMeta
from koord.scheduler.plugins.devices.requests import InvalidRequest, Wanted, wanted
from koord.scheduler.plugins.devices.templates import Templates
from tests.scheduler.plugins.devices.machines import GI, HINT, JOINT, K, Scene, eight


def asked(hint: str = "", *, of: dict[str, int]) -> Wanted:
    named = {"nvidia": "nvidia.com/gpu", "npu_core": "huawei.com/npu-core", "npu_cpu": "huawei.com/npu-cpu"}
    named |= {"npu_dvpp": "huawei.com/npu-dvpp", "amd": "amd.com/gpu", "shared": f"{K}/gpu.shared"}
    amounts = {named.get(key, f"{K}/{key.replace('_', '-')}"): amount for key, amount in of.items()}
    meta = ObjectMeta(annotations={HINT: hint} if hint else {})
    found = wanted(tuple(sorted(amounts.items())), meta, Templates())
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("requests", "count", "each"),
    [
        ({"nvidia": 3}, 3, {"gpu-core": 100, "gpu-memory-ratio": 100}),
        ({"amd": 1}, 1, {"gpu-core": 100, "gpu-memory-ratio": 100}),
        ({"gpu": 50}, 1, {"gpu-core": 50, "gpu-memory-ratio": 50}),
        ({"gpu": 200}, 2, {"gpu-core": 100, "gpu-memory-ratio": 100}),
        ({"gpu_core": 30, "gpu_memory": 20 * GI}, 1, {"gpu-core": 30, "gpu-memory": 20 * GI}),
        ({"gpu_memory": 20 * GI}, 1, {"gpu-memory": 20 * GI}),
        ({"gpu_memory_ratio": 300}, 3, {"gpu-memory-ratio": 100}),
        ({"shared": 2, "gpu_memory_ratio": 50}, 2, {"gpu-memory-ratio": 25}),
        (
            {"shared": 3, "gpu_core": 300, "gpu_memory": 24 * GI},
            3,
            {"gpu-core": 100, "gpu-memory": 8 * GI},
        ),
        ({"npu_core": 2, "gpu_memory_ratio": 100}, 1, {"npu-core": 2, "gpu-memory-ratio": 100}),
    ],
)
def test_a_valid_request_is_divided_among_gpus(requests: dict[str, int], count: int, each: dict[str, int]) -> None:
    (request,) = asked(of=requests).requests
    assert (request.count, {name.partition("/")[2]: amount for name, amount in request.per_device}) == (count, each)


@pytest.mark.parametrize(
    ("requests", "field"),
    [
        ({"gpu": 150}, "requests[koordinator.sh/gpu]: 150"),
        ({"gpu_core": 50}, "koordinator.sh/gpu-core"),
        ({"gpu_core": 150, "gpu_memory_ratio": 100}, "requests[koordinator.sh/gpu-core]: 150"),
        ({"shared": 2, "gpu_memory_ratio": 75}, "requests[koordinator.sh/gpu-memory-ratio]: 75"),
        ({"shared": 2, "gpu_memory_ratio": 300}, "requests[koordinator.sh/gpu-memory-ratio]: 300"),
        ({"gpu_memory_ratio": 50, "gpu_memory": GI}, "koordinator.sh/gpu-memory, koordinator.sh/gpu-memory-ratio"),
        ({"nvidia": 1, "gpu": 100}, "koordinator.sh/gpu, nvidia.com/gpu"),
        ({"nvidia": 1, "amd": 1}, "amd.com/gpu, nvidia.com/gpu"),
        ({"shared": 1}, "koordinator.sh/gpu.shared"),
        ({"shared": 2, "npu_core": 1, "npu_cpu": 1, "gpu_memory": GI}, "requests[koordinator.sh/gpu.shared]: 2"),
        (
            {"shared": 1, "npu_core": 1, "npu_cpu": 1, "gpu_memory": GI, "npu_dvpp": 101},
            "requests[huawei.com/npu-dvpp]: 101",
        ),
        ({"npu_core": 2, "gpu_memory_ratio": 50}, "2 huawei.com/npu-core, 50 koordinator.sh/gpu-memory-ratio"),
        ({"shared": 1, "npu_core": 1, "npu_cpu": 1, "gpu_memory": GI}, "1 huawei.com/npu-core"),
        ({"rdma": 150}, "requests[koordinator.sh/rdma]: 150"),
        ({"fpga": 250}, "requests[koordinator.sh/fpga]: 250"),
    ],
)
def test_what_cannot_be_given_is_refused_by_the_name_of_the_resource(requests: dict[str, int], field: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        asked(of=requests)
    assert field in str(error.value)


@pytest.mark.parametrize(
    ("hint", "amount", "count", "each"),
    [
        ("", 1, 1, 1),
        ("", 300, 3, 100),
        ('{"rdma": {"allocateStrategy": "RequestsAsCount"}}', 3, 3, 1),
        ('{"rdma": {"allocateStrategy": "RequestsAsCount", "exclusivePolicy": "DeviceLevel"}}', 3, 3, 100),
        ('{"rdma": {"allocateStrategy": "ApplyForAll"}}', 10, 0, 10),
    ],
)
def test_other_devices_are_counted_as_their_hint_says(hint: str, amount: int, count: int, each: int) -> None:
    (request,) = asked(hint, of={"rdma": amount}).requests
    assert (request.count, dict(request.per_device)) == (count, {"koordinator.sh/rdma": each})


def test_nothing_is_asked_for_by_zeros_and_other_resources() -> None:
    assert wanted((("cpu", 1000), (f"{K}/gpu", 0)), ObjectMeta()) is None


def test_a_pod_with_an_invalid_request_or_hint_is_refused_on_every_node_and_others_are_not() -> None:
    scene = Scene().node(devices=eight())
    assert scene.place(gpu=150).why_not.startswith("requests[koordinator.sh/gpu]: 150 must be")
    wrong = scene.place(gpu=100, annotations={HINT: '{"gpu": {"requiredTopologyScope": "Rack"}}'})
    assert wrong.node is None
    assert HINT in wrong.why_not
    assert scene.place(gpu=100, annotations={JOINT: "{"}).node is None
    assert scene.place(gpu=100).node == "n"
