"""The operator between an API server with a manager, and a ResourceManager's stand-in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from koord.api import kinds
from koord.cli.main import run as command
from koord.kube.client import Client
from koord.kube.metrics import Metrics
from koord.yarn.amount import MIB, NOTHING, Amount, of_yarn
from koord.yarn.hadoop.messages import NodeCap
from koord.yarn.live import operator as operator_module
from koord.yarn.live import resource_manager as module
from koord.yarn.live import rpc
from koord.yarn.live.resource_manager import ResourceManager, Way
from koord.yarn.live.rpc import YarnRefused, YarnUnreachable
from koord.yarn.live.run import OperatorOptions, run
from koord.yarn.nodes import node_facts
from koord.yarn.split import Policy
from tests.manager.live.managing import fresh, make_node, managing, report, until_lent, until_there
from tests.scheduler.live.embedded import pod_manifest, scheduling, serving
from tests.waiting import eventually
from tests.yarn.stand_in import StandIn, resource_manager

QUICK = Policy(pace_s=0.3, heard_s=0.0)
ID = "n1:8041"
SLOWLY_S = 60.0
NODE_ID = {"yarn.hadoop.apache.org/node-id": ID}


@asynccontextmanager
async def operating(
    client: Client, rm: StandIn, policy: Policy = QUICK, metrics: Metrics | None = None
) -> AsyncIterator[asyncio.Task[None]]:
    options = OperatorOptions({"": rm.cluster}, policy, look_s=0.2, soon_s=0.05)
    task = asyncio.create_task(run(client, options, metrics=metrics))
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def never_sold_twice(client: Client, rm: StandIn) -> AsyncIterator[None]:
    """At each growth of the cap the API server is asked, at each growth of what Kubernetes is told, YARN's past."""
    faults: list[str] = []

    async def before(node_id: str, cap: Amount) -> None:
        node = node_facts(await client.get(kinds.NODES, node_id.partition(":")[0]))
        if not cap.fits(rm.caps[node_id]) and not cap.plus(node.allocatable).fits(node.pool):
            faults.append(f"cap {cap} with {node.allocatable} told, of {node.pool}")

    rm.before_update = before
    yield
    rm.before_update = None
    assert faults == []


async def until_cap(rm: StandIn, vcores: int, node_id: str = ID) -> None:
    async def holds() -> bool:
        return rm.caps[node_id].vcores == vcores

    await eventually(holds, SLOWLY_S)


async def condition(client: Client, name: str = "n1") -> tuple[str, str, str]:
    return node_facts(await client.get(kinds.NODES, name)).condition


async def test_yarns_cap_and_batch_allocatable_share_one_pool_through_restarts_and_lost_answers(tmp_path: Path) -> None:
    async with serving(tmp_path) as client, resource_manager(n1=of_yarn(1, 1024)) as rm:
        await fresh(client)
        async with managing(client), never_sold_twice(client, rm):
            await make_node(client, "n1", annotations=NODE_ID)
            await until_there(client, kinds.NODE_METRICS, "n1")
            await report(client, "n1")
            await until_lent(client, "n1", 35900, SLOWLY_S)
            async with operating(client, rm):
                # Half of 35900, rounded down; Kubernetes has the rest, to the last milli-core.
                await until_cap(rm, 17)
                await until_lent(client, "n1", 18900, SLOWLY_S)
                rm.pending = of_yarn(4, 4096)
                await until_cap(rm, 32)
                await until_lent(client, "n1", 3900, SLOWLY_S)
                rm.mode = "lose-answers"
                rm.used[ID] = of_yarn(20, 20 * 1024)
                await report(client, "n1", system="20")
            # The operator is killed while less is reclaimed: 64000 - 25600 - 20000.
            rm.mode = ""
            async with operating(client, rm):
                await until_cap(rm, 16)
                assert rm.updates[-1][2] == 30_000
                await until_lent(client, "n1", 2400, SLOWLY_S)
                # The ResourceManager forgets, and the NodeManager registers with what its own configuration says.
                rm.caps[ID], rm.used = rm.registered[ID], {}
                await until_cap(rm, 16)
                await client.patch(kinds.NODES, "n1", {"metadata": {"annotations": dict.fromkeys(NODE_ID)}})
                await until_cap(rm, 0)
                await until_lent(client, "n1", 18400, SLOWLY_S)
                node = await client.get(kinds.NODES, "n1")
                assert "node.koordinator.sh/thirdPartyAllocations" not in node.metadata.annotations
                assert "node.koordinator.sh/yarn-node" not in node.metadata.annotations

                async def says_nothing() -> bool:
                    return (await condition(client)) == ("", "", "")

                await eventually(says_nothing, SLOWLY_S)


async def test_a_resource_manager_that_forgets_and_pools_that_fall_in_a_row_do_not_wait_for_the_pace(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as client, resource_manager(n1=of_yarn(1, 1024)) as rm:
        await fresh(client)
        async with managing(client), never_sold_twice(client, rm):
            await make_node(client, "n1", annotations=NODE_ID)
            await until_there(client, kinds.NODE_METRICS, "n1")
            await report(client, "n1")
            async with operating(client, rm, Policy(pace_s=600.0, heard_s=0.0)):
                await until_cap(rm, 17)
                await until_lent(client, "n1", 18900, SLOWLY_S)
                rm.caps[ID] = rm.registered[ID]
                await until_cap(rm, 17)
                rm.used[ID] = of_yarn(17, 17 * 1024)
                rm.ends_containers = False
                # 64000 - 25600 - 28400 = 10000 milli-cores, then 5000: of both, Kubernetes keeps a tenth.
                await report(client, "n1", system="28400m")
                await until_cap(rm, 9)
                await report(client, "n1", system="33400m")
                await until_cap(rm, 4)
                first, second = (limit for _, cap, limit in rm.updates if cap.vcores in (9, 4))
                assert (first, second < first) == (30_000, True), "the second fall gave containers more time"


def batch_pod(name: str) -> dict[str, Any]:
    amounts = {"kubernetes.io/batch-cpu": "6k", "kubernetes.io/batch-memory": "1Gi"}
    manifest = pod_manifest(name, priorityClassName="koord-batch", labels={"koordinator.sh/qosClass": "BE"})
    manifest["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return manifest


async def test_batch_pods_and_applications_compete_for_one_pool_and_both_get_their_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator_module, "WAITED_S", 1.0)
    async with serving(tmp_path) as client, resource_manager(n1=of_yarn(1, 1024)) as rm:
        await fresh(client)
        async with managing(client), scheduling(client), never_sold_twice(client, rm):
            await make_node(client, "n1", annotations=NODE_ID)
            await until_there(client, kinds.NODE_METRICS, "n1")
            await report(client, "n1")
            async with operating(client, rm):
                # Only YARN wants more: 35900 less the 10% that Kubernetes is guaranteed.
                rm.pending = of_yarn(40, 4096)
                await until_cap(rm, 32)
                rm.used[ID] = of_yarn(5, 1024)
                # Both do: half each, and three pods of 6 cores fit into 18900.
                names = [f"crunch-{number}" for number in range(4)]
                for name in names:
                    await client.create(kinds.PODS, batch_pod(name), namespace="default")
                await until_cap(rm, 17)
                await until_lent(client, "n1", 18900, SLOWLY_S)

                async def bound() -> int:
                    return len([pod for pod in await client.list(kinds.PODS) if pod.spec.node_name])

                async def three_are() -> bool:
                    return await bound() == 3

                await eventually(three_are, SLOWLY_S)
                # Only Kubernetes does: YARN keeps what its containers use, and the fourth pod comes.
                rm.pending = NOTHING

                async def all_are() -> bool:
                    return await bound() == 4

                await eventually(all_are, SLOWLY_S)
                assert 5 in [cap.vcores for _, cap, _ in rm.updates]
                # Only YARN again: all but what pods hold, 35900 - 24000.
                rm.pending = of_yarn(40, 4096)
                await until_cap(rm, 11)
                assert node_facts(await client.get(kinds.NODES, "n1")).allocatable.cpu_milli >= 24_000


@pytest.mark.parametrize("way", ["rpc", "rest"])
async def test_both_ways_tell_caps_and_read_nodes(way: Way) -> None:
    async with resource_manager(n1=of_yarn(1, 1024), n2=of_yarn(2, 2048)) as rm:
        rm.pending = of_yarn(3, 512)
        manager = ResourceManager(rm.cluster, way=way, user="root")
        await manager.update([NodeCap("n2:8041", of_yarn(5, 777), 1500)])
        nodes, waits = await manager.look()
        assert {node.node_id: node.cap for node in nodes} == {"n1:8041": of_yarn(1, 1024), "n2:8041": of_yarn(5, 777)}
        assert waits == of_yarn(3, 512)
        assert rm.updates == [("n2:8041", of_yarn(5, 777), 1500)]
        with pytest.raises(YarnRefused, match=r"n9|404"):
            await manager.update([NodeCap("n9:8041", of_yarn(1, 1))])


@pytest.mark.parametrize(
    ("way", "mode", "says"),
    [
        ("rpc", "hang", "does not answer"),
        ("rest", "hang", "does not answer"),
        ("rpc", "html", "does not speak Hadoop's RPC"),
        ("rest", "html", "not answer with JSON but '<html>Sign in</html>'"),
        ("rpc", "403", "add hdfs to yarn.admin.acl"),
        ("rest", "403", "add hdfs to yarn.admin.acl"),
        ("rpc", "standby", "is not active: it starts, or is a standby"),
        ("rest", "standby", "is a standby"),
    ],
)
async def test_a_resource_manager_that_answers_nonsense_is_told_in_one_line(
    way: Way, mode: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode == "hang":
        # All other answers have the time that they need on a busy machine.
        monkeypatch.setattr(rpc, "ANSWER_S", 0.2)
        monkeypatch.setattr(module, "REST_S", 0.2)
    async with resource_manager(n1=of_yarn(1, 1024)) as rm:
        rm.mode = mode
        with pytest.raises((YarnUnreachable, YarnRefused), match=says):
            await ResourceManager(rm.cluster, way=way, user="hdfs").look()


async def test_with_high_availability_the_active_one_is_asked_and_another_after_a_failover() -> None:
    async with resource_manager(n1=of_yarn(1, 1024)) as one, resource_manager(n1=of_yarn(2, 2048)) as two:
        one.is_active = False
        manager = ResourceManager(
            type(one.cluster)("", (one.address, two.address)), user="root"
        )  # fmt: skip
        assert (await manager.look())[0][0].cap == of_yarn(2, 2048)
        one.is_active, two.is_active = True, False
        assert (await manager.look())[0][0].cap == of_yarn(1, 1024)
        one.is_active = False
        with pytest.raises(YarnUnreachable, match="is active"):
            await manager.look()


async def test_a_node_whose_node_manager_is_unknown_says_what_to_set_and_the_others_go_on(tmp_path: Path) -> None:
    async with serving(tmp_path) as client, resource_manager(n1=of_yarn(1, 1024), n2=of_yarn(1, 1024)) as rm:
        await fresh(client)
        wrong = {"yarn.hadoop.apache.org/node-id": "n2.example.com:8041"}
        bad = {"yarn.hadoop.apache.org/node-id": "n3"}
        other = {**NODE_ID, "yarn.hadoop.apache.org/cluster-id": "blue"}
        async with managing(client), operating(client, rm):
            for name, annotations in (("n1", NODE_ID), ("n2", wrong), ("n3", bad), ("n4", other)):
                await make_node(client, name, annotations=annotations)
            await until_there(client, kinds.NODE_METRICS, "n1")
            await report(client, "n1")
            await until_cap(rm, 17)

            async def all_say() -> bool:
                return all([(await condition(client, name))[0] for name in ("n1", "n2", "n3", "n4")])

            await eventually(all_say, SLOWLY_S)
            said = [await condition(client, name) for name in ("n1", "n2", "n3", "n4")]
            assert [each[:2] for each in said] == [
                ("True", "Shared"),
                ("False", "UnknownNodeManager"),
                ("False", "InvalidNodeID"),
                ("False", "UnknownCluster"),
            ]
            assert "n2:8041" in said[1][2]
            assert "set yarn.hadoop.apache.org/node-id on node n2" in said[1][2]
            assert "must be host:port" in said[2][2]
            assert rm.caps["n2:8041"] == of_yarn(1, 1024)


async def test_an_unreachable_resource_manager_is_told_on_the_node_and_its_claim_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpc, "ANSWER_S", 1.0)
    async with serving(tmp_path) as client, resource_manager(n1=of_yarn(1, 1024)) as rm:
        await fresh(client)
        async with managing(client), operating(client, rm):
            await make_node(client, "n1", annotations=NODE_ID)
            await until_there(client, kinds.NODE_METRICS, "n1")
            await report(client, "n1")
            await until_lent(client, "n1", 18900, SLOWLY_S)
            for mode, expected in (
                ("403", "yarn.admin.acl"),
                ("html", "does not speak Hadoop's RPC"),
                ("hang", "does not answer getClusterNodes within"),
            ):
                rm.mode = mode

                async def says(text: str = expected) -> bool:
                    _, reason, message = await condition(client)
                    return reason == "ResourceManagerUnavailable" and text in message

                await eventually(says, SLOWLY_S)
                assert node_facts(await client.get(kinds.NODES, "n1")).claim.cpu_milli == 17_000
            rm.mode = ""

            async def is_well() -> bool:
                return (await condition(client))[0] == "True"

            await eventually(is_well, SLOWLY_S)
            assert node_facts(await client.get(kinds.NODES, "n1")).claim.memory_bytes % MIB == 0


async def test_a_refused_change_stays_on_the_condition_and_is_not_repeated_node_by_node(tmp_path: Path) -> None:
    async with serving(tmp_path) as client, resource_manager(n1=of_yarn(1, 1024), n2=of_yarn(1, 1024)) as rm:
        await fresh(client)
        rm.mode = "refuse-updates"
        names = ("n1", "n2")
        metrics = Metrics(process=False)
        async with managing(client), operating(client, rm, Policy(pace_s=600.0, heard_s=0.0), metrics):
            for name in names:
                await make_node(client, name, annotations={"yarn.hadoop.apache.org/node-id": f"{name}:8041"})
                await until_there(client, kinds.NODE_METRICS, name)
                await report(client, name)

            async def both_say() -> bool:
                return all([(await condition(client, name))[1] == "UpdateRefused" for name in names])

            await eventually(both_say, SLOWLY_S)
            assert "add" in (await condition(client))[2]
            assert "yarn.admin.acl" in (await condition(client))[2]
            await looks(rm, 5)
            assert await both_say()
            assert rm.calls <= 2
            # A node that is made again gets the condition again, and one that is gone leaves nothing behind.
            await client.delete(kinds.NODES, "n2")
            await client.delete(kinds.NODES, "n1")
            await make_node(client, "n1", annotations=NODE_ID)

            async def says_again() -> bool:
                return (await condition(client))[0] != ""

            await eventually(says_again, SLOWLY_S)
            await eventually(lambda: set(shown(metrics)) == {"n1:8041"}, SLOWLY_S)


async def looks(rm: StandIn, number: int) -> None:
    """The operator asks for the nodes in each round."""
    wanted = rm.looks + number
    await eventually(lambda: rm.looks > wanted, SLOWLY_S)


def shown(metrics: Metrics) -> list[str]:
    """The NodeManagers in Prometheus' metrics."""
    samples = [sample for family in metrics.registry.collect() for sample in family.samples]
    return [
        sample.labels.get("instance") or sample.labels["node_manager"] for sample in samples if "yarn" in sample.name
    ]


async def test_what_was_read_too_long_ago_lets_no_cap_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_module, "FRESH_S", -1.0)
    async with serving(tmp_path) as client, resource_manager(n1=of_yarn(1, 1024)) as rm:
        await fresh(client)
        async with managing(client), operating(client, rm):
            await make_node(client, "n1", annotations=NODE_ID)
            await until_there(client, kinds.NODE_METRICS, "n1")
            await report(client, "n1")
            await until_lent(client, "n1", 18900, SLOWLY_S)
            await looks(rm, 5)
            assert rm.updates == []
            monkeypatch.undo()
            await until_cap(rm, 17)


async def test_each_node_gets_its_part_from_its_own_yarn_cluster(tmp_path: Path) -> None:
    async with (
        serving(tmp_path) as client,
        resource_manager(n1=of_yarn(1, 1024)) as one,
        resource_manager(n2=of_yarn(1, 1024)) as blue,
    ):
        await fresh(client)
        options = OperatorOptions({"": one.cluster, "blue": blue.cluster}, QUICK, look_s=0.2, soon_s=0.05)
        in_blue = {"yarn.hadoop.apache.org/node-id": "n2:8041", "yarn.hadoop.apache.org/cluster-id": "blue"}
        async with managing(client):
            operator = asyncio.create_task(run(client, options))
            try:
                for name, annotations in (("n1", NODE_ID), ("n2", in_blue)):
                    await make_node(client, name, annotations=annotations)
                    await until_there(client, kinds.NODE_METRICS, name)
                    await report(client, name)
                # Applications wait in one of the two clusters: the other one's node does not follow.
                blue.pending = of_yarn(4, 4096)
                await until_cap(one, 17)
                await until_cap(blue, 32, "n2:8041")
                # One cluster that cannot be reached is not the other's trouble.
                blue.mode = "403"
                one.pending = of_yarn(4, 4096)
                await until_cap(one, 32)
                assert (await condition(client))[1] == "Shared"
                assert (await condition(client, "n2"))[1] == "ResourceManagerUnavailable"
            finally:
                operator.cancel()
                with suppress(asyncio.CancelledError):
                    await operator


SIMPLE = (
    "<configuration><property><name>yarn.resourcemanager.hostname</name><value>rm1</value></property></configuration>"
)
KERBEROS = (
    "<configuration><property><name>hadoop.security.authentication</name><value>kerberos</value></property>"
    "</configuration>"
)


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"yarn-site.xml": SIMPLE, "core-site.xml": KERBEROS}, "only simple authentication is supported, Kerberos"),
        ({"yarn-site.xml": SIMPLE, "blue.yarn-site.xml": KERBEROS}, "blue.yarn-site.xml: hadoop.security.authenticat"),
        ({"core-site.xml": SIMPLE}, "has no yarn-site.xml"),
        ({"yarn-site.xml": "<html/>"}, "the outermost element is <html>, it must be <configuration>"),
        ({"yarn-site.xml": "yarn: yes"}, "yarn-site.xml is not XML"),
        ({"yarn-site.xml": SIMPLE.replace("hostname", "address")}, "is 'rm1': it must be host:port"),
    ],
    ids=["Kerberos", "Kerberos of one cluster", "no file", "HTML", "no XML", "no port"],
)
def test_configuration_that_cannot_be_followed_is_refused_before_anything_starts(
    tmp_path: Path, files: dict[str, str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert command(["yarn", "operator", "--hadoop-conf-dir", str(tmp_path)]) == 2
    assert says in capsys.readouterr().err
