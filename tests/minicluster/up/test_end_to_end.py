"""`koord up` as a user runs it: a process, its one line, its directory, its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.control_plane import find_binary
from tests.crowd import crowd
from tests.minicluster.up.screen import OnATerminal
from tests.waiting import until

READY_WITHIN_S = 90.0
STOP_WITHIN_S = 90.0
COMPONENTS = {"apiserver", "controllers", "scheduler", "manager", "descheduler", "hollow", "console"}


@dataclass(frozen=True)
class RunningUp:
    process: subprocess.Popen[bytes]
    data: Path

    @property
    def line(self) -> str:
        return (self.data.parent / "up.out").read_text()

    def endpoints(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.data / "endpoints.json").read_text())
        return found

    def component(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.endpoints()["components"][name]
        return found

    def pids(self) -> list[int]:
        return [self.process.pid, *(component["pid"] for component in self.endpoints()["components"].values())]

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(timeout=STOP_WITHIN_S)


def koord(*args: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "koord", *args], capture_output=True, text=True, timeout=timeout_s, check=False
    )


@contextmanager
def up(data: Path, *args: str) -> Iterator[RunningUp]:
    command = [sys.executable, "-m", "koord", "up", "--headless", "--data-dir", str(data), *args]
    said, errors = data.parent / "up.out", data.parent / "up.err"
    with said.open("wb") as out, errors.open("ab") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, preexec_fn=_heed_a_closed_terminal)
    try:

        def is_ready() -> bool:
            assert process.poll() is None, errors.read_text()
            return said.read_text().endswith("\n")

        until(is_ready, READY_WITHIN_S, what=errors.read_text)
        yield RunningUp(process, data)
        assert len(said.read_text().splitlines()) == 1
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=STOP_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _heed_a_closed_terminal() -> None:
    """Also where the tests themselves were started with nohup, which koord would respect."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def kubectl(data: Path, *args: str, check: bool = True) -> str:
    done = subprocess.run(
        [str(find_binary("kubectl")), "--kubeconfig", str(data / "kubeconfig"), *args],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


def status(data: Path) -> tuple[int, dict[str, Any]]:
    done = koord("status", "--data-dir", str(data), "-o", "json")
    return done.returncode, json.loads(done.stdout)


def test_it_says_one_line_serves_and_leaves_nothing_behind(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with up(data, "--nodes", "3") as running:
        assert running.line == f"ready: KUBECONFIG={data}/kubeconfig\n"
        assert (data / "kubeconfig").stat().st_mode & 0o777 == 0o600
        assert {path.name for path in (data / "logs").iterdir()} == {f"{name}.log" for name in COMPONENTS}
        code, told = status(data)
        assert (code, told["healthy"], told["problems"]) == (0, True, [])
        nodes = told["nodes"]
        assert (nodes["total"], nodes["ready"]) == (3, 3)
        assert not any(nodes[part] for part in ("notReady", "cordoned", "silent", "yarn", "yarnRefused"))
        assert {component["name"] for component in told["components"]} == COMPONENTS
        assert (told["webhooks"]["asked"], told["webhooks"]["failure"]) == (True, "")
        assert {scheduler["name"] for scheduler in told["schedulers"] if scheduler["answers"]} == {
            *("default-scheduler", "koord-scheduler"),
        }
        again = koord("up", "--headless", "--data-dir", str(data))
        assert (again.returncode, again.stdout) == (2, "")
        assert f"pid {running.process.pid}" in again.stderr
        pids = running.pids()
        assert running.stop() == 0
        assert not any(map(alive, pids))
    code, told = status(data)
    assert code == 1
    assert f"koord up --data-dir {data}" in told["problems"][0]["how"]


@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGHUP, 0)])
def test_ctrl_c_and_a_closed_terminal_stop_it_too(how: signal.Signals, code: int, tmp_path: Path) -> None:
    with up(tmp_path / "data", "--nodes", "1") as running:
        pids = running.pids()
        assert running.stop(how) == code
        assert not any(map(alive, pids))


def test_the_live_view_shows_a_restart_at_80_by_24_and_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    data = tmp_path / "data"
    command = [sys.executable, "-m", "koord", "up", "--nodes", "1", "--data-dir", str(data), "--durability", "fast"]
    with OnATerminal(command, 80, 24) as terminal:
        terminal.until(lambda text: any(line.startswith("nodes 1 Ready") for line in text))
        pid = json.loads((data / "endpoints.json").read_text())["components"]["hollow"]["pid"]
        os.kill(pid, signal.SIGKILL)
        text = terminal.until(lambda text: any("1 (by SIGKILL)" in line for line in text))
        shown = "".join(line.ljust(80) for line in text[:4])
        assert shown.startswith(f"export KUBECONFIG={data}/kubeconfig")
        assert text[-1] == "Ctrl-C stops everything"
        for word in ("COMPONENT", "apiserver", "hollow", "nodes ", "pods "):
            assert sum(line.startswith(word) for line in text) == 1, text
        os.kill(terminal.process.pid, signal.SIGINT)
        assert terminal.ended() == 130
        assert not terminal.screen.on_second
        assert "stopped" in terminal.screen.text


def test_a_killed_supervisor_takes_its_components_with_it(tmp_path: Path) -> None:
    with up(tmp_path / "data", "--nodes", "1") as running:
        pids = running.pids()
        running.process.kill()
        running.process.wait()
        until(lambda: not any(map(alive, pids)))


@pytest.mark.kubectl
def test_state_is_kept_over_a_restart_and_killed_components_are_healed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with up(data, "--nodes", "2") as running:
        kubectl(data, "create", "configmap", "kept", "--from-literal=a=b")
        kubectl(data, "create", "deployment", "web", "--image=web:1", "--replicas=3")
        kubectl(data, "wait", "--for=condition=Available", "deployment/web", "--timeout=60s")
        for name in ("hollow", "scheduler", "manager", "controllers", "apiserver"):
            killed = running.component(name)["pid"]
            os.kill(killed, signal.SIGKILL)

            def healed(name: str = name, killed: int = killed) -> bool:
                now = running.component(name)
                return bool(now["pid"] != killed and now["state"] == "ready")

            until(healed)
        assert "kept" in kubectl(data, "get", "configmap", "kept")
        kubectl(data, "scale", "deployment/web", "--replicas=5")
        kubectl(data, "wait", "--for=jsonpath={.status.readyReplicas}=5", "deployment/web", "--timeout=60s")
        before = kubectl(data, "get", "pods", "-o", "jsonpath={.items[*].metadata.uid}")
        port = running.component("apiserver")["endpoints"]["api"]
        assert running.stop() == 0
    with up(data, "--nodes", "2") as running:
        assert running.component("apiserver")["endpoints"]["api"] == port
        assert kubectl(data, "get", "pods", "-o", "jsonpath={.items[*].metadata.uid}") == before
        assert kubectl(data, "get", "configmap", "kept", "-o", "jsonpath={.data.a}") == "b"


BATCH_POD = """
apiVersion: v1
kind: Pod
metadata: {name: job, labels: {koordinator.sh/qosClass: BE}}
spec:
  priorityClassName: koord-batch
  containers:
  - name: work
    image: work:1
    resources:
      requests: {kubernetes.io/batch-cpu: "4000", kubernetes.io/batch-memory: 1Gi}
      limits: {kubernetes.io/batch-cpu: "4000", kubernetes.io/batch-memory: 1Gi}
"""


@pytest.mark.kubectl
def test_whoever_deletes_koords_namespace_gets_it_again_and_pods_are_accepted_throughout(tmp_path: Path) -> None:
    data = tmp_path / "data"

    def uid() -> str:
        found: dict[str, Any] = json.loads(
            kubectl(data, "get", "namespace", "koordinator-system", "-o", "json", check=False) or "{}"
        )
        return "" if not found or "deletionTimestamp" in found["metadata"] else str(found["metadata"]["uid"])

    def accepted() -> bool:
        labels = "koordinator.sh/qosClass=LS"
        done = kubectl(
            data, "run", "probe", "--image=i", "--labels", labels, "--dry-run=server", "-o", "name", check=False
        )
        return done == "pod/probe\n"

    with up(data, "--nodes", "1") as running:
        before = uid()
        until(lambda: "koordinator-default-quota" in kubectl(data, "get", "elasticquotas", "-A"))
        kubectl(data, "delete", "namespace", "koordinator-system", "--wait=false")
        until(lambda: uid() not in ("", before))
        until(accepted)
        # Killed in the middle of a deletion, with webhooks registered that will not answer.
        until(lambda: "vpod" in kubectl(data, "get", "validatingwebhookconfigurations", "-o", "yaml"))
        os.kill(running.process.pid, signal.SIGSTOP)
        for name in ("controllers", "manager"):
            os.kill(running.component(name)["pid"], signal.SIGKILL)
        before = uid()
        kubectl(data, "delete", "namespace", "koordinator-system", "--wait=false")
        assert not accepted()
        running.process.kill()
        running.process.wait()
    with up(data, "--nodes", "1") as running:
        assert uid() not in ("", before)
        until(accepted)
        assert running.stop() == 0


@pytest.mark.kubectl
def test_co_location_is_on_and_batch_pods_run_on_what_is_lent(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with up(data, "--nodes", "1", "--single-process"):
        lent = "jsonpath={.items[0].status.allocatable.kubernetes\\.io/batch-cpu}"
        until(lambda: kubectl(data, "get", "nodes", "-o", lent) != "")
        (tmp_path / "pod.yaml").write_text(BATCH_POD)
        kubectl(data, "apply", "-f", str(tmp_path / "pod.yaml"))
        kubectl(data, "wait", "--for=condition=Ready", "pod/job", "--timeout=60s")
        name = kubectl(data, "get", "nodes", "-o", "jsonpath={.items[0].metadata.name}")
        process = subprocess.run(
            [
                sys.executable,
                "-m",
                "koord",
                "explain",
                f"node/{name}",
                "-o",
                "json",
                "--kubeconfig",
                data / "kubeconfig",
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        (found,) = [
            resource
            for resource in json.loads(process.stdout)["resources"]
            if resource["resource"].endswith("batch-cpu")
        ]
        assert found["published"] > 4000
        assert found["lines"]
        # Who switches it off finds it off.
        off = {"data": {"colocation-config": '{"enable":false}'}}
        patch = ("patch", "configmap", "slo-controller-config", "-n", "koordinator-system", "--type=merge")
        kubectl(data, *patch, "-p", json.dumps(off))
        until(lambda: kubectl(data, "get", "nodes", "-o", lent) == "")
    with up(data, "--nodes", "1", "--single-process"):
        assert kubectl(data, "get", "nodes", "-o", lent) == ""


@pytest.mark.kubectl
def test_a_hundred_nodes_are_ready_within_five_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("COV")]:
        monkeypatch.delenv(name)
    data, began_s = tmp_path / "data", time.monotonic()
    with up(data, "--nodes", "100"):
        took_s = time.monotonic() - began_s
        lines = kubectl(data, "get", "nodes", "--no-headers").splitlines()
    assert sum(" Ready " in line for line in lines) == 100
    assert took_s < 5 * crowd()


@pytest.mark.kubectl
def test_one_process_can_do_it_all(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with up(data, "--nodes", "2", "--single-process") as running:
        assert len(kubectl(data, "get", "nodes", "--no-headers").splitlines()) == 2
        kubectl(data, "run", "web", "--image=web:1")
        kubectl(data, "wait", "--for=condition=Ready", "pod/web", "--timeout=60s")
        assert running.stop() == 0


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("--node-cpu", "lots"), "--node-cpu"),
        (("--node-memory", "0"), "must be more than 0"),
        (("--nodes", "-1"), "--nodes"),
        (("--load", "/nowhere/load.csv"), "/nowhere/load.csv"),
    ],
)
def test_bad_usage_is_told_before_anything_starts(args: tuple[str, ...], told: str, tmp_path: Path) -> None:
    done = koord("up", "--headless", "--data-dir", str(tmp_path / "data"), *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_ends_it_with_the_reason(tmp_path: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = koord("up", "--headless", "--data-dir", str(tmp_path / "data"), "--port", port)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert f"--port {port}: another program listens on it; give another port, or 0 for a free one" in line
