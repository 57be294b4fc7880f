"""Runs what `koord install` put on a cluster: each container of an installed workload is a process here.

No container runtime is needed. A process gets the arguments and the files of the installed workload, and a token of
the installed service account, which has the installed rights; only addresses and folders differ. Replicas of the
manager share one address, like that of their Service.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import subprocess
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from koord.api.kinds import CONFIG_MAPS, DAEMON_SETS, DEPLOYMENTS
from koord.api.protocol import names
from koord.kube.client import Client
from koord.kube.cluster_config import ClusterConfig
from koord.kube.program import own_program
from koord.operate.install.live.cluster import Cluster
from koord.operate.install.manifest import Key
from koord.operate.install.settings import AGENT, DESCHEDULER, MANAGER, SCHEDULER, Component
from tests.control_plane import free_port
from tests.operate.install.recorded import account_config
from tests.scheduler.live.servers import carry
from tests.waiting import eventually

CONTROL_PLANE = (MANAGER, SCHEDULER, DESCHEDULER)
READY_WITHIN_S = 60.0
LEASE = {MANAGER: names.LEASE_MANAGER, SCHEDULER: names.LEASE_SCHEDULER, DESCHEDULER: names.LEASE_DESCHEDULER}


@dataclass
class Replica:
    """One pod of a workload, as a process that can be killed and started again."""

    component: Component
    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    health: str
    "The URL at which kubelet would ask."
    webhooks: tuple[str, int] | None = None
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*own_program(), *self.arguments],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **self.environment},
            )

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(timeout=60)
            self.process = None

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]

    async def until_ready(self) -> None:
        async def ready() -> bool:
            assert self.process is not None, f"{self.name} was not started"
            assert self.process.poll() is None, f"{self.name} ended:\n{self.said}"
            return await asyncio.to_thread(self._is_ready)

        await eventually(ready, READY_WITHIN_S)

    def _is_ready(self) -> bool:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            with urllib.request.urlopen(f"{self.health}/readyz", context=context, timeout=5):
                return True
        except (OSError, urllib.error.URLError):
            return False


@dataclass
class Installed:
    """The replicas of an installation."""

    admin: Client
    replicas: list[Replica] = field(default_factory=list)

    def of(self, component: Component) -> list[Replica]:
        return [replica for replica in self.replicas if replica.component is component]

    async def leader(self, component: Component) -> str:
        """The name of the replica that leads; empty if none does."""
        return (await self.holder(component)).rpartition("_")[0]

    async def holder(self, component: Component) -> str:
        """What the lease says: the name of a replica, and of its process."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{names.NAMESPACE_KOORDINATOR}/leases/{LEASE[component]}"
        _, _, body = await self.admin.raw("GET", path)
        return str(json.loads(body)["spec"].get("holderIdentity") or "")

    def replica(self, name: str) -> Replica:
        (replica,) = [replica for replica in self.replicas if replica.name == name]
        return replica


class _Service:
    """One address for all replicas that take connections, as a Service is."""

    def __init__(self) -> None:
        self.port, self.targets = free_port(), list[tuple[str, int]]()
        self._next = 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await self._reach()
        except OSError:
            writer.transport.abort()
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(carry(reader, far_writer))
            tasks.create_task(carry(far_reader, writer))

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        for _ in self.targets:
            self._next += 1
            with suppress(OSError):
                return await asyncio.open_connection(*self.targets[self._next % len(self.targets)])
        raise ConnectionRefusedError("no replica answers")


@dataclass(frozen=True)
class AgentHost:
    """The node that has a real agent: what stands for its host, and its kubelet."""

    node: str
    root: Path
    kubelet: str


@asynccontextmanager
async def running(
    admin: Client,
    folder: Path,
    replicas: int,
    host: AgentHost | None = None,
    components: Sequence[Component] = CONTROL_PLANE,
) -> AsyncIterator[Installed]:
    """N replicas of each component of the control plane, and the agent of one node, if there is one. They end
    with the block."""
    installed, service = Installed(admin), _Service()
    listening = await asyncio.start_server(service.connected, "127.0.0.1", service.port)
    try:
        for component in components:
            for number in range(replicas):
                made = await _replica(admin, component, folder, number, service)
                installed.replicas.append(made)
        if host is not None:
            installed.replicas.append(await _agent(admin, folder, host))
        for replica in installed.replicas:
            replica.start()
        for replica in installed.replicas:
            await replica.until_ready()
        yield installed
    finally:
        for replica in installed.replicas:
            replica.kill()
        listening.close()


async def _replica(admin: Client, component: Component, folder: Path, number: int, service: _Service) -> Replica:
    key = Key(DEPLOYMENTS.api_version, DEPLOYMENTS.kind, component.full_name, names.NAMESPACE_KOORDINATOR)
    name, host = f"{component.full_name}-{number}", f"127.0.{CONTROL_PLANE.index(component) + 1}.{number + 1}"
    container, environment = await _container(admin, key)
    changes = {"--webhook-address": f"{host}:{service.port}", "--metrics-address": f"{host}:{free_port()}"}
    for mount in container["volumeMounts"]:
        if mount["name"] == "config":
            changes["--config"] = str(await _files(admin, f"{component.full_name}-config", folder) / "config.yaml")
    arguments = _with(container["args"], changes)
    webhooks = None
    if component is MANAGER:
        arguments += ["--webhook-host", "127.0.0.1"]
        webhooks = (host, service.port)
        service.targets.append(webhooks)
    return await _made(admin, component, name, folder, arguments, environment, changes["--metrics-address"], webhooks)


async def _agent(admin: Client, folder: Path, host: AgentHost) -> Replica:
    key = Key(DAEMON_SETS.api_version, DAEMON_SETS.kind, AGENT.full_name, names.NAMESPACE_KOORDINATOR)
    container, environment = await _container(admin, key)
    address = f"127.0.9.1:{free_port()}"
    changes = {
        "--metrics-address": address,
        "--host-root": str(host.root),
        "--state-dir": str(folder / "agent-state"),
    }
    arguments = [*_with(container["args"], changes), "--kubelet-address", host.kubelet]
    environment["NODE_NAME"] = host.node
    return await _made(admin, AGENT, AGENT.full_name, folder, arguments, environment, address, None)


async def _container(admin: Client, key: Key) -> tuple[dict[str, Any], dict[str, str]]:
    found: Any = await Cluster(admin).get(key)
    (container,) = found["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["koord"]
    return container, {"POD_NAMESPACE": names.NAMESPACE_KOORDINATOR}


def _with(arguments: Sequence[str], changes: Mapping[str, str]) -> list[str]:
    """These arguments, with the values of some options replaced."""
    found = list(arguments)
    for at, option in enumerate(found[:-1]):
        if option in changes:
            found[at + 1] = changes[option]
    return found


async def _files(admin: Client, config_map: str, folder: Path) -> Path:
    found = await admin.get(CONFIG_MAPS, config_map, namespace=names.NAMESPACE_KOORDINATOR)
    path = folder / config_map
    path.mkdir(exist_ok=True)
    for name, text in found.data.items():
        (path / name).write_text(text)
    return path


async def _made(
    admin: Client,
    component: Component,
    name: str,
    folder: Path,
    arguments: list[str],
    environment: Mapping[str, str],
    address: str,
    webhooks: tuple[str, int] | None,
) -> Replica:
    config = await account_config(admin, component.full_name)
    kubeconfig = folder / f"{name}.kubeconfig"
    kubeconfig.write_text(json.dumps(kubeconfig_of(config)))
    kubeconfig.chmod(0o600)
    return Replica(
        component,
        name,
        [*arguments, "--kubeconfig", str(kubeconfig)],
        {**environment, "POD_NAME": name},
        folder / f"{name}.log",
        f"https://{address}",
        webhooks,
    )


def kubeconfig_of(config: ClusterConfig) -> dict[str, Any]:
    authority = Path(config.ca_file).read_bytes() if config.ca_file else config.ca_data
    cluster = {"server": config.server, "certificate-authority-data": b64encode(authority).decode()}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": config.token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
