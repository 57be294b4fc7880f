"""This machine as a node, until it is cancelled: registers, keeps its lease, runs the pods that are bound to it.

Processes of a former run went with their cgroups. Their pods are treated as if killed: started again where their policy
says so, failed where it does not.
"""

from __future__ import annotations

import asyncio
import logging
import os
from base64 import b64decode
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from koord import __version__
from koord.agent.host import proc
from koord.agent.pods import pod_of
from koord.api.kinds import CONFIG_MAPS, LEASES, NODES, PODS, SECRETS
from koord.api.kubernetes.heartbeat import NODE_LEASES, is_ready, lease_object, renewal
from koord.api.kubernetes.node import Node as NodeStruct
from koord.api.kubernetes.runnable import RunnablePod
from koord.certificates.own import own_certificate_aside
from koord.kube.client import Client
from koord.kube.clock import Clock, SystemClock
from koord.kube.errors import AlreadyExists, ApiError, NotFound
from koord.kube.informers import Informers
from koord.kube.store import Delta, Identity, identity_of
from koord.minicluster.local.amounts import class_settings
from koord.minicluster.local.environment import Around
from koord.minicluster.local.live.server import Server
from koord.minicluster.local.live.tree import DRIVER, Tree
from koord.minicluster.local.live.worker import Node, Worker
from koord.minicluster.local.node import HOST_IP, Machine, node_object, node_status

log = logging.getLogger(__name__)

RENEW_S: Final = 10.0
FIELD_MANAGER: Final = "koord-local"


@dataclass(frozen=True, slots=True)
class Options:
    name: str
    root: str
    "The node's cgroup, below the root of every hierarchy."
    logs: Path
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
    def __init__(self, client: Client, options: Options, clock: Clock, answered: Callable[[str, float], None]) -> None:
        self._client, self._options, self._clock, self._answered = client, options, clock, answered
        self.tree = Tree(options.root, options.cpu_milli, options.memory_bytes)
        cpus = os.cpu_count() or 1
        memory = proc.memory(self.tree.files).total
        self.machine = Machine(
            options.name, options.cpu_milli or cpus * 1000, min(options.memory_bytes or memory, memory)
        )
        self.workers: dict[str, Worker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._known: NodeStruct | None = None

    async def run(self, on_ready: Callable[[int], None]) -> None:
        self.tree.make()
        try:
            async with AsyncExitStack() as stack:
                informers = await stack.enter_async_context(Informers(self._client, clock=self._clock))
                pods = informers.get(
                    PODS, fields=f"spec.nodeName={self._options.name}", transform=_bound, identity=_identity
                )
                tls = await own_certificate_aside("koord-local", HOST_IP)
                server = Server(lambda: self.workers, lambda: [each.raw for each in pods.list()], tls)
                await stack.enter_async_context(server)
                await self._register(server.port)
                self._group = await stack.enter_async_context(asyncio.TaskGroup())
                self._group.create_task(self._keep_alive(server.port), name="lease")
                node = Node(
                    self._options.name, HOST_IP, self.tree, self._options.logs, self._client, self._clock,
                    self._around, self.machine.memory_bytes, self._answered,
                )  # fmt: skip
                pods.add_handler(lambda delta: self._hear(node, delta))
                await informers.synced()
                on_ready(server.port)
                await asyncio.Event().wait()
        finally:
            self.tree.remove()
            self.tree.close()

    def _hear(self, node: Node, delta: Delta[Bound]) -> None:
        worker = self.workers.get(delta.key)
        if delta.new is None:
            if worker is not None:
                self._tasks[delta.key].cancel()
            return
        pod = delta.new.pod
        if worker is not None and worker.pod.metadata.uid == pod.metadata.uid:
            worker.update(pod)
            return
        if pod.is_finished and pod.metadata.deletion_timestamp is None:
            return
        worker = self.workers[delta.key] = Worker(node, pod)
        assert self._group is not None
        self._tasks[delta.key] = self._group.create_task(self._work(delta.key, worker), name=delta.key)
        self._weigh()

    async def _work(self, key: str, worker: Worker) -> None:
        try:
            await worker.run()
        except Exception:
            # One pod's trouble is not the node's.
            log.exception("pod %s cannot run here", key)
        finally:
            if self.workers.get(key) is worker and worker.pod.metadata.deletion_timestamp is not None:
                del self.workers[key]
                self._tasks.pop(key, None)
            self._weigh()

    def _weigh(self) -> None:
        """Kubelet weighs the classes anew as pods come and go."""
        pods = [pod_of(worker.pod, DRIVER) for worker in self.workers.values()]
        for knob, directory, value in class_settings(pods, self.machine.cpu_milli, DRIVER):
            with suppress(FileNotFoundError):
                self.tree.set(knob, directory, value)

    async def _around(self, pod: RunnablePod) -> Around:
        """ConfigMaps and Secrets are read when a container starts, as kubelet does for its environment."""
        namespace = pod.metadata.namespace
        maps: dict[str, dict[str, str]] = {}
        secrets: dict[str, dict[str, str]] = {}
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            sources = [each.value_from for each in container.env if each.value_from is not None]
            wanted = [each.config_map_key_ref.name for each in sources if each.config_map_key_ref is not None]
            wanted += [each.config_map_ref.name for each in container.env_from if each.config_map_ref is not None]
            for name in wanted:
                with suppress(NotFound):
                    found = await self._client.get(CONFIG_MAPS, name, namespace=namespace)
                    maps[name] = dict(found.data)
            hidden = [each.secret_key_ref.name for each in sources if each.secret_key_ref is not None]
            hidden += [each.secret_ref.name for each in container.env_from if each.secret_ref is not None]
            for name in hidden:
                with suppress(NotFound):
                    secret = await self._client.get(SECRETS, name, namespace=namespace)
                    secrets[name] = {key: b64decode(text).decode() for key, text in secret.data.items()}
        base = {"PATH": os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin")}
        return Around(self._options.name, HOST_IP, maps, secrets, base)

    async def _register(self, port: int) -> None:
        now_s = self._clock.now()
        made = node_object(self.machine, now_s, kubelet_port=port, version=__version__)
        try:
            self._known = await self._client.create(NODES, made, field_manager=FIELD_MANAGER)
        except AlreadyExists:
            self._known = await self._client.get(NODES, self.machine.name)
            await self._write_status(port)
        lease = lease_object(self.machine.name, self._known.metadata.uid, now_s)
        with suppress(AlreadyExists):
            await self._client.create(LEASES, lease, field_manager=FIELD_MANAGER)

    async def _write_status(self, port: int) -> None:
        status = node_status(self.machine, self._known, self._clock.now(), kubelet_port=port, version=__version__)
        self._known = await self._client.patch(
            NODES, self.machine.name, {"status": status}, type="strategic", subresource="status",
            field_manager=FIELD_MANAGER,
        )  # fmt: skip

    async def _keep_alive(self, port: int) -> None:
        while True:
            try:
                await self._client.patch(
                    LEASES, self.machine.name, renewal(self._clock.now()), namespace=NODE_LEASES,
                    field_manager=FIELD_MANAGER,
                )  # fmt: skip
                self._known = await self._client.get(NODES, self.machine.name)
                if not is_ready(self._known):
                    # Somebody took the node for lost while its lease was late.
                    await self._write_status(port)
            except ApiError as error:
                log.warning("the lease could not be renewed: %s", error)
            await self._clock.sleep(RENEW_S)


async def run(
    client: Client,
    options: Options,
    *,
    clock: Clock | None = None,
    on_ready: Callable[[int], None] = lambda port: None,
    answered: Callable[[str, float], None] = lambda qos, seconds: None,
) -> None:
    """`answered` hears of each answer to a probe: the QoS class of who gave it, and how long it took."""
    await Local(client, options, clock or SystemClock(), answered).run(on_ready)
