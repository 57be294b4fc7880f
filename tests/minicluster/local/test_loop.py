"""The whole loop on this machine: usage, what it lends, a batch pod, and its being held back. As a user runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from koord.api.text.cpuset import CPUSet
from koord.kube.locate import locate
from tests.control_plane import find_binary
from tests.waiting import until

pytestmark = [pytest.mark.root, pytest.mark.kubectl]

WITHIN_S = 90.0

STORY = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {koordinator.sh/qosClass: LS}}
spec:
  schedulerName: koord-scheduler
  priorityClassName: koord-prod
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: none
    command: [/bin/sh, -c, "while true; do sleep 0.2; done"]
    resources: {requests: {cpu: 200m, memory: 16Mi}, limits: {cpu: 500m, memory: 64Mi}}
---
apiVersion: v1
kind: Pod
metadata: {name: job, labels: {koordinator.sh/qosClass: BE}}
spec:
  schedulerName: koord-scheduler
  priorityClassName: koord-batch
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: none
    command: [/bin/sh, -c, "while true; do :; done"]
    resources:
      requests: {kubernetes.io/batch-cpu: "100", kubernetes.io/batch-memory: 16Mi}
      limits: {kubernetes.io/batch-cpu: "1000", kubernetes.io/batch-memory: 64Mi}
"""


OWN_CPUS = """
apiVersion: v1
kind: Pod
metadata:
  name: own
  labels: {koordinator.sh/qosClass: LSR}
  annotations: {scheduling.koordinator.sh/resource-spec: '{"requiredCPUBindPolicy":"FullPCPUs"}'}
spec:
  schedulerName: koord-scheduler
  priorityClassName: koord-prod
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: none
    command: [/bin/sh, -c, "while true; do sleep 0.2; done"]
    resources: {requests: {cpu: "%d", memory: 64Mi}, limits: {cpu: "%d", memory: 64Mi}}
"""


class Machine:
    """`koord up --local-node`, and kubectl against it."""

    def __init__(self, folder: Path, cpu: str) -> None:
        self.data = folder / "data"
        self._process = subprocess.Popen(
            [
                sys.executable, "-m", "koord", "up", "--headless", "--nodes", "0", "--local-node", "--local-cpu", cpu,
                "--local-memory", "512Mi", "--durability", "fast", "--data-dir", str(self.data),
            ],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("ready:"), line

    def kubectl(self, *args: str, given: str | None = None) -> str:
        binary = find_binary("kubectl")
        assert binary is not None
        env = {**os.environ, "KUBECONFIG": str(self.data / "kubeconfig")}
        done = subprocess.run([binary, *args], input=given, env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def get(self, *args: str) -> Any:
        return json.loads(self.kubectl("get", *args, "-o", "json"))

    def until(self, holds: Callable[[], Any]) -> Any:
        return until(holds, WITHIN_S)

    def agent(self) -> int:
        """The agent's process; 0 while there is none."""
        for each in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((each / "stat").read_text().rsplit(")", 1)[1].split()[1])
                words = (each / "cmdline").read_bytes().split(b"\0")
            except (OSError, IndexError, ValueError):
                continue
            if parent == self._process.pid and b"agent" in words:
                return int(each.name)
        return 0

    @property
    def root(self) -> str:
        (found,) = Path("/sys/fs/cgroup/cpu").glob(f"koord-local-{self._port()}")
        return found.name

    def _port(self) -> str:
        return locate(str(self.data / "kubeconfig"), None).server.rsplit(":", 1)[1]

    def stop(self) -> int:
        self._process.terminate()
        return self._process.wait(60)


@pytest.fixture
def machine(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Machine]:
    found = Machine(tmp_path, getattr(request, "param", "1"))
    try:
        yield found
    finally:
        found.stop()


def test_what_services_leave_is_lent_used_and_held_back(machine: Machine) -> None:
    root = machine.root

    def lent() -> int:
        return int(machine.get("node", "local")["status"]["allocatable"].get("kubernetes.io/batch-cpu", 0))

    machine.until(lambda: lent() > 100)
    machine.kubectl("apply", "-f", "-", given=STORY)
    machine.until(lambda: all(pod["status"]["phase"] == "Running" for pod in machine.get("pods")["items"]))
    best_effort = Path("/sys/fs/cgroup/cpu", root, "kubepods/besteffort")
    machine.until(lambda: (best_effort / "cpu.shares").read_text().strip() == "2")
    # All of the node share its own quota of one core, so best effort may not have its share at once.
    assert (best_effort / "cpu.cfs_period_us").read_text().strip() == "100000"
    quota = machine.until(lambda: _limited((best_effort / "cpu.cfs_quota_us").read_text()))
    # At most 85% of one core, less what the service uses.
    assert 2000 <= quota <= 85_000
    audit = subprocess.run(
        [sys.executable, "-m", "koord", "agent", "--state-dir", str(machine.data / "agent"), "audit", "-o", "json"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    events = json.loads(audit.stdout)
    assert any(event["reason"] == "cpu_suppress" and "mark 850m" in event["message"] for event in events)
    _replace_the_agent_under_load(machine, best_effort)
    assert machine.stop() == 0
    assert not list(Path("/sys/fs/cgroup").glob(f"*/{root}")), "the node's cgroups are gone"


def _replace_the_agent_under_load(machine: Machine, best_effort: Path) -> None:
    """As a DaemonSet does it: the old one is told to end, a new one starts. In the meantime the settings change."""
    before = {pod["metadata"]["name"]: _life(pod) for pod in machine.get("pods")["items"]}
    with _Watching(best_effort) as watching:
        old = machine.agent()
        stored = machine.get("configmap", "-n", "koordinator-system", "slo-controller-config")["data"]
        section = json.loads(stored["colocation-config"]) | {"cpuSafetyMarkPercent": 50}
        patch = json.dumps({"data": {"colocation-config": json.dumps(section)}})
        os.kill(old, signal.SIGTERM)
        machine.kubectl("patch", "configmap", "-n", "koordinator-system", "slo-controller-config", "-p", patch)
        machine.until(lambda: machine.agent() not in (0, old))
        # What changed while no agent was there is not lost: at most 50% of one core.
        machine.until(lambda: (_limited((best_effort / "cpu.cfs_quota_us").read_text()) or 85_000) <= 50_000)
    # At no moment was best effort let loose: neither by the agent that ended nor by the one that came.
    assert watching.seen
    assert {shares for shares, _ in watching.seen} == {"2"}
    assert all(int(quota) > 0 for _, quota in watching.seen)
    assert {pod["metadata"]["name"]: _life(pod) for pod in machine.get("pods")["items"]} == before


def _life(pod: dict[str, Any]) -> tuple[str, int, bool]:
    (status,) = pod["status"]["containerStatuses"]
    return pod["metadata"]["uid"], status["restartCount"], status["ready"]


class _Watching:
    """What the kernel shows of best effort, again and again."""

    def __init__(self, best_effort: Path) -> None:
        self._files = [best_effort / "cpu.shares", best_effort / "cpu.cfs_quota_us"]
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.seen: set[tuple[str, ...]] = set()

    def _work(self) -> None:
        while not self._done.wait(0.01):
            self.seen.add(tuple(file.read_text().strip() for file in self._files))

    def __enter__(self) -> _Watching:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def _threads_per_core() -> int:
    siblings = Path("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list").read_text()
    return len(CPUSet.parse(siblings))


@pytest.mark.parametrize("machine", [str(_threads_per_core())], indirect=True)
def test_a_pod_with_cpus_of_its_own_runs_on_those_that_its_annotation_names(machine: Machine) -> None:
    number = _threads_per_core()
    machine.kubectl("apply", "-f", "-", given=OWN_CPUS % (number, number))
    machine.until(lambda: machine.get("pod", "own")["status"].get("phase") == "Running")
    meta = machine.get("pod", "own")["metadata"]
    status = json.loads(meta["annotations"]["scheduling.koordinator.sh/resource-status"])
    assert len(CPUSet.parse(status["cpuset"])) == number
    pod = Path("/sys/fs/cgroup/cpuset", machine.root, "kubepods", f"pod{meta['uid']}")
    machine.until(lambda: (pod / "cpuset.cpus").read_text().strip() == status["cpuset"])
    (process, *_) = machine.until(
        lambda: [part for path in pod.glob("*/cgroup.procs") for part in path.read_text().split()]
    )

    def allowed() -> str:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        return next(line.split()[1] for line in lines if line.startswith("Cpus_allowed_list:"))

    machine.until(lambda: allowed() == status["cpuset"])


def _limited(text: str) -> int | None:
    quota = int(text)
    return quota if quota > 0 else None
