"""The state of a simulated cluster between two minutes: all that a run goes on from.

`World` is plain data in columns, and checkpoints hold nothing else. The scheduler has a copy of its own, made from it
by `scheduler_of`: at the beginning, and at each restart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from koord.api.configuration.scheduler_config import SchedulerConfiguration
from koord.api.kubernetes.pod import Pod
from koord.api.text.manifest import Manifests
from koord.sim import packing, pods
from koord.sim.cluster import UNPLACED, Cluster
from koord.sim.columns import NO_GPU
from koord.sim.minutes import Flags, Floats, Ints
from koord.sim.placing import Placing, nodes_of
from koord.sim.policies.policy import Band
from koord.sim.publishing import ABSENT, Published, Wire, nothing_published
from koord.sim.recording import Recording, recording
from koord.sim.tasks import Status, TaskSource, TaskTable, empty_table

REPLICAS: Final = 10


@dataclass(slots=True)
class World:
    tick: int
    up: Flags
    "By node, like all columns that follow."
    shown_milli: Ints
    "What the scheduler knows to be lent; `ABSENT`: the resource is not there."
    shown_bytes: Ints
    requested_milli: Floats
    "By batch pods that have a node."
    before: Floats
    "Services' use in the last 30 s: samples x nodes."
    published: Published
    wire: Wire
    service_node: Ints
    "By service, its node; -1: none, because it waits or does not exist."
    service_exists: Flags
    service_moves: Ints
    "How often it got another pod."
    table: TaskTable
    next_task: int
    "Tasks of the trace that have come; beyond its end, it repeats."
    recorded: Recording
    done: list[int] = field(default_factory=list)
    "Numbers of the batch pods that ended in the last minute."


def first(cluster: Cluster) -> World:
    """Before the first minute: no pod is placed, and nothing is published."""
    count, services = len(cluster.nodes), len(cluster.services.ids)
    return World(
        tick=0,
        up=np.ones(count, np.bool_),
        shown_milli=np.full(count, ABSENT, np.int64),
        shown_bytes=np.full(count, ABSENT, np.int64),
        requested_milli=np.zeros(count),
        before=np.zeros((0, count)),
        published=nothing_published(count),
        wire=Wire(),
        service_node=np.full(services, UNPLACED, np.int64),
        service_exists=np.zeros(services, np.bool_),
        service_moves=np.zeros(services, np.int64),
        table=empty_table(),
        next_task=0,
        recorded=recording(cluster.nodes),
    )


@dataclass(frozen=True, slots=True)
class Requests:
    """What services request, where the trace does not say: their highest use."""

    milli: Floats
    memory_bytes: Floats


def requests_of(cluster: Cluster) -> Requests:
    services = cluster.services
    milli = services.request_cpu_milli
    memory = services.request_memory_bytes
    if milli is None:
        milli = np.ceil(np.nan_to_num(services.cpu_milli).max(axis=1, initial=0.0)).astype(np.int64)
    if memory is None:
        used = services.memory_bytes
        memory = (
            np.zeros(len(services.ids), np.int64)
            if used is None
            else np.ceil(np.nan_to_num(used).max(axis=1, initial=0.0)).astype(np.int64)
        )
    return Requests(milli.astype(np.float64), memory.astype(np.float64))


@dataclass(slots=True)
class Scheduler:
    """The scheduler, and which task or service each of its pods is."""

    placing: Placing
    task_of: dict[str, int]
    service_of: dict[str, int]


def task_key(world: World, number: int) -> str:
    return f"{pods.BATCH_NAMESPACE}/{number}-{world.table.tries[number]}"


def service_key(world: World, service: int) -> str:
    return f"{pods.SERVICES_NAMESPACE}/{service}-{world.service_moves[service]}"


@dataclass(frozen=True, slots=True)
class Making:
    """What pods are made from."""

    cluster: Cluster
    source: TaskSource
    requests: Requests
    band: Band
    gangs: dict[str, int]
    "By gang, how many pods it has."
    workload_names: tuple[str, ...]
    """Traces do not say which services are replicas of one workload: those of equal remainder are, about ten each, so
    that neighbours in the trace are of different ones."""

    def workload(self, service: int) -> str:
        return self.workload_names[service % len(self.workload_names)]

    def job(self, number: int, row: int) -> tuple[str, int]:
        """The Job of a task, by its number and its row in the source, and how many pods it has."""
        gang = self.source.tasks.gang[row] if self.source.tasks.gang is not None else ""
        if not gang:
            return f"job-{number}", 1
        return f"job-{gang}-{number // len(self.source.tasks.ids)}", self.gangs[gang]

    def task(self, world: World, number: int) -> Pod:
        tasks, row = self.source.tasks, int(world.table.source[number])
        queue = tasks.queue[row] if tasks.queue is not None else ""
        gang = tasks.gang[row] if tasks.gang is not None else ""
        members = self.gangs.get(gang, 0)
        repeated = number // max(len(tasks.ids), 1)
        return pods.batch_pod(
            f"{number}-{world.table.tries[number]}",
            self.band,
            int(tasks.request_cpu_milli[row]),
            int(tasks.request_memory_bytes[row]),
            pods.stamp(float(world.table.queued_s[number])),
            queue,
            f"{gang}-{repeated}" if gang else "",
            members,
            self.job(number, row)[0],
            tasks.gpu[row] if tasks.gpu is not None else NO_GPU,
        )

    def service(self, world: World, service: int, now_s: float) -> Pod:
        return pods.service_pod(
            f"{service}-{world.service_moves[service]}",
            self.workload(service),
            int(self.requests.milli[service]),
            int(self.requests.memory_bytes[service]),
            pods.stamp(now_s),
        )


def making_of(cluster: Cluster, source: TaskSource, band: Band) -> Making:
    gangs: dict[str, int] = {}
    for gang in source.tasks.gang or ():
        gangs[gang] = gangs.get(gang, 0) + 1
    workloads = max(1, -(-len(cluster.services.ids) // REPLICAS))
    names = tuple(f"workload-{number}" for number in range(workloads))
    return Making(cluster, source, requests_of(cluster), band, gangs, names)


def scheduler_of(
    world: World,
    making: Making,
    config: SchedulerConfiguration,
    manifests: Manifests | None,
    *,
    seed: int,
    now_s: float,
) -> Scheduler:
    """A scheduler that has just started and reads the cluster."""
    names = making.cluster.nodes.names
    devices = [packing.device(name, gpus) for name, gpus in making.cluster.gpus.items()]
    placing = Placing(nodes_of(making.cluster), making.band, config, manifests, seed=seed, now_s=now_s, devices=devices)
    for row in np.flatnonzero(world.shown_milli >= 0).tolist():
        placing.lend(row, int(world.shown_milli[row]), int(world.shown_bytes[row]))
    for row in np.flatnonzero(~world.up).tolist():
        placing.reachable(row, False)
    scheduler = Scheduler(placing, {}, {})
    for service in np.flatnonzero(world.service_node >= 0).tolist():
        pod = pods.on_node(making.service(world, service, 0.0), names[world.service_node[service]])
        scheduler.service_of[pod.metadata.key] = service
        placing.put(pod)
    for number in world.table.with_status(Status.PLACED).tolist():
        pod = pods.on_node(making.task(world, number), names[world.table.node[number]])
        scheduler.task_of[pod.metadata.key] = number
        placing.put(pod)
    for service in np.flatnonzero(world.service_exists & (world.service_node < 0)).tolist():
        put_service(world, making, scheduler, service, now_s)
    waiting = world.table.with_status(Status.PENDING)
    for number in waiting[np.argsort(world.table.queued_s[waiting], kind="stable")].tolist():
        put_task(world, making, scheduler, number)
    return scheduler


def put_task(world: World, making: Making, scheduler: Scheduler, number: int) -> None:
    """A task waits for a node."""
    pod = making.task(world, number)
    scheduler.task_of[pod.metadata.key] = number
    scheduler.placing.put(pod)


def put_service(world: World, making: Making, scheduler: Scheduler, service: int, now_s: float) -> None:
    """A service waits for a node."""
    pod = making.service(world, service, now_s)
    scheduler.service_of[pod.metadata.key] = service
    scheduler.placing.put(pod)
