"""`koord plan --live`, on a server with nodes and pods."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from koord.api.kinds import LEASES, NODES, PODS
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.text.timestamp import micro_from_seconds
from koord.cli.main import run
from koord.kube.client import Client
from tests.minicluster.apiserver.server_process import ServerProcess

CHANGE = """
apiVersion: v1
kind: Pod
metadata: {name: late}
spec: {tolerations: [{operator: Exists}], containers: [{name: c, image: c, resources: {requests: {cpu: 1}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: gone}
spec: {nodeName: n1, containers: [{name: c, image: c}]}
status: {phase: Succeeded}
"""


def pod(name: str, cpu: str, node: str = "") -> Pod:
    container = {"name": "c", "image": "c", "resources": {"requests": {"cpu": cpu}}}
    head = {"name": name, "namespace": "default"}
    # Nobody says that the node is ready.
    spec = {"nodeName": node, "containers": [container], "tolerations": [{"operator": "Exists"}]}
    return convert(Pod, {"metadata": head, "spec": spec})


async def fill(server: ServerProcess) -> None:
    async with Client(server.config) as client:
        allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10"}
        await client.create(NODES, convert(Node, {"metadata": {"name": "n1"}, "status": {"allocatable": allocatable}}))
        for each in (pod("runs", "1", "n1"), pod("gone", "2", "n1"), pod("waits", "2")):
            await client.create(PODS, each)
        # kube-scheduler is there, and holds the lease of its election.
        now = micro_from_seconds(time.time())
        spec = {"holderIdentity": "a", "leaseDurationSeconds": 600, "renewTime": now}
        lease = {"metadata": {"name": "kube-scheduler", "namespace": "kube-system"}, "spec": spec}
        await client.create(LEASES, lease)


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data = tmp_path_factory.mktemp("live") / "data"
    with ServerProcess(data, "--durability", "fast") as server:
        asyncio.run(fill(server))
        yield str(data / "kubeconfig")


def outcomes(*args: str, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    assert run(["plan", "--live", "-o", "json", *args]) == 0
    return {key: pod["outcome"] for key, pod in json.loads(capsys.readouterr().out)["pods"].items()}


def test_the_cluster_is_planned_as_it_is(kubeconfig: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert outcomes("--kubeconfig", kubeconfig, capsys=capsys) == {
        "default/runs": "scheduled",
        "default/gone": "scheduled",
        "default/waits": "unschedulable",
    }


def test_a_change_replaces_what_the_cluster_has(
    kubeconfig: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change = tmp_path / "change.yaml"
    change.write_text(CHANGE)
    assert outcomes("--kubeconfig", kubeconfig, "-f", str(change), capsys=capsys) == {
        "default/runs": "scheduled",
        "default/gone": "skipped",
        "default/waits": "scheduled",
        "default/late": "scheduled",
    }


def test_a_cluster_that_does_not_answer_is_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    cluster = {"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "a", "context": {"cluster": "a", "user": "a"}}
    users = [{"name": "a", "user": {"token": "t"}}]
    whole = {"clusters": [cluster], "contexts": [context], "users": users, "current-context": "a"}
    kubeconfig.write_text(json.dumps(whole))
    assert run(["plan", "--live", "--kubeconfig", str(kubeconfig)]) == 2
    told = capsys.readouterr().err
    assert "127.0.0.1:1" in told
    assert "Traceback" not in told


@pytest.mark.parametrize("args", [(), ("-f", "x", "--context", "y")])
def test_what_to_plan_must_be_said(args: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", *args]) == 2
    assert "--live" in capsys.readouterr().err


def test_a_configuration_is_previewed_on_the_cluster(
    tmp_path: Path, kubeconfig: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "slo-controller-config.yaml"
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: slo-controller-config, namespace: koordinator-system}\n"
    config.write_text(head + "data: {colocation-config: '{\"enable\": true}'}\n")
    assert run(["plan", "--live", "-f", str(config), "-o", "json", "--kubeconfig", kubeconfig]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["colocation"]["n1"] == {"resources": {}, "why": "the node has no NodeMetric"}
    assert found["evictions"] == []
    assert "ConfigMap" not in found["ignored"]


NOBODYS = """
apiVersion: v1
kind: Pod
metadata: {name: nobodys}
spec: {schedulerName: packed, tolerations: [{operator: Exists}], containers: [{name: c, image: c}]}
---
apiVersion: v1
kind: Pod
metadata: {name: astray}
spec: {nodeName: no-such-node, containers: [{name: c, image: c}]}
"""


@pytest.fixture
def nobodys(tmp_path: Path) -> str:
    path = tmp_path / "nobodys.yaml"
    path.write_text(NOBODYS)
    return str(path)


def test_a_pod_whose_scheduler_does_not_run_goes_nowhere(
    kubeconfig: str, nobodys: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", "--live", "-f", nobodys, "--kubeconfig", kubeconfig, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["pods"]["default/nobodys"]
    assert (found["outcome"], found["node"]) == ("skipped", None)
    assert found["reason"] == "stays pending: no scheduler answers to the name packed"


def test_a_configuration_stands_for_a_scheduler_that_will_run(
    kubeconfig: str, nobodys: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.yaml"
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    config.write_text(head + "profiles: [{schedulerName: packed}]\n")
    found = outcomes("--kubeconfig", kubeconfig, "-f", nobodys, "--config", str(config), capsys=capsys)
    assert found["default/nobodys"] == "scheduled"


def test_explain_says_that_nobody_schedules_the_pod(
    kubeconfig: str, nobodys: str, capsys: pytest.CaptureFixture[str]
) -> None:
    change = ("--live", "-f", nobodys, "--kubeconfig", kubeconfig)
    assert run(["explain", "nobodys", *change]) == 0
    text = capsys.readouterr().out
    assert text.startswith("default/nobodys stays pending: no scheduler answers to the name packed.")
    assert "koord scheduler --config FILE" in text
    assert run(["explain", "nobodys", *change, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["unanswered"] == "no scheduler answers to the name packed"
    assert run(["explain", "waits", *change, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["unanswered"] == ""


def test_explain_says_that_a_pod_is_bound_to_a_node_that_does_not_exist(
    kubeconfig: str, nobodys: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", "astray", "--live", "-f", nobodys, "--kubeconfig", kubeconfig]) == 0
    assert capsys.readouterr().out.startswith("default/astray is bound to no-such-node, which does not exist.")
    assert run(["explain", "runs", "--live", "--kubeconfig", kubeconfig, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["missingNode"] == ""
