"""CPUs and devices of pods through kills, a node that goes and comes back, and reports that change under them.

At every point no CPU is two pods', no GPU is given beyond all of it, and the scheduler's counts are what pods say.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from koord.api.kinds import DEVICES, NODE_RESOURCE_TOPOLOGIES, NODES, PODS
from koord.api.kubernetes.pod import Pod
from koord.api.protocol.annotations.cpu import RESOURCE_STATUS
from koord.kube.client import Client
from koord.scheduler.live.run import Runner
from koord.scheduler.plugins.devices.ledger import Devices
from koord.scheduler.plugins.numa.allocations import Allocations
from koord_minicluster.up.bootstrap import bootstrap
from tests.control_plane import ControlPlane
from tests.scheduler.live.embedded import node_manifest, pod_manifest, serving, until_bound
from tests.scheduler.live.servers import NO_TAINTS
from tests.scheduler.live.witness import following
from tests.scheduler.plugins.devices.machines import ALLOCATED, K, gpu
from tests.scheduler.plugins.numa.machines import report
from tests.waiting import eventually

NODE = "n"
GPUS = [gpu(minor, pcie=minor // 2, numa=minor // 2) for minor in range(4)]


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.cluster)])
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Client]:
    async with _embedded(tmp_path) if request.param == "embedded" else _real() as client:
        await bootstrap(client)
        yield client


@asynccontextmanager
async def _embedded(folder: Path) -> AsyncIterator[Client]:
    async with serving(folder) as client:
        yield client


@asynccontextmanager
async def _real() -> AsyncIterator[Client]:
    with ControlPlane(NO_TAINTS) as plane:
        async with Client.from_config(str(plane.kubeconfig)) as client:
            yield client


class Binding:
    """Has a binding stop before it is sent or after it has taken effect, where a scheduler is about to be killed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stops = ""
        self.reached = asyncio.Event()
        real = Client.bind

        async def bind(client: Client, *args: Any, **more: Any) -> None:
            if self.stops != "before":
                await real(client, *args, **more)
            if self.stops:
                self.reached.set()
                await asyncio.Event().wait()

        monkeypatch.setattr(Client, "bind", bind)

    async def kill(self, client: Client, when: str) -> None:
        """A scheduler that is gone in the middle of its first binding."""
        self.stops = when
        self.reached.clear()
        async with following(client):
            await asyncio.wait_for(self.reached.wait(), 60)
        self.stops = ""


def node() -> dict[str, Any]:
    found = node_manifest(NODE, cpu="24", memory="96Gi")
    for amounts in found["status"].values():
        amounts |= {f"{K}/gpu-core": "400", f"{K}/gpu-memory-ratio": "400"}
    return found


def service(name: str, cpus: int = 4, percent: int = 60) -> dict[str, Any]:
    """A pod with CPUs of its own and a part of a GPU."""
    found = pod_manifest(name, priorityClassName="koord-prod")
    found["metadata"]["labels"] = {"koordinator.sh/qosClass": "LSR"}
    asked = {"cpu": str(cpus), "memory": "1Gi", f"{K}/gpu-core": str(percent), f"{K}/gpu-memory-ratio": str(percent)}
    found["spec"]["containers"][0]["resources"] = {"requests": asked, "limits": asked}
    return found


def topology(shape: str) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(report(NODE, shape))
    return found


async def tell(client: Client, shape: str, devices: list[dict[str, Any]]) -> None:
    """The node's agent reports other CPUs, or other devices."""
    said = topology(shape)
    body = {"metadata": {"annotations": said["metadata"]["annotations"]}, "zones": said["zones"]}
    await client.patch(NODE_RESOURCE_TOPOLOGIES, NODE, body)
    await client.patch(DEVICES, NODE, {"spec": {"devices": devices}})


def cpus_of(pod: Pod) -> set[int]:
    mask = RESOURCE_STATUS.read(pod.metadata).cpus.mask
    return {cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1}


def cores_of(pod: Pod) -> dict[int, int]:
    """Percent by GPU."""
    given = json.loads(pod.metadata.annotations[ALLOCATED])["gpu"]
    return {each["minor"]: int(each["resources"][f"{K}/gpu-core"]) for each in given}


async def kept_apart(client: Client, runner: Runner, *names: str) -> None:
    """All of these have a node, and no pod has what another one has."""
    await until_bound(client, *names)
    bound = [pod for pod in await client.list(PODS, namespace="default") if pod.spec.node_name]
    assert {pod.metadata.name for pod in bound} == set(names)
    cpus = Counter(cpu for pod in bound for cpu in cpus_of(pod))
    assert set(cpus.values()) <= {1}
    assert sum(cpus.values()) == 4 * len(bound)
    cores: Counter[int] = Counter()
    for pod in bound:
        cores.update(cores_of(pod))
    assert max(cores.values()) <= 100

    async def counted() -> bool:
        core = runner.core
        assert core is not None
        row = core.cluster.table.row_of.get(NODE)
        if row is None or row not in core.cluster.nodes:
            return False
        usage = core.cluster.notes(Devices).usage(row)
        taken = core.cluster.notes(Allocations).on[row].taken
        of_gpus = {} if usage is None else {minor: has[f"{K}/gpu-core"] for (_, minor), has in usage.amounts.items()}
        return taken == sum(1 << cpu for cpu in cpus) and of_gpus == dict(cores)

    await eventually(counted)


async def test_cpus_and_devices_are_kept_apart_whatever_happens_in_between(
    cluster: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, binding = cluster, Binding(monkeypatch)
    await client.create(NODES, node())
    await client.create(NODE_RESOURCE_TOPOLOGIES, topology("1x2x6x2"))
    await client.create(DEVICES, {"metadata": {"name": NODE}, "spec": {"devices": GPUS}})
    await client.create(PODS, service("a"))
    await binding.kill(client, "before")
    await binding.kill(client, "after")
    async with following(client) as runner:
        await client.create(PODS, service("b"))
        await kept_apart(client, runner, "a", "b")

        # The node goes, with all that is on it, and is back.
        await client.delete(NODES, NODE)
        await eventually(lambda: _knows(runner, False))
        await client.create(NODES, node())
        await kept_apart(client, runner, "a", "b")

        # Half of the CPUs are not reported; one GPU with a pod is ill, and one is missing.
        held = {name: cores_of(await client.get(PODS, name, namespace="default")) for name in ("a", "b")}
        ill, gone = (next(iter(each)) for each in held.values())
        told = [{**gpu, "health": gpu["minor"] != ill} for gpu in GPUS if gpu["minor"] != gone]
        await tell(client, "1x1x6x2", told)
        await client.create(PODS, service("c"))
        await kept_apart(client, runner, "a", "b", "c")
        assert not cores_of(await client.get(PODS, "c", namespace="default")).keys() & {ill, gone}

        # Nothing changed: what pods had all along is theirs, and no other pod gets it.
        await tell(client, "1x2x6x2", GPUS)
        await client.create(PODS, service("d"))
        await kept_apart(client, runner, "a", "b", "c", "d")
    async with following(client) as runner:
        await kept_apart(client, runner, "a", "b", "c", "d")
        await client.delete(PODS, "b", namespace="default", grace_s=0)
        await client.create(PODS, service("e", percent=100))
        await kept_apart(client, runner, "a", "c", "d", "e")
        assert cores_of(await client.get(PODS, "e", namespace="default")) == {gone: 100}


async def _knows(runner: Runner, known: bool) -> bool:
    assert runner.core is not None
    row = runner.core.cluster.table.row_of.get(NODE)
    return (row is not None and row in runner.core.cluster.nodes) == known
