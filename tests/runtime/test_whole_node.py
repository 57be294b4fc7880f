"""A whole real node: kubelet, a container runtime, koord's proxy or plugin in front of it, and the agent.

All of it is in a network namespace of the test's own, below a cgroup of the test's own. The network plugin is a
stand-in: pods use the host's network.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

import pytest

from tests.control_plane import ControlPlane, find_binary, missing_binaries
from tests.runtime.containerd import CONTROLLERS, Containerd, containerd, newer_containerd
from tests.waiting import until

pytestmark = [pytest.mark.runtime, pytest.mark.kubectl]

KUBELET = find_binary("kubelet")
NEWER = newer_containerd()
ADDRESS = "10.77.0.1"
PORT, WEBHOOKS, FORWARDED = 10250, 9876, 18080
FLAGS = (
    "--disable-admission-plugins=TaintNodesByCondition,ServiceAccount",
    "--kubelet-preferred-address-types=InternalIP",
)
WITHIN_S = 120.0

KUBELET_CONFIG = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: {parent}
containerRuntimeEndpoint: unix://{endpoint}
failSwapOn: false
address: {address}
port: {port}
readOnlyPort: 0
healthzPort: 0
authentication: {{anonymous: {{enabled: false}}, x509: {{clientCAFile: {ca}}}}}
authorization: {{mode: Webhook}}
localStorageCapacityIsolation: false
podLogsDir: {folder}/pod-logs
evictionHard: {{memory.available: 1Mi, nodefs.available: 0%, imagefs.available: 0%, nodefs.inodesFree: 0%}}
syncFrequency: 2s
nodeStatusUpdateFrequency: 2s
"""
FIRST = "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu/cpu.shares"
JOB = f"{FIRST}; while :; do busybox usleep 5000; done"
BATCH = "{kubernetes.io/batch-cpu: 500, kubernetes.io/batch-memory: 64Mi}"
PLACED = "cat /sys/fs/cgroup/cpuset/cpuset.cpus; echo $NVIDIA_VISIBLE_DEVICES; sleep 1000"
WEB = "busybox httpd -p 8080 -h /etc; while :; do echo tick; sleep 1; done"
POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{koordinator.sh/qosClass: {qos}}}, annotations: {annotations}}}
spec:
  {scheduler}
  priorityClassName: {priority}
  hostNetwork: true
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: localhost/busybox:1
    imagePullPolicy: Never
    command: [/bin/sh, -c, "{says}"]
    resources: {{requests: {resources}, limits: {resources}}}
"""


class Node:
    """What runs on it, ended in the opposite order."""

    def __init__(self, folder: Path, within: list[str]) -> None:
        self.folder, self._within = folder, within
        self.hooks = folder / "hooks.sock"
        self.kubeconfig, self.ca = folder / "data" / "kubeconfig", folder / "data" / "pki" / "ca.crt"
        self._running: list[tuple[str, subprocess.Popen[bytes], IO[bytes]]] = []
        self._commands: dict[str, tuple[str, ...]] = {}

    def start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{name}.log").open("ab")
        self._commands[name] = command
        process = subprocess.Popen(
            [*self._within, *command], stdout=log, stderr=log, start_new_session=True, env={**os.environ, **self.env}
        )
        self._running.append((name, process, log))
        return process

    @contextmanager
    def running(self, name: str, *command: str) -> Iterator[None]:
        """For as long as the block."""
        process = self.start(name, *command)
        try:
            yield
        finally:
            self._running = [each for each in self._running if each[1] is not process]
            process.terminate()
            process.wait(60)

    @contextmanager
    def without(self, name: str) -> Iterator[None]:
        """It is killed, and comes back after the block."""
        ((_, process, log),) = (each for each in self._running if each[0] == name)
        self._running = [each for each in self._running if each[0] != name]
        process.kill()
        process.wait(60)
        log.close()
        yield
        self.start(name, *self._commands[name])

    def koord(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        return self.start(name, sys.executable, "-P", "-m", "koord", name, *arguments)

    def start_agent(self, cgroup: str) -> None:
        """Whoever listens on the socket `hooks`; what it looks after is below `cgroup`."""
        self.koord(
            "agent", "--node-name", "real", "--kubeconfig", str(self.kubeconfig), "--cgroup-root", cgroup,
            "--cgroup-driver", "cgroupfs", "--state-dir", str(self.folder / "agent"), "--hooks-socket", str(self.hooks),
            "--kubelet-address", f"https://{ADDRESS}:{PORT}", "--feature-gates", "BECPUEvict=true,GPUEnvInject=true",
        )  # fmt: skip
        lent = "jsonpath={.status.allocatable.kubernetes\\.io/batch-cpu}"
        self.until(lambda: self.kubectl("get", "node", "real", "-o", lent) not in ("", "0"), "something lent")

    @property
    def env(self) -> dict[str, str]:
        return {"KUBECONFIG": str(self.kubeconfig)}

    def kubectl(self, *arguments: str, given: str = "", must: bool = False) -> str:
        command = [*self._within, find_binary("kubectl") or "kubectl", *arguments]
        done = subprocess.run(
            command,
            input=given,
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, **self.env},
            check=False,
        )
        assert not must or done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout if done.returncode == 0 else ""

    def inside(self, *command: str) -> str:
        done = subprocess.run([*self._within, *command], capture_output=True, text=True, timeout=60, check=False)
        return done.stdout

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def until(self, what: Callable[[], bool], says: str) -> None:
        def holds() -> bool:
            for name, process, _ in self._running:
                assert process.poll() is None, f"{name} ended: {self.log(name)[-1500:]}"
            return what()

        until(holds, WITHIN_S, what=lambda: f"{says}\n{self._tails()}")

    def _tails(self) -> str:
        logs = [f"--- {name}\n{self.log(name)[-1500:]}" for name, _, _ in self._running]
        return "\n".join([*logs, self.kubectl("get", "pods", "-o", "wide"), self.kubectl("events")[-1500:]])

    def end(self) -> None:
        for _, process, log in reversed(self._running):
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            log.close()
        subprocess.run(["umount", "-l", str(self.folder / "kubelet")], check=False, capture_output=True, timeout=60)


@contextmanager
def network() -> Iterator[list[str]]:
    """A network namespace with an address of its own; the prefix of commands that run in it."""
    name = f"koord-test-{uuid.uuid4().hex[:8]}"
    inside = ["nsenter", f"--net=/var/run/netns/{name}"]
    subprocess.run(["ip", "netns", "add", name], check=True, timeout=60)
    try:
        for command in (
            "ip link set lo up",
            f"ip address add {ADDRESS}/32 dev lo",
        ):
            subprocess.run([*inside, *command.split()], check=True, timeout=60)
        yield inside
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=False, timeout=60)


@contextmanager
def node(
    folder: Path, way: str, is_real: bool, kind: type[Node] = Node, kubelet_has: str = ""
) -> Iterator[tuple[Node, Containerd]]:
    """`kubelet_has`: more lines of kubelet's configuration."""
    with ExitStack() as stack:
        inside = stack.enter_context(network())
        (folder / "cni").mkdir()
        (folder / "cni-bin").mkdir()
        (folder / "cni" / "10-lo.conflist").write_text(
            json.dumps({"cniVersion": "0.4.0", "name": "lo", "plugins": [{"type": "loopback"}]})
        )
        loopback = folder / "cni-bin" / "loopback"
        loopback.write_text('#!/bin/sh\necho \'{"cniVersion":"0.4.0","supportedVersions":["0.4.0"]}\'\n')
        loopback.chmod(0o755)
        runtime = stack.enter_context(containerd(folder, NEWER if way == "nri" else None, inside))
        plane = stack.enter_context(ControlPlane(*FLAGS, within=inside)) if is_real else None
        found = kind(folder, inside)
        stack.callback(found.end)
        _make_cgroups(runtime.parent)
        if plane is not None:
            _real_control_plane(found, plane)
        else:
            found.koord("up", "--nodes", "0", "--headless", "--data-dir", str(found.kubeconfig.parent))
            found.until(lambda: "ready:" in found.log("up"), "a control plane")
        hooks = found.hooks
        endpoint = runtime.socket
        if way == "proxy":
            endpoint = folder / "proxy.sock"
            (folder / "hooks.d").mkdir()
            stages = ["PreRunPodSandbox", "PostStopPodSandbox", "PreCreateContainer", "PreUpdateContainerResources"]
            said = {"remote-endpoint": str(hooks), "protocol": "koord", "runtime-hooks": stages}
            (folder / "hooks.d" / "koord.json").write_text(json.dumps(said))
            found.koord(
                "runtime-proxy", "--listen", str(endpoint), "--runtime-endpoint", str(runtime.socket),
                "--hooks-dir", str(folder / "hooks.d"), "--state-dir", str(folder / "proxy"),
            )  # fmt: skip
            found.until(endpoint.exists, "a proxy")
        else:
            found.koord("nri", "--socket", str(runtime.nri), "--agent-socket", str(hooks), "--agent-timeout", "2")
        (folder / "kubelet.yaml").write_text(
            KUBELET_CONFIG.format(
                parent=runtime.parent, endpoint=endpoint, address=ADDRESS, port=PORT, ca=found.ca, folder=folder
            )
            + kubelet_has
        )
        assert KUBELET is not None
        found.start(
            "kubelet", str(KUBELET), "--config", str(folder / "kubelet.yaml"), "--kubeconfig",
            str(found.kubeconfig), "--root-dir", str(folder / "kubelet"), "--cert-dir",
            str(folder / "kubelet-pki"), "--hostname-override", "real", "--node-ip", ADDRESS,
        )  # fmt: skip
        ready = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
        found.until(lambda: found.kubectl("get", "node", "real", "-o", ready) == "True", "a node that is ready")
        found.start_agent(runtime.parent.strip("/"))
        found.until(lambda: hooks.exists(), "an agent that answers")
        yield found, runtime


def _real_control_plane(found: Node, plane: ControlPlane) -> None:
    """kube-apiserver and etcd, with koord's manager, its webhooks, and scheduler."""
    found.kubeconfig, found.ca = plane.kubeconfig, plane.dir / "ca.crt"
    said = found.inside(
        sys.executable, "-P", "-m", "koord", "install", "--colocation", "--kubeconfig", str(plane.kubeconfig)
    )
    found.koord("manager", "--webhook-address", f"{ADDRESS}:{WEBHOOKS}", "--webhook-host", ADDRESS)
    found.koord("scheduler")
    profiles = "validatingwebhookconfigurations,mutatingwebhookconfigurations"
    found.until(lambda: found.kubectl("get", profiles, "-o", "name") != "", f"webhooks; {said}")


def _make_cgroups(parent: str) -> None:
    for root in CONTROLLERS.iterdir():
        if root.is_dir() and (root / "tasks").exists():
            own = root / parent.strip("/")
            own.mkdir(exist_ok=True)
            for file in ("cpuset.cpus", "cpuset.mems"):
                if (root / file).exists():
                    (own / file).write_text((root / file).read_text())


LENT = {"enable": True, "cpuReclaimThresholdPercent": 1}
"""Next to nothing: batch pods must be lent less than they are held back at."""
HELD_BACK = {"enable": True, "cpuSuppressPolicy": "cfsQuota", "cpuSuppressThresholdPercent": 2}
UNSATISFIED = {"cpuEvictBESatisfactionLowerPercent": 50, "cpuEvictBESatisfactionUpperPercent": 60}
EVICTED = {**HELD_BACK, **UNSATISFIED, "cpuEvictTimeWindowSeconds": 2}
GPU_3 = {"gpu": [{"minor": 3, "resources": {"koordinator.sh/gpu-core": "100"}}]}
PLACEMENT = {
    "scheduling.koordinator.sh/resource-status": '{"cpuset": "0"}',
    "scheduling.koordinator.sh/device-allocated": json.dumps(GPU_3),
}
"""What a scheduler would write; koord's own takes away what others wrote in its place, so it is not asked."""
RESIZED = '{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"300m"},"limits":{"cpu":"300m"}}}]}}'


@pytest.mark.skipif(KUBELET is None, reason="put kubelet where $KUBEBUILDER_ASSETS points")
@pytest.mark.parametrize("way", ["proxy", "nri"])
def test_a_batch_pod_on_a_real_node(tmp_path: Path, way: str) -> None:
    """All is right at its first instruction; it is held back, and evicted. A service beside it is resized."""
    if way == "nri" and NEWER is None:
        pytest.skip("put a containerd 2.x where $KUBEBUILDER_ASSETS points")
    is_real = way == "proxy" and not missing_binaries()
    with node(tmp_path, way, is_real) as (found, runtime):
        create(found, "job", "BE", "batch", JOB, BATCH)
        create(found, "placed", "BE", "batch", PLACED, "{}", PLACEMENT)
        create(found, "web", "LS", "prod", WEB, "{cpu: 200m, memory: 32Mi}")
        for name, first in (("job", ["50000", "512"]), ("placed", ["0", "3"])):
            until_printed(found, name)
            assert found.kubectl("logs", name).split("\n")[:2] == first, "at its first instruction"
        if way == "proxy":
            _without_a_proxy(found)
        pods = CONTROLLERS / "cpu" / runtime.parent.strip("/") / "kubepods"
        batch_pod = pods / "besteffort" / f"pod{of(found, 'job', '.metadata.uid')}"
        assert _said(batch_pod / "cpu.cfs_quota_us") == "50000", "its pod's too"

        found.until(lambda: of(found, "web", ".status.phase") == "Running", "web")
        if is_real:
            _streams(found)
        assert found.kubectl("patch", "pod", "web", "--subresource", "resize", "--type", "strategic", "-p", RESIZED)
        own = pods / f"pod{of(found, 'web', '.metadata.uid')}" / _container(found, "web") / "cpu.cfs_quota_us"
        found.until(lambda: _said(own) == "30000", "a resize that reaches the container")

        band, job = pods / "besteffort" / "cpu.cfs_quota_us", batch_pod / _container(found, "job")
        assert _said(band) == "-1"
        _configure(found, HELD_BACK)
        found.until(lambda: 0 < int(_said(band)) <= 100_000, "best effort that is held back")
        found.until(
            lambda: _said(job / "cpu.cfs_quota_us") == "-1", "a container that all best effort is held back with"
        )
        throttled = _throttled(band.parent)
        found.until(lambda: _throttled(band.parent) > throttled, "a job that feels it")

        _configure(found, EVICTED)
        found.until(
            lambda: found.kubectl("get", "pods", "-o", "name").split() == ["pod/placed", "pod/web"], "an eviction"
        )
        found.until(lambda: not job.exists(), "a container that is gone")
        events = found.kubectl("get", "events", "-o", "jsonpath={.items[*].message}")
        assert "of CPU that they asked for" in events, "people are told why"
        found.kubectl("delete", "pod", "placed", "web", "--wait=false")
        found.until(lambda: found.kubectl("get", "pods", "-o", "name") == "", "pods that are gone")
        asked = [line for line in (tmp_path / "agent").rglob("*") if line.is_file() and "audit" in line.name]
        told = "".join(each.read_text() for each in asked)
        assert f'"type":"{"runtime-proxy" if way == "proxy" else "nri"}"' in told, "the audit says who delivered"


def create(
    found: Node, name: str, qos: str, priority: str, says: str, resources: str, placement: dict[str, str] | None = None
) -> None:
    manifest = POD.format(
        name=name,
        qos=qos,
        scheduler="nodeName: real" if placement else "schedulerName: koord-scheduler",
        priority=f"koord-{priority}",
        says=says,
        resources=resources,
        annotations=json.dumps(placement or {}),
    )
    found.kubectl("create", "-f", "-", must=True, given=manifest)


def until_printed(found: Node, name: str) -> None:
    found.until(lambda: found.kubectl("logs", name).count("\n") >= 2, f"the first lines of {name}")


def _without_a_proxy(found: Node) -> None:
    """kubelet waits for it and goes on: what ran is not touched, and a pod that came in the meantime is made right."""
    names = ("job", "placed")
    before = [_container(found, name) for name in names]
    with found.without("runtime-proxy"):
        create(found, "later", "BE", "batch", JOB, BATCH)
        found.until(lambda: of(found, "later", ".spec.nodeName") == "real", "a pod while there is no proxy")
        assert found.kubectl("logs", "later") == ""
    until_printed(found, "later")
    assert found.kubectl("logs", "later").split("\n")[:2] == ["50000", "512"]
    assert [_container(found, name) for name in names] == before
    assert [of(found, each, ".status.containerStatuses[0].restartCount") for each in (*names, "later")] == ["0"] * 3
    found.kubectl("delete", "pod", "later", must=True)


def _streams(found: Node) -> None:
    """What kubelet gets a URL for from the runtime: exec, attach and port-forward."""
    assert found.kubectl("exec", "web", "--", "/bin/cat", "/proc/1/comm").strip() == "sh"
    kubectl = str(find_binary("kubectl"))
    with found.running("attach", kubectl, "attach", "web"):
        found.until(lambda: "tick" in found.log("attach"), "what an attached container prints")
    asks = f"import urllib.request as r; print(r.urlopen('http://127.0.0.1:{FORWARDED}/hostname').status)"
    with found.running("port-forward", kubectl, "port-forward", "pod/web", f"{FORWARDED}:8080"):
        found.until(lambda: "Forwarding from" in found.log("port-forward"), "a forwarded port")
        assert found.inside(sys.executable, "-c", asks).strip() == "200"


def _configure(found: Node, strategy: dict[str, object]) -> None:
    sections = {"colocation-config": LENT, "resource-threshold-config": {"clusterStrategy": strategy}}
    patch = json.dumps({"data": {name: json.dumps(section) for name, section in sections.items()}})
    name = "configmap/slo-controller-config"
    found.kubectl("patch", name, "-n", "koordinator-system", "--type", "merge", "-p", patch, must=True)


def of(found: Node, pod: str, field: str) -> str:
    return found.kubectl("get", "pod", pod, "-o", f"jsonpath={{{field}}}")


def _container(found: Node, pod: str) -> str:
    return of(found, pod, ".status.containerStatuses[0].containerID").removeprefix("containerd://")


def _throttled(directory: Path) -> int:
    return int(dict(line.split() for line in _said(directory / "cpu.stat").splitlines())["nr_throttled"])


def _said(file: Path) -> str:
    with suppress(OSError):
        return file.read_text().strip()
    return ""
