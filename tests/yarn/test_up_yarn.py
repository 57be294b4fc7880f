"""`koord up --yarn`, as a user runs it: Hadoop's own daemons beside koord's, on this machine as a node."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from koord.api.kubernetes.node import Node
from koord.api.machinery.codec import decode
from koord.cli.main import run
from koord.yarn.amount import NOTHING
from koord.yarn.hadoop.configuration import properties
from koord.yarn.live import java
from koord.yarn.nodes import NodeFacts, node_facts
from koord_minicluster.up.plan import UpOptions, components
from tests.minicluster.up.test_end_to_end import RunningUp, alive, koord, kubectl, status, up
from tests.waiting import until

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
    hollow = {component.name for component in components(UpOptions(hadoop="/opt/hadoop"), tmp_path, 1)}
    assert {"yarn-resourcemanager", "yarn-nodemanager", "yarn-operator"} <= hollow
    assert "yarn-copilot" not in hollow
    local = {component.name: component for component in components(UpOptions(hadoop="/x", local_args=()), tmp_path, 1)}
    socket = local["yarn-copilot"].args[local["yarn-copilot"].args.index("--socket") + 1]
    assert local["agent"].args[local["agent"].args.index("--yarn-copilot") + 1] == socket
    assert all(component.command[0] == "yarn" for name, component in local.items() if name.startswith("yarn-"))


JARS = java.Installed("/usr/bin/java", "/opt/jars/*")


def test_mapreduce_is_configured_where_its_jars_are(tmp_path: Path) -> None:
    without = java.configure(tmp_path / "without", JARS)
    assert not (without / "mapred-site.xml").exists()
    assert "yarn.nodemanager.aux-services" not in properties((without / "yarn-site.xml").read_text(), "")
    conf = java.configure(tmp_path / "yarn", replace(JARS, has_mapreduce=True))
    assert properties((conf / "yarn-site.xml").read_text(), "")["yarn.nodemanager.aux-services"] == "mapreduce_shuffle"
    assert properties((conf / "mapred-site.xml").read_text(), "")["mapreduce.application.classpath"] == "/opt/jars/*"


def test_ports_stay_from_one_run_to_the_next(tmp_path: Path) -> None:
    first, second = (
        properties((java.configure(tmp_path / "yarn", JARS) / "yarn-site.xml").read_text(), "") for _ in range(2)
    )
    assert first == second


STUBBORN = """#!{python}
import http.server, json, os, signal, subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
container = subprocess.Popen(["setsid", "sleep", "600"])

class Web(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({{"nodeInfo": {{"id": "n1:1", "pids": [os.getpid(), container.pid]}}}}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_): ...

http.server.HTTPServer(("127.0.0.1", {port}), Web).serve_forever()
"""
"""A NodeManager that does not end when it is asked to, with a container in a session of its own."""


async def test_a_node_manager_that_takes_long_to_end_is_gone_with_its_containers_when_its_command_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "STOPPED_WITHIN_S", 0.3)
    conf = java.configure(tmp_path / "yarn", JARS)
    web = properties((conf / "yarn-site.xml").read_text(), "")["yarn.nodemanager.webapp.address"]
    program = tmp_path / "java"
    program.write_text(STUBBORN.format(python=sys.executable, port=web.rpartition(":")[2]))
    program.chmod(0o755)
    ready: asyncio.Future[java.DaemonInfo] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(
        java.run_daemon("nodemanager", java.Installed(str(program), ""), conf, ready.set_result)
    )
    pids = (await asyncio.wait_for(ready, SLOWLY_S)).about["pids"]
    assert all(map(alive, pids))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    until(lambda: not any(map(alive, pids)))


def node(data: Path, name: str) -> NodeFacts:
    return node_facts(decode(Node, kubectl(data, "get", "node", name, "-o", "json").encode()))


def children(pid: int) -> list[int]:
    return [int(part) for part in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


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


def typed(begins: str, folder: Path, within_s: float = SLOWLY_S) -> str:
    """What the page's commands that begin so print, in this folder."""
    page = (Path(__file__).parents[2] / "docs" / "run-hadoop-jobs.md").read_text()
    (script,) = re.findall(rf"```text\n({re.escape(begins)}.*?)```", page, re.DOTALL)
    script = script.replace("sleep 60", "sleep 600")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "USER": "root"}
    command = ["bash", "-euxc", script]
    return subprocess.run(
        command, cwd=folder, env=environment, check=True, timeout=within_s, stdout=subprocess.PIPE, text=True
    ).stdout


def placed() -> list[Path]:
    """Cgroups of YARN's containers. Not all the tree: cgroups of others go while it is walked."""
    below = "koord-local-*/kubepods/besteffort/hadoop-yarn/container_*"
    return [each for pattern in (below, f"*/{below}") for each in Path("/sys/fs/cgroup").glob(pattern)]


@pytest.mark.yarn
@pytest.mark.root
@pytest.mark.kubectl
@pytest.mark.timeout(900)
@pytest.mark.skipif(not all(map(shutil.which, NEEDED)), reason=f"needs {' and '.join(NEEDED)}, as the page does")
def test_up_with_yarn_runs_an_application_on_this_machine_and_leaves_no_java_behind(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with up(data, "--local-node", "--yarn") as running:
        until(lambda: has_share(data), SLOWLY_S)
        (tmp_path / "hadoop-jars").symlink_to(Path(os.environ["KOORD_HADOOP"]).absolute())
        printed = typed("examples()", tmp_path, 2 * SLOWLY_S)
        assert "Estimated value of Pi is 3.1" in printed
        assert "be\t2\nnot\t1\nor\t1\nto\t2\n" in printed
        until(lambda: not placed(), SLOWLY_S)
        typed("rm=", tmp_path)
        until(placed, SLOWLY_S)
        inside = [int(part) for part in (placed()[0] / "cgroup.procs").read_text().split()]
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
        until(lambda: not any(map(alive, [*pids, *javas, *inside])), SLOWLY_S)
    with up(data, "--local-node", "--yarn") as running:
        until(lambda: has_share(data), SLOWLY_S)
        typed("rm=", tmp_path)
        until(placed, SLOWLY_S)
        javas = java_processes(running)
        assert running.stop(signal.SIGINT) == 130
        assert not any(map(alive, javas)), "a NodeManager with an application outlives koord up"
    with up(data, "--local-node") as running:
        assert node(data, "local").claim == NOTHING
        assert (status(data)[1]["nodes"]["yarn"], running.data.joinpath("yarn").exists()) == ([], False)
