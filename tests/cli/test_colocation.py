"""`koord colocation` on koord's own API server, with a manager and without one."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from koord.api import kinds
from koord.api.kubernetes.core import ConfigMap
from koord.api.kubernetes.node import Node
from koord.api.protocol.annotations.load import LAST_EVICTIONS
from koord.api.text.selector import parse_labels
from koord.api.text.timestamp import from_seconds
from koord.cli.main import run as koord
from koord.kube.client import Client
from koord.kube.locate import locate
from koord.manager.colocation_switch import SwitchError
from koord.operate.live.colocation import Evict, Scope, SwitchResult, look, plan, turn
from tests.control_plane import ControlPlane
from tests.manager.live.managing import change, fresh, lent, managing, node_with_metric, report, until_lent
from tests.scheduler.live.embedded import scheduling, serving, until_bound
from tests.waiting import eventually


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with serving(tmp_path) as client:
        await fresh(client)
        yield client


@pytest.fixture
async def real(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client(locate(str(control_plane.kubeconfig))) as client:
        await fresh(client)
        yield client
        # Others look at this control plane too.
        for node in await client.list(kinds.NODES):
            await client.delete(kinds.NODES, node.metadata.name)


def batch_pod(name: str, **spec: Any) -> dict[str, Any]:
    amounts = {"kubernetes.io/batch-cpu": "1000", "kubernetes.io/batch-memory": "1Gi"}
    container = {"name": "app", "image": "app:1", "resources": {"requests": amounts, "limits": amounts}}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {"koordinator.sh/qosClass": "BE", "app": "job"}},
        "spec": {
            "containers": [container],
            "priorityClassName": "koord-batch",
            "terminationGracePeriodSeconds": 0,
            **spec,
        },
    }


async def lending(client: Client, *names: str, **meta: Any) -> None:
    """Nodes that lend, by a manager that is no longer there."""
    for name in names:
        await node_with_metric(client, name, **meta)
    async with managing(client):
        for name in names:
            await report(client, name)
            await until_lent(client, name, 35900)


async def off(client: Client, scope: Scope | None = None, *, evict: Evict | None = None) -> SwitchResult:
    return await turn(client, scope or Scope(), on=False, evict=evict, progress=lambda line: None)


async def on(client: Client, scope: Scope | None = None) -> SwitchResult:
    return await turn(client, scope or Scope(), on=True, progress=lambda line: None)


@pytest.mark.parametrize("managed", [True, False])
@pytest.mark.parametrize("how", ["cluster", "pool", "node"])
async def test_off_takes_back_at_once_and_on_lends_again(client: Client, how: str, managed: bool) -> None:
    scope = {"cluster": Scope(), "pool": Scope(pool=parse_labels("pool=a")), "node": Scope(nodes=("n1",))}[how]
    await lending(client, "n1", labels={"pool": "a"})
    await lending(client, "n2")
    async with AsyncExitStack() as stack:
        if managed:
            await stack.enter_async_context(managing(client))
        result = await off(client, scope)
        assert await lent(client, "n1") is None
        assert not result.nodes["n1"].on
        assert result.nodes["n1"].lends == {}
        assert await lent(client, "n2") == (None if how == "cluster" else 35900)
        if managed:
            # A report, and the manager still lends nothing.
            await report(client, "n1")
        result = await on(client, scope)
        assert result.nodes["n1"].on
        await until_lent(client, "n1", 35900 if managed else None)


@pytest.mark.cluster
async def test_a_real_api_server_takes_it_too(real: Client) -> None:
    await lending(real, "n1", labels={"pool": "a"})
    for scope in (Scope(nodes=("n1",)), Scope(pool=parse_labels("pool=a")), Scope()):
        await off(real, scope)
        assert await lent(real, "n1") is None
        async with managing(real):
            result = await on(real, scope)
            assert result.nodes["n1"].on
            await until_lent(real, "n1", 35900)


async def test_without_a_manager_it_says_so_and_new_batch_pods_wait_with_a_reason(client: Client) -> None:
    await lending(client, "n1")
    async with scheduling(client):
        await client.create(kinds.PODS, batch_pod("before"), namespace="default")
        await until_bound(client, "before")
        result = await off(client)
        assert "no manager leads" in result.manager
        assert result.nodes["n1"].pods == ("default/before",)
        await client.create(kinds.PODS, batch_pod("after"), namespace="default")
        await eventually(lambda: _waits(client, "after", "Insufficient kubernetes.io/batch-cpu"))


async def _waits(client: Client, name: str, reason: str) -> bool:
    pod = await client.get(kinds.PODS, name, namespace="default")
    return any(condition.type == "PodScheduled" and reason in condition.message for condition in pod.status.conditions)


async def test_pods_are_evicted_if_asked_as_far_as_budgets_allow(client: Client) -> None:
    await lending(client, "n1")
    for name in ("one", "two"):
        await client.create(kinds.PODS, batch_pod(name, nodeName="n1"), namespace="default")
        await client.patch(
            kinds.PODS, name, {"status": {"phase": "Running"}}, namespace="default", subresource="status"
        )
    budget = {
        "metadata": {"name": "jobs", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"keep": "yes"}}},
    }
    await client.create(kinds.POD_DISRUPTION_BUDGETS, budget, namespace="default")
    await client.patch(kinds.PODS, "two", {"metadata": {"labels": {"keep": "yes"}}}, namespace="default")
    result = await off(client, Scope(nodes=("n1",)), evict=Evict(within_s=1.0))
    assert result.evicted == ("default/one",)
    assert list(result.refused) == ["default/two"]


async def _running(client: Client, *pods: dict[str, Any]) -> None:
    """Pods on n1, as a scheduler and a kubelet would have made them."""
    for pod in pods:
        pod["spec"]["nodeName"] = "n1"
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        await client.create(kinds.PODS, pod, namespace=namespace)
        running = {"status": {"phase": "Running"}}
        await client.patch(kinds.PODS, name, running, namespace=namespace, subresource="status")


def plain_pod(name: str, namespace: str = "default") -> dict[str, Any]:
    """A BestEffort pod: it requests nothing, and carries no class."""
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "app", "image": "app:1"}], "terminationGracePeriodSeconds": 0},
    }


async def _keys(client: Client) -> set[str]:
    return {pod.metadata.key for pod in await client.list(kinds.PODS)}


async def test_only_pods_on_lent_resources_are_evicted_and_none_of_the_cluster_itself(client: Client) -> None:
    await lending(client, "n1")
    of_cluster = batch_pod("system-job")
    of_cluster["metadata"]["namespace"] = "kube-system"
    await _running(client, batch_pod("job"), plain_pod("plain"), plain_pod("proxy", "kube-system"), of_cluster)
    result = await off(client, evict=Evict())
    assert result.evicted == ("default/job",)
    assert result.spared == ("kube-system/system-job",)
    assert await _keys(client) == {"default/plain", "kube-system/proxy", "kube-system/system-job"}
    result = await off(client, evict=Evict(cluster_too=True))
    assert result.evicted == ("kube-system/system-job",)
    assert await _keys(client) == {"default/plain", "kube-system/proxy"}


async def test_a_pod_that_asks_for_notice_is_told_and_goes_when_it_is_ready(client: Client) -> None:
    await node_with_metric(client, "n1")
    job = batch_pod("job")
    job["metadata"]["annotations"] = {"scheduling.koord.sh/eviction-notice": "10m"}
    await _running(client, job)
    async with asyncio.TaskGroup() as tasks:
        switch = tasks.create_task(off(client, Scope(nodes=("n1",)), evict=Evict(within_s=60.0)))
        await eventually(lambda: _is_told(client, "job"))
        ready = {"metadata": {"annotations": {"scheduling.koord.sh/eviction-ready": "true"}}}
        await client.patch(kinds.PODS, "job", ready, namespace="default")
    assert switch.result().evicted == ("default/job",)


async def test_who_stops_waiting_for_a_pod_takes_the_notice_back(client: Client) -> None:
    await node_with_metric(client, "n1")
    job = batch_pod("job")
    job["metadata"]["annotations"] = {"scheduling.koord.sh/eviction-notice": "10m"}
    await _running(client, job)
    switch = asyncio.create_task(off(client, Scope(nodes=("n1",)), evict=Evict(within_s=60.0)))
    await eventually(lambda: _is_told(client, "job"))
    switch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await switch
    assert not await _is_told(client, "job")


async def _is_told(client: Client, name: str) -> bool:
    pod = await client.get(kinds.PODS, name, namespace="default")
    condition = pod.status.condition("DisruptionTarget")
    is_target = condition is not None and condition.status == "True"
    assert is_target == ("scheduling.koord.sh/eviction-deadline" in pod.metadata.annotations)
    return is_target


async def test_only_pods_that_somebody_agreed_to_are_evicted(client: Client) -> None:
    await lending(client, "n1")
    await _running(client, batch_pod("seen"))
    planned = await plan(client, Scope(), on=False, evict=Evict())
    await _running(client, batch_pod("came-later"))
    result = await off(client, evict=Evict(agreed=frozenset(pod_to_evict.uid for pod_to_evict in planned.to_evict)))
    assert result.evicted == ("default/seen",)
    assert await _keys(client) == {"default/came-later"}


@pytest.mark.parametrize("how", ["cluster", "pool", "node"])
async def test_a_dry_run_tells_what_would_happen_and_changes_nothing(client: Client, how: str) -> None:
    scope = {"cluster": Scope(), "pool": Scope(pool=parse_labels("pool=a")), "node": Scope(nodes=("n1",))}[how]
    await lending(client, "n1", labels={"pool": "a"})
    await _running(client, batch_pod("job"), plain_pod("plain"))

    async def stored() -> tuple[Node, list[ConfigMap]]:
        return await client.get(kinds.NODES, "n1"), list(await client.list(kinds.CONFIG_MAPS))

    before = await stored()
    result = await plan(client, scope, on=False, evict=Evict())
    assert [pod_to_evict.pod for pod_to_evict in result.to_evict] == ["default/job"]
    assert not result.nodes["n1"].on
    assert await stored() == before
    assert await _keys(client) == {"default/job", "default/plain"}
    done = await off(client, scope, evict=Evict())
    assert (done.cluster, done.nodes["n1"].why) == (result.cluster, result.nodes["n1"].why)
    assert done.evicted == ("default/job",)


async def test_a_dry_run_is_refused_what_the_switch_is_refused(client: Client) -> None:
    await change(client, "colocation-config", "{")
    with pytest.raises(SwitchError, match="not JSON"):
        await plan(client, Scope(), on=False)


async def test_while_the_stored_configuration_is_invalid_what_the_manager_uses_is_told(
    client: Client, tmp_path: Path
) -> None:
    await node_with_metric(client, "n1")
    await change(client, "colocation-config", '{"enable": true, "cpuReclaimThresholdPercent": 80}')
    async with managing(client):
        await report(client, "n1")
        await until_lent(client, "n1", 48_700)
        await change(client, "colocation-config", '{"enable": tru')
        await eventually(lambda: _published(client))
        result = await look(client, Scope())
        assert result.cluster
        assert result.nodes["n1"].on
        (said,) = result.configuration
        assert "koordinator-system/slo-controller-config: colocation-config: is not JSON" in said
        assert "the old value is kept" in said
        explained = await asyncio.to_thread(_explained, tmp_path)
        assert explained["colocation"] is True
        assert explained["resources"][0]["recomputed"] == 48_700
    # A manager that starts goes on with it, too.
    async with managing(client):
        await report(client, "n1", system="12500m")
        await until_lent(client, "n1", 38_700)
        await change(client, "colocation-config", '{"enable": true}')
        await until_lent(client, "n1", 25_900)
        await eventually(lambda: _published(client, there=False))
    assert (await look(client, Scope())).configuration == ()


def _explained(tmp_path: Path) -> dict[str, Any]:
    command = ["explain", "node/n1", "--kubeconfig", str(tmp_path / "kubeconfig"), "-o", "json"]
    done = subprocess.run([sys.executable, "-m", "koord", *command], capture_output=True, text=True, check=True)
    assert "is not JSON" in done.stderr + done.stdout
    found: dict[str, Any] = json.loads(done.stdout)
    return found


async def _published(client: Client, *, there: bool = True) -> bool:
    return (
        "slo-controller-config-in-force"
        in {
            config_map.metadata.name
            for config_map in await client.list(kinds.CONFIG_MAPS, namespace="koordinator-system")
        }
    ) is there


async def test_a_stored_configuration_that_was_never_valid_is_not_told_as_off(client: Client) -> None:
    await node_with_metric(client, "n1")
    await change(client, "colocation-config", "{")
    result = await look(client, Scope())
    assert "invalid and no valid one is known" in result.nodes["n1"].why
    assert len(result.configuration) == 1


async def test_turning_it_twice_writes_once(client: Client) -> None:
    await lending(client, "n1")
    await off(client)
    before = (await client.get(kinds.NODES, "n1")).metadata.resource_version
    await off(client)
    assert (await client.get(kinds.NODES, "n1")).metadata.resource_version == before


async def test_a_node_stays_off_while_the_cluster_is(client: Client) -> None:
    await lending(client, "n1")
    await off(client)
    result = await on(client, Scope(nodes=("n1",)))
    assert not result.nodes["n1"].on
    assert "off in the cluster" in result.nodes["n1"].why


async def test_what_cannot_be_done_is_said(client: Client) -> None:
    with pytest.raises(SwitchError, match="there is no node n9"):
        await off(client, Scope(nodes=("n9",)))
    await change(client, "colocation-config", "{")
    with pytest.raises(SwitchError, match="not JSON"):
        await off(client)


@contextmanager
def served(tmp_path: Path, *pods: dict[str, Any]) -> Iterator[list[str]]:
    """A node that lends, on an API server in another thread. Gives the options that lead there."""
    ready, over = threading.Event(), threading.Event()

    async def serve() -> None:
        async with serving(tmp_path) as client:
            await fresh(client)
            await lending(client, "n1")
            await _running(client, *pods)
            ready.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(60)
        yield ["--kubeconfig", str(tmp_path / "kubeconfig")]
    finally:
        over.set()
        thread.join(30)


def test_a_person_turns_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(tmp_path) as where:
        assert koord(["colocation", "status", *where]) == 0
        printed = capsys.readouterr().out
        assert "co-location is on in the cluster" in printed
        assert "35.9" in printed
        assert koord(["colocation", "off", "--node", "n1", *where]) == 0
        assert "co-location is off for node n1" in capsys.readouterr().out
        assert koord(["colocation", "status", "-o", "json", *where]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["cluster"] is True
        assert told["nodes"]["n1"]["on"] is False
        assert "node.koordinator.sh/colocation-strategy" in told["nodes"]["n1"]["why"]
        assert koord(["colocation", "off", "--node", "n1", "-l", "a=b", *where]) == 2
        assert koord(["colocation", "off", *where]) == 0
        assert koord(["colocation", "on", "--node", "n1", *where]) == 1
        said = capsys.readouterr()
        assert "co-location stays off for node n1" in said.out
        assert "n1 still lends nothing: co-location is off in the cluster" in said.err
        assert koord(["colocation", "off", "--node", "n9", *where]) == 2
        assert "there is no node n9" in capsys.readouterr().err


def test_break_glass_says_what_it_finds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(tmp_path) as where:
        assert koord(["colocation", "break-glass", "off", *where]) == 0
        assert "admission was not off" in capsys.readouterr().out
        assert koord(["colocation", "break-glass", "on", "--reason", "try", *where]) == 0
        assert koord(["colocation", "break-glass", "off", *where]) == 0
        assert ": try; the manager registers its webhooks" in capsys.readouterr().out


def test_evicting_is_asked_about_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(tmp_path, batch_pod("job"), plain_pod("plain")) as where:
        evict = ["colocation", "off", "--evict", *where]
        # No terminal: the user cannot be asked.
        assert koord(evict) == 2
        refusal = capsys.readouterr().err
        assert "--yes" in refusal
        assert "--dry-run" in refusal
        assert koord([*evict, "--dry-run", "-o", "json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["dryRun"] is True
        assert [each["pod"] for each in told["toEvict"]] == ["default/job"]
        assert told["nodes"]["n1"]["lends"]["kubernetes.io/batch-cpu"] == "35900"
        code, said = _on_a_terminal(evict, "n\n")
        assert code == 1
        assert "default/job" in said
        assert "default/plain" not in said
        assert "nothing was changed" in said
        assert koord(["colocation", "status", "-o", "json", *where]) == 0
        assert json.loads(capsys.readouterr().out)["nodes"]["n1"]["on"] is True
        code, said = _on_a_terminal(evict, "y\n")
        assert code == 0, said
        assert "1 pod evicted" in said
        assert koord([*evict, "--yes"]) == 0
        assert "0 pods evicted" in capsys.readouterr().out


def _on_a_terminal(command: list[str], answer: str) -> tuple[int, str]:
    """The exit code and all output, where a user types an answer."""
    keyboard, terminal = pty.openpty()
    try:
        os.write(keyboard, answer.encode())
        done = subprocess.run(
            [sys.executable, "-m", "koord", *command],
            stdin=terminal,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(keyboard)
        os.close(terminal)
    return done.returncode, done.stdout


@pytest.mark.parametrize("flag", ["--yes", "--system-namespaces"])
def test_flags_that_would_have_no_effect_are_refused(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert koord(["colocation", "off", flag]) == 2
    assert f"{flag} goes with --evict" in capsys.readouterr().err


async def test_a_node_that_evicted_takes_no_batch_pods_for_a_while(client: Client) -> None:
    await lending(client, "n1", "n2")
    said = {LAST_EVICTIONS.key: json.dumps({"koord-batch": from_seconds(time.time())})}
    async with scheduling(client):
        await client.patch(kinds.NODES, "n1", {"metadata": {"annotations": said}})
        for index in range(5):
            await client.create(kinds.PODS, batch_pod(f"p{index}"), namespace="default")
        found = await until_bound(client, *(f"p{index}" for index in range(5)))
        assert set(found.values()) == {"n2"}
    assert (await look(client, Scope())).nodes["n1"].pods == ()


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (["off"], "--node"),
        (["on"], "--node"),
        (["off"], "-l"),
        (["on"], "-l"),
        (["preview", "lending"], "-l"),
        (["rollout", "start", "lending"], "-l"),
    ],
)
def test_an_empty_scope_is_not_the_cluster(command: list[str], option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As where a script's variable is not set. It is refused before any cluster is asked."""
    assert koord(["colocation", *command, option, ""]) == 2
    assert " is empty: give a value, or leave it out for all nodes" in capsys.readouterr().err
