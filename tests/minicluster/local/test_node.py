"""This machine as a node: real processes in real cgroups, by way of an API server."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from koord.agent.host.cgroups import Cgroups, Version
from koord.agent.host.files import Files
from koord.api.kinds import CONFIG_MAPS, NODES, PODS
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.words import PodPhase
from koord.kube.client import Client
from koord.kube.errors import NotFound
from koord.minicluster.local.live.run import Options, run
from tests.minicluster.apiserver.server_process import ServerProcess

pytestmark = pytest.mark.root

WITHIN_S = 40.0
NAME = "here"
ROOT = f"koord-test-local-{os.getpid()}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    data = tmp_path_factory.mktemp("server") / "data"
    process = ServerProcess(data, "--durability", "fast", "--disable-admission-plugins", "ServiceAccount")
    process.start()
    yield data / "kubeconfig"
    process.kill()


@pytest.fixture
async def client(server: Path, tmp_path: Path) -> AsyncIterator[Client]:
    """With a local node of half a core and 256 MiB, which is gone afterwards with all that ran there."""
    if Cgroups.of(Files("/")).version is not Version.V1 and not os.access("/sys/fs/cgroup", os.W_OK):
        pytest.skip("cgroups cannot be made here")
    ready = asyncio.Event()
    options = Options(NAME, ROOT, tmp_path / "logs", cpu_milli=500, memory_bytes=256 << 20)
    async with Client.from_config(str(server)) as client:
        task = asyncio.create_task(run(client, options, on_ready=lambda port: ready.set()))
        done, _ = await asyncio.wait({task, asyncio.create_task(ready.wait())}, return_when=asyncio.FIRST_COMPLETED)
        if task in done:
            task.result()
        try:
            yield client
        finally:
            for pod in await client.list(PODS):
                with suppress(NotFound):
                    await client.delete(PODS, pod.metadata.name, namespace=pod.metadata.namespace, grace_s=0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            assert not _left(), "cgroups of the node are left behind"


def _left() -> list[Path]:
    return [path for path in Path("/sys/fs/cgroup").glob(f"*/{ROOT}") if path.exists()]


def text(path: Path) -> str:
    return path.read_text().strip()


def is_there(path: Path) -> bool:
    return path.exists()


def pod(name: str, script: str, restart: str = "Never", **fields: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": "50m", "memory": "16Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}}
    container = {
        "name": "main",
        "image": "none",
        "command": ["/bin/sh", "-c", script],
        "resources": resources,
        **fields.pop("container", {}),
    }
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": NAME, "restartPolicy": restart, "containers": [container], **fields},
    }


async def until(client: Client, name: str, holds: Callable[[Pod], bool]) -> Pod:
    async with asyncio.timeout(WITHIN_S):
        while True:
            found = await client.get(PODS, name, namespace="default")
            if holds(found):
                return found
            await asyncio.sleep(0.1)


def is_running(pod: Pod) -> bool:
    return pod.status.phase is PodPhase.RUNNING and all(each.ready for each in pod.status.container_statuses)


async def log_of(client: Client, name: str) -> str:
    _, _, body = await client.raw("GET", f"/api/v1/namespaces/default/pods/{name}/log")
    return body.decode()


async def test_the_node_is_as_large_as_it_was_told(client: Client) -> None:
    node = await client.get(NODES, NAME)
    assert node.status.allocatable["cpu"] == "500m"
    assert node.status.allocatable["memory"] == "256Mi"


async def test_a_pod_runs_in_its_cgroup_with_its_environment_and_its_log(client: Client) -> None:
    await client.create(CONFIG_MAPS, {"metadata": {"name": "words", "namespace": "default"}, "data": {"WHO": "world"}})
    own = pod(
        "hello",
        "echo hello $WHO on $NODE; sleep 300",
        container={
            "env": [
                {"name": "WHO", "valueFrom": {"configMapKeyRef": {"name": "words", "key": "WHO"}}},
                {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            ]
        },
    )
    made = await client.create(PODS, own)
    found = await until(client, "hello", is_running)
    assert await log_of(client, "hello") == "hello world on here\n"
    container_id = _raw_id(await _raw(client, "hello"))
    directory = f"kubepods/burstable/pod{made.metadata.uid}/{container_id}"
    cgroup = Path(f"/sys/fs/cgroup/cpu/{ROOT}/{directory}")
    assert text(cgroup / "cpu.cfs_quota_us") == "20000"
    assert text(cgroup / "cpu.shares") == "51"
    assert int(text(Path(f"/sys/fs/cgroup/memory/{ROOT}/{directory}/memory.limit_in_bytes"))) == 64 << 20
    (pid, *_) = text(cgroup / "cgroup.procs").split()
    assert "sh" in text(Path(f"/proc/{pid}/cmdline")) or "sleep" in text(Path(f"/proc/{pid}/cmdline"))
    assert found.status.pod_ip == "127.0.0.1"


async def _raw(client: Client, name: str) -> bytes:
    _, _, body = await client.raw("GET", f"/api/v1/namespaces/default/pods/{name}")
    return body


def _raw_id(body: bytes) -> str:
    (status,) = json.loads(body)["status"]["containerStatuses"]
    runtime, _, container_id = status["containerID"].partition("://")
    assert runtime == "containerd"
    return str(container_id)


@pytest.mark.parametrize(("code", "phase"), [(0, PodPhase.SUCCEEDED), (3, PodPhase.FAILED)])
async def test_exit_codes_end_a_pod_that_never_restarts(client: Client, code: int, phase: PodPhase) -> None:
    await client.create(PODS, pod("once", f"exit {code}"))
    found = await until(client, "once", lambda pod: pod.is_finished)
    assert found.status.phase is phase
    (status,) = found.status.container_statuses
    assert status.state.terminated is not None
    assert status.state.terminated.exit_code == code


async def test_who_fails_is_started_again_and_then_waits(client: Client) -> None:
    await client.create(PODS, pod("crash", "exit 1", restart="Always"))
    found = await until(
        client,
        "crash",
        lambda pod: any(
            each.state.waiting is not None and each.state.waiting.reason == "CrashLoopBackOff"
            for each in pod.status.container_statuses
        ),
    )
    assert found.status.phase is PodPhase.RUNNING
    assert found.status.container_statuses[0].restart_count == 1


async def test_a_command_that_is_not_there_is_told(client: Client) -> None:
    await client.create(PODS, pod("missing", "", container={"command": ["/no/such/program"]}))
    found = await until(
        client, "missing", lambda pod: any(each.state.waiting for each in pod.status.container_statuses)
    )
    waiting = found.status.container_statuses[0].state.waiting
    assert waiting is not None
    assert waiting.reason == "RunContainerError"
    assert "/no/such/program" in waiting.message


async def test_probes_decide_on_ready_and_on_restarts(client: Client, tmp_path: Path) -> None:
    flag = tmp_path / "ready"
    probe = {"exec": {"command": ["test", "-e", str(flag)]}, "periodSeconds": 1, "failureThreshold": 1}
    dead = tmp_path / "dead"
    alive = {"exec": {"command": ["test", "!", "-e", str(dead)]}, "periodSeconds": 1, "failureThreshold": 1}
    own = pod(
        "probed", "sleep 300", restart="Always", terminationGracePeriodSeconds=1,
        container={"readinessProbe": probe, "livenessProbe": alive},
    )  # fmt: skip
    await client.create(PODS, own)
    found = await until(client, "probed", lambda pod: pod.status.phase is PodPhase.RUNNING)
    assert not found.status.container_statuses[0].ready
    flag.touch()
    await until(client, "probed", is_running)
    dead.touch()
    await until(client, "probed", lambda pod: pod.status.container_statuses[0].restart_count >= 1)


async def test_a_deleted_pod_may_end_in_peace(client: Client, tmp_path: Path) -> None:
    script = f"trap 'echo bye > {tmp_path}/bye; exit 0' TERM; while true; do sleep 0.1; done"
    await client.create(PODS, pod("gentle", script, terminationGracePeriodSeconds=20))
    await until(client, "gentle", is_running)
    await client.delete(PODS, "gentle", namespace="default")
    await gone(client, "gentle")
    assert (tmp_path / "bye").read_text() == "bye\n"


async def test_who_does_not_end_within_its_grace_is_killed_with_all_its_children(client: Client) -> None:
    script = "trap '' TERM; sleep 301 & sleep 302 & wait; while true; do sleep 0.1; done"
    made = await client.create(PODS, pod("stubborn", script, terminationGracePeriodSeconds=1))
    await until(client, "stubborn", is_running)
    await client.delete(PODS, "stubborn", namespace="default")
    await gone(client, "stubborn")
    assert not is_there(Path(f"/sys/fs/cgroup/cpu/{ROOT}/kubepods/burstable/pod{made.metadata.uid}"))


async def gone(client: Client, name: str) -> None:
    async with asyncio.timeout(WITHIN_S):
        while True:
            try:
                await client.get(PODS, name, namespace="default")
            except NotFound:
                return
            await asyncio.sleep(0.1)


async def test_out_of_memory_is_told_as_such(client: Client) -> None:
    script = "x=a; while true; do x=$x$x; done"
    await client.create(PODS, pod("hungry", script))
    found = await until(client, "hungry", lambda pod: pod.is_finished)
    terminated = found.status.container_statuses[0].state.terminated
    assert terminated is not None
    assert terminated.exit_code in (137, 2)
