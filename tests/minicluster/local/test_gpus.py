"""Which GPUs a pod on a local node sees, and which device files it may open.

The GPU of the live test is composed: its instance's device file is /dev/full, which every machine has. What CUDA
makes of it is shown by the tests with a real GPU.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from koord.agent.devices.inventory import NO_DEVICES, Gpu, Inventory, MigInstance
from koord.api.kinds import PODS
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.words import PodPhase
from koord.kube.client import Client
from koord_minicluster.local.environment import ConfigError
from koord_minicluster.local.gpus import gpu_environment, hidden_nodes
from koord_minicluster.local.live.run import LocalOptions, run
from tests.agent.devices.machines import composed, recorded
from tests.agent.states import pod as agent_pod
from tests.minicluster.local.running import NAME, ROOT, left_behind, pod, until_pod

ALLOCATED = "scheduling.koordinator.sh/device-allocated"


def given(*minors: int, id_: str = "") -> dict[str, str]:
    devices = [{"minor": minor, "id": id_, "resources": {"koordinator.sh/gpu-core": "100"}} for minor in minors]
    return {ALLOCATED: json.dumps({"gpu": devices})}


def test_cuda_is_told_the_uuids_of_the_pods_gpus() -> None:
    four = composed({minor: {} for minor in range(4)})
    assert gpu_environment(four, agent_pod("a", annotations=given(2, 0))) == {"CUDA_VISIBLE_DEVICES": "GPU-2,GPU-0"}
    assert hidden_nodes(four, agent_pod("a", annotations=given(2, 0))) == ("nvidia1", "nvidia3")


def test_who_got_no_gpu_sees_none() -> None:
    four = composed({minor: {} for minor in range(4)})
    assert gpu_environment(four, agent_pod("a")) == {"CUDA_VISIBLE_DEVICES": ""}
    assert hidden_nodes(four, agent_pod("a")) == ("nvidia0", "nvidia1", "nvidia2", "nvidia3")


def test_a_machine_without_gpus_changes_nothing() -> None:
    assert gpu_environment(NO_DEVICES, agent_pod("a")) == {}
    assert hidden_nodes(NO_DEVICES, agent_pod("a")) == ()


def test_instances_of_one_gpu_are_kept_apart_by_their_own_files() -> None:
    split = recorded("h200-mig")
    first, second = split.gpus[0].instances
    one = agent_pod("a", annotations=given(first.minor))
    assert gpu_environment(split, one) == {"CUDA_VISIBLE_DEVICES": first.uuid}
    assert hidden_nodes(split, one) == second.nodes
    assert set(hidden_nodes(split, agent_pod("b"))) == {"nvidia0", *first.nodes, *second.nodes}


@pytest.mark.parametrize(
    ("has", "message"),
    [
        (given(7), "GPU 7, which the scheduler gave it, is not on this machine"),
        (given(0, id_="GPU-other"), "GPU 0 (GPU-other), which the scheduler gave it, is not on this machine"),
    ],
)
def test_a_gpu_that_is_not_here_is_waited_for(has: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        gpu_environment(composed({0: {}}), agent_pod("a", annotations=has))
    assert str(refused.value) == message


@pytest.mark.root
async def test_a_pod_opens_its_own_device_and_nobody_elses(server: Path, tmp_path: Path) -> None:
    instance = MigInstance("MIG-a", 1003, "1g.18gb", 1 << 30, ("full",))
    gpu = Gpu(9, "GPU-a", "composed", 8 << 30, "0000:00:06.0", is_split=True, instances=(instance,))
    seen = [Inventory("1", (gpu,))]

    async def look() -> Inventory:
        return seen[0]

    ready = asyncio.Event()
    options = LocalOptions(NAME, ROOT, tmp_path / "logs", cpu_milli=500, memory_bytes=256 << 20)
    script = f"exec > {tmp_path}/$HOSTNAME; (: < /dev/full) && echo yes || echo no; echo $CUDA_VISIBLE_DEVICES"
    async with Client.from_config(str(server)) as client:
        task = asyncio.create_task(run(client, options, on_ready=lambda port: ready.set(), devices=look))
        await asyncio.wait({task, asyncio.create_task(ready.wait())}, return_when=asyncio.FIRST_COMPLETED)
        try:
            for name, annotations in (("owner", given(1003, id_="MIG-a")), ("stranger", {})):
                body = pod(name, script)
                body["metadata"]["annotations"] = annotations
                await client.create(PODS, body)
            for name in ("owner", "stranger"):
                await until_pod(client, name, lambda pod: pod.status.phase is PodPhase.SUCCEEDED)
            assert (tmp_path / "owner").read_text() == "yes\nMIG-a\n"
            assert (tmp_path / "stranger").read_text() == "no\n\n"
            seen[0] = replace(seen[0], gpus=(replace(gpu, instances=()),))
            late = pod("late", script)
            late["metadata"]["annotations"] = given(1003, id_="MIG-a")
            await client.create(PODS, late)

            def waits(found: Pod) -> bool:
                waiting = [container_status.state.waiting for container_status in found.status.container_statuses]
                return any(
                    container_waiting is not None and "not on this machine" in container_waiting.message
                    for container_waiting in waiting
                )

            await until_pod(client, "late", waits)
            for name in ("owner", "stranger", "late"):
                await client.delete(PODS, name, namespace="default", grace_s=0)
        finally:
            task.cancel()
            await asyncio.wait({task})
    assert not left_behind()
