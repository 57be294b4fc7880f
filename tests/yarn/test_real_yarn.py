"""The whole on the real thing: Hadoop's own ResourceManagers and NodeManager, with a manager, an operator, a copilot.

While a story runs, both sides are read all the time: what YARN may use and what Kubernetes is told together are never
more than what is reclaimed, except for the stated time after less is.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from koord.agent.executor.audit import Audit
from koord.agent.guests import with_guests
from koord.agent.host.cgroups import Cgroups
from koord.agent.live.copilot import CopilotClient
from koord.agent.live.evicting import Evictor
from koord.agent.qos import memory_evict
from koord.agent.qos.decision import Eviction
from koord.agent.series.names import NODE_MEMORY, guest_memory
from koord.api import kinds
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.node import Node
from koord.kube.client import Client
from koord.kube.clock import SystemClock
from koord.yarn.amount import NOTHING, Amount
from koord.yarn.containers import YarnContainer, masters
from koord.yarn.live.copilot import Copilot, serve
from koord.yarn.live.java import installed
from koord.yarn.live.placing import Placing
from koord.yarn.live.rpc import YarnError
from koord.yarn.live.run import OperatorOptions, read_clusters, run
from koord.yarn.nodes import NodeFacts, node_facts
from koord.yarn.split import Policy
from tests.agent.real import real_cgroups
from tests.agent.states import GIB, NOW, evicting, samples
from tests.agent.test_guests import MEMORY, full
from tests.manager.live.managing import fresh, make_node, managing, report, until, until_lent, until_there
from tests.scheduler.live.embedded import serving
from tests.yarn.real_hadoop import Hadoop, containers, hadoop, state_of, submit

pytestmark = [pytest.mark.yarn, pytest.mark.root, pytest.mark.timeout(900)]

SLOWLY_S = 240.0
SHRINK_S = 3.0
GONE_WITHIN_S = 60.0
"""After less is reclaimed: the stated time, and what a crowded machine takes."""
HALF_OR_MORE = 17, 32
"""Of 35: while applications wait, YARN has more."""
SCRIPT = "sh -c 'sleep 600 & wait'"


@dataclass
class Story:
    client: Client
    yarn: Hadoop
    cgroups: Cgroups
    placing: Placing
    socket: str
    operator: asyncio.Task[None] | None = None
    faults: list[str] = field(default_factory=list)
    looks: int = 0

    def operate(self) -> None:
        policy = Policy(pace_s=1.0, shrink_s=SHRINK_S)
        options = OperatorOptions(read_clusters(str(self.yarn.conf)), policy, user="root", look_s=0.5, soon_s=0.3)
        self.operator = asyncio.create_task(run(self.client, options))

    async def stop_operator(self) -> None:
        if self.operator is not None:
            self.operator.cancel()
            await asyncio.gather(self.operator, return_exceptions=True)

    async def node(self) -> NodeFacts:
        return node_facts(await self.client.get(kinds.NODES, "n1"))

    async def cap(self) -> Amount:
        """The largest that any ResourceManager has."""
        found = NOTHING
        for each in self.yarn.rm_ids:
            found = found.most(await self.yarn.cap(each))
        return found

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
            sold = before.least(after).plus(node.told)
            if not sold.fits(node.pool) and time.monotonic() - fell_s > GONE_WITHIN_S:
                self.faults.append(f"{sold} of {node.pool} are sold")
            self.looks += 1
            await asyncio.sleep(0.05)

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        await until(holds, SLOWLY_S)

    async def until_cap(self, least: int, most: int | None = None) -> None:
        async def holds() -> bool:
            return least <= (await self.cap()).vcores <= (least if most is None else most)

        await self.until(holds)

    async def count(self, number: int) -> list[str]:
        async def holds() -> bool:
            return len(await self.yarn.running()) == number

        await self.until(holds)
        return await self.yarn.running()

    async def submit(self, name: str, command: str) -> str:
        return await submit(self.yarn.web(), name, command, 512)


@asynccontextmanager
async def story(tmp_path: Path, *rm_ids: str) -> AsyncIterator[Story]:
    """With node n1, of which 35900 milli-cores are reclaimed and YARN has half."""
    with hadoop(*rm_ids) as yarn, real_cgroups() as cgroups:
        placing = Placing(cgroups, CgroupDriver.CGROUPFS, [str(yarn.local_dir)])
        socket = str(tmp_path / "copilot.sock")
        async with serving(tmp_path) as client:
            await fresh(client)
            found = Story(client, yarn, cgroups, placing, socket)
            async with managing(client):
                copilot = asyncio.create_task(serve(copilot_of(yarn, placing), socket))
                watching: asyncio.Task[None] | None = None
                try:
                    if rm_ids:
                        await found.until(lambda: _made(yarn, rm_ids[0], "Active"))
                    await make_node(client, "n1", annotations={"yarn.hadoop.apache.org/node-id": yarn.node_id})
                    await until_there(client, kinds.NODE_METRICS, "n1")
                    await report(client, "n1")
                    found.operate()
                    await found.until_cap(17)
                    await until_lent(client, "n1", 18900)
                    watching = asyncio.create_task(found.watch())
                    yield found
                    assert not watching.done(), watching.exception()
                    assert found.looks > 10
                    assert found.faults == []
                finally:
                    await found.stop_operator()
                    tasks = [each for each in (copilot, watching) if each is not None]
                    for task in tasks:
                        task.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)


def copilot_of(yarn: Hadoop, placing: Placing) -> Copilot:
    return Copilot(yarn.node_manager_web, placing, SystemClock(), left_s=5.0)


async def _made(yarn: Hadoop, rm_id: str, state: str) -> bool:
    try:
        await yarn.make(rm_id, state)
    except YarnError:
        return False
    return True


async def test_real_yarn_follows_what_is_reclaimed_and_nothing_is_sold_twice(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        client, yarn = told.client, told.yarn
        # The ResourceManager starts anew; the operator is killed meanwhile.
        await told.stop_operator()
        await asyncio.to_thread(yarn.stop, "resourcemanager", kill=True)
        told.operate()
        await asyncio.to_thread(yarn.start, "resourcemanager")
        await told.until_cap(17)
        # Services become busy: 64000 - 25600 - 37400 = 1000 milli-cores are left to lend.
        for _ in range(3):
            await told.submit("script", SCRIPT)
        await told.count(3)
        await report(client, "n1", system="37400m")
        await told.until_cap(0)
        # Within the time that was told, the ResourceManager has ended what is above the cap.
        await told.count(0)

        async def is_given_back() -> bool:
            return (await told.node()).claim.cpu_milli == 0

        await told.until(is_given_back)
        # The NodeManager is lost: what it had stays claimed, and the node says so.
        await report(client, "n1")
        await told.until_cap(17)
        await told.submit("script", SCRIPT)
        (orphan,) = await told.count(1)

        async def is_placed() -> bool:
            return len(told.placing.processes(orphan)) >= 2

        await told.until(is_placed)
        await asyncio.to_thread(yarn.stop, "nodemanager", kill=True)

        async def says_so() -> bool:
            return (await told.node()).condition[1] == "UnknownNodeManager"

        await told.until(says_so)
        assert (await told.node()).claim.cpu_milli >= 17_000
        assert told.placing.processes(orphan)
        await asyncio.to_thread(yarn.start, "nodemanager")
        await told.until_cap(*HALF_OR_MORE)

        # What it ran before is nobody's any more: the copilot ends it, and the application goes on beside it.
        async def orphan_is_gone() -> bool:
            return not told.placing.processes(orphan)

        await told.until(orphan_is_gone)
        assert orphan not in await told.count(1)


def master(yarn: Hadoop, guaranteed: int, opportunistic: int) -> str:
    """The command of a master that keeps so many workers running."""
    jars = installed(os.environ["KOORD_HADOOP"])
    classes = yarn.directory / "classes"
    source = Path(__file__).with_name("Master.java")
    subprocess.run(["javac", "-cp", jars.classpath, "-d", str(classes), str(source)], check=True)
    return (
        f"{jars.java} -Xmx100m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC --add-opens java.base/java.lang=ALL-UNNAMED"
        f" -cp '{classes}:{yarn.conf}:{jars.classpath}' Master {guaranteed} {opportunistic} 256"
        f" >{yarn.directory}/master.log 2>&1"
    )


async def test_workers_go_in_the_stated_order_and_the_application_goes_on_through_a_failover(tmp_path: Path) -> None:
    async with story(tmp_path, "rm1", "rm2") as told:
        client, yarn = told.client, told.yarn
        application = await told.submit("workers", await asyncio.to_thread(master, yarn, 3, 2))

        async def all_placed() -> bool:
            now = await yarn.running()
            return len(now) == 6 and sorted(told.cgroups.children(told.placing.directory)) == now

        await told.until(all_placed)
        all_ = await yarn.running()
        kinds_ = {each["id"]: each["executionType"] for each in await containers(yarn.node_manager_web)}
        spare = {each for each in all_ if kinds_[each] == "OPPORTUNISTIC"}
        (first,) = masters(YarnContainer(each) for each in all_)
        assert len(spare) == 2
        # Services need memory, as the agent decides it: 3 of the 6 have to go.
        agent = CopilotClient(told.socket, SystemClock())
        await agent.look()
        order = list(agent.guests)
        assert set(order[:2]) == spare
        assert order[-1] == first
        gone = await evicted_by(agent, told.cgroups, 3)
        assert gone == order[:3]

        async def others_run() -> bool:
            now = await yarn.running()
            return len(now) == 6 and not set(gone) & set(now)

        await told.until(others_run)
        assert first in await yarn.running(), "its application begins anew"
        # The active ResourceManager fails, and the operator with it; an administrator makes the other one active.
        await told.stop_operator()
        await asyncio.to_thread(yarn.stop, "resourcemanagerrm1", kill=True)
        await told.until(lambda: _made(yarn, "rm2", "Active"))
        told.operate()
        await told.until_cap(*HALF_OR_MORE)

        async def goes_on() -> bool:
            return await state_of(yarn.web("rm2"), application) == "RUNNING"

        await told.until(goes_on)
        assert first in await told.count(6)
        # Services become busy: 4000 milli-cores are left, of which YARN may have 3.
        await report(client, "n1", system="34400m")
        await told.until_cap(3)

        async def fits() -> bool:
            now = await yarn.running()
            return first in now and len(now) <= 3

        await told.until(fits)
        # The first comes back as a standby, the second yields to it by hand, and idle times return.
        await asyncio.to_thread(yarn.start, "resourcemanager", "rm1")
        await told.until(lambda: _made(yarn, "rm2", "Standby"))
        await told.until(lambda: _made(yarn, "rm1", "Active"))
        await report(client, "n1")
        await told.until_cap(*HALF_OR_MORE)
        assert first in await told.count(6)


async def evicted_by(agent: CopilotClient, cgroups: Cgroups, number: int) -> list[str]:
    """Whom memory eviction ends where `number` containers of 2 GiB have to go."""
    state = full()
    assert state.slo is not None
    state = replace(state, guests=dict(agent.guests), slo=with_guests(state.slo))
    # It has to be 73% of 128 GiB.
    used = samples(
        {NODE_MEMORY: (93.44 + 2 * number - 0.5) * GIB, **{guest_memory(each): 2.0 * GIB for each in agent.guests}}
    )
    decision = evicting(memory_evict.STRATEGY, state, used, MEMORY, (), NOW - 1000, NOW)
    assert decision is not None
    done: list[Eviction] = []

    class Heard:
        def record(self, *_: object, **__: Any) -> None: ...

    evictor = Evictor(
        cast(Any, None), cast(Any, Heard()), Audit(), SystemClock(), cgroups, done.append, Node, copilot=agent
    )
    for each in decision.evictions:
        await evictor.evict(each)
    return [each.pod.uid for each in done]
