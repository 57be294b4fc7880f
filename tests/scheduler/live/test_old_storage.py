"""The scheduler on a real API server whose storage is too old for streamed lists."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from koord.api.kinds import NODES, PODS
from koord.kube.client import Client
from koord.kube.informers import Informers
from tests.control_plane import ControlPlane, find_binary
from tests.scheduler.live.servers import NO_TAINTS
from tests.waiting import eventually

pytestmark = pytest.mark.cluster

OLD_ETCD = "etcd-3.4"
AMOUNTS = {"cpu": "4", "memory": "8Gi", "pods": "10"}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    if find_binary(OLD_ETCD) is None:
        pytest.skip(f"group cluster: put an etcd before 3.4.25, named {OLD_ETCD}, beside kube-apiserver")
    with ControlPlane(NO_TAINTS, etcd=OLD_ETCD) as plane:
        yield plane


@contextmanager
def scheduling(plane: ControlPlane, log: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "koord", "scheduler", "--alone", "--kubeconfig", str(plane.kubeconfig)]
    with log.open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=60)


async def test_informers_sync_by_pages_and_follow(plane: ControlPlane) -> None:
    async with Client.from_config(str(plane.kubeconfig)) as client, Informers(client) as informers:
        nodes = informers.get(NODES)
        await informers.synced()
        assert not nodes.watch_list, "this server must be one that refuses streamed lists"
        await client.create(NODES, {"metadata": {"name": "followed"}})
        await eventually(lambda: nodes.get("followed") is not None)
        await client.delete(NODES, "followed")
        await eventually(lambda: nodes.get("followed") is None)
        assert nodes.relists == 1


async def test_pods_are_scheduled(plane: ControlPlane, tmp_path: Path) -> None:
    async with Client.from_config(str(plane.kubeconfig)) as client, Informers(client) as informers:
        status = {"allocatable": AMOUNTS, "capacity": AMOUNTS}
        await client.create(NODES, {"metadata": {"name": "n1"}, "status": status})
        spec = {"containers": [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1"}}}]}
        await client.create(PODS, {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
        pods = informers.get(PODS)

        def bound() -> bool:
            pod = pods.get("default/web")
            return pod is not None and pod.spec.node_name == "n1"

        with scheduling(plane, tmp_path / "log"):
            await eventually(bound)
        said = (tmp_path / "log").read_text()
        assert "lost its stream" not in said, said
