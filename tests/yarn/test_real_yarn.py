"""The whole on the real thing: Hadoop's own ResourceManager and NodeManager, with a manager, an operator, a copilot."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from koord.api import kinds
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.kube.clock import SystemClock
from koord.yarn.live.copilot import Copilot, serve
from koord.yarn.live.placing import Placing
from koord.yarn.live.run import OperatorOptions, read_clusters, run
from koord.yarn.nodes import node_facts
from koord.yarn.split import Policy
from tests.agent.real import real_cgroups
from tests.manager.live.managing import fresh, make_node, managing, report, until, until_lent, until_there
from tests.scheduler.live.embedded import serving
from tests.yarn.real_hadoop import hadoop, submit
from tests.yarn.test_copilot import asked

SLOWLY_S = 240.0
SCRIPT = "sh -c 'sleep 600 & wait'"


@pytest.mark.yarn
@pytest.mark.root
async def test_real_yarn_follows_what_is_reclaimed_and_nothing_is_sold_twice(tmp_path: Path) -> None:
    socket = str(tmp_path / "copilot.sock")
    with hadoop() as yarn, real_cgroups() as cgroups:
        placing = Placing(cgroups, CgroupDriver.CGROUPFS, [str(yarn.local_dir)])
        async with serving(tmp_path) as client:
            await fresh(client)
            policy = Policy(pace_s=1.0, shrink_s=3.0)

            def operate() -> asyncio.Task[None]:
                options = OperatorOptions(read_clusters(str(yarn.conf)), policy, user="root", look_s=0.5, soon_s=0.3)
                return asyncio.create_task(run(client, options))

            async def is_fair() -> bool:
                """Told and cap, read one after the other while nothing grows: never more than the pool."""
                node, has = node_facts(await client.get(kinds.NODES, "n1")), await yarn.cap()
                return has.plus(node.told).fits(node.pool)

            async def until_cap(vcores: int) -> None:
                async def holds() -> bool:
                    return (await yarn.cap()).vcores == vcores

                await until(holds, SLOWLY_S)

            async def count(number: int) -> list[str]:
                async def holds() -> bool:
                    return len(await yarn.running()) == number

                await until(holds, SLOWLY_S)
                return await yarn.running()

            async with managing(client):
                operator = operate()
                copilot = asyncio.create_task(serve(Copilot(yarn.node_manager_web, placing, SystemClock()), socket))
                try:
                    node_id = {"yarn.hadoop.apache.org/node-id": yarn.node_id}
                    await make_node(client, "n1", annotations=node_id)
                    await until_there(client, kinds.NODE_METRICS, "n1")
                    await report(client, "n1")
                    # Half of 35900 milli-cores, told to the real ResourceManager.
                    await until_cap(17)
                    await until_lent(client, "n1", 18900)
                    assert await is_fair()
                    for _ in range(3):
                        await submit(yarn.web(), "script", SCRIPT, 512)
                    await count(3)

                    def placed() -> bool:
                        return len(cgroups.children(placing.directory)) == 3

                    async def all_placed() -> bool:
                        return placed()

                    await until(all_placed, SLOWLY_S)
                    # The youngest container goes first, and its application goes on with another attempt.
                    _, listed = await asked(socket, "GET", "/v1/containers")
                    _, gone = await asked(socket, "POST", "/v1/killContainersByResource", {"resources": {"cpu": "1"}})
                    assert [each["name"] for each in gone["items"]] == [listed[0]["name"]]

                    async def another_runs() -> bool:
                        now = await yarn.running()
                        return len(now) == 3 and listed[0]["name"] not in now

                    await until(another_runs, SLOWLY_S)
                    # The ResourceManager starts anew; the operator is killed meanwhile.
                    operator.cancel()
                    await asyncio.gather(operator, return_exceptions=True)
                    await asyncio.to_thread(yarn.stop, "resourcemanager", kill=True)
                    operator = operate()
                    await asyncio.to_thread(yarn.start, "resourcemanager")
                    await until_cap(17)
                    assert await is_fair()
                    # Services become busy: 64000 - 25600 - 37400 = 1000 milli-cores are left to lend.
                    for _ in range(3):
                        await submit(yarn.web(), "script", SCRIPT, 512)
                    await count(3)
                    await report(client, "n1", system="37400m")
                    await until_cap(0)
                    # Within the time that was told, the ResourceManager has ended what is above the cap.
                    await count(0)

                    async def is_given_back() -> bool:
                        return node_facts(await client.get(kinds.NODES, "n1")).claim.cpu_milli == 0

                    await until(is_given_back, SLOWLY_S)
                    assert await is_fair()
                    # The NodeManager is lost: what it had stays claimed, and the node says so.
                    await report(client, "n1")
                    await until_cap(17)
                    await asyncio.to_thread(yarn.stop, "nodemanager", kill=True)

                    async def says_so() -> bool:
                        return node_facts(await client.get(kinds.NODES, "n1")).condition[1] == "UnknownNodeManager"

                    await until(says_so, SLOWLY_S)
                    assert node_facts(await client.get(kinds.NODES, "n1")).claim.cpu_milli == 17_000
                    await asyncio.to_thread(yarn.start, "nodemanager")
                    await until_cap(17)
                    assert await is_fair()
                finally:
                    for task in (operator, copilot):
                        task.cancel()
                    await asyncio.gather(operator, copilot, return_exceptions=True)
