"""The node of the co-location figures: real cgroups, a service on every CPU, a neighbour, and koord's agent.

The agent is the one of `koord agent`, without API and kubelet; its windows are of a second, so that a run is short.
A visit (`colocation_visit`) drives it.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import shutil
import signal
import statistics
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Final, NamedTuple

from koord.agent.core import Agent, Done
from koord.agent.executor.executor import Executor
from koord.agent.executor.ledger import Ledger
from koord.agent.host import usage
from koord.agent.host.convert import PERIOD_US, UNLIMITED
from koord.agent.host.knobs import CPU_PERIOD, CPU_QUOTA, CPU_QUOTA_IN_LONG_PERIODS, CPU_SHARES
from koord.agent.host.topology import topology
from koord.agent.pods import BATCH_CPU, BATCH_MEMORY, AgentPod, pods_of
from koord.agent.qos.cpu_budget import cpu_budget
from koord.agent.qos.interference import strategy_of
from koord.agent.qos.registry import STRATEGIES
from koord.agent.series import names
from koord.agent.series.samples import SLOW_RING
from koord.agent.state import DEFAULT_GATES, Kubelet, NodeState
from koord.agent.view import state_of
from koord.api.configuration.features import AgentGate
from koord.api.configuration.slo_defaults import THRESHOLD_STRATEGY
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.runnable import RunnablePod
from koord.api.machinery.codec import convert
from koord.api.machinery.faults import BadInput
from koord.api.protocol.crd.node_slo import NodeSLOSpec
from koord.kube.program import own_program
from koord_bench.children import ends_with_this_process
from koord_bench.colocation_neighbours import Neighbour
from koord_bench.colocation_service import DATA_BYTES
from koord_bench.other_programs import other_programs_s
from koord_minicluster.local.live.tree import DRIVER, Tree

NAME: Final = "koord-bench-colocation"
REQUEST_MS: Final = 1.0
CPUS: Final = frozenset(os.sched_getaffinity(0))
"""Those of the node: all that this process may use (`taskset` makes it fewer)."""
MEMORY_BYTES: Final = len(CPUS) << 30
"""Of the node: services and neighbours have a process on every CPU."""
NEIGHBOUR_BYTES: Final = MEMORY_BYTES // 2
WINDOW_S: Final = 1.0
STARTED_WITHIN_S: Final = 60.0
EQUAL_SHARES: Final = 1024 * len(CPUS)
"""Of a service that asked for the whole node, as kubelet writes them: what it leaves is lent."""
LEAST_SHARES: Final = 2
THRESHOLD: Final = THRESHOLD_STRATEGY.cpu_suppress_threshold_percent or 0
BEST_EFFORT: Final = "kubepods/besteffort"


class BusyError(BadInput):
    """Another run has the node."""


class Phase(NamedTuple):
    """A time in which the service has one load. Its figures are of this time alone."""

    begins_s: float
    ends_s: float
    load: float
    "The part of every CPU that the service uses."


class Used(NamedTuple):
    """Counters at one moment."""

    at_s: float
    service_s: float
    "CPU time of the service."
    guest_s: float
    "Of the neighbour."
    others_s: float
    "Of programs that are no part of the benchmark, on all CPUs."
    idle_s: float
    "Of all CPUs. A CPU with a process that waits for a disk is not idle: more CPU would not help that process."
    stolen_s: float
    "Likewise, by the hypervisor."
    written_bytes: int
    "By the neighbour."


def clean() -> None:
    """Takes away what a run left that was killed."""
    with _directory(), _tree():
        pass


@contextmanager
def _first_served() -> Iterator[None]:
    """Whoever measures comes before whatever else the machine does: it has to look when a phase begins and ends."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, -20)
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)


@contextmanager
def _directory() -> Iterator[Path]:
    """One for all runs, so that the next run finds what a killed one left. Its lock is the lock of the node."""
    path = Path(tempfile.gettempdir(), NAME)
    path.mkdir(mode=0o700, exist_ok=True)
    if path.is_symlink() or path.stat().st_uid != os.geteuid():
        raise BadInput(f"{path} belongs to another user: remove it")
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyError("koord bench colocation runs already: two would disturb each other") from None
        for left in path.iterdir():
            left.unlink()
        yield path
    finally:
        os.close(fd)
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _tree() -> Iterator[Tree]:
    tree = Tree(NAME, 0, MEMORY_BYTES)
    # What a killed run left there, with its processes.
    tree.remove()
    tree.make()
    try:
        yield tree
    finally:
        tree.remove()
        tree.close()


@contextmanager
def bench_node(neighbour: Neighbour) -> Iterator[BenchNode]:
    with ExitStack() as stack:
        directory = stack.enter_context(_directory())
        tree = stack.enter_context(_tree())
        stack.enter_context(_first_served())
        yield BenchNode(tree, directory, neighbour, stack)


class BenchNode:
    def __init__(self, tree: Tree, directory: Path, neighbour: Neighbour, stack: ExitStack) -> None:
        self.tree, self.neighbour = tree, neighbour
        self._directory, self._stack = directory, stack
        self.service, self.guest = _pod("service", "LS"), _pod("neighbour", "BE")
        for pod in (self.service, self.guest):
            tree.directory(pod.directory)
            tree.directory(pod.containers[0].directory)
        self._weigh(LEAST_SHARES)
        self._agent = Agent(tree.cgroups, Executor(tree.cgroups, Ledger()), started_s=time.monotonic())
        # A little less than the time between rounds: one that comes a millisecond early ends its window, too.
        self._agent.strategies = (*STRATEGIES[:-1], strategy_of(0.8 * WINDOW_S))
        self._agent.waitings.every_s, self._agent.slowly_s = 0.0, 0.8 * WINDOW_S
        self._probes: list[mmap.mmap] = []
        self._services: list[subprocess.Popen[bytes]] = []
        self._guests: list[subprocess.Popen[bytes]] = []

    def _weigh(self, best_effort: int) -> None:
        self.tree.set(CPU_SHARES, "kubepods/burstable", EQUAL_SHARES)
        self.tree.set(CPU_SHARES, BEST_EFFORT, best_effort)

    def state(self, *, controls: bool = False, suppress_above: int | None = None) -> NodeState:
        gates = {**DEFAULT_GATES, AgentGate.INTERFERENCE_CONTROL: controls}
        slo = {
            "resourceUsedThresholdWithBE": {
                "enable": suppress_above is not None,
                "cpuSuppressThresholdPercent": suppress_above or THRESHOLD,
                "cpuSuppressPolicy": "cfsQuota",
            },
            "resourceQOSStrategy": {qos: {"cpuQOS": {"enable": True}} for qos in ("lsClass", "beClass")},
        }
        pods = {pod.uid: pod for pod in (self.service, self.guest)}
        shape, spec = topology(self.tree.files), convert(NodeSLOSpec, slo)
        shape = replace(shape, cpus=tuple(cpu for cpu in shape.cpus if cpu.id in CPUS))
        return state_of(self.tree.cgroups, shape, DRIVER, Node(), spec, pods, Kubelet(), gates)

    def release(self) -> None:
        """The agent's settings taken back, and equal weights."""
        self._agent.executor.restore_all(time.monotonic())
        self._weigh(EQUAL_SHARES)

    def rounds(self, state: NodeState | None, until_s: float, respond: Callable[[Done], None]) -> list[float]:
        """The agent's, each second; the cores that CPU suppress allowed in each. No state: no agent."""
        allowed = []
        while state is not None and (now_s := time.monotonic()) < until_s - WINDOW_S / 2:
            slowest_ms = statistics.mean(struct.unpack_from("d", probe)[0] for probe in self._probes)
            self._agent.samples.add(names.pod_probe(self.service.uid), now_s, slowest_ms, SLOW_RING)
            respond(self._agent.round(state, now_s))
            if (budget := cpu_budget(state, self._agent.samples, THRESHOLD, None, now_s)) is not None:
                allowed.append(budget.allowed / 1000)
            time.sleep(max(min(now_s + WINDOW_S, until_s) - time.monotonic(), 0))
        time.sleep(max(until_s - time.monotonic(), 0))
        return allowed

    def start_services(self) -> None:
        for number in range(len(CPUS)):
            with (self._directory / f"data-{number}").open("wb") as file:
                file.write(os.urandom(DATA_BYTES))
                file.flush()
                os.fdatasync(file.fileno())
            probe = self._directory / f"probe-{number}"
            probe.write_bytes(bytes(8))
            with probe.open("r+b") as file:
                self._probes.append(mmap.mmap(file.fileno(), 8))
            args = (str(number), str(self._directory), str(REQUEST_MS))
            self._services.append(self._started(self.service, "koord_bench.colocation_service", *args))
        for process in self._services:
            assert process.stdout is not None
            if process.stdout.readline() != b"ready\n":
                raise RuntimeError("the service of the co-location figure did not start")

    def announce(self, phases: Sequence[Phase]) -> None:
        """To the service: all phases, before the first begins."""
        for process in self._services:
            _say(process, json.dumps(phases))

    def answers(self) -> list[list[Mapping[str, list[float]]]]:
        """After the last phase: by process of the service, by phase, what `PhaseTimes` has."""
        return [json.loads(process.communicate(timeout=STARTED_WITHIN_S)[0]) for process in self._services]

    @property
    def has_guests(self) -> bool:
        return bool(self._guests)

    def start_guests(self, arrives_s: float) -> None:
        args = (self.neighbour.name, str(self._directory), str(arrives_s))
        module = "koord_bench.colocation_neighbours"
        self._guests = [self._started(self.guest, module, *args) for _ in range(len(CPUS))]

    def limit_guests(self, percent: int | None, period_us: int = PERIOD_US) -> None:
        """To a part of the node; None: no limit."""
        quota = UNLIMITED if percent is None else percent * len(CPUS) * PERIOD_US // 100
        self.tree.set(CPU_QUOTA, BEST_EFFORT, UNLIMITED)
        self.tree.set(CPU_PERIOD, BEST_EFFORT, period_us)
        self.tree.set(CPU_QUOTA if period_us == PERIOD_US else CPU_QUOTA_IN_LONG_PERIODS, BEST_EFFORT, quota)

    def end_guests(self) -> None:
        for pid in self.tree.processes(self.guest.containers[0].directory):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._guests = []

    def _started(self, pod: AgentPod, module: str, *args: str) -> subprocess.Popen[bytes]:
        doors, promise = self.tree.doors(pod.containers[0].directory), ends_with_this_process()

        def enter() -> None:
            promise()
            os.setpriority(os.PRIO_PROCESS, 0, 0)
            for door in doors:
                with open(door, "w") as file:
                    file.write(str(os.getpid()))

        process = subprocess.Popen(
            [*own_program(module), *args],
            preexec_fn=enter,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._stack.callback(_ended, process)
        return process

    def used(self) -> Used:
        lines = [line.split() for line in self.tree.files.once("proc/stat").splitlines() if line.startswith(b"cpu")]
        own = [line for line in lines if line[0][3:].isdigit() and int(line[0][3:]) in CPUS]
        tick_s = 1 / os.sysconf("SC_CLK_TCK")
        guests = self.tree.processes(self.guest.containers[0].directory)
        services = self.tree.processes(self.service.containers[0].directory)
        return Used(
            time.monotonic(),
            usage.cpu_ns(self.tree.cgroups, self.service.directory) / 1e9,
            usage.cpu_ns(self.tree.cgroups, self.guest.directory) / 1e9,
            other_programs_s({*guests, *services, os.getpid()}),
            sum(int(line[4]) for line in own) * tick_s,
            sum(int(line[8]) for line in own) * tick_s,
            sum(map(_written_bytes, guests)),
        )


def _written_bytes(pid: int) -> int:
    """What a process had written to disk, or was going to; nothing of one that has ended."""
    try:
        fields = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    except OSError:
        return 0
    return int(fields["write_bytes"])


def _say(process: subprocess.Popen[bytes], line: str) -> None:
    stdin: IO[bytes] | None = process.stdin
    assert stdin is not None
    stdin.write(line.encode() + b"\n")
    stdin.flush()


def _ended(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def _pod(name: str, qos: str) -> AgentPod:
    """The neighbour asks for what was reclaimed, as admission would write it."""
    resources: dict[str, dict[str, str]] = {"requests": {"cpu": str(len(CPUS))}}
    if qos == "BE":
        amounts: dict[str, str] = {BATCH_MEMORY: str(NEIGHBOUR_BYTES)}
        resources = {"requests": {BATCH_CPU: "1000", **amounts}, "limits": amounts}
    raw = {
        "metadata": {"name": name, "namespace": "bench", "uid": name, "labels": {"koordinator.sh/qosClass": qos}},
        "spec": {"containers": [{"name": "c", "resources": resources}], "priority": 5500 if qos == "BE" else 9500},
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": "c", "containerID": f"containerd://{name}", "state": {"running": {}}}],
        },
    }
    return pods_of([convert(RunnablePod, raw)], DRIVER)[name]
