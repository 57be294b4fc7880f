"""The whole on the real thing: Hadoop's own daemons, with a manager, an operator and a copilot."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from koord.agent.executor.audit import Audit
from koord.agent.guests import with_guests
from koord.agent.host.cgroups import Cgroups, Version
from koord.agent.live.copilot import CopilotClient
from koord.agent.live.evicting import Evictor
from koord.agent.qos import memory_evict
from koord.agent.qos.decision import Eviction
from koord.agent.series.names import NODE_MEMORY, guest_memory
from koord.api.kubernetes.node import Node
from koord.kube.clock import SystemClock
from koord.yarn.amount import of_yarn
from koord.yarn.containers import YarnContainer, masters
from koord.yarn.hadoop.configuration import properties
from koord.yarn.hadoop.messages import NodeCap
from koord.yarn.live.java import installed
from koord.yarn.live.resource_manager import ResourceManager, Way
from koord.yarn.live.rpc import YarnForbidden, YarnRefused
from koord.yarn.live.run import read_clusters
from tests.agent.live.pending import Pending
from tests.agent.states import GIB, NOW, evicting, samples
from tests.agent.test_guests import MEMORY, full
from tests.manager.live.managing import report
from tests.waiting import eventually
from tests.yarn.real_hadoop import Hadoop, containers, hadoop, rest, state_of, submit
from tests.yarn.real_story import SLOWLY_S, Story, story

pytestmark = [pytest.mark.yarn, pytest.mark.root, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
HALF_OR_MORE = 17, 32
"""Of 35: while applications wait, YARN has more."""
SCRIPT = "sh -c 'sleep 600 & wait'"
WAYS: tuple[Way, ...] = ("rpc", "rest")
AT_ONCE = "--no-leader-elect"
"""The successor of a killed operator has to wait for its lease otherwise."""


async def test_real_yarn_follows_what_is_reclaimed_and_nothing_is_sold_twice(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        client, yarn = told.client, told.yarn
        # The ResourceManager restarts; the operator is killed in the meantime, and its successor waits for the lease.
        told.kill("operator")
        await asyncio.to_thread(yarn.stop, "resourcemanager", kill=True)
        told.operate()
        await asyncio.to_thread(yarn.start, "resourcemanager")
        await told.until_cap(17)
        for _ in range(3):
            await told.submit("script", SCRIPT)
        first = await told.count(3)
        await told.until_placed(first)
        # Another copilot finds the containers where the one before had put them.
        told.kill("copilot")
        told.assist()
        await until_known(told, CopilotClient(told.socket, SystemClock()), first)
        # Services become busy: 64000 - 25600 - 37400 = 1000 milli-cores are left to lend. The operator is killed
        # before it could do anything about it.
        await report(client, "n1", system="37400m")
        told.kill("operator")
        told.operate(AT_ONCE)
        await told.until_cap(0)
        # Within the time that was told, the ResourceManager has ended what is above the cap.
        await told.count(0)

        async def is_given_back() -> bool:
            return (await told.node()).claim.cpu_milli == 0

        await told.until(is_given_back)
        # Only administrators may change a node's resource, and only of nodes that there are.
        told.kill("operator")
        cluster = read_clusters(str(yarn.conf))[""]
        with pytest.raises(YarnForbidden, match=r"add nobody to yarn\.admin\.acl"):
            await ResourceManager(cluster, user="nobody").update([NodeCap(yarn.node_id, of_yarn(9, 512))])
        for way in WAYS:
            with pytest.raises(YarnRefused):
                await ResourceManager(cluster, way=way, user="root").update([NodeCap("n9:1", of_yarn(9, 512))])
        assert (await told.cap()).vcores == 0
        # Idle times return, and with them the applications, since YARN tries them again; this time over REST.
        told.operate(AT_ONCE, "--via", "rest")
        await report(client, "n1")
        await told.until_cap(*HALF_OR_MORE)
        orphans = await told.count(3, *first)
        await told.until_placed(orphans)
        # The NodeManager is lost: what it had stays claimed, and the node says so.
        await asyncio.to_thread(yarn.stop, "nodemanager", kill=True)

        async def says_so() -> bool:
            return (await told.node()).condition[1] == "UnknownNodeManager"

        await told.until(says_so)
        assert (await told.node()).claim.cpu_milli >= 17_000
        assert all(told.placing.processes(orphan) for orphan in orphans)
        await asyncio.to_thread(yarn.start, "nodemanager")
        await told.until_cap(*HALF_OR_MORE)

        # What it ran before has no owner any more: the copilot ends it, and the applications go on beside it.
        async def orphans_are_gone() -> bool:
            return not any(told.placing.processes(orphan) for orphan in orphans)

        await told.until(orphans_are_gone)
        await told.count(3, *first, *orphans)


def master(yarn: Hadoop, guaranteed: int, opportunistic: int) -> str:
    """The command of a master that keeps N workers running."""
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
        kinds_ = {container["id"]: container["executionType"] for container in await containers(yarn.node_manager_web)}
        spare = {each for each in all_ if kinds_[each] == "OPPORTUNISTIC"}
        (first,) = masters(YarnContainer(each) for each in all_)
        assert len(spare) == 2
        # Services need memory, as the agent decides it: 3 of the 6 have to go.
        agent = CopilotClient(told.socket, SystemClock())
        await until_known(told, agent, all_)
        order = list(agent.guests)
        assert set(order[:2]) == spare
        assert order[-1] == first
        gone = await evicted_by(agent, told.cgroups, 3)
        assert gone == order[:3]

        async def others_run() -> bool:
            now = await yarn.running()
            return len(now) == 6 and not set(gone) & set(now)

        await told.until(others_run)
        assert first in await yarn.running(), "its application starts again"
        # The active ResourceManager fails, and the operator with it; an administrator makes the other one active.
        told.kill("operator")
        await asyncio.to_thread(yarn.stop, "resourcemanagerrm1", kill=True)
        await told.make("rm2", "Active")
        told.operate(AT_ONCE)
        await told.until_cap(*HALF_OR_MORE)

        async def goes_on() -> bool:
            return await state_of(yarn.web("rm2"), application) == "RUNNING"

        await told.until(goes_on)
        assert first in await told.count(6)
        # Services become busy: 4000 milli-cores are left, and YARN may have 3.
        await report(client, "n1", system="34400m")
        await told.until_cap(3)

        async def fits() -> bool:
            now = await yarn.running()
            return first in now and len(now) <= 3

        await told.until(fits)
        # The first comes back as a standby, the second yields to it by hand, and idle times return.
        await asyncio.to_thread(yarn.start, "resourcemanager", "rm1")
        await told.make("rm2", "Standby")
        await told.make("rm1", "Active")
        await report(client, "n1")
        await told.until_cap(*HALF_OR_MORE)
        assert first in await told.count(6)


async def test_the_queue_of_the_page_runs_its_applications_on_nodes_with_the_label_of_the_page() -> None:
    example = yaml.safe_load((ROOT / "examples" / "yarn" / "hadoop-conf.yaml").read_text())["data"]
    site = properties(example["yarn-site.xml"], "")
    labels = {name: text for name, text in site.items() if name.startswith("yarn.node-labels.")}
    page = (ROOT / "docs" / "run-hadoop-jobs.md").read_text()
    commands = re.findall(r"^yarn rmadmin (.*)$", page, re.MULTILINE)
    assert len(commands) == 3
    with tempfile.TemporaryDirectory() as store:
        labels["yarn.node-labels.fs-store.root-dir"] = store
        roomy = {"yarn.nodemanager.resource.memory-mb": "1024"}
        with hadoop(properties={**labels, **roomy}, scheduler=example["capacity-scheduler.xml"]) as yarn:

            async def is_there() -> bool:
                return (await yarn.cap()).vcores == 1

            await eventually(is_there, SLOWLY_S)
            for command in commands:
                await asyncio.to_thread(yarn.administrate, *command.replace("n1.example.com", "localhost").split())
            await submit(yarn.web(), "script", SCRIPT, 256, queue="shared", label="shared")

            async def runs() -> bool:
                return len(await yarn.running()) == 1

            await eventually(runs, SLOWLY_S)
            found = await rest(f"{yarn.web()}/ws/v1/cluster/nodes")
            assert found["nodes"]["node"][0]["nodeLabels"] == ["shared"]


def test_reducers_fetch_what_mappers_in_other_containers_made(tmp_path: Path) -> None:
    roomy = {"yarn.nodemanager.resource.memory-mb": "2048", "yarn.nodemanager.resource.cpu-vcores": "3"}
    source, counted = tmp_path / "input", tmp_path / "output"
    source.mkdir()
    for name, text in (("one", "to be or"), ("two", "not to be")):
        (source / name).write_text(text)
    with hadoop(properties=roomy) as yarn:
        own = "-Dmapreduce.job.ubertask.enable=false"
        yarn.run("org.apache.hadoop.examples.ExampleDriver", "wordcount", own, str(source), str(counted))
    assert (counted / "part-r-00000").read_text() == "be\t2\nnot\t1\nor\t1\nto\t2\n"


EXECUTOR = os.environ.get("KOORD_CONTAINER_EXECUTOR", "")
_LINUX = "yarn.nodemanager.linux-container-executor"


def native(cgroups: Cgroups) -> dict[str, str]:
    """As the page says, for cgroups that are the test's."""
    package = "org.apache.hadoop.yarn.server.nodemanager"
    return {
        "yarn.nodemanager.container-executor.class": f"{package}.LinuxContainerExecutor",
        f"{_LINUX}.path": EXECUTOR,
        f"{_LINUX}.group": "root",
        f"{_LINUX}.nonsecure-mode.local-user": "nobody",
        f"{_LINUX}.resources-handler.class": f"{package}.util.CgroupsLCEResourcesHandler",
        f"{_LINUX}.cgroups.hierarchy": f"/{cgroups.root}/kubepods/besteffort/hadoop-yarn",
        "yarn.nodemanager.resource.memory.enabled": "true",
    }


@pytest.mark.skipif(not EXECUTOR, reason="set KOORD_CONTAINER_EXECUTOR to Hadoop's native container-executor")
async def test_the_native_executor_puts_containers_where_the_copilot_looks_for_them(tmp_path: Path) -> None:
    async with story(tmp_path, properties=native) as told:
        if told.cgroups.version is Version.V2:
            pytest.skip("Hadoop 3.4's native executor knows version 1 of cgroups alone")
        # Whoever moves processes there, it is not the copilot.
        told.kill("copilot")
        for _ in range(2):
            await told.submit("script", SCRIPT)
        both = await told.count(2)
        await told.until_placed(both)
        assert sorted(told.cgroups.children(told.placing.directory, "memory")) == both
        told.assist()
        agent = CopilotClient(told.socket, SystemClock())
        await until_known(told, agent, both)
        (youngest, oldest) = agent.guests
        await agent.kill(youngest)
        # Its application is tried again.
        again = await told.count(2, youngest)
        assert oldest in again
        await report(told.client, "n1", system="37400m")
        await told.until_cap(0)
        await told.count(0)

        async def nothing_is_left() -> bool:
            return not any(told.placing.processes(each) for each in (*both, *again))

        await told.until(nothing_is_left)


async def until_known(told: Story, agent: CopilotClient, running: list[str]) -> None:
    async def are_known() -> bool:
        await agent.look()
        return sorted(agent.guests) == running

    await told.until(are_known)


async def evicted_by(agent: CopilotClient, cgroups: Cgroups, number: int) -> list[str]:
    """Whom memory eviction ends where `number` containers of 2 GiB have to go."""
    state = full()
    assert state.slo is not None
    state = replace(state, guests=dict(agent.guests), slo=with_guests(state.slo))
    # It has to be 73% of 128 GiB.
    used = samples(
        {NODE_MEMORY: (93.44 + 2 * number - 0.5) * GIB, **{guest_memory(guest): 2.0 * GIB for guest in agent.guests}}
    )
    decision = evicting(memory_evict.STRATEGY, state, used, MEMORY, (), NOW - 1000, NOW)
    assert decision is not None
    done: list[Eviction] = []

    class Heard:
        def record(self, *_: object, **__: Any) -> None: ...

    api, requests, events = cast(Any, None), Pending(), cast(Any, Heard())
    evictor = Evictor(api, requests, events, Audit(), SystemClock(), cgroups, done.append, Node, copilot=agent)
    for eviction in decision.evictions:
        evictor.evict(eviction)
    await requests.answered()
    return [eviction.pod.uid for eviction in done]
