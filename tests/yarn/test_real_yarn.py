"""The whole on the real thing: Hadoop's own ResourceManager and NodeManager, with a manager, an operator, a copilot."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from koord.api import kinds
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.kube.clock import SystemClock
from koord.yarn.amount import NOTHING, Amount, of_yarn
from koord.yarn.live.copilot import Copilot, serve
from koord.yarn.live.placing import Placing
from koord.yarn.live.run import OperatorOptions, read_clusters, run
from koord.yarn.nodes import node_facts
from koord.yarn.split import Policy
from tests.agent.real import real_cgroups
from tests.manager.live.managing import fresh, make_node, managing, report, until, until_lent, until_there
from tests.scheduler.live.embedded import serving
from tests.yarn.real_hadoop import NODE_MANAGER, RESOURCE_MANAGER, Hadoop, hadoop
from tests.yarn.test_copilot import asked

SLOWLY_S = 240.0


async def rest(url: str, body: object = None) -> Any:
    async with aiohttp.ClientSession() as session, session.request("POST" if body else "GET", url, json=body) as answer:
        return await answer.json(content_type=None) if answer.status == 200 else None


async def node_of(yarn: Hadoop) -> dict[str, Any]:
    try:
        found = await rest(f"{yarn.web}/ws/v1/cluster/nodes")
    except aiohttp.ClientError:
        return {}
    nodes = ((found or {}).get("nodes") or {}).get("node", [])
    return next((each for each in nodes if each["id"] == yarn.node_id and each["state"] == "RUNNING"), {})


async def cap(yarn: Hadoop) -> Amount:
    total = (await node_of(yarn)).get("totalResource")
    return of_yarn(total["vCores"], total["memory"]) if total else NOTHING


async def submit(yarn: Hadoop, mib: int) -> str:
    """An application that is one shell script."""
    made = await rest(f"{yarn.web}/ws/v1/cluster/apps/new-application?user.name=root", {"a": 1})
    id_ = str(made["application-id"])
    spec = {
        "application-id": id_,
        "application-name": "script",
        "max-app-attempts": 5,
        "am-container-spec": {"commands": {"command": "sh -c 'sleep 600 & wait'"}},
        "application-type": "SHELL",
        "resource": {"memory": mib, "vCores": 1},
    }
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{yarn.web}/ws/v1/cluster/apps?user.name=root", json=spec) as answer,
    ):
        assert answer.status == 202, await answer.text()
    return id_


async def running(yarn: Hadoop) -> list[str]:
    found = await rest(f"http://{yarn.node_manager_web}/ws/v1/node/containers")
    items = ((found or {}).get("containers") or {}).get("container", [])
    return sorted(each["id"] for each in items if each["state"] == "RUNNING")


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
                node, has = node_facts(await client.get(kinds.NODES, "n1")), await cap(yarn)
                return has.plus(node.told).fits(node.pool)

            async def until_cap(vcores: int) -> None:
                async def holds() -> bool:
                    return (await cap(yarn)).vcores == vcores

                await until(holds, SLOWLY_S)

            async def count(number: int) -> list[str]:
                async def holds() -> bool:
                    return len(await running(yarn)) == number

                await until(holds, SLOWLY_S)
                return await running(yarn)

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
                        await submit(yarn, 512)
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
                        now = await running(yarn)
                        return len(now) == 3 and listed[0]["name"] not in now

                    await until(another_runs, SLOWLY_S)
                    # The ResourceManager starts anew; the operator is killed meanwhile.
                    operator.cancel()
                    await asyncio.gather(operator, return_exceptions=True)
                    await asyncio.to_thread(yarn.stop, RESOURCE_MANAGER, kill=True)
                    operator = operate()
                    await asyncio.to_thread(yarn.start, RESOURCE_MANAGER)
                    await until_cap(17)
                    assert await is_fair()
                    # Services become busy: 64000 - 25600 - 37400 = 1000 milli-cores are left to lend.
                    for _ in range(3):
                        await submit(yarn, 512)
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
                    await asyncio.to_thread(yarn.stop, NODE_MANAGER, kill=True)

                    async def says_so() -> bool:
                        return node_facts(await client.get(kinds.NODES, "n1")).condition[1] == "UnknownNodeManager"

                    await until(says_so, SLOWLY_S)
                    assert node_facts(await client.get(kinds.NODES, "n1")).claim.cpu_milli == 17_000
                    await asyncio.to_thread(yarn.start, NODE_MANAGER)
                    await until_cap(17)
                    assert await is_fair()
                finally:
                    for task in (operator, copilot):
                        task.cancel()
                    await asyncio.gather(operator, copilot, return_exceptions=True)
