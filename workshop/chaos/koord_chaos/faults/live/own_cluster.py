"""A cluster of koord's own processes. Each reaches the API server through a proxy that can disturb it.

It has what `koord up` starts, with two schedulers, two managers and two deschedulers that elect a leader. As root its
data directory is a file system of its own, which can be full.
"""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

import aiohttp

from koord.api.kinds import NODES
from koord.kube.background_task import background_task
from koord.kube.client import Client
from koord.kube.locate import locate
from koord_chaos.faults.kinds import Scope, Target
from koord_chaos.faults.live import memory_limit
from koord_chaos.faults.live.api_path import ApiPath
from koord_chaos.faults.live.clusters import LEASES_OF, LocalCluster
from koord_chaos.faults.live.ledger import Ledger
from koord_chaos.faults.live.preload import Control, build
from koord_chaos.faults.live.small_disk import SmallDisk, small_disk
from koord_minicluster.up.bootstrap import bootstrap, keep
from koord_minicluster.up.data_dir import DataDir
from koord_minicluster.up.plan import HEALTH, WEBHOOKS, Component, choose_port
from koord_minicluster.up.supervisor import Supervisor

DISK_SIZE: Final = "400m"
DISK_FILES: Final = 10_000
BACKOFF_MOST_S: Final = 2.0
"""Kills come more often than in life; a longer pause would measure the pauses."""
SERVER: Final = "apiserver"
STOP_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class OwnOptions:
    folder: Path
    nodes: int = 6
    seed: int = 0
    older: tuple[str, ...] = ()
    "The program of another version of koord."
    fast: bool = True
    "Whether the API server answers before its writes are on disk."


def components(options: OwnOptions, data: Path, port: int) -> tuple[Component, ...]:
    """The API server first. Every other one has a kubeconfig of its own."""

    def client(name: str, *args: str) -> Component:
        own = ("--kubeconfig", str(data / "chaos" / f"{name}.kubeconfig"), *HEALTH)
        return Component(name, (*own, *args), STOP_S, command=(name.partition("-")[0],))

    durability = "fast" if options.fast else "full"
    api = ("--data-dir", str(data), "--port", str(port), "--durability", durability)
    return (
        Component(SERVER, api),
        client("controllers"),
        client("scheduler-a", "--alone", "--leader-elect"),
        client("scheduler-b", "--alone", "--leader-elect"),
        client("manager-a", "--leader-elect", *WEBHOOKS),
        client("manager-b", "--leader-elect"),
        client("descheduler-a", "--alone", "--leader-elect"),
        client("descheduler-b", "--alone", "--leader-elect"),
        client("hollow", "--nodes", str(options.nodes), "--seed", str(options.seed)),
    )


def own_targets(options: OwnOptions) -> Mapping[Target, Sequence[str]]:
    """What can be disturbed on a cluster of its own."""
    server, *others = [component.name for component in components(options, Path(), 0)]
    return {
        Target.PROCESS: [server, *others],
        Target.CLIENT: others,
        Target.SERVER: [server],
        Target.LEADER: list(LEASES_OF),
        Target.NODE: [f"hollow-{number:04}" for number in range(1, options.nodes + 1)],
    }


class Clock(Protocol):
    """The clock of a component, and its disk."""

    def jump(self, seconds: float) -> None: ...
    def slow(self, seconds: float) -> None: ...


class OwnCluster(LocalCluster, ABC):
    """A cluster that koord chaos started, with a way to the API server for each component."""

    scope = Scope.OWN

    def __init__(
        self,
        client: Client,
        folder: Path,
        targets: Mapping[Target, Sequence[str]],
        paths: Mapping[str, ApiPath],
        controls: Mapping[str, Clock],
    ) -> None:
        super().__init__(client, folder)
        self._targets, self.paths, self.controls = targets, paths, controls
        self.disk: SmallDisk | None = None
        self.older: tuple[str, ...] = ()
        self.ledger = Ledger()

    async def targets(self) -> Mapping[Target, Sequence[str]]:
        return self._targets

    @property
    @abstractmethod
    def logs(self) -> Path:
        """A folder."""

    @abstractmethod
    def missing(self) -> Mapping[str, str]:
        """Kinds of faults that this cluster cannot have, with the reason."""

    @abstractmethod
    async def answers(self, name: str) -> bool:
        """Whether the component says that it is ready."""

    def change_version(self, target: str, program: tuple[str, ...]) -> None:
        """What runs from the next start on; empty: this version."""
        raise NotImplementedError


class ProcessCluster(OwnCluster):
    """Its components are processes."""

    def __init__(
        self,
        client: Client,
        data: DataDir,
        supervisor: Supervisor,
        paths: Mapping[str, ApiPath],
        controls: Mapping[str, Control],
        disk: SmallDisk | None,
        options: OwnOptions,
    ) -> None:
        super().__init__(client, data.path, own_targets(options), paths, controls)
        self._logs, self.supervisor, self.disk, self.older = data.logs, supervisor, disk, options.older

    @property
    def logs(self) -> Path:
        return self._logs

    def missing(self) -> dict[str, str]:
        missing: dict[str, str] = {}
        if not self.controls:
            missing |= dict.fromkeys(("clock", "disk-slow"), "needs a C compiler (cc)")
        if self.disk is None:
            missing["disk-full"] = "needs root"
        if memory_limit.parent() is None:
            missing["memory"] = "needs root and a memory controller of cgroups"
        if not self.older:
            missing["upgrade"] = "needs --older PROGRAM"
        return missing

    def pid(self, target: str) -> int:
        child = self.supervisor.children[target]
        return child.pid if child.process is not None and child.process.returncode is None else 0

    async def late(self) -> list[str]:
        return [
            name for name, child in self.supervisor.children.items() if child.state != "ready" or not self.pid(name)
        ]

    async def answers(self, name: str) -> bool:
        address = self.supervisor.children[name].endpoints.get("health")
        if address is None:
            await self.client.raw("GET", "/readyz")
            return True
        timeout = aiohttp.ClientTimeout(total=2)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(f"{address}/readyz") as answer:
            return answer.status == 200

    def change_version(self, target: str, program: tuple[str, ...]) -> None:
        child = self.supervisor.children[target]
        child.component = replace(child.component, program=program)


@asynccontextmanager
async def own_cluster(options: OwnOptions) -> AsyncIterator[OwnCluster]:
    """A cluster that runs, with its nodes and first objects."""
    async with AsyncExitStack() as stack:
        disk: SmallDisk | None = None
        folder = options.folder / "data"
        if os.geteuid() == 0:
            disk = stack.enter_context(small_disk(options.folder / "disk", DISK_SIZE, DISK_FILES))
            folder = disk.path / "data"
        data = stack.enter_context(DataDir(folder))
        aside = data.path / "chaos"
        aside.mkdir(exist_ok=True)
        port = choose_port(0, data.last_port())
        plan = components(options, data.path, port)
        library = build(options.folder)
        controls = (
            {} if library is None else {part.name: Control(library, aside / f"{part.name}.control") for part in plan}
        )
        if controls:
            plan = tuple(replace(part, environment=controls[part.name].environment) for part in plan)
        supervisor = Supervisor(plan, data, backoff_most_s=BACKOFF_MOST_S)
        await stack.enter_async_context(background_task(supervisor.run(), name="supervisor"))
        await supervisor.children[SERVER].ready.wait()
        config = locate(str(data.kubeconfig))
        paths: dict[str, ApiPath] = {}
        ledger = Ledger()
        for number, part in enumerate(plan[1:]):
            path = ApiPath(config, options.seed + number, component=part.name, ledger=ledger)
            paths[part.name] = await stack.enter_async_context(path)
            paths[part.name].write_kubeconfig(aside / f"{part.name}.kubeconfig")
        client = await stack.enter_async_context(Client(config, user_agent="koord-chaos"))
        uid = await bootstrap(client)
        await stack.enter_async_context(background_task(keep(client, uid), name="first-objects"))
        await supervisor.ready()
        cluster = ProcessCluster(client, data, supervisor, paths, controls, disk, options)
        cluster.ledger = ledger
        await cluster.mark()
        async with asyncio.timeout(60):
            while len(await client.list(NODES)) < options.nodes:  # noqa: ASYNC110 - other processes register them
                await asyncio.sleep(0.2)
        yield cluster
