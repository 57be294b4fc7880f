"""Roll-outs on an API server: started by people, carried on and stopped by the manager."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from koord.api import kinds
from koord.api.protocol.names import CONFIGMAP_ROLLOUTS, CONFIGMAP_SLO_CONTROLLER, NAMESPACE_KOORDINATOR
from koord.api.text.timestamp import from_seconds
from koord.cli.main import run as koord
from koord.kube.client import Client
from koord.kube.locate import locate
from koord.manager.live.run import ManagerOptions
from koord.manager.rollout.features import RolloutError, feature_of
from koord.manager.rollout.state import Limits, Rollout, chosen
from koord.operate.install.live.cluster import Cluster
from koord.operate.live import rollouts
from koord.operate.live.colocation import Scope
from tests.control_plane import ControlPlane
from tests.manager.live.managing import configure, fresh, lent, make_node, managing, report, until_lent
from tests.operate.install.recorded import as_account
from tests.scheduler.live.embedded import serving
from tests.waiting import eventually

LENDING = feature_of("lending")
NODES = ("n0", "n1", "n2", "n3")
QUICK = ManagerOptions(rollout_look_s=0.1)
LENT = 35900


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.cluster)])
async def client(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Client]:
    """Four nodes that report, and no co-location."""
    if request.param == "real":
        plane: ControlPlane = request.getfixturevalue("control_plane")
        async with Client(locate(str(plane.kubeconfig))) as client:
            await _four(client)
            yield client
            for node in await client.list(kinds.NODES):
                await client.delete(kinds.NODES, node.metadata.name)
            for key in ("koord-rollouts", CONFIGMAP_SLO_CONTROLLER):
                for config_map in await client.list(kinds.CONFIG_MAPS, namespace=NAMESPACE_KOORDINATOR):
                    if config_map.metadata.name == key:
                        await client.delete(kinds.CONFIG_MAPS, key, namespace=NAMESPACE_KOORDINATOR)
    else:
        async with serving(tmp_path) as client:
            await _four(client)
            yield client


async def _four(client: Client) -> None:
    await fresh(client)
    await configure(client, colocation={"enable": False})
    for name in NODES:
        await make_node(client, name)


async def reported(client: Client) -> None:
    for node_metric in await client.list(kinds.NODE_METRICS):
        await report(client, node_metric.metadata.name)


async def inside(client: Client) -> set[str]:
    return {node.metadata.name for node in await client.list(kinds.NODES) if LENDING.label in node.metadata.labels}


async def until_inside(client: Client, wanted: set[str]) -> None:
    async def holds() -> bool:
        return await inside(client) == wanted

    await eventually(holds)


async def until_state(client: Client, state: str) -> rollouts.RolloutShown:
    async def holds() -> bool:
        return (await rollouts.look(client, LENDING)).rollouts[0].state == state

    await eventually(holds)
    return (await rollouts.look(client, LENDING)).rollouts[0]


async def all_metrics(client: Client) -> None:
    async def holds() -> bool:
        return len(await client.list(kinds.NODE_METRICS)) == len(NODES)

    await eventually(holds)


async def test_lending_is_rolled_out_bit_by_bit_stops_when_a_service_suffers_and_is_taken_back_there(
    client: Client,
) -> None:
    two = set(chosen(NODES, 50))
    async with managing(client, options=QUICK):
        await all_metrics(client)
        await rollouts.start(client, LENDING, Rollout(steps=(50, 100), every_seconds=3600.0))
        await until_inside(client, two)
        await reported(client)
        for name in NODES:
            await until_lent(client, name, LENT if name in two else None)
        # A service on a node of the roll-out turns unready.
        victim = sorted(two)[0]
        await _service(client, "web", victim)
        shown = await until_state(client, "stopped")
        assert shown.reason == "1 service pod turned unready (default/web)"
        assert shown.taken_back == (victim,)
        await until_inside(client, two - {victim})
        await until_lent(client, victim, None)
        assert await lent(client, (two - {victim}).pop()) == LENT
        await eventually(lambda: _has_event(client, "RolloutStopped", "1 service pod turned unready"))
        # It grows again only when told, and leaves that node out.
        await rollouts.resume(client, LENDING, again=False)
        await until_state(client, "running")
        assert victim not in await inside(client)
    # Without a manager it can be undone.
    assert await rollouts.end(client, LENDING, on=False) == {}
    assert await rollouts.end(client, LENDING, on=False) is None, "said twice, it finds none"
    assert await inside(client) == set()
    for name in NODES:
        assert await lent(client, name) is None
    stored = await client.get(kinds.CONFIG_MAPS, CONFIGMAP_SLO_CONTROLLER, namespace=NAMESPACE_KOORDINATOR)
    assert json.loads(stored.data["colocation-config"]) == {"enable": False}
    await client.delete(kinds.PODS, "web", namespace="default", grace_s=0)


@pytest.mark.parametrize("client", ["embedded"], indirect=True)
async def test_evictions_over_the_limit_and_services_that_agents_find_slow_stop_it_too(client: Client) -> None:
    wanted = Rollout(steps=(100,), every_seconds=3600.0, limits=Limits(evictions=1), on_stop="hold")
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    for name in NODES:
        await client.patch(kinds.NODES, name, ready, subresource="status")
    async with managing(client, options=QUICK):
        await all_metrics(client)
        await rollouts.start(client, LENDING, wanted)
        await until_inside(client, set(NODES))
        for index in range(2):
            spec = {"nodeName": f"n{index}", "containers": [{"name": "main", "image": "job:1"}]}
            await client.create(
                kinds.PODS, {"metadata": {"name": f"job-{index}", "namespace": "default"}, "spec": spec}
            )
        # What is evicted before the manager knows of the pod counts in no step.
        await _until_counted(client, 0)
        await client.evict("default", "job-0")
        await _until_counted(client, 1)
    # Another manager goes on counting where the first was killed.
    async with managing(client, options=QUICK):
        # It has seen all pods before it puts a label right that a user took away.
        await client.patch(kinds.NODES, "n3", {"metadata": {"labels": {LENDING.label: None}}})
        await until_inside(client, set(NODES))
        await client.evict("default", "job-1")
        shown = await until_state(client, "stopped")
        assert shown.reason == "2 pods evicted, and 1 are accepted in a step"
        assert shown.taken_back == ()
        assert await inside(client) == set(NODES)

        await rollouts.resume(client, LENDING, again=False)
        victim = {"namespace": "default", "kind": "StatefulSet", "name": "web"}
        culprit = {"namespace": "default", "kind": "Job", "name": "build"}
        blame = {"at": from_seconds(time.time() + 1), "verdict": "named", "victim": victim, "culprit": culprit}
        told = {"namespace": "default", "name": "web-0", "extensions": {"slowedBy": [blame]}}
        await client.patch(kinds.NODE_METRICS, "n0", {"status": {"podsMetric": [told]}}, subresource="status")
        shown = await until_state(client, "stopped")
        assert shown.reason == "1 service slowed down by batch pods (default/web)"


async def _until_counted(client: Client, number: int) -> None:
    async def holds() -> bool:
        return (await rollouts.look(client, LENDING)).rollouts[0].evictions == number

    await eventually(holds)


async def test_a_killed_manager_is_followed_by_one_that_goes_on_and_new_nodes_join(client: Client) -> None:
    async with managing(client, options=QUICK):
        await all_metrics(client)
        await rollouts.start(client, LENDING, Rollout(steps=(50, 100), every_seconds=0.2))

        async def has_begun() -> bool:
            return await inside(client) >= chosen(NODES, 50)

        await eventually(has_begun)
    await make_node(client, "n9")
    async with managing(client, options=QUICK):
        await until_state(client, "complete")
        await until_inside(client, {*NODES, "n9"})
    await rollouts.end(client, LENDING, on=True)
    stored = await client.get(kinds.CONFIG_MAPS, CONFIGMAP_SLO_CONTROLLER, namespace=NAMESPACE_KOORDINATOR)
    assert json.loads(stored.data["colocation-config"]) == {"enable": True}
    assert await inside(client) == set()


async def test_two_people_at_once_and_commands_given_twice_leave_one_roll_out(client: Client) -> None:
    wanted = Rollout(steps=(50, 100), every_seconds=3600.0)
    await asyncio.gather(*(rollouts.start(client, LENDING, wanted) for _ in range(3)))
    assert len((await rollouts.look(client)).rollouts) == 1
    standing = await rollouts.status(client, Scope())
    assert [(rollout.feature, rollout.percent) for rollout in standing.rollouts] == [("lending", 50)]
    assert set(standing.nodes) == set(NODES)
    with pytest.raises(RolloutError, match="already, with other settings"):
        await rollouts.start(client, LENDING, Rollout(steps=(10,)))
    with pytest.raises(RolloutError, match="is running at 50%"):
        await rollouts.end(client, LENDING, on=True)
    for _ in range(2):
        shown = (await rollouts.stop(client, LENDING, "lunch")).rollouts[0]
        assert (shown.state, shown.reason) == ("stopped", "stopped by hand: lunch")
    for _ in range(2):
        assert not await rollouts.end(client, LENDING, on=False)
    with pytest.raises(RolloutError, match="there is no roll-out of lending"):
        await rollouts.stop(client, LENDING, "")
    for force in (False, True):
        with pytest.raises(RolloutError, match="there is no roll-out of lending"):
            await rollouts.end(client, LENDING, on=True, force=force)


async def test_configuration_that_others_overwrite_stops_it_and_a_malformed_one_is_told(client: Client) -> None:
    async with managing(client, options=QUICK):
        await rollouts.start(client, LENDING, Rollout(every_seconds=3600.0))
        await configure(client, colocation={"enable": True})
        shown = await until_state(client, "stopped")
        assert "has no item koord-rollout-lending any more" in shown.reason
        with pytest.raises(RolloutError, match="undo the roll-out"):
            await rollouts.resume(client, LENDING, again=False)
        patch = {"data": {"lending": '{"steps":[50,5]}'}}
        await client.patch(kinds.CONFIG_MAPS, CONFIGMAP_ROLLOUTS, patch, namespace=NAMESPACE_KOORDINATOR)
        await eventually(lambda: _has_event(client, "RolloutInvalid", "steps: must rise"))
        assert (await rollouts.look(client)).faults
        with pytest.raises(RolloutError, match=r"(?s)steps: must rise.*rollout undo lending"):
            await rollouts.stop(client, LENDING, "")
        await rollouts.end(client, LENDING, on=False)
        assert (await rollouts.look(client)).faults == ()


async def test_a_pool_alone_gets_it_and_nodes_join_and_leave_it(client: Client) -> None:
    pool = {"n0", "n2"}
    for name in pool:
        await client.patch(kinds.NODES, name, {"metadata": {"labels": {"pool": "web"}}})
    async with managing(client, options=QUICK):
        await all_metrics(client)
        await rollouts.start(client, LENDING, Rollout(selector="pool=web", steps=(50, 100), every_seconds=0.2))
        await until_state(client, "complete")
        await until_inside(client, pool)
        await reported(client)
        for name in NODES:
            await until_lent(client, name, LENT if name in pool else None)
        with pytest.raises(RolloutError, match=r"for nodes with pool=web, and 2 nodes are not among them \(n1 ...\)"):
            await rollouts.end(client, LENDING, on=True)
        await client.patch(kinds.NODES, "n0", {"metadata": {"labels": {"pool": None}}})
        await client.patch(kinds.NODES, "n1", {"metadata": {"labels": {"pool": "web"}}})
        # At rest it is looked at once a minute, and at once when a user writes it.
        await rollouts.stop(client, LENDING, "look")
        await rollouts.resume(client, LENDING, again=False)
        await until_inside(client, {"n1", "n2"})
        await until_lent(client, "n0", None)
    assert await rollouts.end(client, LENDING, on=False) == {}


async def test_a_pool_that_gets_empty_waits_for_nodes_with_its_first_share(client: Client) -> None:
    await client.patch(kinds.NODES, "n3", {"metadata": {"labels": {"pool": "db"}}})
    await rollouts.start(client, LENDING, Rollout(selector="pool=db", steps=(50, 100), every_seconds=0.2))
    await client.patch(kinds.NODES, "n3", {"metadata": {"labels": {"pool": None, LENDING.label: "on"}}})
    async with managing(client, options=QUICK):
        # By then the manager has looked, and a step would long be over.
        await until_inside(client, set())
        for _ in range(3):
            await client.patch(kinds.NODES, "n3", {"metadata": {"labels": {LENDING.label: "on"}}})
            await rollouts.stop(client, LENDING, "look")
            await rollouts.resume(client, LENDING, again=False)
            await until_inside(client, set())
        shown = (await rollouts.look(client, LENDING)).rollouts[0]
        assert (shown.pool, shown.percent, shown.state) == (0, 50, "running")
    assert await rollouts.end(client, LENDING, on=False) == {}


async def test_who_lacks_rights_is_told_all_of_them_and_changes_nothing(client: Client) -> None:
    where = {"name": "half", "namespace": NAMESPACE_KOORDINATOR}
    rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [CONFIGMAP_SLO_CONTROLLER]}
    role = {"metadata": where, "rules": [{**rule, "verbs": ["get", "patch"]}]}
    subject = {"kind": "ServiceAccount", "name": "half", "namespace": NAMESPACE_KOORDINATOR}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "half"}
    cluster = Cluster(client)
    await cluster.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": where})
    await cluster.apply({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", **role})
    binding = {"metadata": where, "roleRef": ref, "subjects": [subject]}
    await cluster.apply({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", **binding})
    before = await client.get(kinds.CONFIG_MAPS, CONFIGMAP_SLO_CONTROLLER, namespace=NAMESPACE_KOORDINATOR)
    async with await as_account(client, "half") as half:
        with pytest.raises(RolloutError, match="nothing was changed; missing rights:") as refused:
            await rollouts.start(half, LENDING, Rollout(steps=(50, 100)))
        for right in ("create configmaps in", "get configmaps koord-rollouts", "patch configmaps koord-rollouts"):
            assert right in str(refused.value)
        assert "list nodes" in str(refused.value)
        assert CONFIGMAP_SLO_CONTROLLER not in str(refused.value)
        with pytest.raises(RolloutError, match="patch nodes, patch nodes/status"):
            await rollouts.end(half, LENDING, on=False)
    after = await client.get(kinds.CONFIG_MAPS, CONFIGMAP_SLO_CONTROLLER, namespace=NAMESPACE_KOORDINATOR)
    assert after.data == before.data


@pytest.mark.parametrize("client", ["embedded"], indirect=True)
async def test_a_preview_and_a_dry_run_change_nothing(
    client: Client, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    async with managing(client):
        await all_metrics(client)
        await reported(client)
    before = [node.metadata.resource_version for node in await client.list(kinds.NODES)]
    where = ("--kubeconfig", str(tmp_path / "kubeconfig"))
    code = await asyncio.to_thread(koord, ["colocation", "preview", "lending", "--percent", "50", "-o", "json", *where])
    (told,) = json.loads(capsys.readouterr().out)
    assert code == 0
    assert set(told["nodes"]) == set(chosen(NODES, 50))
    assert {each["batchCpuMilli"] for each in told["nodes"].values()} == {LENT}
    assert told["batchCpuMilli"] == 2 * LENT
    for line in (
        ["preview"],
        ["preview", "descheduling"],
        ["rollout", "start", "lending", "--dry-run"],
        ["rollout", "status"],
        ["status"],
    ):
        assert await asyncio.to_thread(koord, ["colocation", *line, *where]) == 0
    assert [node.metadata.resource_version for node in await client.list(kinds.NODES)] == before
    assert (await rollouts.look(client)).rollouts == ()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            ["start", "flying"],
            "there is no feature 'flying'; there are lending, suppress, cpu-burst, adaptive, memory-qos",
        ),
        (["start", "lending", "--steps", "5,x"], "--steps: 'x' is not a share"),
        (["start", "lending", "--every", "soon"], "--every"),
        (["start", "lending", "--max-evictions", "-1"], "--max-evictions must be 0 or more"),
        (["start", "lending", "-l", "a in"], "a in"),
    ],
)
def test_bad_input_names_the_field(line: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert koord(["colocation", "rollout", *line, "--kubeconfig", "/nonexistent"]) == 2
    assert said in capsys.readouterr().err


async def _service(client: Client, name: str, node: str) -> None:
    """A pod that has run for a while, and turns unready."""
    resources = {"requests": {"cpu": "100m", "memory": "1Mi"}, "limits": {"cpu": "100m", "memory": "1Mi"}}
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "web:1", "resources": resources}]}
    await client.create(kinds.PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    now_s = time.time()
    condition: dict[str, Any] = {
        "type": "Ready",
        "status": "False",
        "lastTransitionTime": from_seconds(now_s + 1),
    }
    status = {"phase": "Running", "startTime": from_seconds(now_s - 600), "conditions": [condition]}
    await client.patch(kinds.PODS, name, {"status": status}, namespace="default", subresource="status")


async def _has_event(client: Client, reason: str, note: str) -> bool:
    found = await client.list(kinds.EVENTS, namespace=NAMESPACE_KOORDINATOR)
    return any(each.reason == reason and note in each.note for each in found)
