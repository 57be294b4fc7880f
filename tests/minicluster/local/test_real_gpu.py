"""GPUs of this machine, for real: what the Device says, and what a pod sees and may open. Needs an NVIDIA GPU and root.

What the CUDA driver counts is asked by a pod's own process, and its device file is opened by it.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from koord.api.kinds import DEVICES, NODE_METRICS, NODES, PODS, Kind
from koord.api.protocol.crd.device import DeviceInfo
from koord.kube.client import Client
from koord.kube.errors import NotFound
from tests.waiting import until

pytestmark = [pytest.mark.gpu, pytest.mark.root]

WITHIN_S = 90.0
NODE = "local"
LOOK = """
import ctypes, json, os, sys
def opens(path):
    try:
        os.close(os.open(path, os.O_RDWR))
        return "yes"
    except OSError as error:
        return error.strerror
cuda = ctypes.CDLL("libcuda.so.1")
count, memory = ctypes.c_int(-1), ctypes.c_size_t(0)
begun = cuda.cuInit(0)
if begun == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value:
    cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), 0)
seen = {"begun": begun, "count": count.value, "memory": memory.value, "gpu0": opens("/dev/nvidia0")}
seen |= {"visible": os.environ.get("CUDA_VISIBLE_DEVICES"), "control": opens("/dev/nvidiactl")}
with open(sys.argv[1] + ".new", "w") as file:
    json.dump(seen, file)
os.rename(sys.argv[1] + ".new", sys.argv[1])
"""
BUSY = """
import time, torch
y = torch.randn(4096, 4096, device="cuda")
while True:
    y = y @ y * 1e-4
    torch.cuda.synchronize()
"""
TOO_FAR = """
import cupy
kernel = cupy.RawKernel('extern "C" __global__ void far(int* p) { p[1L << 40] = 1; }', "far")
try:
    kernel((1,), (1,), (cupy.zeros(1, dtype=cupy.int32),))
    cupy.cuda.Device().synchronize()
except cupy.cuda.runtime.CUDARuntimeError as error:
    print(error)
"""


class Cluster:
    """`koord up --local-node`, and the API against it."""

    def __init__(self, folder: Path) -> None:
        self.data, self.folder = folder / "data", folder
        self._process = subprocess.Popen(
            [
                sys.executable, "-m", "koord", "up", "--headless", "--local-node", "--durability", "fast",
                "--data-dir", str(self.data),
            ],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("ready:"), line

    def get(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        async def ask() -> Any:
            async with Client.from_config(str(self.data / "kubeconfig")) as client:
                return await client.get(kind, name, namespace=namespace)

        try:
            return asyncio.run(ask())
        except NotFound:
            return None

    def create(self, body: dict[str, Any]) -> None:
        async def ask() -> None:
            async with Client.from_config(str(self.data / "kubeconfig")) as client:
                await client.create(PODS, body)

        asyncio.run(ask())

    def delete(self, name: str) -> None:
        async def ask() -> None:
            async with Client.from_config(str(self.data / "kubeconfig")) as client:
                await client.delete(PODS, name, namespace="default")

        asyncio.run(ask())
        self.until(lambda: self.get(PODS, name, "default") is None)

    def until(self, holds: Callable[[], Any]) -> Any:
        return until(holds, WITHIN_S)

    def gpus(self) -> list[DeviceInfo]:
        found = self.get(DEVICES, NODE)
        return [device for device in found.spec.devices if device.type == "gpu"] if found else []

    def seen_by(self, name: str, gpus: int, **annotations: str) -> dict[str, Any]:
        """What a pod with this share of a GPU sees of the machine's."""
        told = self.folder / f"{name}.json"
        self.run(name, [sys.executable, "-c", LOOK, str(told)], gpus, **annotations)
        self.until(told.exists)
        found: dict[str, Any] = json.loads(told.read_text())
        return found

    def run(self, name: str, command: list[str], gpus: int, **annotations: str) -> None:
        limits: dict[str, str] = {"cpu": "1", "memory": "8Gi"}
        limits |= {"koordinator.sh/gpu": str(gpus)} if gpus else {}
        keys = {f"scheduling.koordinator.sh/{key.replace('_', '-')}": text for key, text in annotations.items()}
        container = {"name": "main", "image": "none", "command": command, "resources": {"limits": limits}}
        self.create(
            {
                "metadata": {"name": name, "namespace": "default", "annotations": keys},
                "spec": {
                    "schedulerName": "koord-scheduler",
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 1,
                    "containers": [container],
                },
            }
        )

    def stop(self) -> int:
        self._process.terminate()
        return self._process.wait(60)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    found = Cluster(tmp_path_factory.mktemp("gpu"))
    try:
        yield found
    finally:
        assert found.stop() == 0


@pytest.fixture
def split() -> Iterator[None]:
    """GPU 0 with an instance of a seventh and one of two sevenths."""
    _smi("-i", "0", "-mig", "1")
    try:
        _smi("mig", "-i", "0", "-cgi", "19,14", "-C")
        yield
    finally:
        subprocess.run(["nvidia-smi", "mig", "-i", "0", "-dci"], capture_output=True, timeout=60, check=False)
        subprocess.run(["nvidia-smi", "mig", "-i", "0", "-dgi"], capture_output=True, timeout=60, check=False)
        _smi("-i", "0", "-mig", "0")


def _smi(*args: str) -> str:
    return subprocess.run(["nvidia-smi", *args], capture_output=True, text=True, timeout=60, check=True).stdout


def test_the_device_says_what_nvidia_smi_says(cluster: Cluster) -> None:
    told = _smi("--query-gpu=uuid,memory.total,driver_version", "--format=csv,noheader,nounits").splitlines()
    expected = [line.split(", ") for line in told]
    gpus = cluster.until(cluster.gpus)
    assert [gpu.id for gpu in gpus] == [uuid for uuid, _, _ in expected]
    memory = [int(gpu.resources["koordinator.sh/gpu-memory"].removesuffix("Mi")) for gpu in gpus]
    assert memory == [int(mib) for _, mib, _ in expected]
    assert all(gpu.health for gpu in gpus)
    labels = cluster.get(DEVICES, NODE).metadata.labels
    assert labels["node.koordinator.sh/gpu-vendor"] == "nvidia"
    assert labels["node.koordinator.sh/gpu-driver-version"] == expected[0][2]


def test_a_pod_sees_the_gpu_that_it_was_given_and_another_cannot_open_it(cluster: Cluster) -> None:
    (gpu, *_) = cluster.until(cluster.gpus)
    cluster.until(lambda: cluster.get(NODES, NODE).status.allocatable.get("koordinator.sh/gpu-core"))
    with_gpu = cluster.seen_by("with-gpu", 100)
    assert (with_gpu["begun"], with_gpu["count"], with_gpu["gpu0"]) == (0, 1, "yes")
    assert with_gpu["visible"] == gpu.id
    without = cluster.seen_by("without", 0)
    assert without["begun"] != 0
    assert without["visible"] == ""
    assert without["gpu0"] == "Operation not permitted"


def test_the_report_says_how_much_of_a_gpu_a_pod_uses(cluster: Cluster) -> None:
    cluster.run("busy", [sys.executable, "-c", BUSY], 100)

    def used() -> dict[str, Any] | None:
        metric = cluster.get(NODE_METRICS, NODE)
        pods = metric.status.pods_metric if metric and metric.status else ()
        for pod in pods:
            for device in pod.pod_usage.devices if pod.name == "busy" else ():
                if int(device.resources.get("koordinator.sh/gpu-core", "0")) > 0:
                    return dict(device.resources)
        return None

    found = cluster.until(used)
    cluster.delete("busy")
    assert "koordinator.sh/gpu-memory" in found
    assert int(found["koordinator.sh/gpu-core"]) <= 100


def test_a_programs_own_fault_takes_no_gpu_from_the_others(cluster: Cluster) -> None:
    done = subprocess.run([sys.executable, "-c", TOO_FAR], capture_output=True, text=True, timeout=60, check=False)
    assert "illegal" in done.stdout + done.stderr
    time.sleep(7)
    assert all(gpu.health for gpu in cluster.gpus())


def test_instances_of_mig_are_devices_that_pods_are_given(cluster: Cluster, split: None) -> None:
    profiles = {"1g.18gb", "2g.35gb"}
    gpus = cluster.until(lambda: [gpu for gpu in cluster.gpus() if gpu.labels.get("mig-profile") in profiles])
    assert {gpu.labels["mig-profile"] for gpu in gpus} == profiles
    assert all(gpu.health and gpu.id.startswith("MIG-") for gpu in gpus)
    own = next(gpu for gpu in gpus if gpu.labels["mig-profile"] == "1g.18gb")
    hint = json.dumps({"gpu": {"selector": {"matchLabels": {"mig-profile": "1g.18gb"}}}})
    seen = cluster.seen_by("seventh", 100, device_allocate_hint=hint)
    assert (seen["begun"], seen["count"], seen["visible"]) == (0, 1, own.id)
    assert seen["memory"] < 20 << 30
    assert cluster.seen_by("without-mig", 0)["begun"] != 0


def test_a_gpu_that_is_whole_again_is_a_device_again(cluster: Cluster) -> None:
    found = cluster.until(lambda: [gpu for gpu in cluster.gpus() if gpu.health and gpu.id.startswith("GPU-")])
    assert all(not gpu.labels for gpu in found)
