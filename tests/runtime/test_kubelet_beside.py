"""A real kubelet beside an agent that does all it can: neither keeps the other from anything.

The agent's view of kubelet's folder is a mount of its own. What would change the machine outside of the test's cgroups
is off.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from koord.api.configuration.features import AgentGate
from tests.runtime.containerd import CONTROLLERS
from tests.runtime.test_whole_node import ADDRESS, KUBELET, NEWER, PORT, Node, node, of

pytestmark = [pytest.mark.runtime, pytest.mark.kubectl]

OFF = {
    AgentGate.SYSTEM_CONFIG,
    AgentGate.COLD_PAGE_COLLECTOR,
    *(agent_gate for agent_gate in AgentGate if "EVICT" in agent_gate.name),
}
SEES_KUBELET = (
    "mount -t tmpfs none /var/lib && mkdir /var/lib/kubelet &&"
    " mount --bind {folder}/kubelet /var/lib/kubelet && exec {run}"
)
STATIC = "kubeReserved: {cpu: 100m}\ncpuManagerPolicy: static\ncpuManagerReconcilePeriod: 2s\n"
REFUSED = ("update QoS cgroup", "QOS cgroup", "device or resource busy", "cpuset.cpus: permission denied", "StartError")
"""Of kubelet's log, what it could not do because of settings of others."""
RESIZED = '{{"spec":{{"containers":[{{"name":"main","resources":{{"limits":{{"cpu":"{cpu}"}}}}}}]}}}}'
LIMIT = ".status.containerStatuses[0].resources.limits.cpu"
BUSY, IDLE = "while :; do :; done", "sleep 1000"
POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{koordinator.sh/qosClass: {qos}}}}}
spec:
  schedulerName: koord-scheduler
  priorityClassName: koord-{priority}
  hostNetwork: true
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: localhost/busybox:1
    imagePullPolicy: Never
    command: [/bin/sh, -c, "{says}"]
    resources: {{requests: {requests}, limits: {limits}}}
"""
BATCH = "{kubernetes.io/batch-cpu: 1, kubernetes.io/batch-memory: 16Mi}"
"""Next to nothing: how much is lent depends on what else the machine does."""
CLASSES = {
    "web": ("LS", "prod", "{cpu: 100m, memory: 32Mi}", "{cpu: 200m, memory: 32Mi}"),
    "own": ("LSR", "prod", "{cpu: 1, memory: 32Mi}", "{cpu: 1, memory: 32Mi}"),
    "plain": ("''", "prod", "{cpu: 50m, memory: 32Mi}", "{cpu: 100m, memory: 32Mi}"),
    "job": ("BE", "batch", BATCH, BATCH),
}


class EveryGate(Node):
    def start_agent(self, cgroup: str) -> None:
        gates = ",".join(f"{gate}=true" for gate in AgentGate if gate not in OFF)
        run = " ".join([
            sys.executable, "-P", "-m", "koord", "agent", "--node-name", "real", "--kubeconfig", str(self.kubeconfig),
            "--cgroup-root", cgroup, "--cgroup-driver", "cgroupfs", "--state-dir", str(self.folder / "agent"),
            "--hooks-socket", str(self.hooks), "--pod-resources-proxy-path", str(self.folder / "pod-resources"),
            "--kubelet-address", f"https://{ADDRESS}:{PORT}", "--feature-gates", gates,
        ])  # fmt: skip
        self.start("agent", "unshare", "--mount", "sh", "-c", SEES_KUBELET.format(folder=self.folder, run=run))
        lent = "jsonpath={.status.allocatable.kubernetes\\.io/batch-cpu}"
        self.until(lambda: self.kubectl("get", "node", "real", "-o", lent) not in ("", "0"), "something lent")


@pytest.mark.skipif(KUBELET is None, reason="put kubelet where $KUBEBUILDER_ASSETS points")
@pytest.mark.skipif(NEWER is None, reason="put a containerd 2.x where $KUBEBUILDER_ASSETS points")
@pytest.mark.parametrize(("suppress", "kubelet_has"), [("cfsQuota", ""), ("cpuset", STATIC)], ids=["quota", "static"])
def test_kubelet_restarts_beside_an_agent_that_does_all_it_can(tmp_path: Path, suppress: str, kubelet_has: str) -> None:
    with node(tmp_path, "nri", is_real=False, kind=EveryGate, kubelet_has=kubelet_has) as (found, runtime):
        _configure(found, suppress)
        pods = CONTROLLERS / "cpu" / runtime.parent.strip("/") / "kubepods"
        for name in CLASSES:
            _create(found, name, BUSY if name == "web" else IDLE)
        _until_all_run(found)
        if kubelet_has == STATIC:
            assert json.loads(_annotation(found, "own", "resource-status"))["cpuset"] == "1", "the first is kubelet's"
        web = next(pods.rglob(f"pod{of(found, 'web', '.metadata.uid')}"))
        found.until(lambda: int((web / "cpu.cfs_quota_us").read_text()) > 20_000, "a service that got more")
        for cpu in ("300m", "150m"):
            found.kubectl("patch", "pod", "web", "--subresource", "resize", "-p", RESIZED.format(cpu=cpu), must=True)
            found.until(lambda cpu=cpu: of(found, "web", LIMIT) == cpu, f"a limit of {cpu}")  # type: ignore[misc]
        found.kubectl("delete", "pod", "own", "plain", "job", "--wait=false", must=True)
        found.until(lambda: found.kubectl("get", "pods", "-o", "name") == "pod/web\n", "pods that go")
        given = tmp_path / "kubelet" / "cpu_manager_state"
        found.until(lambda: "entries" not in json.loads(given.read_text()), "CPUs that kubelet has back")

        with found.without("kubelet"):
            before = len(found.log("kubelet"))
        for name in CLASSES.keys() - {"web"}:
            _create(found, name, IDLE)
        _until_all_run(found)
        # Kubelet writes a pod's quota without a word: its first attempt at a resize may find one below that is larger.
        assert "invalid argument" not in found.log("kubelet")[before:]
        found.kubectl("patch", "pod", "web", "--subresource", "resize", "-p", RESIZED.format(cpu="250m"), must=True)
        found.until(lambda: of(found, "web", LIMIT) == "250m", "a resize after a restart")
        assert of(found, "web", ".status.containerStatuses[0].restartCount") == "0"
        told = found.log("kubelet")
        assert [line for line in told.splitlines() if any(each in line for each in REFUSED)] == []


def _annotation(found: Node, pod: str, name: str) -> str:
    return of(found, pod, f".metadata.annotations.scheduling\\.koordinator\\.sh/{name}")


def _create(found: Node, name: str, says: str) -> None:
    qos, priority, requests, limits = CLASSES[name]
    manifest = POD.format(name=name, qos=qos, priority=priority, says=says, requests=requests, limits=limits)
    found.kubectl("create", "-f", "-", must=True, given=manifest)


def _until_all_run(found: Node) -> None:
    phases = "jsonpath={.items[*].status.phase}"
    found.until(
        lambda: found.kubectl("get", "pods", "-o", phases).split() == ["Running"] * len(CLASSES), "pods of every class"
    )


def _configure(found: Node, suppress: str) -> None:
    """Every strategy that a class or the node has."""
    names = ("cpuQOS", "memoryQOS", "blkioQOS", "resctrlQOS", "networkQOS")
    of_class = {name: {"enable": True} for name in names}
    sections = {
        "colocation-config": {"enable": True, "cpuReclaimThresholdPercent": 130},
        "resource-threshold-config": {"clusterStrategy": {"enable": True, "cpuSuppressPolicy": suppress}},
        "resource-qos-config": {"clusterStrategy": dict.fromkeys(("lsrClass", "lsClass", "beClass"), of_class)},
        "cpu-burst-config": {"clusterStrategy": {"policy": "auto", "sharePoolThresholdPercent": 100}},
    }
    patch = json.dumps({"data": {name: json.dumps(section) for name, section in sections.items()}})
    config = ("configmap/slo-controller-config", "-n", "koordinator-system")
    found.kubectl("patch", *config, "--type", "merge", "-p", patch, must=True)
