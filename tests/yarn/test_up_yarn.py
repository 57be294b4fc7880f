"""`koord up --yarn`, as a user runs it: Hadoop's own daemons beside koord's, on this machine as a node."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from koord.api.kubernetes.node import Node
from koord.api.machinery.codec import decode
from koord.cli.main import run
from koord.minicluster.up.plan import UpOptions, components
from koord.yarn.amount import NOTHING
from koord.yarn.hadoop.configuration import properties
from koord.yarn.live import java
from koord.yarn.nodes import NodeFacts, node_facts
from tests.minicluster.up.test_end_to_end import RunningUp, alive, koord, kubectl, status, up, wait_until

SLOWLY_S = 120.0


def test_what_is_missing_for_yarn_is_told_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KOORD_HADOOP", raising=False)
    monkeypatch.setattr("shutil.which", lambda *_, **__: "/usr/bin/java")
    for args, says in (
        (("--yarn",), "with --hadoop or KOORD_HADOOP"),
        (("--yarn", "--hadoop", str(tmp_path)), f"{tmp_path} has no hadoop-yarn-server-resourcemanager-*.jar"),
        (("--yarn", "--nodes", "0"), "--yarn needs a node"),
        (("--yarn", "--single-process"), "does not go with --single-process"),
    ):
        assert run(["up", "--headless", "--data-dir", str(tmp_path / "data"), *args]) == 2
        assert says in capsys.readouterr().err
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    assert run(["up", "--headless", "--data-dir", str(tmp_path / "data"), "--yarn"]) == 2
    assert "install Java" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("layout", ["", "share/hadoop/yarn"])
def test_jars_are_found_in_one_folder_and_in_an_unpacked_hadoop(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: "/usr/bin/java")
    (tmp_path / layout).mkdir(parents=True, exist_ok=True)
    for daemon in java.MAIN:
        (tmp_path / layout / f"hadoop-yarn-server-{daemon}-3.4.1.jar").touch()
    assert f"{tmp_path / layout}/*" in java.installed(str(tmp_path)).classpath.split(":")


def test_only_a_machine_that_is_a_node_has_a_copilot_and_its_agent_knows_the_socket(tmp_path: Path) -> None:
    hollow = {each.name for each in components(UpOptions(hadoop="/opt/hadoop"), tmp_path, 1)}
    assert {"yarn-resourcemanager", "yarn-nodemanager", "yarn-operator"} <= hollow
    assert "yarn-copilot" not in hollow
    local = {each.name: each for each in components(UpOptions(hadoop="/x", local_args=()), tmp_path, 1)}
    socket = local["yarn-copilot"].args[local["yarn-copilot"].args.index("--socket") + 1]
    assert local["agent"].args[local["agent"].args.index("--yarn-copilot") + 1] == socket
    assert all(each.command[0] == "yarn" for name, each in local.items() if name.startswith("yarn-"))


def test_ports_stay_from_one_run_to_the_next(tmp_path: Path) -> None:
    first, second = (
        properties((java.configure(tmp_path / "yarn") / "yarn-site.xml").read_text(), "") for _ in range(2)
    )
    assert first == second


def node(data: Path, name: str) -> NodeFacts:
    return node_facts(decode(Node, kubectl(data, "get", "node", name, "-o", "json").encode()))


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def java_processes(running: RunningUp) -> list[int]:
    return [
        each
        for name in ("yarn-resourcemanager", "yarn-nodemanager")
        for each in children(running.component(name)["pid"])
    ]


def has_share(data: Path) -> bool:
    code, told = status(data)
    return code == 0 and told["nodes"]["yarn"] == ["local"] and node(data, "local").claim.vcores >= 1


NEEDED = ("curl", "jq")


def submit_as_the_page_says(folder: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "run-hadoop-jobs.md").read_text()
    (script,) = re.findall(r"```text\n(rm=.*?)```", page, re.DOTALL)
    script = script.replace("sleep 60", "sleep 600")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "USER": "root"}
    subprocess.run(["bash", "-exc", script], cwd=folder, env=environment, check=True, timeout=SLOWLY_S)


@pytest.mark.yarn
@pytest.mark.root
@pytest.mark.kubectl
@pytest.mark.timeout(600)
@pytest.mark.skipif(not all(map(shutil.which, NEEDED)), reason=f"needs {' and '.join(NEEDED)}, as the page does")
def test_up_with_yarn_runs_an_application_on_this_machine_and_leaves_no_java_behind(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with up(data, "--local-node", "--yarn") as running:
        wait_until(lambda: has_share(data), SLOWLY_S)
        submit_as_the_page_says(tmp_path)

        def placed() -> list[Path]:
            # Not all the tree: cgroups of others go while it is walked.
            below = "koord-local-*/kubepods/besteffort/hadoop-yarn/container_*"
            return [each for pattern in (below, f"*/{below}") for each in Path("/sys/fs/cgroup").glob(pattern)]

        wait_until(placed, SLOWLY_S)
        inside = [int(each) for each in (placed()[0] / "cgroup.procs").read_text().split()]
        assert inside
        told = json.loads(koord("top", "nodes", "--kubeconfig", str(data / "kubeconfig"), "-o", "json").stdout)
        assert told["nodes"]["local"]["yarn"]["cpu"] != "0"
        told = json.loads(koord("explain", "node/local", "--kubeconfig", str(data / "kubeconfig"), "-o", "json").stdout)
        assert told["picture"]["yarn"]["yarn"]["cpuMilli"] >= 1000
        javas, pids = java_processes(running), running.pids()
        assert len(javas) == 2
        # Killed at once: everything ends by itself, YARN's containers too.
        running.process.send_signal(signal.SIGKILL)
        running.process.wait()
        wait_until(lambda: not any(map(alive, [*pids, *javas, *inside])), SLOWLY_S)
    with up(data, "--local-node", "--yarn") as running:
        wait_until(lambda: has_share(data), SLOWLY_S)
        javas = java_processes(running)
        assert running.stop(signal.SIGINT) == 130
        # Whoever is told by the kernel that its parent has gone takes a moment to be buried.
        wait_until(lambda: not any(map(alive, javas)), 10)
    with up(data, "--local-node") as running:
        assert node(data, "local").claim == NOTHING
        assert (status(data)[1]["nodes"]["yarn"], running.data.joinpath("yarn").exists()) == ([], False)
