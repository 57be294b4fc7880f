"""A scheduler process that is killed in the middle of its work: the next one goes on, nothing is given twice or lost.

All that there is gets taken: had a killed scheduler left CPUs or parts of GPUs unused, a pod would stay pending.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from koord.api.kinds import DEVICES, NODE_RESOURCE_TOPOLOGIES, NODES, PODS, RESERVATIONS
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.protocol import names
from koord.api.protocol.annotations.cpu import CPU_TOPOLOGY, RESOURCE_STATUS, CPUInfo, CPUTopology
from koord.api.protocol.annotations.reservation import RESERVATION_ALLOCATED
from koord.api.protocol.crd.reservation import Reservation
from koord.kube.client import Client
from koord_minicluster.up.bootstrap import bootstrap
from tests.scheduler.live.embedded import node_manifest, pod_manifest, scheduling
from tests.scheduler.plugins.devices.machines import ALLOCATED, K, gpu
from tests.waiting import eventually

MACHINES = 4
OWNERS = OTHERS = 2 * MACHINES
"""A node has 8 CPUs and 2 GPUs; half of them are reserved. A pod takes 2 CPUs and half a GPU."""
TOPOLOGY = CPUTopology(tuple(CPUInfo(id=i, core=i // 2, socket=0, node=i // 4) for i in range(8)))


async def killed_once(holds: Callable[[], Awaitable[bool]], kubeconfig: Path) -> None:
    """A scheduler process, which is killed as soon as something is so."""
    command = [sys.executable, "-m", "koord", "scheduler", "--alone", "--kubeconfig", str(kubeconfig)]
    with (kubeconfig.parent / "scheduler.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)
    try:
        await eventually(holds)
    finally:
        process.kill()
        await process.wait()


async def make_machine(client: Client, name: str) -> None:
    node = node_manifest(name, cpu="8")
    for has in node["status"].values():
        has |= {f"{K}/gpu-core": "200", f"{K}/gpu-memory-ratio": "200"}
    await client.create(NODES, node)
    said = {CPU_TOPOLOGY.key: CPU_TOPOLOGY.render(TOPOLOGY)}
    report = {"metadata": {"name": name, "annotations": said}, "topologyPolicies": ["None"], "zones": []}
    await client.create(NODE_RESOURCE_TOPOLOGIES, report)
    await client.create(DEVICES, {"metadata": {"name": name}, "spec": {"devices": [gpu(0), gpu(1)]}})


def asking(name: str, app: str, cpu: str, percent: str) -> dict[str, Any]:
    labels = {"app": app, names.LABEL_QOS_CLASS: "LSR"}
    manifest = pod_manifest(name, cpu=cpu, labels=labels, priorityClassName="koord-prod")
    resources = manifest["spec"]["containers"][0]["resources"]
    share = {f"{K}/gpu-core": percent, f"{K}/gpu-memory-ratio": percent}
    resources["requests"] |= share
    resources["limits"] = share
    return manifest


def reserving(name: str) -> dict[str, Any]:
    pod = asking(name, "web", "4", "100")
    template = {"metadata": {"labels": pod["metadata"]["labels"]}, "spec": {**pod["spec"], "priority": 9500}}
    owners = [{"labelSelector": {"matchLabels": {"app": "web"}}}]
    return {"metadata": {"name": name}, "spec": {"owners": owners, "template": template, "allocateOnce": False}}


def cpus_of(meta: ObjectMeta) -> set[int]:
    return set(RESOURCE_STATUS.read(meta).cpus)


def gpus_of(meta: ObjectMeta) -> Counter[int]:
    found = json.loads(meta.annotations[ALLOCATED])["gpu"]
    return Counter({each["minor"]: int(each["resources"][f"{K}/gpu-core"]) for each in found})


async def test_cpus_gpus_and_reserved_room_are_given_once_though_a_scheduler_is_killed(
    anywhere: Client, new_server: Path
) -> None:
    client = anywhere
    await bootstrap(client)
    for i in range(MACHINES):
        await make_machine(client, f"n{i}")
        await client.create(RESERVATIONS, reserving(f"r{i}"))

    async def bound(number: int) -> bool:
        return sum(bool(pod.spec.node_name) for pod in await client.list(PODS, namespace="default")) >= number

    async def all_say(holds: Callable[[Reservation], bool]) -> bool:
        return all(map(holds, await client.list(RESERVATIONS)))

    async with scheduling(client):
        await eventually(lambda: all_say(lambda reservation: reservation.status.phase == "Available"))
    owners = [asking(f"owner-{i}", "web", "2", "50") for i in range(OWNERS)]
    others = [asking(f"other-{i}", "other", "2", "50") for i in range(OTHERS)]
    *most, last = [each for pair in zip(owners, others, strict=True) for each in pair]
    await asyncio.gather(*(client.create(PODS, each) for each in most))
    await killed_once(lambda: bound(1), new_server)
    await client.create(PODS, last)
    async with scheduling(client):
        await eventually(lambda: bound(OWNERS + OTHERS))
        await eventually(lambda: all_say(lambda reservation: len(reservation.status.current_owners) == 2))
    await _nothing_is_given_twice(client)


async def _nothing_is_given_twice(client: Client) -> None:
    reservations = {reservation.metadata.name: reservation for reservation in await client.list(RESERVATIONS)}
    assert len(reservations) == MACHINES
    cpus: dict[str, list[int]] = {}
    gpus: dict[str, Counter[int]] = {}
    for held in reservations.values():
        on = held.status.node_name
        cpus.setdefault(on, []).extend(cpus_of(held.metadata))
        gpus.setdefault(on, Counter()).update(gpus_of(held.metadata))
    inside: dict[str, list[int]] = {}
    for pod in await client.list(PODS, namespace="default"):
        meta, on = pod.metadata, pod.spec.node_name
        if not pod.metadata.name.startswith("owner"):
            cpus.setdefault(on, []).extend(cpus_of(meta))
            gpus.setdefault(on, Counter()).update(gpus_of(meta))
            continue
        came_out_of = RESERVATION_ALLOCATED.read(meta)
        assert came_out_of is not None
        held = reservations[came_out_of.name]
        assert on == held.status.node_name
        assert cpus_of(meta) <= cpus_of(held.metadata)
        assert gpus_of(meta) <= gpus_of(held.metadata)
        inside.setdefault(held.metadata.name, []).extend(cpus_of(meta))
    for each in (*cpus.values(), *inside.values()):
        assert len(each) == len(set(each)), "a CPU is given to one"
    assert {name: sorted(cpu) for name, cpu in cpus.items()} == {f"n{i}": list(range(8)) for i in range(MACHINES)}
    assert gpus == {f"n{i}": {0: 100, 1: 100} for i in range(MACHINES)}
    assert {name: sorted(each) for name, each in inside.items()} == {
        name: sorted(cpus_of(held.metadata)) for name, held in reservations.items()
    }
