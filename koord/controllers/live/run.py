"""Starts every loop against one API server, and keeps them until cancelled.

    async with Client.from_config() as client:
        await run(client)

With `elect`, only one of several such processes works at a time; who loses the lease ends with NotLeader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from koord.controllers.live.cluster import Cluster
from koord.controllers.live.daemon_set import DaemonSetLoop
from koord.controllers.live.deployment import DeploymentLoop
from koord.controllers.live.garbage import GarbageLoop
from koord.controllers.live.job import JobLoop, JobOrphanLoop
from koord.controllers.live.namespace import NamespaceLoop, ServiceAccountLoop
from koord.controllers.live.replica_set import ReplicaSetLoop
from koord.controllers.live.resources import ServedResources
from koord.controllers.live.stateful_set import StatefulSetLoop
from koord.kube.client import Client
from koord.kube.clock import Clock, SystemClock
from koord.kube.controller import Controller
from koord.kube.events import EventRecorder
from koord.kube.informers import Informers
from koord.kube.leader import LeaderElection, run_as_leader

LEASE: Final = "koord-controllers"


@dataclass(frozen=True, slots=True)
class Options:
    """What may be set; times in seconds."""

    workers: int = 4


class Loop(Protocol):
    """One controller with its state."""

    @property
    def controller(self) -> Controller[Any]: ...


LOOPS: Final[tuple[Callable[[Cluster, Options], Loop], ...]] = (
    lambda cluster, options: ReplicaSetLoop(cluster, workers=options.workers),
    lambda cluster, options: DeploymentLoop(cluster, workers=options.workers),
    lambda cluster, options: StatefulSetLoop(cluster, workers=options.workers),
    lambda cluster, options: DaemonSetLoop(cluster),
    lambda cluster, options: JobLoop(cluster, workers=options.workers),
    lambda cluster, options: JobOrphanLoop(cluster),
    lambda cluster, options: ServiceAccountLoop(cluster),
)
"""All loops, in the order in which they start."""


async def run(
    client: Client,
    *,
    clock: Clock | None = None,
    options: Options | None = None,
    elect: bool = False,
    namespace: str = "kube-system",
    on_ready: Callable[[], None] | None = None,
) -> None:
    """Runs all controllers until cancelled. `on_ready` is called once all have a picture of the cluster."""
    if not elect:
        await _run(client, clock or SystemClock(), options or Options(), on_ready)
        return

    async def work(leader: LeaderElection) -> None:
        await _run(leader.client, clock or SystemClock(), options or Options(), on_ready)

    await run_as_leader(client, work, name=LEASE, namespace=namespace)


async def _run(client: Client, clock: Clock, options: Options, on_ready: Callable[[], None] | None) -> None:
    async with (
        EventRecorder(client, controller="koord-controllers", clock=clock) as events,
        Informers(client, clock=clock) as informers,
        asyncio.TaskGroup() as tasks,
    ):
        cluster = Cluster(client, informers, events, clock)
        loops: list[Loop] = [make(cluster, options) for make in LOOPS]
        served = ServedResources(cluster)
        # Last: it follows what the others follow already through their views, and all else by itself.
        garbage = GarbageLoop(cluster, served)
        loops += [NamespaceLoop(cluster, served), garbage]
        tasks.create_task(served.run(), name="served-resources")
        tasks.create_task(garbage.run(), name="garbage-monitors")
        for loop in loops:
            tasks.create_task(loop.controller.run(), name=loop.controller.name)
        await informers.synced()
        if on_ready is not None:
            on_ready()
