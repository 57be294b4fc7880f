"""A run between two minutes, and what several steps of a minute do to it: pods that lose their node, or get one."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from koord.api.configuration.scheduler_config import SchedulerConfiguration
from koord.api.text.duration import parse_duration
from koord.api.text.manifest import Manifests
from koord.sim import publishing, recording
from koord.sim.cluster import Arrivals, Cluster
from koord.sim.curves import NodeSums
from koord.sim.descheduler import Descheduler, descheduler_of
from koord.sim.faults import Outages, outages
from koord.sim.latency import LatencyModel
from koord.sim.lending import Lender, band_of
from koord.sim.minutes import Floats, Ints
from koord.sim.outcome import EvictedBy
from koord.sim.packing import capacity_of
from koord.sim.placing import configuration_of
from koord.sim.publishing import Gates
from koord.sim.recording import WHOLE
from koord.sim.response_times import check_settings
from koord.sim.scenario import TICK_S, Scenario
from koord.sim.tasks import Status, TaskSource, source_of
from koord.sim.world import (
    Making,
    Scheduler,
    World,
    first,
    making_of,
    put_service,
    put_task,
    scheduler_of,
    service_key,
    task_key,
)


@dataclass(slots=True)
class Stage:
    """A run between two minutes: the world, and what does not change or follows from it."""

    scenario: Scenario
    cluster: Cluster
    seed: int
    manifests: Manifests | None
    config: SchedulerConfiguration
    lenders: list[Lender]
    arrivals: Arrivals | None
    source: TaskSource
    making: Making
    world: World
    sums: NodeSums
    scheduler: Scheduler
    outages: Outages
    gates: Gates
    capacity: Floats
    system: Floats
    mark: Floats
    pool_rows: dict[str, Ints]
    mean_request_milli: float
    start_s: float
    checkpoint_s: float
    most_decisions: int
    latency: LatencyModel | None
    descheduler: Descheduler | None
    gpu_milli: Floats
    "By node."
    has_restarted: bool = False
    "Since the last minute."
    meanwhile: Meanwhile = field(default_factory=lambda: Meanwhile())

    @property
    def now_s(self) -> float:
        return self.world.tick * TICK_S


@dataclass(slots=True)
class Meanwhile:
    """What happened in the minute, for the series."""

    arrived_milli_s: float = 0.0
    decisions: int = 0
    moved: int = 0
    lost: list[tuple[int, float]] = field(default_factory=list)
    "Node and lost work of each batch pod that lost its node."


def stage_of(
    scenario: Scenario,
    cluster: Cluster,
    lenders: list[Lender],
    seed: int,
    manifests: Manifests | None,
    arrivals: Arrivals | None,
    latency: LatencyModel | None = None,
) -> Stage:
    if latency is not None:
        check_settings(latency, scenario.latency)
    nodes, world = cluster.nodes, first(cluster)
    source = source_of(cluster.tasks)
    making = making_of(cluster, source, band_of(lenders))
    config = configuration_of(manifests, scenario.packing)
    marks = {lender.pool: lender.settings.mark_percent for lender in lenders}
    strategies = {lender.pool: lender.settings.colocation for lender in lenders}
    capacity = nodes.cpu_milli.astype(np.float64)
    requests = cluster.tasks.request_cpu_milli
    return Stage(
        scenario=scenario,
        cluster=cluster,
        seed=seed,
        manifests=manifests,
        config=config,
        lenders=lenders,
        arrivals=arrivals,
        source=source,
        making=making,
        world=world,
        sums=NodeSums(
            cluster.services, len(nodes), world.service_node, making.requests.milli, making.requests.memory_bytes
        ),
        scheduler=scheduler_of(world, making, config, manifests, seed=seed, now_s=0.0),
        outages=outages(scenario.faults, seed, len(nodes), scenario.ticks * TICK_S),
        gates=publishing.gates([strategies[pool] for pool in nodes.pool]),
        capacity=capacity,
        system=np.zeros(len(nodes)) if cluster.system_milli is None else cluster.system_milli,
        mark=capacity * np.array([marks[pool] for pool in nodes.pool]) / 100,
        pool_rows={WHOLE: np.arange(len(nodes)), **{lender.pool: lender.rows for lender in lenders}},
        mean_request_milli=float(requests.mean()) if len(requests) else 0.0,
        start_s=parse_duration(scenario.batch.start),
        checkpoint_s=parse_duration(scenario.batch.checkpoint),
        most_decisions=max(1, round(scenario.scheduler.pods_per_second * TICK_S)),
        latency=latency,
        descheduler=descheduler_of(scenario, manifests),
        gpu_milli=capacity_of(nodes.names, cluster.gpus),
    )


def restart(stage: Stage) -> None:
    """The scheduler and the descheduler restart, and read all objects."""
    world = stage.world
    stage.sums.node = world.service_node
    stage.sums.moved()
    stage.scheduler = scheduler_of(
        world, stage.making, stage.config, stage.manifests, seed=stage.seed, now_s=stage.now_s
    )
    if stage.descheduler is not None:
        stage.descheduler.memory = {}
    stage.has_restarted = True


def tasks_on(world: World, row: int) -> list[int]:
    numbers: list[int] = np.flatnonzero(
        (world.table.column("node") == row) & (world.table.column("status") == Status.PLACED)
    ).tolist()
    return numbers


def lose(stage: Stage, number: int, by: EvictedBy) -> None:
    """A task loses its work since its last checkpoint."""
    world = stage.world
    lost = world.table.lose(number, stage.source)
    node = int(world.table.node[number])
    stage.meanwhile.lost.append((node, lost))
    if world.tick >= stage.scenario.warm_up_ticks:
        name = stage.source.tasks.ids[int(world.table.source[number])]
        recording.evict(world.recorded, stage.now_s, name, stage.cluster.nodes.names[node], by, lost)


def wait_again(stage: Stage, number: int) -> None:
    """A task's pod is gone, and another one waits in its place."""
    world, scheduler = stage.world, stage.scheduler
    key = task_key(world, number)
    del scheduler.task_of[key]
    if key in scheduler.placing.pods:
        scheduler.placing.remove(key)
    world.requested_milli[world.table.node[number]] -= request_of(stage, number)
    world.table.leave(number, stage.now_s)
    put_task(world, stage.making, scheduler, number)


def request_of(stage: Stage, number: int) -> float:
    return float(stage.source.tasks.request_cpu_milli[stage.world.table.source[number]])


def move_service(stage: Stage, service: int) -> None:
    """A service's pod is gone, and another one waits in its place."""
    end_service(stage, service)
    stage.world.service_moves[service] += 1
    put_service(stage.world, stage.making, stage.scheduler, service, stage.now_s)


def end_service(stage: Stage, service: int) -> None:
    world, scheduler = stage.world, stage.scheduler
    key = service_key(world, service)
    del scheduler.service_of[key]
    if key in scheduler.placing.pods:
        scheduler.placing.remove(key)
    world.service_node[service] = -1
    stage.sums.moved()


def schedule(stage: Stage) -> None:
    """The scheduler decides, as long as it has time in this minute."""
    world, scheduler, now_s = stage.world, stage.scheduler, stage.now_s
    decided = scheduler.placing.decide(stage.most_decisions - stage.meanwhile.decisions)
    stage.meanwhile.decisions += decided.decisions
    for key, node in decided.bound:
        number = scheduler.task_of.get(key)
        if number is not None:
            world.table.bind(number, node, now_s, stage.start_s)
            world.requested_milli[node] += request_of(stage, number)
        else:
            world.service_node[scheduler.service_of[key]] = node
            stage.sums.moved()
    for key in decided.victims:
        number = scheduler.task_of.get(key)
        if number is not None:
            lose(stage, number, "preemption")
            wait_again(stage, number)
        else:
            move_service(stage, scheduler.service_of[key])
