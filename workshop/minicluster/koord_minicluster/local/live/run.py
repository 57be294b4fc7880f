"""This machine as a node, until it is cancelled: registers, keeps its lease, runs the pods that are bound to it.

Pods that outlived a former run of this process are adopted and continue. Containers that ended in the meantime count as
killed: they are restarted if the pod's policy says so, and failed otherwise. Handlers of pod events do no I/O: separate
tasks write to the kernel, report errors and retry, so that no single file stops the node.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from koord import __version__
from koord.agent.host import proc
from koord.agent.host.knobs import Knob
from koord.agent.pods import AgentPod, pod_of
from koord.api.kinds import CONFIG_MAPS, NODES, PODS, SECRETS
from koord.api.kubernetes.meta import ObjectReference
from koord.api.kubernetes.runnable import RunnablePod
from koord.api.machinery.faults import BadInput
from koord.kube.certificates.own import own_certificate_aside
from koord.kube.client import Client
from koord.kube.clock import Clock, SystemClock
from koord.kube.errors import NotFound
from koord.kube.event_ledger import EventType
from koord.kube.events import EventRecorder
from koord.kube.informers import Informers
from koord.kube.store import Delta, Identity, identity_of
from koord_minicluster.kubelet.admission import Admission
from koord_minicluster.kubelet.live.pod_writes import PodWrites
from koord_minicluster.kubelet.live.registry import NodeRegistry
from koord_minicluster.kubelet.live.server import KubeletServer
from koord_minicluster.kubelet.node_status import HOST_IP
from koord_minicluster.kubelet.termination import Ending
from koord_minicluster.local.amounts import Setting, class_settings
from koord_minicluster.local.environment import Around
from koord_minicluster.local.live.gpu_inventory import GpuInventory, InventorySource
from koord_minicluster.local.live.pod_logs import PodLogs
from koord_minicluster.local.live.server import LocalKubelet
from koord_minicluster.local.live.tree import DRIVER, Tree
from koord_minicluster.local.live.worker import LocalNode, Worker
from koord_minicluster.local.node import Machine, own_node

log = logging.getLogger(__name__)

AGAIN_S: Final = 5.0
MOST_NOTE: Final = 1000
LOGS_S: Final = 2.0
"""How often logs are looked at whether they are too long."""
FIELD_MANAGER: Final = "koord-local"


@dataclass(frozen=True, slots=True)
class LocalOptions:
    name: str
    root: str
    "The node's cgroup, below the root of every hierarchy."
    logs: Path
    "The node's own directory in there is named after it."
    cpu_milli: int = 0
    "Zero is all of the machine."
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Bound:
    """A pod as it came: typed, and in the API's own words."""

    pod: RunnablePod
    raw: bytes

    @property
    def key(self) -> str:
        return self.pod.metadata.key


def _bound(raw: bytes) -> Bound:
    return Bound(msgspec.json.decode(raw, type=RunnablePod), bytes(raw))


def _identity(bound: Bound) -> Identity:
    return identity_of(bound.pod)


class Local:
    def __init__(
        self,
        client: Client,
        options: LocalOptions,
        clock: Clock,
        answered: Callable[[str, float], None],
        devices: InventorySource,
    ) -> None:
        self._client, self._options, self._clock = client, options, clock
        self._answered, self._devices = answered, devices
        self.tree = Tree(options.root, options.cpu_milli, options.memory_bytes)
        cpus = os.cpu_count() or 1
        memory = proc.memory(self.tree.files).total
        self.machine = Machine(
            options.name, options.cpu_milli or cpus * 1000, min(options.memory_bytes or memory, memory)
        )
        self.logs = PodLogs(options.logs / options.name)
        self.workers: dict[str, Worker] = {}
        self._weights: dict[tuple[Knob, str], int] = {}
        "What the QoS classes were given. It is written when it changes: in between, the files are the agent's."
        self._changed = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._admission = Admission()
        self._group: asyncio.TaskGroup | None = None

    async def run(self, on_ready: Callable[[int], None]) -> None:
        self.tree.keeps_devices_apart = bool((await self._devices()).gpus)
        self.tree.make()
        try:
            async with AsyncExitStack() as stack:
                informers = await stack.enter_async_context(Informers(self._client, clock=self._clock))
                pods = informers.get(
                    PODS, fields=f"spec.nodeName={self._options.name}", transform=_bound, identity=_identity
                )
                tls = await own_certificate_aside("koord-local", HOST_IP)
                own = LocalKubelet(
                    self._options.name, lambda: self.workers, lambda: [bound_pod.raw for bound_pod in pods.list()]
                )
                server = await stack.enter_async_context(KubeletServer(own, self._client, tls, self._clock))
                registry = await self._register(server.port)
                registry.follow(informers.get(NODES, fields=f"metadata.name={self._options.name}"))
                events = await stack.enter_async_context(EventRecorder(self._client, controller=FIELD_MANAGER))
                self._group = await stack.enter_async_context(asyncio.TaskGroup())
                writes = PodWrites(self._client, FIELD_MANAGER)

                def rejection(pod: RunnablePod) -> Ending | None:
                    allocatable = registry.allocatable(self._options.name)
                    return self._admission.rejection(pod, (bound.pod for bound in pods.list()), allocatable)

                node = LocalNode(
                    self._options.name, HOST_IP, self.tree, self.logs, writes, self._clock,
                    self._around, self.machine.cpu_milli, self.machine.memory_bytes, _teller(events), self._devices,
                    self._answered, rejection,
                )  # fmt: skip
                stack.callback(pods.add_handler(lambda delta: self._hear(node, delta)))
                await informers.synced()
                await asyncio.to_thread(
                    self.logs.remove_all_but, {bound_pod.pod.metadata.uid for bound_pod in pods.list()}
                )
                await self._end_strangers(pods.list())
                self._go_on("lease", registry.keep_alive, 0.0)
                self._go_on("weights of QoS classes", self._weigh, 0.0)
                self._go_on("logs of pods", lambda: asyncio.to_thread(self.logs.bound), LOGS_S)
                self._go_on("cgroups that are left", self.tree.sweep, AGAIN_S)
                on_ready(server.port)
                await asyncio.Event().wait()
        finally:
            self.tree.remove()
            self.tree.close()

    async def _register(self, port: int) -> NodeRegistry:
        registry = NodeRegistry(
            self._client,
            [own_node(self.machine, __version__)],
            kubelet_port=port,
            field_manager=FIELD_MANAGER,
            clock=self._clock,
        )
        for name in await registry.register({}):
            raise BadInput(f"node {name} exists and is not a local node: choose another name for this machine's node")
        return registry

    async def _end_strangers(self, bound: Iterable[Bound]) -> None:
        """Removes what a former run left and no pod of this node claims."""
        there = self.tree.pods()
        claimed = {
            agent_pod.directory
            for agent_pod in _readable(bound_pod.pod for bound_pod in bound if not bound_pod.pod.is_finished)
        }
        for directory in there:
            if directory not in claimed:
                log.info("cgroup %s of a former run belongs to no pod and is removed", directory)
                await self.tree.drop(directory)

    def _go_on(self, part: str, work: Callable[[], Awaitable[None]], pause_s: float) -> None:
        """Repeats a part of the node's work; an error in it is reported and stops nothing."""

        async def keep() -> None:
            while True:
                try:
                    await work()
                    await self._clock.sleep(pause_s)
                except Exception:
                    log.exception("%s of node %s: failed and tried again", part, self._options.name)
                    await self._clock.sleep(AGAIN_S)

        assert self._group is not None
        self._group.create_task(keep(), name=part)

    def _hear(self, node: LocalNode, delta: Delta[Bound]) -> None:
        self._changed.set()
        worker = self.workers.get(delta.key)
        pod = delta.new.pod if delta.new is not None else None
        if worker is not None and pod is not None and worker.pod.metadata.uid == pod.metadata.uid:
            worker.update(pod)
            return
        before = self._tasks.get(delta.key)
        if worker is not None:
            self._admission.forget(worker.pod)
            del self.workers[delta.key]
            if before is not None:
                before.cancel()
        new = None
        if pod is not None:
            new = self.workers[delta.key] = Worker(node, pod)
        assert self._group is not None
        work = self._work(delta.key, new, worker, before)
        self._tasks[delta.key] = self._group.create_task(work, name=delta.key)

    async def _work(
        self, key: str, worker: Worker | None, old: Worker | None, before: asyncio.Task[None] | None
    ) -> None:
        """Runs a pod. First, the one that had its name before is waited for, and its logs go."""
        try:
            if before is not None:
                await asyncio.wait({before})
            if old is not None:
                await asyncio.to_thread(self.logs.remove, old.pod)
            if worker is not None and not worker.pod.is_finished:
                await worker.run()
        finally:
            self._changed.set()
            if worker is None and self._tasks.get(key) is asyncio.current_task():
                del self._tasks[key]

    async def _weigh(self) -> None:
        """Updates the weights of the QoS classes as pods come and go, like kubelet. Failed writes are retried."""
        self._changed.clear()
        wanted = {(knob, directory): value for knob, directory, value in self._wanted_weights()}
        refused = False
        for (knob, directory), value in wanted.items():
            if self._weights.get((knob, directory)) == value:
                continue
            try:
                self.tree.set(knob, directory, value)
                self._weights[knob, directory] = value
            except OSError as error:
                refused = True
                log.warning("%s of %s cannot be set to %d, retrying: %s", knob.name, directory, value, error)
        await (self._clock.sleep(AGAIN_S) if refused else self._changed.wait())

    def _wanted_weights(self) -> Iterator[Setting]:
        pods = _readable(worker.pod for worker in self.workers.values() if not worker.is_over)
        return class_settings(pods, self.machine.cpu_milli, DRIVER)

    async def _around(self, pod: RunnablePod) -> Around:
        """ConfigMaps and Secrets are read when a container starts, as kubelet does for its environment."""
        namespace = pod.metadata.namespace
        maps: dict[str, dict[str, str]] = {}
        secrets: dict[str, dict[str, str]] = {}
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            sources = [env.value_from for env in container.env if env.value_from is not None]
            wanted = [source.config_map_key_ref.name for source in sources if source.config_map_key_ref is not None]
            wanted += [
                env_source.config_map_ref.name
                for env_source in container.env_from
                if env_source.config_map_ref is not None
            ]
            for name in wanted:
                with suppress(NotFound):
                    config_map = await self._client.get(CONFIG_MAPS, name, namespace=namespace)
                    maps[name] = dict(config_map.data)
            hidden = [source.secret_key_ref.name for source in sources if source.secret_key_ref is not None]
            hidden += [
                env_source.secret_ref.name for env_source in container.env_from if env_source.secret_ref is not None
            ]
            for name in hidden:
                with suppress(NotFound):
                    secret = await self._client.get(SECRETS, name, namespace=namespace)
                    secrets[name] = {key: raw.decode(errors="surrogateescape") for key, raw in secret.data.items()}
        base = {"PATH": os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin")}
        return Around(self._options.name, HOST_IP, maps, secrets, base)


def _readable(pods: Iterable[RunnablePod]) -> Iterator[AgentPod]:
    """A pod whose amounts cannot be read does not run either."""
    for pod in pods:
        with suppress(ValueError):
            yield pod_of(pod, DRIVER)


def _teller(events: EventRecorder) -> Callable[[RunnablePod, EventType, str, str], None]:
    def tell(pod: RunnablePod, type: EventType, reason: str, note: str) -> None:
        meta = pod.metadata
        regarding = ObjectReference(PODS.api_version, PODS.kind, meta.namespace, meta.name, meta.uid)
        events.record(regarding, reason, note[:MOST_NOTE], type=type)

    return tell


async def run(
    client: Client,
    options: LocalOptions,
    *,
    clock: Clock | None = None,
    on_ready: Callable[[int], None] = lambda port: None,
    answered: Callable[[str, float], None] = lambda qos, seconds: None,
    devices: InventorySource | None = None,
) -> None:
    """`answered` is called for each answer to a probe, with the pod's QoS class and the time it took. `devices` lists
    the GPUs; by default this machine's driver does."""
    await Local(client, options, clock or SystemClock(), answered, devices or GpuInventory()).run(on_ready)
