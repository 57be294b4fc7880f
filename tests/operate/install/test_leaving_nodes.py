"""`koord uninstall` on nodes with real cgroups: an agent that runs, one that was killed, and a node that is dead."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from koord.agent.host.cgroups import Cgroups
from koord.api.kinds import DAEMON_SETS, NODE_SLOS, NODES, PODS
from koord.api.kubernetes.cgroup import CgroupDriver, pod_dir
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.words import KubeQoS
from koord.api.workloads.daemon_pods import target_node
from koord.kube.client import Client
from koord.kube.errors import ApiError, NotFound
from koord.kube.locate import locate
from koord.kube.program import own_program
from koord.operate.install.settings import AGENT
from tests.agent.live.test_daemon import FakeKubelet, batch_pod
from tests.agent.real import make, paths, real_cgroups
from tests.cluster.installed import kubeconfig_of
from tests.cluster.servers import embedded
from tests.control_plane import free_port
from tests.operate.install.recorded import account_config
from tests.scheduler.live.embedded import node_manifest
from tests.waiting import eventually

SPACE = "koordinator-system"
LINUX = {"kubernetes.io/os": "linux"}
WITHIN_S = 60.0
COUNTED = ("usage", "stat", "failcnt", "peak", "numastat", "pressure", "events", "current")
"""Files of a cgroup that say what happened, not what was set."""


def settings(cgroups: Cgroups) -> dict[str, str]:
    """All that can be set in the node's cgroups."""
    found = {}
    for top in paths(cgroups, ""):
        for file in sorted(top.rglob("*")):
            if file.is_file() and file.stat().st_mode & 0o200 and not any(word in file.name for word in COUNTED):
                with suppress(OSError):
                    found[str(file)] = file.read_text()
    return found


@dataclass
class Kubelet:
    """What a kubelet does with pods of the agent's DaemonSet: their containers are processes here, one after the other,
    with their arguments; only addresses and folders are its own."""

    client: Client
    node: str
    cgroups: Cgroups
    folder: Path
    account: Path
    pods_at: str
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    async def run(self) -> None:
        while True:
            with suppress(ApiError):
                for pod in await self.client.list(PODS, namespace=SPACE):
                    if pod.spec.node_name == self.node:
                        await self._keep(pod)
            await asyncio.sleep(0.1)

    async def _keep(self, pod: Pod) -> None:
        meta = pod.metadata
        if meta.deletion_timestamp is not None:
            self.end(meta.uid)
            with suppress(NotFound):
                await self.client.delete(PODS, meta.name, namespace=SPACE, uid=meta.uid, grace_s=0)
        elif meta.uid not in self.running:
            spec = await self._spec(meta.name)
            for first in spec.get("initContainers", []):
                if await asyncio.to_thread(self._start(first["args"]).wait) != 0:
                    return
            self.running[meta.uid] = self._start(spec["containers"][0]["args"])
            ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            await self.client.patch(PODS, meta.name, {"status": ready}, namespace=SPACE, subresource="status")

    async def _spec(self, name: str) -> dict[str, Any]:
        pod = json.loads(await self.client.get_bytes(PODS, name, namespace=SPACE))
        found: dict[str, Any] = pod["spec"]
        return found

    def _start(self, arguments: list[str]) -> subprocess.Popen[bytes]:
        own = {"--host-root": "/", "--state-dir": str(self.folder / "state")}
        own["--metrics-address"] = f"127.0.0.1:{free_port()}"
        given = [own.get(before, argument) for before, argument in zip(("", *arguments), arguments, strict=False)]
        where = ["--cgroup-root", self.cgroups.root]
        if "restore" not in given:
            where += ["--kubeconfig", str(self.account), "--kubelet-address", self.pods_at, "--node-name", self.node]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen([*own_program(), given[0], *where, *given[1:]], stdout=log, stderr=log)

    def recorded(self) -> Any:
        """What there is still to put back."""
        return json.loads((self.folder / "state" / "ledger.json").read_text())

    def end(self, uid: str) -> None:
        process = self.running.pop(uid, None)
        if process is not None:
            process.terminate()
            process.wait(30)


@dataclass(frozen=True)
class Machine:
    kubelet: Kubelet
    cgroups: Cgroups
    found: Mapping[str, str]

    def is_changed(self) -> bool:
        return settings(self.cgroups) != self.found


def _write(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text)


@asynccontextmanager
async def machine(client: Client, name: str, folder: Path) -> AsyncIterator[Machine]:
    """A node with a batch pod that has a limit to be kept, and its cgroups as found."""
    account = folder / "kubeconfig"
    config = json.dumps(kubeconfig_of(await account_config(client, AGENT.full_name)))
    _write(account, config)
    with real_cgroups(CgroupDriver.CGROUPFS) as cgroups:
        job = pod_dir("job", KubeQoS.BEST_EFFORT, CgroupDriver.CGROUPFS)
        make(cgroups, job)
        make(cgroups, f"{job}/job-main")
        async with FakeKubelet([batch_pod("job", 250, has_container=True)]).serving() as pods_at:
            kubelet = Kubelet(client, name, cgroups, folder, account, pods_at)
            await client.create(NODES, node_manifest(name, labels=LINUX))
            await client.create(NODE_SLOS, {"metadata": {"name": name}, "spec": {}})
            try:
                async with working(kubelet.run()):
                    yield Machine(kubelet, cgroups, settings(cgroups))
            finally:
                for uid in list(kubelet.running):
                    kubelet.end(uid)


@asynccontextmanager
async def working(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """As long as the block lasts; what fails in it fails the test."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(work)
        try:
            yield
        finally:
            task.cancel()


async def bound(client: Client) -> None:
    """What a scheduler does for pods of a DaemonSet."""
    while True:
        with suppress(ApiError):
            for pod in await client.list(PODS, namespace=SPACE):
                if not pod.spec.node_name:
                    await client.bind(SPACE, pod.metadata.name, target_node(pod))
        await asyncio.sleep(0.1)


@pytest.mark.root
async def test_uninstall_puts_real_cgroups_back_whatever_became_of_agents_and_nodes(tmp_path: Path) -> None:
    def koord(*line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*own_program(), *line, "--kubeconfig", str(place.kubeconfig)], capture_output=True, text=True, check=False
        )

    async with AsyncExitStack() as stack:
        place = stack.enter_context(embedded(tmp_path))
        client = await stack.enter_async_context(Client(locate(str(place.kubeconfig))))
        said = await asyncio.to_thread(koord, "install", "--components", "agent", "--image", "koord:1")
        assert said.returncode == 0, said.stderr
        await stack.enter_async_context(working(bound(client)))
        tended = await stack.enter_async_context(machine(client, "tended", tmp_path / "tended"))
        killed = await stack.enter_async_context(machine(client, "killed", tmp_path / "killed"))
        await client.create(NODES, node_manifest("dead", labels=LINUX))

        async def are_changed() -> bool:
            return tended.is_changed() and killed.is_changed()

        await eventually(are_changed, WITHIN_S, what="agents act")
        (agent,) = killed.kubelet.running.values()
        agent.kill()

        # Nobody can have answered so soon: the command says so, and the next one goes on.
        said = await asyncio.to_thread(koord, "uninstall", "--yes", "--restore-timeout", "0.01")
        assert said.returncode == 1
        assert "cgroups may not be restored on" in said.stderr
        assert "dead" in said.stderr
        assert "nodes are yet to be restored" in said.stdout

        again = asyncio.create_task(asyncio.to_thread(koord, "uninstall", "--yes", "--restore-timeout", "120"))

        async def are_restored() -> bool:
            return not tended.is_changed() and not killed.is_changed()

        await eventually(are_restored, WITHIN_S, what="nodes that answer are restored, though one does not")
        # Whoever takes the dead node out of the cluster ends the wait.
        await client.delete(NODES, "dead")
        said = await again
        assert said.returncode == 0, said.stderr
        assert [daemon_set.metadata.name for daemon_set in await client.list(DAEMON_SETS, namespace=SPACE)] == []
        for each in (tended, killed):
            assert each.kubelet.recorded() == []
