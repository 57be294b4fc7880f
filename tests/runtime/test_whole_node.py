"""A whole real node: kubelet, a container runtime, koord's proxy or plugin in front of it, and the agent.

All of it is in a network namespace of the test's own, below a cgroup of the test's own. The network plugin is a
stand-in: pods use the host's network.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

import pytest

from tests.control_plane import find_binary
from tests.runtime.containerd import CONTROLLERS, Containerd, containerd

pytestmark = [pytest.mark.runtime, pytest.mark.kubectl, pytest.mark.timeout(300)]

KUBELET = find_binary("kubelet")
NEWER = Path(find_binary("containerd") or "containerd")
ADDRESS = "10.77.0.1"
PORT = 10250
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
authentication: {{anonymous: {{enabled: false}}, x509: {{clientCAFile: {data}/pki/ca.crt}}}}
authorization: {{mode: Webhook}}
localStorageCapacityIsolation: false
podLogsDir: {folder}/pod-logs
evictionHard: {{memory.available: 1Mi, nodefs.available: 0%, imagefs.available: 0%, nodefs.inodesFree: 0%}}
syncFrequency: 2s
nodeStatusUpdateFrequency: 2s
"""
SAYS = "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu/cpu.shares; sleep 1000"
POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{koordinator.sh/qosClass: {qos}}}}}
spec:
  schedulerName: koord-scheduler
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
        self.data = folder / "data"
        self._running: list[tuple[str, subprocess.Popen[bytes], IO[bytes]]] = []

    def start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{name}.log").open("wb")
        process = subprocess.Popen(
            [*self._within, *command], stdout=log, stderr=log, start_new_session=True, env={**os.environ, **self.env}
        )
        self._running.append((name, process, log))
        return process

    def koord(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        return self.start(name, sys.executable, "-P", "-m", "koord", name, *arguments)

    @property
    def env(self) -> dict[str, str]:
        return {"KUBECONFIG": str(self.data / "kubeconfig")}

    def kubectl(self, *arguments: str, given: str = "") -> str:
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
        return done.stdout if done.returncode == 0 else ""

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def until(self, what: Callable[[], bool], says: str) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not what():
            for name, process, _ in self._running:
                assert process.poll() is None, f"{name} ended: {self.log(name)[-1500:]}"
            assert time.monotonic() < deadline, f"not within {WITHIN_S:g} s: {says}\n{self._tails()}"
            time.sleep(0.2)

    def _tails(self) -> str:
        return "\n".join(f"--- {name}\n{self.log(name)[-1500:]}" for name, _, _ in self._running)

    def end(self) -> None:
        for _, process, log in reversed(self._running):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            log.close()
        subprocess.run(["umount", "-l", str(self.folder / "kubelet")], check=False, capture_output=True, timeout=10)


@contextmanager
def network() -> Iterator[list[str]]:
    """A network namespace with an address of its own; what to begin commands with that are to be in it."""
    name = f"koord-test-{uuid.uuid4().hex[:8]}"
    inside = ["nsenter", f"--net=/var/run/netns/{name}"]
    subprocess.run(["ip", "netns", "add", name], check=True, timeout=10)
    try:
        for command in (
            "ip link set lo up",
            f"ip address add {ADDRESS}/32 dev lo",
        ):
            subprocess.run([*inside, *command.split()], check=True, timeout=10)
        yield inside
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=False, timeout=10)


@contextmanager
def node(folder: Path, way: str) -> Iterator[tuple[Node, Containerd]]:
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
        found = Node(folder, inside)
        stack.callback(found.end)
        _make_cgroups(runtime.parent)
        found.koord("up", "--nodes", "0", "--headless", "--data-dir", str(found.data))
        found.until(lambda: "ready:" in found.log("up"), "a control plane")
        hooks = folder / "hooks.sock"
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
                parent=runtime.parent, endpoint=endpoint, address=ADDRESS, port=PORT, data=found.data, folder=folder
            )
        )
        assert KUBELET is not None
        found.start(
            "kubelet", str(KUBELET), "--config", str(folder / "kubelet.yaml"), "--kubeconfig",
            str(found.data / "kubeconfig"), "--root-dir", str(folder / "kubelet"), "--cert-dir",
            str(folder / "kubelet-pki"), "--hostname-override", "real", "--node-ip", ADDRESS,
        )  # fmt: skip
        ready = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
        found.until(lambda: found.kubectl("get", "node", "real", "-o", ready) == "True", "a node that is ready")
        found.koord(
            "agent", "--node-name", "real", "--kubeconfig", str(found.data / "kubeconfig"), "--cgroup-root",
            runtime.parent.strip("/"), "--cgroup-driver", "cgroupfs", "--state-dir", str(folder / "agent"),
            "--hooks-socket", str(hooks), "--kubelet-address", f"https://{ADDRESS}:{PORT}",
        )  # fmt: skip
        lent = "jsonpath={.status.allocatable.kubernetes\\.io/batch-cpu}"
        found.until(lambda: found.kubectl("get", "node", "real", "-o", lent) not in ("", "0"), "something lent")
        found.until(lambda: hooks.exists(), "an agent that answers")
        yield found, runtime


def _make_cgroups(parent: str) -> None:
    for root in CONTROLLERS.iterdir():
        if root.is_dir() and (root / "tasks").exists():
            own = root / parent.strip("/")
            own.mkdir(exist_ok=True)
            for file in ("cpuset.cpus", "cpuset.mems"):
                if (root / file).exists():
                    (own / file).write_text((root / file).read_text())


@pytest.mark.skipif(KUBELET is None, reason="put kubelet where $KUBEBUILDER_ASSETS points")
@pytest.mark.parametrize("way", ["proxy", "nri"])
def test_a_batch_pod_of_kubectls_starts_with_its_quota_already_right(tmp_path: Path, way: str) -> None:
    if way == "nri" and (not NEWER.is_absolute() or NEWER.parent == Path("/usr/bin")):
        pytest.skip("put a containerd 2.x where $KUBEBUILDER_ASSETS points")
    with node(tmp_path, way) as (found, runtime):
        batch = "{kubernetes.io/batch-cpu: 500, kubernetes.io/batch-memory: 64Mi}"
        found.kubectl("create", "-f", "-", given=POD.format(
            name="job", qos="BE", priority="koord-batch", says=SAYS, resources=batch))  # fmt: skip
        found.kubectl("create", "-f", "-", given=POD.format(
            name="web", qos="LS", priority="koord-prod", says="sleep 1000", resources="{cpu: 200m, memory: 32Mi}"
        ))  # fmt: skip
        found.until(lambda: len(found.kubectl("logs", "job").split()) >= 2, "the first lines of the pod")
        assert found.kubectl("logs", "job").split()[:2] == ["50000", "512"], "at its first instruction"
        pods = CONTROLLERS / "cpu" / runtime.parent.strip("/") / "kubepods"
        uid = found.kubectl("get", "pod", "job", "-o", "jsonpath={.metadata.uid}")
        assert (pods / "besteffort" / f"pod{uid}" / "cpu.cfs_quota_us").read_text().strip() == "50000", "its pod's too"
        resized = (
            '{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"300m"},"limits":{"cpu":"300m"}}}]}}'
        )
        found.until(lambda: found.kubectl("logs", "web", "--tail=1") == "" and _phase(found, "web") == "Running", "web")
        assert found.kubectl("patch", "pod", "web", "--subresource", "resize", "--type", "strategic", "-p", resized)
        web = found.kubectl("get", "pod", "web", "-o", "jsonpath={.metadata.uid}")
        id = found.kubectl("get", "pod", "web", "-o", "jsonpath={.status.containerStatuses[0].containerID}")
        own = pods / f"pod{web}" / id.removeprefix("containerd://") / "cpu.cfs_quota_us"
        found.until(lambda: _said(own) == "30000", "a resize that reaches the container")
        for name in ("job", "web"):
            found.kubectl("delete", "pod", name, "--wait=false")
        found.until(lambda: found.kubectl("get", "pods", "-o", "name") == "", "pods that are gone")
        asked = [line for line in (tmp_path / "agent").rglob("*") if line.is_file() and "audit" in line.name]
        told = "".join(each.read_text() for each in asked)
        assert f'"type":"{"runtime-proxy" if way == "proxy" else "nri"}"' in told, "the audit says who delivered"


def _phase(found: Node, name: str) -> str:
    return found.kubectl("get", "pod", name, "-o", "jsonpath={.status.phase}")


def _said(file: Path) -> str:
    with suppress(OSError):
        return file.read_text().strip()
    return ""
