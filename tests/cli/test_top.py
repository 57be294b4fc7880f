"""`koord top`: figures by band, how they are drawn, and the command on a server."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from koord.api.kinds import NAMESPACES, NODES, PODS
from koord.api.kubernetes.core import Namespace
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.cli.main import koord, run
from koord.cli.tables import short
from koord.cli.top import _picture, bar, node_table
from koord.kube.client import Client
from koord.operate.top import (
    SORTS,
    Usage,
    for_programs,
    from_metrics_server,
    from_node_metrics,
    in_all,
    pods_for_programs,
    top_of,
)
from tests.minicluster.apiserver.server_process import ServerProcess


def node(name: str, cpu: str = "8", memory: str = "16Gi", **more: str) -> Node:
    ready = {"type": "Ready", "status": "True"}
    allocatable = {"cpu": cpu, "memory": memory, "pods": "10", **more}
    return convert(Node, {"metadata": {"name": name}, "status": {"allocatable": allocatable, "conditions": [ready]}})


def pod(name: str, where: str = "", *, priority: int | None = None, phase: str = "Running", **requests: str) -> Pod:
    asked = {key.replace("batch_", "kubernetes.io/batch-"): value for key, value in requests.items()}
    containers = [{"name": "c", "image": "c", "resources": {"requests": asked, "limits": asked}}]
    spec: dict[str, Any] = {"nodeName": where, "containers": containers, "tolerations": [{"operator": "Exists"}]}
    if priority is not None:
        spec["priority"] = priority
    head = {"name": name, "namespace": "shop"}
    return convert(Pod, {"metadata": head, "spec": spec, "status": {"phase": phase}})


def test_requests_are_summed_by_band_and_batch_resources_are_cpu_and_memory() -> None:
    lent = {"kubernetes.io/batch-cpu": "3000", "kubernetes.io/batch-memory": "4Gi"}
    pods = [
        pod("web", "n1", priority=9000, cpu="2", memory="4Gi"),
        pod("job", "n1", priority=5500, batch_cpu="1500", batch_memory="2Gi"),
        pod("done", "n1", phase="Succeeded", cpu="4"),
        pod("waits", cpu="1"),
    ]
    found = top_of([node("n1", **lent)], pods)
    (there,) = found.nodes
    assert there.requested["prod"] == {"cpu": 2000, "memory": 4 << 30}
    assert there.requested["batch"] == {"cpu": 1500, "memory": 2 << 30}
    assert there.lent == {"cpu": 3000, "memory": 4 << 30}
    assert (there.pods, there.requested_in_all("cpu"), there.used) == (2, 3500, None)
    assert [pod.key for pod in found.pods] == ["shop/web", "shop/job", "shop/waits"]


def test_usage_comes_from_agents_or_from_a_metrics_server() -> None:
    used = {"cpu": "1500m", "memory": "2Gi"}
    report = {
        "metadata": {"name": "n1"},
        "status": {
            "nodeMetric": {"nodeUsage": {"resources": {"cpu": "3", "memory": "5Gi"}}},
            "podsMetric": [{"name": "web", "namespace": "shop", "podUsage": {"resources": used}}],
        },
    }
    metered = {"metadata": {"name": "web", "namespace": "shop"}, "containers": [{"usage": used}]}
    whole = {"metadata": {"name": "n1"}, "usage": {"cpu": "3", "memory": "5Gi"}}
    served = from_metrics_server(json.dumps({"items": [whole]}).encode(), json.dumps({"items": [metered]}).encode())
    reported = from_node_metrics([convert(NodeMetric, report)])
    assert (served.nodes, served.pods) == (reported.nodes, reported.pods)
    (there,) = top_of([node("n1")], [pod("web", "n1", priority=9000, cpu="2")], reported).nodes
    assert there.used == {"cpu": 3000, "memory": 5 << 30}
    assert there.used_by_band["prod"] == {"cpu": 1500, "memory": 2 << 30}


def test_nodes_without_a_report_are_named_where_their_usage_is_missing_in_the_sums() -> None:
    found = top_of(
        [node(f"n{i}") for i in range(1, 9)], [], Usage("NodeMetric", {"n1": {"cpu": 3000, "memory": 1}}, {})
    )
    assert found.silent == tuple(f"n{i}" for i in range(2, 9))
    assert for_programs(found)["withoutUsage"] == list(found.silent)
    assert "not in what is used: 7 nodes without a report (n2, n3, n4, n5, n6, ...)" in _picture(
        found, 100, drawn=False
    )
    assert "without a report" not in _picture(top_of([node("n1")], []), 100, drawn=False), "no node reports"


def test_page_cache_stands_beside_what_is_used_where_agents_report_it() -> None:
    used = {"resources": {"cpu": "1", "memory": "2Gi"}}

    def told(name: str, cache: object) -> dict[str, Any]:
        return {"name": name, "namespace": "shop", "podUsage": used, "extensions": {"pageCache": cache}}

    report = {
        "metadata": {"name": "n1"},
        "status": {
            "nodeMetric": {"nodeUsage": used, "pageCache": {"total": "3Gi", "cold": "1Gi", "counted": "none"}},
            "podsMetric": [told("web", {"total": "512Mi"}), told("odd", {"total": "much"}), told("odder", 7)],
        },
    }
    pods = [pod(name, "n1", priority=9000, cpu="1") for name in ("web", "odd", "odder")]
    found = top_of([node("n1")], pods, from_node_metrics([convert(NodeMetric, report)]))
    table = node_table(found.nodes, 200, drawn=False, wide=True).splitlines()
    assert table[0].split("  ")[-1].strip() == "PAGE CACHE"
    assert table[1].endswith("3Gi (1Gi cold)")
    assert for_programs(found)["total"]["pageCache"] == {"total": "3Gi", "cold": "1Gi"}  # type: ignore[index]  # JSON
    by_pod = pods_for_programs(found)["pods"]
    assert [each["pageCache"] for each in by_pod.values()] == [  # type: ignore[attr-defined]  # JSON
        {"total": "512Mi", "cold": None},
        None,
        None,
    ]


def test_nodes_are_sorted_by_their_share_the_fullest_first() -> None:
    nodes = [node("a", cpu="10"), node("b", cpu="2"), node("c", cpu="4")]
    pods = [pod("p", "a", cpu="3"), pod("q", "b", cpu="1"), pod("r", "b", cpu="500m"), pod("s", "c", cpu="2")]
    usage = Usage("x", {"a": {"cpu": 9000, "memory": 0}, "b": {"cpu": 100, "memory": 1}}, {})
    found = top_of(nodes, pods, usage).nodes

    def order(by: str) -> list[str]:
        return [each.name for each in sorted(found, key=lambda each: (*SORTS[by](each), each.name))]

    assert order("requested-cpu") == ["b", "c", "a"]
    assert order("cpu") == ["a", "b", "c"]
    assert order("pods") == ["b", "a", "c"]
    assert order("name") == ["a", "b", "c"]


def test_all_nodes_together_are_the_sum_of_each() -> None:
    found = top_of([node("a"), node("b")], [pod("p", "a", cpu="1"), pod("q", "b", cpu="2")])
    whole = in_all(found)
    assert (whole.allocatable["cpu"], whole.requested_in_all("cpu"), whole.pods) == (16000, 3000, 2)
    told = for_programs(found)
    assert told["usageFrom"] is None
    assert told["total"] == {
        "ready": True,
        "cordoned": False,
        "pods": 2,
        "allocatable": {"cpu": "16", "memory": "32Gi"},
        "lent": {"cpu": "0", "memory": "0"},
        "yarn": {"cpu": "0", "memory": "0"},
        "bands": {
            "prod": {"lent": {"cpu": "16", "memory": "32Gi"}, "left": {"cpu": "13", "memory": "32Gi"}, "used": None},
            "mid": {"lent": NOTHING, "left": NOTHING, "used": None},
            "batch": {"lent": NOTHING, "left": NOTHING, "used": None},
            "free": {"lent": None, "left": None, "used": None},
            "none": {"lent": None, "left": None, "used": None},
        },
        "requested": {
            band: {"cpu": "3" if band == "prod" else "0", "memory": "0"}
            for band in ("prod", "mid", "batch", "free", "none")
        },
        "used": None,
        "usedByBand": {band: {"cpu": "0", "memory": "0"} for band in ("prod", "mid", "batch", "free", "none")},
        "pageCache": None,
    }


def test_a_bar_is_as_full_as_the_shares_say() -> None:
    import click

    def drawn(*parts: tuple[str, float]) -> str:
        return click.unstyle(bar(parts, 10)).rstrip()

    assert drawn() == "·" * 10
    assert drawn(("prod", 0.5), ("batch", 0.2)) == "█████▒▒···"
    assert drawn(("prod", 1.0)) == "█" * 10
    assert drawn(("prod", 0.9), ("batch", 0.9)) == "█████████▒>"


NOTHING = {"cpu": "0", "memory": "0"}


def test_each_band_has_columns_for_what_is_lent_used_and_left() -> None:
    there = node("n1", "16", "32Gi", **{"kubernetes.io/batch-cpu": "8000", "kubernetes.io/batch-memory": "8Gi"})
    asking = [
        pod("web", "n1", priority=9000, cpu="4"),
        pod("job", "n1", priority=5500, batch_cpu="3000", batch_memory="2Gi"),
    ]
    usage = Usage("NodeMetric", {"n1": {"cpu": 5000, "memory": 1 << 30}}, {"shop/job": {"cpu": 500, "memory": 1 << 20}})
    heads, values = node_table(top_of([there], asking, usage).nodes, None, False, wide=True).splitlines()
    cells = list(zip(re.split(r"\s{2,}", heads), values.split(), strict=True))
    cpu, memory = dict(cells[: len(cells) // 2 + 1]), dict(cells[len(cells) // 2 + 1 :])
    assert (cpu["PROD LENT"], cpu["PROD USED"], cpu["PROD LEFT"]) == ("16", "0", "12")
    assert (cpu["BATCH LENT"], cpu["BATCH USED"], cpu["BATCH LEFT"]) == ("8", "500m", "5")
    assert (memory["BATCH LENT"], memory["BATCH USED"], memory["BATCH LEFT"]) == ("8Gi", "1Mi", "6Gi")


@pytest.mark.parametrize(("columns", "bars"), [(160, True), (100, True), (80, True), (60, False)])
def test_a_line_about_a_node_fits_the_terminal(columns: int, bars: bool) -> None:
    import click

    found = top_of([node(f"hollow-000{i}", "32", "128Gi") for i in range(3)], [pod("p", "hollow-0001", cpu="32")])
    lines = click.unstyle(node_table(found.nodes, columns, True)).splitlines()
    assert ("█" in "".join(lines)) == bars
    assert not bars or max(len(line) for line in lines) <= columns
    assert "100%" in lines[2]
    assert "█" in node_table(found.nodes, None, True), "bars are shown on request"


@pytest.mark.parametrize(
    ("resource", "number", "text"),
    [
        ("cpu", 0, "0"),
        ("cpu", 250, "250m"),
        ("cpu", 1500, "1.5"),
        ("cpu", 160_000, "160"),
        ("cpu", 12_345_000, "12345"),
        ("memory", 0, "0"),
        ("memory", 300 << 20, "300Mi"),
        ("memory", 3 << 29, "1.5Gi"),
        ("memory", 1023 << 30, "1023Gi"),
        ("memory", 5 << 40, "5120Gi"),
        ("memory", 100 << 10, "100Ki"),
        ("memory", 61, "61B"),
    ],
)
def test_amounts_are_short(resource: str, number: int, text: str) -> None:
    assert short(resource, number) == text


async def fill(server: ServerProcess) -> None:
    async with Client(server.config) as client:
        await client.create(NAMESPACES, convert(Namespace, {"metadata": {"name": "shop"}}))
        for each in (node("n1"), node("n2", cpu="4")):
            await client.create(NODES, each)
        for each_pod in (pod("web", "n1", cpu="2"), pod("cache", "n2", cpu="3"), pod("giant", cpu="100")):
            await client.create(PODS, each_pod)


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data = tmp_path_factory.mktemp("live") / "data"
    with ServerProcess(data, "--durability", "fast") as server:
        asyncio.run(fill(server))
        yield str(data / "kubeconfig")


def test_nodes_of_a_cluster(kubeconfig: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", "nodes", "--kubeconfig", kubeconfig, "--sort", "requested-cpu", "-o", "wide"]) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "2 pods, 1 without a node" in text
    assert "CPU LENT" in text
    assert "BATCH LEFT" in text
    rows = [line.split() for line in text.splitlines()]
    assert [row[0] for row in rows if row and row[0] in ("n1", "n2")] == ["n2", "n1"]
    assert run(["top", "nodes", "--kubeconfig", kubeconfig, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["nodes"]["n2"]["requested"]["prod"]["cpu"] == "3"
    assert run(["top", "nodes", "--kubeconfig", kubeconfig, "--bars", "-o", "wide"]) == 0
    assert "█" in capsys.readouterr().out


def test_pods_of_a_cluster(kubeconfig: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", "pods", "--kubeconfig", kubeconfig, "--sort", "requested-cpu"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [row[:4] for row in rows] == [
        ["shop/giant", "prod", "-", "100"],
        ["shop/cache", "prod", "n2", "3"],
        ["shop/web", "prod", "n1", "2"],
    ]
    assert run(["top", "pods", "--kubeconfig", kubeconfig, "-n", "none", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"pods": {}, "usageFrom": None}
    assert run(["top", "pods", "--kubeconfig", kubeconfig, "-n", "none"]) == 0
    assert capsys.readouterr().out == "there are no pods in none\n"


def test_pending_pods_of_a_cluster(kubeconfig: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", "pending", "--kubeconfig", kubeconfig]) == 0
    text = capsys.readouterr()
    assert text.out.startswith("1 pod is pending, the oldest for ")
    rows = [line.split() for line in text.out.splitlines()]
    assert ["shop/giant", "-", "-"] in [[row[0], *row[2:4]] for row in rows if row and row[0] == "shop/giant"]
    assert "the address of the scheduler is not known" in text.err
    assert run(["top", "pending", "--kubeconfig", kubeconfig, "-o", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert (listed["total"], listed["pods"][0]["pod"], listed["groups"][0]["reason"]) == (1, "shop/giant", "NotTried")
    assert run(["top", "pending", "--kubeconfig", kubeconfig, "-n", "none"]) == 0
    assert capsys.readouterr().out == "No pod is pending.\n"


def test_a_pod_of_a_cluster_is_explained(kubeconfig: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "shop/giant", "--kubeconfig", kubeconfig, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["outcome"] == "unschedulable"
    assert any("a request of 6 cpu instead of 100" in change["text"] for change in found["explanation"]["changes"])
    assert run(["explain", "web", "-n", "shop", "--kubeconfig", kubeconfig]) == 0
    assert "is on n1" in capsys.readouterr().out


def test_watch_shows_it_again_and_again_until_it_is_interrupted(kubeconfig: str) -> None:
    command = [sys.executable, "-m", "koord", "top", "nodes", "--watch", "--kubeconfig", kubeconfig]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        seen = 0
        for line in process.stdout:
            seen += line.startswith("BAND ")
            if seen == 2:
                break
        process.terminate()
    assert seen == 2


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("koord explain -n shop w", {"web"}),
        ("koord explain shop/c", {"shop/cache"}),
        ("koord explain node/", {"node/n1", "node/n2"}),
        ("koord top cpus --node n", {"n1", "n2"}),
        ("koord top pods -n sh", {"shop"}),
        ("koord colocation off --node n2", {"n2"}),
    ],
)
def test_the_shell_offers_names_of_the_cluster(
    kubeconfig: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: str, offered: set[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", kubeconfig)
    monkeypatch.setenv("_KOORD_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
    with pytest.raises(SystemExit):
        koord.main(prog_name="koord", complete_var="_KOORD_COMPLETE")
    assert {row.partition(",")[2] for row in capsys.readouterr().out.split()} == offered


def test_a_shell_without_a_cluster_is_offered_nothing_and_no_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "KUBECONFIG": str(tmp_path / "none"),
        "_KOORD_COMPLETE": "bash_complete",
        "COMP_WORDS": "koord top cpus --node n",
        "COMP_CWORD": "4",
    }.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        koord.main(prog_name="koord", complete_var="_KOORD_COMPLETE")
    assert capsys.readouterr() == ("\n", "")
