"""The node of the co-location figure: real cgroups, a service on every CPU, a neighbour, and koord's agent beside them.

One visit of a neighbour is one run of the same service: alone twice, then beside the neighbour with interference
control, with protection alone, and with neither. The agent is the one of `koord agent`, without API and kubelet; its
windows are of a second, so that a visit is short.
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Final, NamedTuple

from koord.agent.core import Agent, Done
from koord.agent.executor.executor import Executor
from koord.agent.executor.ledger import Ledger
from koord.agent.host import usage
from koord.agent.host.knobs import CPU_SHARES
from koord.agent.host.topology import topology
from koord.agent.interference.episode import Step
from koord.agent.pods import BATCH_CPU, BATCH_MEMORY, AgentPod, pods_of
from koord.agent.qos.cpu_budget import cpu_budget
from koord.agent.qos.cpu_suppress import YIELDING_OVER_S
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
from koord_bench.harness import percentile
from koord_minicluster.local.live.tree import DRIVER, Tree

NAME: Final = "koord-bench-colocation"
ALONE: Final = ("alone", "alone again")
CONTROLLED: Final = "protected, controlled"
PROTECTED: Final = "protected"
SUPPRESSED: Final = "suppressed"
UNPROTECTED: Final = "unprotected"
LOAD: Final = 0.25
"""The part of every CPU that the service uses."""
REQUEST_MS: Final = 1.0
CPUS: Final = frozenset(os.sched_getaffinity(0))
"""Those of the node: all that this process may use (`taskset` makes it fewer)."""
MEMORY_BYTES: Final = len(CPUS) << 30
"""Of the node: services and neighbours have a process on every CPU."""
NEIGHBOUR_BYTES: Final = MEMORY_BYTES // 2
WAITED_MS: Final = 1.0
"""Less is a switch between tasks, or a kernel thread."""
WINDOW_S: Final = 1.0
WATCHED: Final = 5
"""Windows from a neighbour's arrival until what control made of it is measured."""
SETTLED_S: Final = 1.0
STARTED_WITHIN_S: Final = 60.0
EQUAL_SHARES: Final = 1024 * len(CPUS)
"""Of a service that asked for the whole node, as kubelet writes them: what it leaves is lent."""
LEAST_SHARES: Final = 2
THRESHOLD: Final = THRESHOLD_STRATEGY.cpu_suppress_threshold_percent or 0


class BusyError(BadInput):
    """Another run has the node."""


@dataclass(frozen=True, slots=True)
class ServiceFigures:
    """The service in one way of one visit, and the neighbour's share."""

    p50_ms: float
    p99_ms: float
    waited: float
    "Of the requests, those whose thread waited for a CPU. One holds up those behind it, so that few make a p99."
    answered_s: float
    "Requests a second that were answered."
    worked_ms: float = 0.0
    "Median CPU time of a request: a neighbour on the same caches, memory or core makes it longer."
    best_effort: float | None = None
    "The neighbour's share of the CPU time that nothing else used. None: the machine was too busy to measure in time."
    off_budget: float | None = None
    "By which part of it the neighbour missed what CPU suppress allowed."
    written_s: float | None = None
    "Bytes a second that the neighbour wrote to disk."
    stolen: float | None = None
    "Of the CPUs' time, what the hypervisor gave to others."


@dataclass(slots=True)
class Visit:
    ways: dict[str, ServiceFigures] = field(default_factory=dict)
    named_after: int | None = None
    "The windows from its arrival until it was named as who slows the service down; None: it was not."
    steps: list[str] = field(default_factory=list)
    "What interference control did, in order."


@dataclass(frozen=True, slots=True)
class Phase:
    way: str
    begins_s: float
    ends_s: float


def visit(neighbour: Neighbour, seconds: float) -> Visit:
    with ExitStack() as stack:
        directory = stack.enter_context(_directory())
        tree = stack.enter_context(_tree())
        stack.enter_context(_first_served())
        return _Visiting(tree, directory, neighbour, seconds, stack).run()


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


class _Visiting:
    def __init__(self, tree: Tree, directory: Path, neighbour: Neighbour, seconds: float, stack: ExitStack) -> None:
        self._tree, self._directory, self._neighbour, self._seconds = tree, directory, neighbour, seconds
        self._stack = stack
        self._service, self._guest = _pod("service", "LS"), _pod("neighbour", "BE")
        for pod in (self._service, self._guest):
            tree.directory(pod.directory)
            tree.directory(pod.containers[0].directory)
        self._weigh(LEAST_SHARES)
        self._agent = Agent(tree.cgroups, Executor(tree.cgroups, Ledger()), started_s=time.monotonic())
        # A little less than the time between rounds: one that comes a millisecond early ends its window, too.
        self._agent.strategies = (*STRATEGIES[:-1], strategy_of(0.8 * WINDOW_S))
        self._agent.waitings.every_s, self._agent.slowly_s = 0.0, 0.8 * WINDOW_S
        self._states = {
            CONTROLLED: self._state(controls=True),
            PROTECTED: self._state(),
            SUPPRESSED: self._state(suppresses=True),
        }
        self._probes: list[mmap.mmap] = []
        self._guests: list[subprocess.Popen[bytes]] = []
        self._found = Visit()

    def run(self) -> Visit:
        services = self._start_services()
        begins_s = time.monotonic() + 2 * WINDOW_S
        phases = self._phases(begins_s)
        for service in services:
            _say(service, json.dumps([(phase.begins_s, phase.ends_s) for phase in phases]))
        # What services say of their first second is of caches that are still cold.
        time.sleep(WINDOW_S)
        arrives_s = phases[1].ends_s
        self._start_guests(arrives_s)
        measured = {}
        for phase in phases:
            is_alone = phase.way in ALONE
            if phase.way == UNPROTECTED:
                self._agent.executor.restore_all(time.monotonic())
                self._weigh(EQUAL_SHARES)
            if not is_alone and phase.way != CONTROLLED and not self._guests:
                self._start_guests(0.0)
            state = self._states.get(CONTROLLED if is_alone else phase.way)
            self._rounds(state, phase.begins_s, arrives_s)
            before = self._used()
            allowed = self._rounds(state, phase.ends_s, arrives_s)
            measured[phase.way] = self._got(before, self._used(), allowed if phase.way == SUPPRESSED else ())
        answers = [json.loads(service.communicate(timeout=STARTED_WITHIN_S)[0]) for service in services]
        for number, phase in enumerate(phases):
            own = [answer[number] for answer in answers]
            self._found.ways[phase.way] = _figures(own, phase, measured[phase.way])
        return self._found

    def _phases(self, begins_s: float) -> list[Phase]:
        phases, at_s = [], begins_s
        ways = [(way, 0.0) for way in ALONE] + [(CONTROLLED, WATCHED * WINDOW_S), (PROTECTED, SETTLED_S)]
        if self._neighbour.name == "cpu":
            # Its second decision uses the load of services while best effort is suppressed.
            ways.append((SUPPRESSED, SETTLED_S + YIELDING_OVER_S))
        for way, before_s in (*ways, (UNPROTECTED, SETTLED_S)):
            phases.append(Phase(way, at_s + before_s, at_s + before_s + self._seconds))
            at_s = phases[-1].ends_s
        return phases

    def _weigh(self, best_effort: int) -> None:
        self._tree.set(CPU_SHARES, "kubepods/burstable", EQUAL_SHARES)
        self._tree.set(CPU_SHARES, "kubepods/besteffort", best_effort)

    def _state(self, *, controls: bool = False, suppresses: bool = False) -> NodeState:
        gates = {**DEFAULT_GATES, AgentGate.INTERFERENCE_CONTROL: controls}
        slo = {
            "resourceUsedThresholdWithBE": {"enable": suppresses, "cpuSuppressPolicy": "cfsQuota"},
            "resourceQOSStrategy": {qos: {"cpuQOS": {"enable": True}} for qos in ("lsClass", "beClass")},
        }
        pods = {pod.uid: pod for pod in (self._service, self._guest)}
        shape, spec = topology(self._tree.files), convert(NodeSLOSpec, slo)
        shape = replace(shape, cpus=tuple(cpu for cpu in shape.cpus if cpu.id in CPUS))
        return state_of(self._tree.cgroups, shape, DRIVER, Node(), spec, pods, Kubelet(), gates)

    def _rounds(self, state: NodeState | None, until_s: float, arrives_s: float) -> list[float]:
        """The agent's, each second; the cores that CPU suppress allowed in each."""
        allowed = []
        while state is not None and (now_s := time.monotonic()) < until_s - WINDOW_S / 2:
            said = statistics.mean(struct.unpack_from("d", probe)[0] for probe in self._probes)
            self._agent.samples.add(names.pod_probe(self._service.uid), now_s, said, SLOW_RING)
            self._heed(self._agent.round(state, now_s), arrives_s)
            if (budget := cpu_budget(state, self._agent.samples, THRESHOLD, None, now_s)) is not None:
                allowed.append(budget.allowed / 1000)
            time.sleep(max(min(now_s + WINDOW_S, until_s) - time.monotonic(), 0))
        time.sleep(max(until_s - time.monotonic(), 0))
        return allowed

    def _heed(self, done: Done, arrives_s: float) -> None:
        for finding in done.findings:
            taken, culprit = finding.taken, finding.episode.suspects.culprit
            self._found.steps.append(f"{taken.step} by {finding.episode.signal.key}")
            names_it = culprit is not None and culprit.uid == self._guest.uid
            if names_it and taken.at_s > arrives_s and self._found.named_after is None:
                self._found.named_after = round((taken.at_s - arrives_s) / WINDOW_S)
        if done.evictions:
            # As kubelet would.
            self._end_guests()
            self._found.steps.append(Step.EVICTED)

    def _start_services(self) -> list[subprocess.Popen[bytes]]:
        started = []
        for number in range(len(CPUS)):
            with (self._directory / f"data-{number}").open("wb") as file:
                file.write(os.urandom(DATA_BYTES))
                file.flush()
                os.fdatasync(file.fileno())
            probe = self._directory / f"probe-{number}"
            probe.write_bytes(bytes(8))
            with probe.open("r+b") as file:
                self._probes.append(mmap.mmap(file.fileno(), 8))
            args = (str(number), str(self._directory), str(LOAD), str(REQUEST_MS))
            started.append(self._started(self._service, "koord_bench.colocation_service", *args))
        for process in started:
            assert process.stdout is not None
            if process.stdout.readline() != b"ready\n":
                raise RuntimeError("the service of the co-location figure did not start")
        return started

    def _start_guests(self, arrives_s: float) -> None:
        args = (self._neighbour.name, str(self._directory), str(arrives_s))
        module = "koord_bench.colocation_neighbours"
        self._guests = [self._started(self._guest, module, *args) for _ in range(len(CPUS))]

    def _end_guests(self) -> None:
        for pid in self._tree.processes(self._guest.containers[0].directory):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._guests = []

    def _started(self, pod: AgentPod, module: str, *args: str) -> subprocess.Popen[bytes]:
        doors, promise = self._tree.doors(pod.containers[0].directory), ends_with_this_process()

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

    def _used(self) -> Used:
        lines = [line.split() for line in self._tree.files.once("proc/stat").splitlines() if line.startswith(b"cpu")]
        own = [line for line in lines if line[0][3:].isdigit() and int(line[0][3:]) in CPUS]
        tick_s = 1 / os.sysconf("SC_CLK_TCK")
        return Used(
            time.monotonic(),
            usage.cpu_ns(self._tree.cgroups, self._guest.directory) / 1e9,
            sum(int(line[4]) for line in own) * tick_s,
            sum(int(line[8]) for line in own) * tick_s,
            sum(map(_written_bytes, self._tree.processes(self._guest.containers[0].directory))),
        )

    def _got(self, before: Used, after: Used, allowed: Sequence[float]) -> Got:
        took_s, used_s = after.at_s - before.at_s, after.guest_s - before.guest_s
        if took_s < self._seconds / 2:
            return Got()
        return Got(
            used_s / max(used_s + after.idle_s - before.idle_s, 1e-9),
            used_s / took_s / statistics.mean(allowed) - 1 if allowed else None,
            max(after.written_bytes - before.written_bytes, 0) / took_s,
            (after.stolen_s - before.stolen_s) / took_s / len(CPUS),
        )


class Used(NamedTuple):
    at_s: float
    guest_s: float
    "CPU time of the neighbour."
    idle_s: float
    "Of all CPUs. A CPU with a process that waits for a disk is not idle: more CPU would not help that process."
    stolen_s: float
    "Likewise, by the hypervisor."
    written_bytes: int
    "By the neighbour."


class Got(NamedTuple):
    """Between two looks, as in `ServiceFigures`."""

    best_effort: float | None = None
    off_budget: float | None = None
    written_s: float | None = None
    stolen: float | None = None


def _written_bytes(pid: int) -> int:
    """What a process had written to disk, or was going to; nothing of one that has ended."""
    try:
        fields = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    except OSError:
        return 0
    return int(fields["write_bytes"])


def _figures(answers: Sequence[Mapping[str, list[float]]], phase: Phase, got: Got) -> ServiceFigures:
    taken, delays, worked = (
        [value for answer in answers for value in answer[which]] for which in ("taken_ms", "delays_ms", "worked_ms")
    )
    return ServiceFigures(
        p50_ms=percentile(taken, 0.5),
        p99_ms=percentile(taken, 0.99),
        waited=sum(delay >= WAITED_MS for delay in delays) / max(len(delays), 1),
        answered_s=len(delays) / (phase.ends_s - phase.begins_s),
        worked_ms=percentile(worked, 0.5),
        **got._asdict(),
    )


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
