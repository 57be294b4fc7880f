"""The steps of a minute, in their order: see `run`."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from koord.api.configuration.scheduler_config import SchedulerConfiguration
from koord.api.text.duration import parse_duration
from koord.api.text.manifest import Manifests
from koord.sim import physics, publishing, recording
from koord.sim.cluster import Arrivals, ArrivalView, Cluster
from koord.sim.columns import BatchTasks, joined
from koord.sim.curves import NodeSums
from koord.sim.faults import TOLERATED_S, Outages, outages, reporting
from koord.sim.latency import LatencyModel
from koord.sim.lending import Ahead, Lender, band_of, ceilings, learn
from koord.sim.minutes import BatchPodMinutes, Floats, Ints, NodeMinutes
from koord.sim.outcome import EvictedBy
from koord.sim.placing import configuration_of
from koord.sim.pods import on_node
from koord.sim.policies.policy import Lent
from koord.sim.publishing import Change, Gates, Report
from koord.sim.recording import WHOLE, PoolSums
from koord.sim.response_times import ResponseTimes, check_settings, response_times
from koord.sim.scenario import TICK_S, Scenario
from koord.sim.tasks import ENDED_S, Status, TaskSource, advance_s, source_of, wants
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
    config = configuration_of(manifests)
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
    )


def restart(stage: Stage) -> None:
    """The scheduler restarts, and reads all objects."""
    world = stage.world
    stage.sums.node = world.service_node
    stage.sums.moved()
    stage.scheduler = scheduler_of(
        world, stage.making, stage.config, stage.manifests, seed=stage.seed, now_s=stage.now_s
    )
    stage.has_restarted = True


def step(stage: Stage) -> None:
    """One minute."""
    stage.meanwhile = Meanwhile()
    stage.scheduler.placing.at(stage.now_s)
    _fail_and_return(stage)
    _services_come_and_go(stage)
    _arrive(stage)
    _publish(stage)
    _schedule(stage)
    _use(stage)
    stage.world.tick += 1
    stage.has_restarted = False


def _fail_and_return(stage: Stage) -> None:
    world, now_s = stage.world, stage.now_s
    nodes = len(world.up)
    up = ~stage.outages.down(now_s, nodes)
    for row in np.flatnonzero(world.up & ~up).tolist():
        stage.scheduler.placing.reachable(row, False)
        for number in _tasks_on(world, row):
            _lose(stage, number, "node")
    for row in np.flatnonzero(~world.up & up).tolist():
        stage.scheduler.placing.reachable(row, True)
        for number in _tasks_on(world, row):
            world.table.starts_s[number] = world.table.saved_at_s[number] = now_s + stage.start_s
    world.up = up
    if up.all():
        return
    for row in np.flatnonzero(stage.outages.down_for(now_s, TOLERATED_S, nodes)).tolist():
        for number in _tasks_on(world, row):
            _wait_again(stage, number)
        for service in np.flatnonzero(world.service_node == row).tolist():
            move_service(stage, service)


def _tasks_on(world: World, row: int) -> list[int]:
    numbers: list[int] = np.flatnonzero(
        (world.table.column("node") == row) & (world.table.column("status") == Status.PLACED)
    ).tolist()
    return numbers


def _lose(stage: Stage, number: int, by: EvictedBy) -> None:
    """A task loses its work since its last checkpoint."""
    world = stage.world
    lost = world.table.lose(number, stage.source)
    node = int(world.table.node[number])
    stage.meanwhile.lost.append((node, lost))
    if world.tick >= stage.scenario.warm_up_ticks:
        name = stage.source.tasks.ids[int(world.table.source[number])]
        recording.evict(world.recorded, stage.now_s, name, stage.cluster.nodes.names[node], by, lost)


def _wait_again(stage: Stage, number: int) -> None:
    """A task's pod is gone, and another one waits in its place."""
    world, scheduler = stage.world, stage.scheduler
    key = task_key(world, number)
    del scheduler.task_of[key]
    if key in scheduler.placing.pods:
        scheduler.placing.remove(key)
    world.requested_milli[world.table.node[number]] -= _request(stage, number)
    world.table.leave(number, stage.now_s)
    put_task(world, stage.making, scheduler, number)


def _request(stage: Stage, number: int) -> float:
    return float(stage.source.tasks.request_cpu_milli[stage.world.table.source[number]])


def move_service(stage: Stage, service: int) -> None:
    """A service's pod is gone, and another one waits in its place."""
    _end_service(stage, service)
    stage.world.service_moves[service] += 1
    put_service(stage.world, stage.making, stage.scheduler, service, stage.now_s)


def _end_service(stage: Stage, service: int) -> None:
    world, scheduler = stage.world, stage.scheduler
    key = service_key(world, service)
    del scheduler.service_of[key]
    if key in scheduler.placing.pods:
        scheduler.placing.remove(key)
    world.service_node[service] = -1
    stage.sums.moved()


def _services_come_and_go(stage: Stage) -> None:
    world, now_s = stage.world, stage.now_s
    if world.tick and stage.sums.step_at(now_s) == stage.sums.step_at(now_s - TICK_S):
        return
    exists = stage.sums.present(now_s)
    if (exists == world.service_exists).all():
        return
    for service in np.flatnonzero(world.service_exists & ~exists).tolist():
        _end_service(stage, service)
        world.service_moves[service] += 1
    is_free = not stage.scenario.services.placed_by_scheduler
    for service in np.flatnonzero(exists & ~world.service_exists).tolist():
        node = int(stage.cluster.service_node[service])
        if is_free and node >= 0 and world.up[node]:
            _place_service(stage, service, node)
        else:
            put_service(world, stage.making, stage.scheduler, service, now_s)
    world.service_exists = exists
    stage.sums.moved()


def _place_service(stage: Stage, service: int, node: int) -> None:
    """A service is where the trace had it."""
    pod = stage.making.service(stage.world, service, stage.now_s)
    stage.scheduler.service_of[pod.metadata.key] = service
    stage.scheduler.placing.put(on_node(pod, stage.cluster.nodes.names[node]))
    stage.world.service_node[service] = node


def _arrive(stage: Stage) -> None:
    world, now_s, tasks = stage.world, stage.now_s, stage.source.tasks
    batch = stage.scenario.batch
    pending = world.table.with_status(Status.PENDING)
    if stage.arrivals is not None:
        running = len(world.table.with_status(Status.PLACED))
        come = stage.arrivals.due(now_s, ArrivalView(len(pending), running, tuple(world.done)))
        rows = _more_tasks(stage, come)
        arrival_s = np.full(len(rows), now_s)
    elif batch.arrivals == "saturate" and batch.pending is not None and len(tasks.ids):
        count = max(0, batch.pending - len(pending))
        rows = np.arange(world.next_task, world.next_task + count) % len(tasks.ids)
        arrival_s = np.full(count, now_s)
    else:
        last = int(np.searchsorted(tasks.arrival_s, now_s, side="right"))
        rows = np.arange(world.next_task, max(last, world.next_task))
        arrival_s = tasks.arrival_s[rows]
    world.next_task += len(rows)
    world.done = []
    stage.meanwhile.arrived_milli_s = float(stage.source.work[rows].sum())
    for number in world.table.add(rows, now_s, arrival_s).tolist():
        put_task(world, stage.making, stage.scheduler, number)


def _more_tasks(stage: Stage, come: BatchTasks) -> Ints:
    """Append tasks to the source. Their rows there."""
    known = len(stage.source.tasks.ids)
    if len(come.ids):
        stage.source = source_of(joined(stage.source.tasks, come))
        stage.making = making_of(stage.cluster, stage.source, stage.making.band)
        stage.mean_request_milli = float(stage.source.tasks.request_cpu_milli.mean())
    return np.arange(known, len(stage.source.tasks.ids))


def _publish(stage: Stage) -> None:
    """Reports that have arrived, what the manager writes because of them or of their age, and what the scheduler comes
    to know of it."""
    world, now_s = stage.world, stage.now_s
    while (report := world.wire.arrived(now_s)) is not None:
        publishing.arrive(world.published, report)
    rows, cpu, memory = publishing.decide(world.published, now_s, stage.gates)
    if len(rows):
        delay_s = parse_duration(stage.scenario.faults.api_delay)
        world.wire.changes.append(Change(now_s + delay_s, rows, cpu, memory))
    while (change := world.wire.visible(now_s)) is not None:
        world.shown_milli[change.rows], world.shown_bytes[change.rows] = change.cpu_milli, change.memory_bytes
        lend = stage.scheduler.placing.lend
        for row, milli, memory_bytes in zip(
            change.rows.tolist(), change.cpu_milli.tolist(), change.memory_bytes.tolist(), strict=True
        ):
            lend(row, milli, memory_bytes)


def _schedule(stage: Stage) -> None:
    world, scheduler, now_s = stage.world, stage.scheduler, stage.now_s
    decided = scheduler.placing.decide(stage.most_decisions)
    stage.meanwhile.decisions = decided.decisions
    for key, node in decided.bound:
        number = scheduler.task_of.get(key)
        if number is not None:
            world.table.bind(number, node, now_s, stage.start_s)
            world.requested_milli[node] += _request(stage, number)
        else:
            world.service_node[scheduler.service_of[key]] = node
            stage.sums.moved()
    for key in decided.victims:
        number = scheduler.task_of.get(key)
        if number is not None:
            _lose(stage, number, "preemption")
            _wait_again(stage, number)
        else:
            move_service(stage, scheduler.service_of[key])


def _use(stage: Stage) -> None:
    """Ten seconds after ten seconds: what services and batch use; then what follows at the end of the minute."""
    world, table, sums, now_s = stage.world, stage.world.table, stage.sums, stage.now_s
    end_s, count = now_s + TICK_S, len(world.up)
    capacity = np.where(world.up, stage.capacity, 0.0)
    factors = physics.noise_factors(stage.seed, world.tick, count, stage.scenario.noise)
    middles = now_s + (np.arange(physics.SAMPLES) + 0.5) * (TICK_S / physics.SAMPLES)
    curves = np.stack([sums.cpu_milli(float(at_s)) for at_s in middles])
    samples = np.minimum(curves * factors + stage.system, capacity)
    before = world.before if len(world.before) else np.repeat(samples[:1], physics.BEFORE, axis=0)
    running = table.running(now_s)
    running = running[world.up[table.node[running]]]
    rows, nodes = table.source[running], table.node[running]
    wish = wants(stage.source, rows, table.progress_s[running])
    wanted: Floats = np.bincount(nodes, weights=wish.milli, minlength=count).astype(np.float64)
    minute = physics.minute(samples, before, capacity, wanted, partial(ceilings, stage.lenders))
    share = minute.share[nodes]
    table.progress_s[running] += advance_s(wish, share)
    pods = BatchPodMinutes(
        number=running,
        node=nodes,
        request_milli=stage.source.tasks.request_cpu_milli[rows].astype(np.float64),
        used_milli=wish.milli * share,
        wanted_milli=wish.milli,
        age_s=end_s - table.starts_s[running],
        unsaved_milli_s=stage.source.work_at(rows, table.progress_s[running])
        - stage.source.work_at(rows, table.saved_s[running]),
        memory_bytes=stage.source.tasks.request_memory_bytes[rows].astype(np.float64),
    )
    minutes = _minutes(stage, minute, wanted, pods, end_s)
    world.before = minute.last
    is_saved = end_s - table.saved_at_s[running] >= stage.checkpoint_s
    saved = running[is_saved]
    table.saved_s[saved], table.saved_at_s[saved] = table.progress_s[saved], end_s
    stage.scheduler.placing.at(end_s)
    is_done = table.progress_s[running] >= stage.source.duration_s[rows] - ENDED_S
    _end(stage, running[is_done])
    _learn(stage, minutes, minute.ceiling_milli, frozenset(running[is_done].tolist()))
    record(stage, minutes, minute)


def _minutes(stage: Stage, minute: physics.Minute, wanted: Floats, pods: BatchPodMinutes, end_s: float) -> NodeMinutes:
    world, sums, now_s = stage.world, stage.sums, stage.now_s
    requests = sums.requests(now_s)
    reported = world.up & reporting(stage.scenario.faults, stage.seed, world.tick, end_s, len(world.up))
    return NodeMinutes(
        at_s=end_s,
        services_milli=np.where(world.up, minute.services_milli, np.nan),
        rise_milli=minute.rise_milli,
        services_memory_bytes=sums.memory_bytes(now_s),
        batch_used_milli=minute.batch_milli,
        batch_wanted_milli=wanted,
        services_request_milli=requests[0],
        services_request_memory_bytes=requests[1],
        services_peak_milli=sums.peak_milli(now_s),
        services_peak_memory_bytes=sums.peak_memory_bytes(now_s),
        system_milli=stage.system,
        system_memory_bytes=np.zeros(len(world.up)),
        reported=reported,
        pods=pods,
    )


def _end(stage: Stage, numbers: Ints) -> None:
    """Tasks are done."""
    world, scheduler = stage.world, stage.scheduler
    for number in numbers.tolist():
        key = task_key(world, number)
        del scheduler.task_of[key]
        scheduler.placing.remove(key)
        world.requested_milli[world.table.node[number]] -= _request(stage, number)
    world.table.status[numbers], world.table.node[numbers] = Status.DONE, -1
    world.table.saved_s[numbers] = world.table.progress_s[numbers]
    world.done = numbers.tolist()


def _learn(stage: Stage, minutes: NodeMinutes, ceiling: Floats, ended: frozenset[int]) -> None:
    """Policies learn from the minute, evict, and say what nodes lend."""
    world = stage.world
    lag_s = parse_duration(stage.scenario.faults.report_lag)
    whole = publishing.figures_of(None, len(world.up))
    ahead = Ahead(stage.sums, stage.system, np.arange(len(world.up)), minutes.at_s)
    for lender in stage.lenders:
        lent, evicted = learn(lender, minutes, ceiling, ahead)
        _fill(whole, lender.rows, lent)
        for number in minutes.pods.number[evicted].tolist():
            if number not in ended:
                _lose(stage, number, "policy")
                _wait_again(stage, number)
    world.wire.reports.append(Report(minutes.at_s, minutes.at_s + lag_s, minutes.reported, whole))


def _fill(whole: publishing.Figures, rows: Ints, lent: Lent | None) -> None:
    part = publishing.figures_of(lent, len(rows))
    for name in publishing.Figures.__slots__:
        getattr(whole, name)[rows] = getattr(part, name)


def record(stage: Stage, minutes: NodeMinutes, minute: physics.Minute) -> None:
    """A row of the series, and the sums of pools and nodes."""
    world, recorded, meanwhile = stage.world, stage.world.recorded, stage.meanwhile
    services = np.where(world.up, minute.services_milli, 0.0)
    system = np.where(world.up, stage.system, 0.0)
    is_violated = (services + minute.batch_milli > stage.mark) & (services <= stage.mark)
    pending, running = (len(world.table.with_status(status)) for status in (Status.PENDING, Status.PLACED))
    counts = world.tick >= stage.scenario.warm_up_ticks
    lost_of = np.zeros(len(world.up))
    evicted_of = np.zeros(len(world.up), np.int64)
    for node, lost in meanwhile.lost:
        lost_of[node] += lost
        evicted_of[node] += 1
    capacity = np.where(world.up, stage.capacity, 0.0)
    shown = np.where(world.up, np.maximum(world.shown_milli, 0), 0)
    free = np.maximum(shown - world.requested_milli, 0.0)
    times, services_of = _response_times(stage, minute)
    slow, p99 = (np.nan, np.nan) if times is None else times.over(services_of)
    row = {
        "at_s": minutes.at_s,
        "capacity_milli": float(capacity.sum()),
        "services_milli": float((services - system).sum()),
        "system_milli": float(system.sum()),
        "batch_used_milli": float(minute.batch_milli.sum()),
        "batch_wanted_milli": float(minutes.batch_wanted_milli.sum()),
        "lent_milli": float(shown.sum()),
        "requested_milli": float(world.requested_milli.sum()),
        "room_milli": float(np.maximum(stage.mark - services, 0.0)[world.up].sum()),
        "arrived_milli_s": meanwhile.arrived_milli_s,
        "pending": pending,
        "running": running,
        "violated": int(is_violated.sum()),
        "evicted": len(meanwhile.lost),
        "wasted_milli_s": float(lost_of.sum()),
        "fragmentation": _fragmentation(free, stage.mean_request_milli),
        "slow": slow,
        "p99": p99,
    }
    for name, figure in row.items():
        recorded.series[name].append(figure)
    if not counts:
        return
    recorded.minutes[world.up] += 1
    recorded.violated += is_violated
    recorded.services += services
    recorded.batch += minute.batch_milli
    recorded.evicted += evicted_of
    for name, rows in stage.pool_rows.items():
        sums: PoolSums = recorded.sums[name]
        sums.minutes += 1
        sums.capacity += float(capacity[rows].sum())
        sums.services += float(services[rows].sum())
        sums.batch += float(minute.batch_milli[rows].sum())
        sums.wanted += float(minutes.batch_wanted_milli[rows].sum())
        sums.requested += float(world.requested_milli[rows].sum())
        sums.wasted_milli_s += float(lost_of[rows].sum())
        sums.evicted += int(evicted_of[rows].sum())
        sums.fragmentation += _fragmentation(free[rows], stage.mean_request_milli)
        if times is not None:
            sums.service_minutes += float(services_of[rows].sum())
            sums.slow += float(times.slow[rows] @ services_of[rows])
            sums.p99 += float(times.p99[rows] @ services_of[rows])
        sums.moved += meanwhile.moved
        sums.decisions += meanwhile.decisions


def _response_times(stage: Stage, minute: physics.Minute) -> tuple[ResponseTimes | None, Floats]:
    """Of services, by node, and how many each node has; none without a model."""
    world, settings = stage.world, stage.scenario.latency
    nodes = world.service_node[world.service_node >= 0]
    services_of: Floats = np.where(world.up, np.bincount(nodes, minlength=len(world.up)), 0).astype(np.float64)
    if stage.latency is None:
        return None, services_of
    return response_times(stage.latency, settings, minute.samples, minute.batch_samples, stage.capacity), services_of


def _fragmentation(free: Floats, request_milli: float) -> float:
    total = float(free.sum())
    return float(free[free < request_milli].sum()) / total if total else 0.0
