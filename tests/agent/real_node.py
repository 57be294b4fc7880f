"""A node made of real cgroups, which the agent looks after in rounds of its own: what the daemon does, without API.

The node is as large as its root says: some cores, some memory. Beside everything else that a busy machine runs, that
root has the largest weight there is, so that what its processes use is what they may use. Where the machine is the
node, it is as large as it says of itself, and has what was in use before beside it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from koord.agent.core import RECONCILE_S, Agent, Done
from koord.agent.executor.executor import Executor
from koord.agent.host import proc, usage
from koord.agent.host.cgroups import Cgroups
from koord.agent.host.convert import MOST_SHARES, PERIOD_US
from koord.agent.host.knobs import CPU_QUOTA, CPU_SHARES, CPUSET_CPUS, KNOBS, MEMORY_LIMIT
from koord.agent.host.layout import qos_dir
from koord.agent.host.topology import Topology, topology
from koord.agent.live.keeping import LedgerFile, read_ledger
from koord.agent.pods import BATCH_CPU, AgentPod
from koord.agent.state import Kubelet, NodeState
from koord.agent.view import state_of
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.words import KubeQoS
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.node_slo import NodeSLOSpec
from koord.api.protocol.names import ANNOTATION_RESOURCE_STATUS
from koord.api.text.cpuset import CPUSet
from tests.agent import slices, states
from tests.agent.real import limit_cpu, make, paths, real_cgroups, remove

DRIVER = CgroupDriver(os.environ.get("KOORD_TEST_CGROUP_DRIVER", CgroupDriver.CGROUPFS))
"""How directories are named; the kernel does not care."""
ROUND_S = float(os.environ.get("KOORD_TEST_ROUND_S", "0.5"))
COUNTERS = ("usage", "stat", "pressure", "failcnt", "current", "peak", "events", "procs", "threads", "tasks", "slab")
"""Words in the names of files that tell of what happens, not of what is set."""
THRESHOLD = 65
"""Percent of the node that best effort may fill."""
MARK = 85
"""The same where the node has learned how much services rise."""


@dataclass
class RealNode:
    cgroups: Cgroups
    state_dir: Path
    cores: float | None
    memory_bytes: int | None
    slo: dict[str, Any] = field(default_factory=dict)
    gates: dict[AgentGate, bool] = field(default_factory=lambda: {gate: gate.default for gate in AgentGate})
    annotations: dict[str, str] = field(default_factory=dict)
    pods: dict[str, AgentPod] = field(default_factory=dict)
    kubelet: Kubelet = field(default_factory=Kubelet)
    later_s: float = 0.0
    "By how much the agent's clock is ahead."

    def __post_init__(self) -> None:
        self.capacity: dict[str, str] = {}
        self.used_bytes = 0
        "By others than pods, when the test began."
        if self.cgroups.root:
            self._limit_root()
        else:
            self._limit_machine()
        self.topology: Topology = topology(self.cgroups.files)
        self._made_of: tuple[str, int, Kubelet, dict[AgentGate, bool]] | None = None
        self.start()

    def _limit_root(self) -> None:
        self.cgroups.set(CPU_SHARES, "", MOST_SHARES)
        if self.cores is not None:
            self.cgroups.set(CPU_QUOTA, "", int(self.cores * PERIOD_US))
        if self.memory_bytes is not None:
            self.cgroups.set(MEMORY_LIMIT, "", self.memory_bytes)

    def _limit_machine(self) -> None:
        """A machine has no limits of its own, but pods have."""
        if self.cores is not None:
            self.capacity["cpu"] = f"{self.cores:g}"
        if self.memory_bytes is not None:
            self.used_bytes = proc.memory(self.cgroups.files).used
            self.capacity["memory"] = str(self.used_bytes + self.memory_bytes)
            slices.tell(self.top, f"MemoryMax={self.memory_bytes}")

    @property
    def top(self) -> str:
        """The directory with all that is the test's own."""
        return "" if self.cgroups.root else qos_dir(KubeQoS.GUARANTEED, DRIVER)

    def percent_of_memory(self, of_pods: float) -> int:
        """What the node uses, when pods use this share of the memory for pods."""
        assert self.memory_bytes is not None
        return round(100 * (self.used_bytes + of_pods * self.memory_bytes) / (self.used_bytes + self.memory_bytes))

    def start(self) -> None:
        """The agent, knowing what a former one left on disk."""
        self._record = LedgerFile(self.state_dir)
        executor = Executor(self.cgroups, read_ledger(self.state_dir), self._record.save)
        self.agent = Agent(self.cgroups, executor, started_s=time.monotonic())

    def pod(self, name: str, qos: str = "", **given: Any) -> AgentPod:
        """Made as kubelet and a runtime would: with the directories and limits that its resources say."""
        pod = states.pod(name, qos, driver=DRIVER, **given)
        make(self.cgroups, pod.directory)
        limits = [container.limits.get("cpu", 0) for container in pod.containers]
        if all(limits):
            limit_cpu(self.cgroups, pod.directory, sum(limits))
        for container, limit in zip(pod.containers, limits, strict=True):
            make(self.cgroups, container.directory)
            if limit:
                limit_cpu(self.cgroups, container.directory, limit)
        self.pods = {**self.pods, pod.uid: pod}
        return pod

    def drop(self, pod: AgentPod) -> None:
        """It is gone, with all that ran in it."""
        remove(self.cgroups, pod.directory)
        self.pods = {uid: each for uid, each in self.pods.items() if uid != pod.uid}
        self.agent.executor.forget(pod.directory)

    def state(self) -> NodeState:
        """Made again when something changed, as the daemon does."""
        made_of = (json.dumps([self.slo, self.annotations]), id(self.pods), self.kubelet, dict(self.gates))
        if made_of != self._made_of:
            metadata = {"name": "n1", "annotations": self.annotations}
            shown = convert(Node, {"metadata": metadata, "status": {"capacity": self.capacity}})
            spec = convert(NodeSLOSpec, self.slo)
            self._state = state_of(
                self.cgroups, self.topology, DRIVER, shown, spec, self.pods, self.kubelet, self.gates
            )
            self._made_of = made_of
        return self._state

    @property
    def now_s(self) -> float:
        return time.monotonic() + self.later_s

    def round(self) -> Done:
        self._record.catch_up()
        return self.agent.round(self.state(), self.now_s)

    def reconciled(self) -> None:
        """A round in which hooks look again; nothing is refused."""
        self.later_s += RECONCILE_S + 1
        assert not self.round().outcome.refused

    def rounds(self, count: int, each_s: float = ROUND_S) -> list[Done]:
        """A pause, then a round, N times."""
        found = []
        for _ in range(count):
            time.sleep(each_s)
            found.append(self.round())
        return found

    def until(self, is_so: Callable[[], bool], most: int = 20) -> bool:
        """Rounds, until it is so."""
        return any(is_so() for _ in range(most) if self.rounds(1))

    def rounds_and(self, count: int, counter: Callable[[], int]) -> int:
        """By how much something grew in the meantime."""
        before = counter()
        self.rounds(count)
        return counter() - before

    def directory(self, qos: KubeQoS) -> str:
        return qos_dir(qos, DRIVER)

    @property
    def best_effort(self) -> str:
        return self.directory(KubeQoS.BEST_EFFORT)

    def used_s(self, directory: str) -> float:
        """CPU time so far."""
        return usage.cpu_ns(self.cgroups, directory) / 1e9

    def all_used_s(self) -> float:
        """CPU time of the whole node so far. A machine's own account counts ticks, and misses what sleeps at them."""
        return self.used_s("") if self.cgroups.root else sum(map(self.used_s, self.cgroups.children("")))

    def cpus(self, directory: str) -> CPUSet:
        cpus = self.cgroups.get(CPUSET_CPUS, directory)
        assert isinstance(cpus, CPUSet)
        return cpus

    @property
    def best_effort_cores(self) -> float:
        """What best effort may use, by its quota."""
        quota = self.cgroups.get(CPU_QUOTA, self.best_effort)
        assert isinstance(quota, int)
        return quota / PERIOD_US if quota > 0 else float("inf")

    def settings(self) -> dict[str, str]:
        """All settings in force: by directory and knob."""
        return settings_below(self.cgroups, self.top)

    def all_files(self) -> dict[str, str]:
        """What every file of every directory says, also those that the agent never writes; counters are left out."""
        return {
            f"{path}/{name}": _said(Path(path, name))
            for top in paths(self.cgroups, self.top)
            for path, _, names in os.walk(top)
            for name in names
            if not any(word in name for word in COUNTERS)
        }


def _said(file: Path) -> str:
    try:
        return file.read_text()
    except OSError as error:
        return error.strerror or "unreadable"


def settings_below(cgroups: Cgroups, directory: str) -> dict[str, str]:
    """All settings in force there and below: by directory and knob."""
    return dict(_settings(cgroups, directory))


def _settings(cgroups: Cgroups, directory: str) -> Iterator[tuple[str, str]]:
    for knob in KNOBS:
        place = cgroups.place(knob)
        if place is None or not cgroups.has(knob, directory):
            continue
        path = Path("/", cgroups.name(place.controller, directory, place.reads or place.file))
        if path.exists():
            yield f"{directory}: {knob.name}", path.read_text().strip()
    for name in cgroups.children(directory):
        yield from _settings(cgroups, f"{directory}/{name}".lstrip("/"))


def suppressed(policy: str) -> dict[str, Any]:
    """Settings under which best effort is held back."""
    strategy = {"enable": True, "cpuSuppressThresholdPercent": THRESHOLD, "cpuSuppressPolicy": policy}
    return {"resourceUsedThresholdWithBE": strategy}


def adaptive(policy: str) -> dict[str, Any]:
    """Settings under which best effort is held below the learned ceiling."""
    return {**suppressed(policy), "lendingStrategy": {"cpuSafetyMarkPercent": MARK}}


def batch(**given: Any) -> dict[str, Any]:
    """A pod that asks for what was reclaimed."""
    return {"qos": "BE", "priority": 5500, "requests": {BATCH_CPU: "1000"}, **given}


def owning(*cpus: int) -> dict[str, Any]:
    """A pod with CPUs of its own from the scheduler."""
    status = json.dumps({"cpuset": str(CPUSet(cpus))})
    resources = {"cpu": str(len(cpus)), "memory": "64Mi"}
    annotations = {str(ANNOTATION_RESOURCE_STATUS): status}
    return {"qos": "LSR", "requests": resources, "limits": resources, "annotations": annotations}


@contextmanager
def real_node(
    state_dir: Path,
    *,
    cores: float | None = None,
    memory_bytes: int | None = None,
    slo: Mapping[str, Any] | None = None,
) -> Iterator[RealNode]:
    with real_cgroups(DRIVER) as cgroups:
        yield RealNode(cgroups, state_dir, cores, memory_bytes, dict(slo or {}))
