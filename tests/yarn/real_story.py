"""Hadoop's own daemons beside koord's, for stories: a manager, an operator and a copilot, the last two as processes.

While a story runs, both sides are read all the time: what YARN may use and what Kubernetes is told together are never
more than what is reclaimed, except for the stated time after less is.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from koord.agent.host.cgroups import Cgroups
from koord.api import kinds
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.kube.client import Client
from koord.yarn.amount import NOTHING, Amount
from koord.yarn.live.placing import Placing
from koord.yarn.live.rpc import YarnError
from koord.yarn.nodes import NodeFacts, node_facts
from tests.agent.real import real_cgroups
from tests.manager.live.managing import fresh, make_node, managing, report, until_lent, until_there
from tests.scheduler.live.embedded import serving
from tests.waiting import eventually
from tests.yarn.real_hadoop import Hadoop, hadoop, submit

SLOWLY_S = 240.0
SHRINK_S = 3.0
GONE_WITHIN_S = 60.0
"""After less is reclaimed: the stated time, and what a crowded machine takes."""


@dataclass
class Story:
    client: Client
    yarn: Hadoop
    cgroups: Cgroups
    directory: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    looks: int = 0

    @property
    def placing(self) -> Placing:
        return Placing(self.cgroups, CgroupDriver.CGROUPFS, [str(self.yarn.local_dir)])

    @property
    def socket(self) -> str:
        return str(self.directory / "copilot.sock")

    def operate(self, *flags: str) -> None:
        kubeconfig = str(self.directory / "kubeconfig")
        quick = ("--pace", "1", "--shrink-timeout", f"{SHRINK_S:g}", "--user", "root")
        self._start("operator", "--hadoop-conf-dir", str(self.yarn.conf), "--kubeconfig", kubeconfig, *quick, *flags)

    def assist(self) -> None:
        cgroups = ("--cgroup-root", self.cgroups.root, "--cgroup-driver", "cgroupfs")
        self._start("copilot", "--hadoop-conf-dir", str(self.yarn.conf), "--socket", self.socket, *cgroups)

    def _start(self, name: str, *flags: str) -> None:
        command = [sys.executable, "-m", "koord", "yarn", name, *flags]
        with (self.directory / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self, name: str) -> None:
        """By SIGKILL, as a machine that runs out of memory does it."""
        process = self.processes.pop(name)
        assert process.poll() is None, (self.directory / f"{name}.log").read_text()
        process.kill()
        process.wait()

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()

    async def node(self) -> NodeFacts:
        return node_facts(await self.client.get(kinds.NODES, "n1"))

    async def cap(self) -> Amount:
        """The largest that any ResourceManager has."""
        amount = NOTHING
        for rm_id in self.yarn.rm_ids:
            amount = amount.most(await self.yarn.cap(rm_id))
        return amount

    async def watch(self) -> None:
        """The cap is read before and after the node: what is above both was so when the node was read."""
        pool, fell_s = NOTHING, float("-inf")
        while True:
            before = await self.cap()
            node = await self.node()
            after = await self.cap()
            if not pool.fits(node.pool):
                fell_s = time.monotonic()
            pool = node.pool
            sold = before.least(after).plus(node.allocatable)
            if not sold.fits(node.pool) and time.monotonic() - fell_s > GONE_WITHIN_S:
                self.faults.append(f"{sold} of {node.pool} are sold")
            self.looks += 1
            await asyncio.sleep(0.05)

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        await eventually(holds, SLOWLY_S)

    async def until_cap(self, least: int, most: int | None = None) -> None:
        async def holds() -> bool:
            return least <= (await self.cap()).vcores <= (least if most is None else most)

        await self.until(holds)

    async def count(self, number: int, *but: str) -> list[str]:
        """Ids of N containers that run, and of none of the others."""

        async def holds() -> bool:
            found = await self.yarn.running()
            return len(found) == number and not set(but) & set(found)

        await self.until(holds)
        return await self.yarn.running()

    async def until_placed(self, containers: list[str]) -> None:
        async def all_are() -> bool:
            return all(len(self.placing.processes(container)) >= 2 for container in containers)

        await self.until(all_are)

    async def make(self, rm_id: str, state: str) -> None:
        """Makes a ResourceManager active or a standby, once it answers."""

        async def is_made() -> bool:
            try:
                await self.yarn.make(rm_id, state)
            except YarnError:
                return False
            return True

        await self.until(is_made)

    async def submit(self, name: str, command: str) -> str:
        return await submit(self.yarn.web(), name, command, 512)


@asynccontextmanager
async def story(
    tmp_path: Path, *rm_ids: str, properties: Callable[[Cgroups], dict[str, str]] = lambda _: {}
) -> AsyncIterator[Story]:
    """With node n1: 35900 milli-cores are reclaimed and YARN has half. `properties` are Hadoop's."""
    with real_cgroups() as cgroups, hadoop(*rm_ids, properties=properties(cgroups)) as yarn:
        async with serving(tmp_path) as client:
            await fresh(client)
            found = Story(client, yarn, cgroups, tmp_path)
            async with managing(client):
                watching: asyncio.Task[None] | None = None
                try:
                    found.assist()
                    if rm_ids:
                        await found.make(rm_ids[0], "Active")
                    await make_node(client, "n1", annotations={"yarn.hadoop.apache.org/node-id": yarn.node_id})
                    await until_there(client, kinds.NODE_METRICS, "n1")
                    await report(client, "n1")
                    found.operate()
                    await found.until_cap(17)
                    await until_lent(client, "n1", 18900, SLOWLY_S)
                    watching = asyncio.create_task(found.watch())
                    yield found
                    assert not watching.done(), watching.exception()
                    assert found.looks > 10
                    assert found.faults == []
                finally:
                    found.end()
                    if watching is not None:
                        watching.cancel()
                        await asyncio.gather(watching, return_exceptions=True)
