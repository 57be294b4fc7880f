"""Starts every loop against one API server, and keeps them until cancelled.

    async with Client.from_config() as client:
        await run(client)

With `elect`, only one of several processes works at a time; a process that loses the lease ends with NotLeader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from koord.kube.client import Client
from koord.kube.clock import Clock, SystemClock
from koord.kube.controller import Controller
from koord.kube.events import EventRecorder
from koord.kube.informers import Informers
from koord.kube.leader import LeaderElection, run_as_leader
from koord_minicluster.controllers.live.claim_protection import ClaimProtectionLoop
from koord_minicluster.controllers.live.class_protection import ClassProtectionLoop
from koord_minicluster.controllers.live.cluster import Cluster
from koord_minicluster.controllers.live.cron_job import CronJobLoop
from koord_minicluster.controllers.live.daemon_set import DaemonSetLoop
from koord_minicluster.controllers.live.deployment import DeploymentLoop
from koord_minicluster.controllers.live.disruption import DisruptionLoop
from koord_minicluster.controllers.live.endpoint_slices import EndpointSliceLoop
from koord_minicluster.controllers.live.garbage import GarbageLoop
from koord_minicluster.controllers.live.job import JobLoop, JobOrphanLoop
from koord_minicluster.controllers.live.namespace import NamespaceLoop, ServiceAccountLoop
from koord_minicluster.controllers.live.node_lifecycle import NodeLifecycleLoop
from koord_minicluster.controllers.live.pod_gc import PodGcLoop
from koord_minicluster.controllers.live.quota import QuotaLoop
from koord_minicluster.controllers.live.replica_set import ReplicaSetLoop
from koord_minicluster.controllers.live.resource_claims import ResourceClaimLoop
from koord_minicluster.controllers.live.resources import ServedResources
from koord_minicluster.controllers.live.role_aggregation import RoleAggregationLoop
from koord_minicluster.controllers.live.root_ca import RootCaLoop
from koord_minicluster.controllers.live.stateful_set import StatefulSetLoop
from koord_minicluster.controllers.live.taint_eviction import TaintEvictionLoop

LEASE: Final = "koord-controllers"


@dataclass(frozen=True, slots=True)
class ControllersOptions:
    """What may be set; times in seconds."""

    workers: int = 4
    node_grace_s: float = 40.0
    "How long a node may be silent."
    node_startup_grace_s: float = 60.0
    "How long a node may take to report for the first time."
    finished_pods_kept: int = 12_500
    lost_pod_grace_s: float = 40.0
    "How long pods outlive their node's object."


class Loop(Protocol):
    """One controller with its state."""

    @property
    def controller(self) -> Controller[Any]: ...


def loops(cluster: Cluster, served: ServedResources, options: ControllersOptions) -> list[Loop]:
    """All loops. Garbage collection is last: it follows through the others' views what they follow already."""
    workers = options.workers
    return [
        ReplicaSetLoop(cluster, workers=workers),
        DeploymentLoop(cluster, workers=workers),
        StatefulSetLoop(cluster, workers=workers),
        DaemonSetLoop(cluster),
        JobLoop(cluster, workers=workers),
        JobOrphanLoop(cluster),
        CronJobLoop(cluster),
        EndpointSliceLoop(cluster),
        NodeLifecycleLoop(cluster, grace_s=options.node_grace_s, startup_grace_s=options.node_startup_grace_s),
        TaintEvictionLoop(cluster),
        PodGcLoop(cluster, finished_kept=options.finished_pods_kept, quarantine_s=options.lost_pod_grace_s),
        DisruptionLoop(cluster, served),
        ClaimProtectionLoop(cluster),
        ClassProtectionLoop(cluster, served),
        ResourceClaimLoop(cluster, served),
        ServiceAccountLoop(cluster),
        RootCaLoop(cluster),
        RoleAggregationLoop(cluster),
        QuotaLoop(cluster, served),
        NamespaceLoop(cluster, served),
        GarbageLoop(cluster, served),
    ]


async def run(
    client: Client,
    *,
    clock: Clock | None = None,
    options: ControllersOptions | None = None,
    elect: bool = False,
    namespace: str = "kube-system",
    on_ready: Callable[[], None] | None = None,
) -> None:
    """Runs all controllers until cancelled. `on_ready` is called once all have a picture of the cluster."""
    if not elect:
        await _run(client, clock or SystemClock(), options or ControllersOptions(), on_ready)
        return

    async def work(leader: LeaderElection) -> None:
        await _run(leader.client, clock or SystemClock(), options or ControllersOptions(), on_ready)

    await run_as_leader(client, work, name=LEASE, namespace=namespace)


async def _run(client: Client, clock: Clock, options: ControllersOptions, on_ready: Callable[[], None] | None) -> None:
    async with (
        EventRecorder(client, controller="koord-controllers", clock=clock) as events,
        Informers(client, clock=clock) as informers,
        asyncio.TaskGroup() as tasks,
    ):
        cluster = Cluster(client, informers, events, clock)
        served = ServedResources(cluster)
        tasks.create_task(served.run(), name="served-resources")
        for loop in loops(cluster, served, options):
            if isinstance(loop, GarbageLoop):
                tasks.create_task(loop.run(), name="garbage-monitors")
            tasks.create_task(loop.controller.run(), name=loop.controller.name)
        await informers.synced()
        if on_ready is not None:
            on_ready()
