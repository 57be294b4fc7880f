"""One pod on this node, from its first container to its last status.

One task per pod starts the containers that `life.todo` lists, handles container exits and probe results, and writes the
status when it changes. On deletion it ends the processes within their grace period and removes the pod. An error from
the kernel or the API server becomes an event, and the step is retried after a pause; a pod can be deleted at any time.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from koord.agent.host.device_access import AccessError
from koord.agent.host.layout import container_dir
from koord.agent.host.processes import process_of
from koord.agent.pods import AgentContainer, AgentPod, pod_of
from koord.api.kubernetes.resources import amounts
from koord.api.kubernetes.runnable import Probe, RunnableContainer, RunnablePod
from koord.api.kubernetes.words import PodPhase
from koord.api.protocol.priority import qos_class
from koord.kube.clock import Clock
from koord.kube.errors import ApiError
from koord.kube.event_ledger import EventType
from koord_minicluster.kubelet.admission import rejected
from koord_minicluster.kubelet.live.pod_writes import PodWrites
from koord_minicluster.kubelet.pod_status import container_id
from koord_minicluster.kubelet.states import Running, longer
from koord_minicluster.kubelet.termination import (
    DEADLINE_EXCEEDED,
    DELETED,
    LEAST_GRACE_S,
    Ending,
    deadline_s,
    farewell,
    grace_left_s,
    grace_s,
    started_at,
)
from koord_minicluster.local.amounts import container_settings, oom_score, pod_settings
from koord_minicluster.local.environment import Around, ConfigError, command_line, environment
from koord_minicluster.local.gpus import gpu_environment, hidden_nodes
from koord_minicluster.local.life import (
    KILLED,
    UNKNOWN,
    Life,
    Todo,
    adopted,
    ended,
    failed_to_start,
    phase_of,
    probed,
    started,
    todo,
)
from koord_minicluster.local.live import adoption, probes, processes
from koord_minicluster.local.live.commands import Inside
from koord_minicluster.local.live.console import Console
from koord_minicluster.local.live.gpu_inventory import GpuInventory, InventorySource
from koord_minicluster.local.live.pod_logs import PodLogs
from koord_minicluster.local.live.tree import DRIVER, Tree
from koord_minicluster.local.runs import Run
from koord_minicluster.local.status import status_patch

log = logging.getLogger(__name__)

RUNTIME: Final = "containerd"
"""The runtime whose layout the cgroups have, since an id must name one."""
RETRY_S: Final = 2.0


@dataclass(slots=True)
class LocalNode:
    """What all pods of this node share."""

    name: str
    ip: str
    tree: Tree
    logs: PodLogs
    writes: PodWrites
    clock: Clock
    around: Callable[[RunnablePod], Any]
    "What a pod's containers may ask for beyond it, fetched when they start."
    cpu_milli: int
    memory_bytes: int
    tell: Callable[[RunnablePod, EventType, str, str], None] = lambda pod, type, reason, note: None
    "Writes an event on a pod: its type, reason and note."
    devices: InventorySource = field(default_factory=GpuInventory)
    "Tells which GPUs there are."
    answered: Callable[[str, float], None] = lambda qos, seconds: None
    "Hears how long a service of a QoS class took to answer a probe."
    rejection: Callable[[RunnablePod], Ending | None] = lambda pod: None
    "Why this node does not take a pod, which then fails without being started."


@dataclass(slots=True)
class _Live:
    """A container that runs."""

    process: processes.Process
    env: Mapping[str, str]
    confinement: processes.Confinement
    console: Console
    recording: asyncio.Task[None] | None = None
    tasks: list[asyncio.Task[None]] = field(default_factory=list)


class Worker:
    def __init__(self, node: LocalNode, pod: RunnablePod) -> None:
        self._node, self._pod = node, pod
        self._rejection = None if pod.is_finished else node.rejection(pod)
        self.life = Life.resumed(pod, node.clock.now())
        self._running: dict[str, _Live] = {}
        self._since_s = node.clock.now()
        self._wake = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._said: object = None
        "The last status that was written; the API's copy of it comes back a little later."
        self._directory = ""
        "The pod's cgroup, from the first attempt to make it."
        self._is_made = False
        self._make_at_s = self._make_pause_s = 0.0
        self._may_adopt = True

    @property
    def pod(self) -> RunnablePod:
        return self._pod

    def update(self, pod: RunnablePod) -> None:
        self._pod = pod
        self._wake.set()

    async def run(self) -> None:
        """Returns when the pod is gone or over."""
        pause_s = 0.0
        while True:
            try:
                await self._run()
                return
            except Exception as error:
                # The one place that catches a pod's failures: they must not affect the node or other pods.
                log.exception("pod %s cannot run here", self._pod.metadata.key)
                self._node.tell(self._pod, "Warning", "FailedSync", f"error syncing the pod, retrying: {_said(error)}")
            self._running.clear()
            self._is_made = False
            self.life = self.life.lost(self._node.clock.now())
            pause_s = longer(pause_s)
            await self._pause(pause_s)

    async def _pause(self, seconds: float) -> None:
        """Waits; shorter for a pod that is being deleted."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._pod.metadata.deletion_timestamp is None:
                    await self._wake.wait()
                    self._wake.clear()
                await asyncio.sleep(RETRY_S)

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                await self._live()
        finally:
            live = self._running.values()
            stops = [processes.stop(self._node.tree, run_container.process, LEAST_GRACE_S) for run_container in live]
            await asyncio.gather(*stops, return_exceptions=True)
            for run_container in live:
                run_container.process.close()
                run_container.console.close()
            await self._drop()

    async def _drop(self) -> None:
        if self._directory:
            await self._node.tree.drop(self._directory)

    async def _live(self) -> None:
        if self._rejection is not None and self._pod.metadata.deletion_timestamp is None:
            await self._reject(self._rejection)
            return
        await self._adopt()
        while self._pod.metadata.deletion_timestamp is None:
            now_s = self._node.clock.now()
            until_s = deadline_s(self._pod, started_at(self._pod, self._since_s))
            if until_s is not None and now_s >= until_s and not self.is_over:
                self._fails(DEADLINE_EXCEEDED.reason, DEADLINE_EXCEEDED.message)
                await self._end(DEADLINE_EXCEEDED)
                continue
            next_ = self._next(now_s)
            for container in next_.start:
                await self._start(container)
            written = await self._write_status()
            if not next_.start and self.is_over and written:
                return
            waits = [] if next_.next_s is None else [max(next_.next_s - now_s, 0.05)]
            waits += [] if written else [RETRY_S]
            waits += [] if until_s is None or self.is_over else [max(until_s - now_s, 0.05)]
            if not next_.start:
                await self._sleep(min(waits, default=None))
        await self._leave()

    async def _reject(self, why: Ending) -> None:
        """Writes that the pod failed; a pod that is deleted first leaves as any other."""
        self._fails(why.reason, why.message)
        self.life = self.life.ended_by(why, self._node.clock.now())
        while self._pod.metadata.deletion_timestamp is None:
            try:
                await self._node.writes.status(self._pod, rejected(self._pod, why))
                return
            except ApiError as error:
                log.warning("the status of %s could not be written: %s", self._pod.metadata.key, error)
            await self._sleep(RETRY_S)
        await self._leave()

    def _next(self, now_s: float) -> Todo:
        if self.is_over:
            return Todo()
        return todo(self._pod, self.life, now_s) if self._make_pod(now_s) else Todo(next_s=self._make_at_s)

    @property
    def is_over(self) -> bool:
        """Whether its last container has ended for good."""
        return phase_of(self._pod, self.life) in (PodPhase.SUCCEEDED, PodPhase.FAILED)

    async def _sleep(self, seconds: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()

    def _seen(self) -> AgentPod:
        """As the agent will see it, ids included."""
        return pod_of(self._pod, DRIVER)

    def _make_pod(self, now_s: float) -> bool:
        """Whether the pod has its cgroup, with its limits."""
        if self._is_made or now_s < self._make_at_s:
            return self._is_made
        try:
            own = self._seen()
            self._directory = own.directory
            self._node.tree.directory(own.directory)
            for knob, directory, value in pod_settings(own, self._node.cpu_milli):
                self._node.tree.set(knob, directory, value)
        except (OSError, ValueError) as error:
            self._make_pause_s = longer(self._make_pause_s)
            self._make_at_s = now_s + self._make_pause_s
            self._fails("FailedCreatePodContainer", f"unable to make the pod's cgroup, retrying: {error}")
            return False
        self._is_made = True
        return True

    def _fails(self, reason: str, note: str) -> None:
        log.warning("pod %s: %s", self._pod.metadata.key, note)
        self._node.tell(self._pod, "Warning", reason, note)

    async def _adopt(self) -> None:
        """Takes over the containers that outlived a former run of the node; what else it left of the pod goes."""
        if not self._may_adopt:
            return
        self._may_adopt = False
        try:
            self._directory = self._seen().directory
        except ValueError:
            return
        for container in (*self._pod.spec.init_containers, *self._pod.spec.containers):
            self._adopt_one(container)
        there = {run_container.process.directory for run_container in self._running.values()}
        for directory in self._node.tree.below(self._directory):
            if directory not in there:
                await self._node.tree.drop(directory)

    def _adopt_one(self, container: RunnableContainer) -> None:
        name, pod = container.name, self._pod
        run = adoption.kept(self._node.logs.folder(pod, name))
        if run is None:
            return
        id_ = container_id(RUNTIME, pod, name, run.restarts)
        directory = container_dir(self._directory, id_, DRIVER)
        adopted_process = adoption.adopt(self._node.tree, directory, run)
        if adopted_process is None:
            return
        statuses = {
            status.name: status for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
        }
        self.life = self.life.put(name, adopted(self.life.containers[name], container, run, id_, statuses.get(name)))
        process = processes.Process(directory, adopted_process)
        console = Console.of_adopted(container, self.log_file(name, run.restarts))
        self._follow(container, process, adoption.environment_of(run.pid), console)

    def _follow(
        self, container: RunnableContainer, process: processes.Process, env: Mapping[str, str], console: Console
    ) -> None:
        """Waits for the end of a container that runs, and asks its probes."""
        confinement = self._confinement(container, process.directory)
        live = self._running[container.name] = _Live(process, env, confinement, console)
        assert self._group is not None
        if console.is_terminal:
            log_file = self.log_file(container.name, self.life.containers[container.name].restarts)
            live.recording = self._group.create_task(console.record(log_file))
        live.tasks.append(self._group.create_task(self._watch(container, live)))
        self._watch_probes(container, live)

    def inside(self, container: str) -> Inside | None:
        """The container for commands that join it, if it runs."""
        live, group = self._running.get(container), self._group
        if live is None or group is None:
            return None

        def keep(work: Coroutine[None, None, object]) -> None:
            try:
                group.create_task(work)
            except RuntimeError:
                # The pod is ending, and all its processes with it.
                work.close()

        return Inside(live.process.pid, live.env, live.confinement, keep)

    def console(self, container: str) -> Console | None:
        """What clients attach to, if the container runs."""
        live = self._running.get(container)
        return live.console if live is not None else None

    def pids(self) -> list[int]:
        """The processes of all containers."""
        return [pid for live in self._running.values() for pid in self._node.tree.processes(live.process.directory)]

    async def _start(self, container: RunnableContainer) -> None:
        name, own = container.name, self.life.containers[container.name]
        restarts = own.restarts + 1 if own.has_begun else 0
        id_ = container_id(RUNTIME, self._pod, name, restarts)
        try:
            around: Around = await self._node.around(self._pod)
            devices = await self._node.devices()
            env = environment(self._pod, container, around) | gpu_environment(devices, self._seen())
            argv = command_line(container, env)
            hidden = hidden_nodes(devices, self._seen())
            console = Console.make(container, self._node.logs.begin(self._pod, name, restarts))
            process = await self._spawn(container, id_, argv, env, hidden, console)
        except (ConfigError, ApiError) as error:
            self._cannot_start(container, "CreateContainerConfigError", str(error))
            return
        except (processes.StartError, AccessError, OSError, ValueError) as error:
            await self._node.tree.drop(container_dir(self._directory, id_, DRIVER))
            self._cannot_start(container, "RunContainerError", str(error))
            return
        now_s = self._node.clock.now()
        if (named := process_of(self._node.tree.files, process.pid)) is not None:
            adoption.keep(self._node.logs.folder(self._pod, name), Run(restarts, named, now_s, own.backoff_s))
        self.life = self.life.put(name, started(own, container, id_, now_s))
        self._node.tell(self._pod, "Normal", "Started", f"Started container {name}")
        self._follow(container, process, env, console)

    def _cannot_start(self, container: RunnableContainer, reason: str, message: str) -> None:
        own = self.life.containers[container.name]
        self.life = self.life.put(container.name, failed_to_start(own, reason, message, self._node.clock.now()))
        self._fails("Failed", f"Error: container {container.name}: {message}")

    async def _spawn(
        self,
        container: RunnableContainer,
        container_id: str,
        argv: list[str],
        env: Mapping[str, str],
        hidden: Sequence[str],
        console: Console,
    ) -> processes.Process:
        tree, pod = self._node.tree, self._seen()
        directory = tree.directory(container_dir(pod.directory, container_id, DRIVER))
        seen = _as_seen(container)
        for knob, where, value in container_settings(seen, directory, self._node.cpu_milli):
            tree.set(knob, where, value)
        tree.hide(directory, hidden)
        return await processes.start(directory, argv, env, self._confinement(container, directory), console)

    def _confinement(self, container: RunnableContainer, directory: str) -> processes.Confinement:
        security, of_pod = container.security_context, self._pod.spec.security_context
        user = security.run_as_user if security and security.run_as_user is not None else None
        user = of_pod.run_as_user if user is None and of_pod else user
        group = security.run_as_group if security and security.run_as_group is not None else None
        group = of_pod.run_as_group if group is None and of_pod else group
        return processes.Confinement(
            doors=self._node.tree.doors(directory),
            root=_root(container),
            working_dir=container.working_dir,
            user=user,
            group=group,
            oom_score=oom_score(self._seen(), _as_seen(container), self._node.memory_bytes),
        )

    def log_file(self, container: str, restarts: int) -> Path:
        return self._node.logs.file(self._pod, container, restarts)

    async def _watch(self, container: RunnableContainer, live: _Live) -> None:
        code = await live.process.wait()
        # What the command left behind in its cgroup goes with it.
        await processes.stop(self._node.tree, live.process, 0)
        if live.recording is not None and live.console.own is not None:
            live.console.own.end_when_empty()
            await live.recording
        live.console.close()
        for task in live.tasks:
            if task is not asyncio.current_task():
                task.cancel()
        if self._running.get(container.name) is live:
            del self._running[container.name]
        own = self.life.containers[container.name]
        reason = "" if live.process.is_code_known else UNKNOWN
        reason = "OOMKilled" if code == KILLED and self._was_out_of_memory(live.process.directory) else reason
        self.life = self.life.put(container.name, ended(own, code, reason, self._node.clock.now()))
        await self._node.tree.drop(live.process.directory)
        self._wake.set()

    def _was_out_of_memory(self, directory: str) -> bool:
        cgroups = self._node.tree.cgroups
        for name in ("memory.oom_control", "memory.events"):
            with suppress(OSError):
                text = cgroups.files.once(cgroups.name("memory", directory, name)).decode()
                return any(line.split()[0] == "oom_kill" and line.split()[1] != "0" for line in text.splitlines())
        return False

    def _watch_probes(self, container: RunnableContainer, live: _Live) -> None:
        def watch(probe: Probe | None, on_change: Callable[[bool], None]) -> None:
            if probe is not None:
                assert self._group is not None
                enter = live.confinement.enter
                watched = probes.watch(probe, container, live.env, enter, on_change, self._answered)
                live.tasks.append(self._group.create_task(watched))

        def begin(is_ok: bool = True) -> None:
            if not is_ok:
                self._kill(container, live, "startup")
                return
            self._probed(container, is_started=True)
            watch(container.readiness_probe, lambda ready: self._probed(container, ready=ready))
            watch(container.liveness_probe, lambda alive: None if alive else self._kill(container, live, "liveness"))

        state = self.life.containers[container.name].state
        if container.startup_probe is not None and not (isinstance(state, Running) and state.started):
            watch(container.startup_probe, begin)
        else:
            begin()

    def _answered(self, seconds: float) -> None:
        self._node.answered(str(qos_class(self._pod)), seconds)

    def _probed(
        self, container: RunnableContainer, *, ready: bool | None = None, is_started: bool | None = None
    ) -> None:
        own = self.life.containers[container.name]
        self.life = self.life.put(container.name, probed(own, ready=ready, is_started=is_started))
        self._wake.set()

    def _kill(self, container: RunnableContainer, live: _Live, which: str) -> None:
        self._fails("Unhealthy", f"container {container.name} failed its {which} probe and will be restarted")
        assert self._group is not None
        self._group.create_task(
            processes.stop(self._node.tree, live.process, grace_left_s(self._pod, self._node.clock.now()))
        )

    async def _write_status(self) -> bool:
        pod = self._pod
        patch = status_patch(pod, self.life, self._node.ip, self._node.clock.now())
        if patch is None or patch == self._said:
            return True
        try:
            await self._node.writes.status(pod, patch)
        except ApiError as error:
            log.warning("the status of %s could not be written: %s", pod.metadata.key, error)
            return False
        self._said = patch
        return True

    async def _leave(self) -> None:
        """Everything ends within the grace; then the pod is taken away for good."""
        await self._end(DELETED)
        while not await self._say_farewell():
            await self._sleep(RETRY_S)

    async def _end(self, ending: Ending) -> None:
        """Ends all containers within their grace, which may be cut while it runs."""
        for name in self._running:
            self._node.tell(self._pod, "Normal", "Killing", f"Stopping container {name}")
        while self._running:
            allowed_s, left_s = grace_s(self._pod), grace_left_s(self._pod, self._node.clock.now())
            async with asyncio.TaskGroup() as stopping:
                tasks = [
                    stopping.create_task(processes.stop(self._node.tree, run_container.process, left_s))
                    for run_container in self._running.values()
                ]
                while self._running and grace_s(self._pod) == allowed_s:
                    await self._sleep(1.0)
                for task in tasks:
                    task.cancel()
        await self._drop()
        if self.life.ending is None:
            self.life = self.life.ended_by(ending, self._node.clock.now())

    async def _say_farewell(self) -> bool:
        """Writes the last status of a deleted pod and removes it; whether that is complete."""
        last = farewell(self._pod)
        if last.tell and not await self._write_status():
            return False
        if last.remove:
            try:
                await self._node.writes.remove(self._pod)
            except ApiError as error:
                log.warning("pod %s cannot be taken away yet: %s", self._pod.metadata.key, error)
                return False
        return True


def _said(error: Exception) -> str:
    """What went wrong, also where it comes out of task groups."""
    if isinstance(error, ExceptionGroup):
        return "; ".join(_said(inner) for inner in error.exceptions)
    return str(error) or type(error).__name__


def _root(container: RunnableContainer) -> str:
    """An image that is a directory of this machine is the root of its container; any other is not looked at."""
    return container.image if container.image.startswith("/") and os.path.isdir(container.image) else ""


def _as_seen(container: RunnableContainer) -> AgentContainer:
    resources = container.resources
    requests, limits = amounts(resources.requests, capped=True), amounts(resources.limits, capped=True)
    return AgentContainer(container.name, "", "", False, requests, limits)
