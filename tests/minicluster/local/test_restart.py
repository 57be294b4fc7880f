"""The node's own process is killed while its pods run: it comes back by itself, and they go on."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from koord.api.kinds import NODES, PODS
from koord.api.kubernetes.pod import Pod
from koord.kube.client import Client
from koord_minicluster.up.data_dir import DataDir
from koord_minicluster.up.plan import Component
from koord_minicluster.up.supervisor import Supervisor
from tests.minicluster.local.running import container_id_of, gone, is_running, log_of, pids_in, pod, until_pod
from tests.waiting import eventually

pytestmark = pytest.mark.root

NAME = "killed"
ROOT = f"koord-test-killed-{os.getpid()}"


async def pids_of(client: Client, name: str) -> list[int]:
    found = await client.get(PODS, name, namespace="default")
    return pids_in(found.metadata.uid, await container_id_of(client, name), ROOT)


def is_alive(pid: int) -> bool:
    """A process that ended and was not waited for yet is none."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def inherited(pid: int) -> list[str]:
    return sorted(each.name for each in Path(f"/proc/{pid}/fd").iterdir())


async def test_a_killed_node_is_started_again_and_its_pods_go_on(server: Path, tmp_path: Path) -> None:
    options = (
        "--kubeconfig", str(server), "--node-name", NAME, "--cgroup-root", ROOT, "--logs", str(tmp_path / "logs"),
        "--cpu", "500m", "--memory", "256Mi",
    )  # fmt: skip
    with DataDir(tmp_path / "data") as data:
        supervisor = Supervisor([Component("local", options)], data)
        running = asyncio.create_task(supervisor.run())
        try:
            async with Client.from_config(str(server)) as client:
                await asyncio.wait_for(supervisor.ready(), 60)
                end = tmp_path / "end"
                for name, script, restart in (
                    ("web", "echo hello; exec sleep 300", "Always"),
                    ("counts", f"until test -e {end}; do sleep 0.1; done; exit 3", "Never"),
                    ("lost", "exec sleep 300", "Never"),
                    ("done", "echo bye", "Never"),
                ):
                    own = pod(name, script, restart=restart)
                    own["spec"]["nodeName"] = NAME
                    await client.create(PODS, own)
                for name in ("web", "counts", "lost"):
                    await until_pod(client, name, is_running)
                await until_pod(client, "done", lambda pod: pod.is_finished)
                (before, *_) = await pids_of(client, "web")
                (lost, *_) = await pids_of(client, "lost")
                assert inherited(before) == ["0", "1", "2"]
                child = supervisor.children["local"]
                killed = child.pid
                os.kill(killed, signal.SIGKILL)
                os.kill(lost, signal.SIGKILL)
                await eventually(lambda: child.pid != killed and child.state == "ready")
                assert _code(await until_pod(client, "lost", lambda pod: pod.is_finished)) == 137
                assert await pids_of(client, "web") == [before]
                assert _restarts(await client.get(PODS, "web", namespace="default")) == 0
                end.touch()
                code = _code(await until_pod(client, "counts", lambda pod: pod.is_finished))
                assert code == (3 if tells_codes() else 137)
                assert (await log_of(client, "web"), await log_of(client, "done")) == ("hello\n", "bye\n")
                await client.delete(PODS, "web", namespace="default", grace_s=1)
                await gone(client, "web")
                assert not is_alive(before)
                for name in ("counts", "lost", "done"):
                    await client.delete(PODS, name, namespace="default")
                await client.delete(NODES, NAME)
        finally:
            running.cancel()
            await asyncio.wait([running])
    assert not list(Path("/sys/fs/cgroup").glob(f"*/{ROOT}"))  # noqa: ASYNC240


def _restarts(pod: Pod) -> int:
    return pod.status.container_statuses[0].restart_count


def _code(pod: Pod) -> int:
    ended = pod.status.container_statuses[0].state.terminated
    assert ended is not None
    return ended.exit_code


def tells_codes() -> bool:
    """Whether the kernel says how a process ended that is not a child of this one."""
    major, minor = os.uname().release.split(".")[:2]
    return (int(major), int(minor)) >= (6, 15)
