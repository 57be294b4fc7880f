"""The steps of a minute, in their order: see `run`."""

from __future__ import annotations

from functools import partial

import numpy as np

from koord.api.text.duration import parse_duration
from koord.sim import physics, publishing
from koord.sim.cluster import ArrivalView
from koord.sim.columns import BatchTasks, joined
from koord.sim.descheduling import deschedule
from koord.sim.faults import TOLERATED_S, reporting
from koord.sim.lending import Ahead, ceilings, learn
from koord.sim.measuring import record
from koord.sim.minutes import BatchPodMinutes, Floats, Ints, NodeMinutes
from koord.sim.pods import on_node
from koord.sim.policies.policy import Lent
from koord.sim.publishing import Change, Report
from koord.sim.scenario import TICK_S
from koord.sim.stage import (
    Meanwhile,
    Stage,
    end_service,
    lose,
    move_service,
    request_of,
    schedule,
    tasks_on,
    wait_again,
)
from koord.sim.tasks import ENDED_S, Status, advance_s, source_of, used_milli, wants
from koord.sim.world import (
    making_of,
    put_service,
    put_task,
    task_key,
)


def step(stage: Stage) -> None:
    """One minute."""
    stage.meanwhile = Meanwhile()
    stage.scheduler.placing.at(stage.now_s)
    _fail_and_return(stage)
    _services_come_and_go(stage)
    _arrive(stage)
    _publish(stage)
    descheduler, tick = stage.descheduler, stage.world.tick
    if descheduler is not None and tick and tick % descheduler.every_ticks == 0:
        deschedule(stage, descheduler)
    schedule(stage)
    _use(stage)
    stage.world.tick += 1
    stage.has_restarted = False


def _fail_and_return(stage: Stage) -> None:
    world, now_s = stage.world, stage.now_s
    nodes = len(world.up)
    up = ~stage.outages.down(now_s, nodes)
    for row in np.flatnonzero(world.up & ~up).tolist():
        stage.scheduler.placing.reachable(row, False)
        for number in tasks_on(world, row):
            lose(stage, number, "node")
    for row in np.flatnonzero(~world.up & up).tolist():
        stage.scheduler.placing.reachable(row, True)
        for number in tasks_on(world, row):
            world.table.starts_s[number] = world.table.saved_at_s[number] = now_s + stage.start_s
    world.up = up
    if up.all():
        return
    for row in np.flatnonzero(stage.outages.down_for(now_s, TOLERATED_S, nodes)).tolist():
        for number in tasks_on(world, row):
            wait_again(stage, number)
        for service in np.flatnonzero(world.service_node == row).tolist():
            move_service(stage, service)


def _services_come_and_go(stage: Stage) -> None:
    world, now_s = stage.world, stage.now_s
    if world.tick and stage.sums.step_at(now_s) == stage.sums.step_at(now_s - TICK_S):
        return
    exists = stage.sums.present(now_s)
    if (exists == world.service_exists).all():
        return
    for service in np.flatnonzero(world.service_exists & ~exists).tolist():
        end_service(stage, service)
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
    first_new = len(stage.source.tasks.ids)
    if len(come.ids):
        stage.source = source_of(joined(stage.source.tasks, come))
        stage.making = making_of(stage.cluster, stage.source, stage.making.band)
        stage.mean_request_milli = float(stage.source.tasks.request_cpu_milli.mean())
    return np.arange(first_new, len(stage.source.tasks.ids))


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
    rate, wanted = by_node(nodes, wish.rate_milli, count), by_node(nodes, wish.milli, count)
    minute = physics.minute(samples, before, capacity, rate, partial(ceilings, stage.lenders))
    used = used_milli(wish, minute.share[nodes])
    minute = physics.with_batch(minute, by_node(nodes, used, count))
    table.progress_s[running] += advance_s(wish, used)
    table.used_milli[: table.count] = 0.0
    table.used_milli[running] = used
    pods = BatchPodMinutes(
        number=running,
        node=nodes,
        request_milli=stage.source.tasks.request_cpu_milli[rows].astype(np.float64),
        used_milli=used,
        wanted_milli=wish.milli,
        age_s=end_s - table.starts_s[running],
        unsaved_milli_s=stage.source.work_at(rows, table.progress_s[running])
        - stage.source.work_at(rows, table.saved_s[running]),
        memory_bytes=stage.source.tasks.request_memory_bytes[rows].astype(np.float64),
        ended=table.progress_s[running] >= stage.source.duration_s[rows] - ENDED_S,
    )
    minutes = _minutes(stage, minute, wanted, pods, end_s)
    world.before = minute.last
    is_saved = end_s - table.saved_at_s[running] >= stage.checkpoint_s
    saved = running[is_saved]
    table.saved_s[saved], table.saved_at_s[saved] = table.progress_s[saved], end_s
    stage.scheduler.placing.at(end_s)
    _end(stage, running[pods.ended])
    _learn(stage, minutes, minute.ceiling_milli)
    record(stage, minutes, minute)


def by_node(node: Ints, values: Floats, nodes: int) -> Floats:
    return np.bincount(node, weights=values, minlength=nodes).astype(np.float64)


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
        world.requested_milli[world.table.node[number]] -= request_of(stage, number)
    world.table.status[numbers], world.table.node[numbers] = Status.DONE, -1
    world.table.saved_s[numbers] = world.table.progress_s[numbers]
    world.done = numbers.tolist()


def _learn(stage: Stage, minutes: NodeMinutes, ceiling: Floats) -> None:
    """Policies learn from the minute, evict, and say what nodes lend."""
    world = stage.world
    lag_s = parse_duration(stage.scenario.faults.report_lag)
    whole = publishing.figures_of(None, len(world.up))
    ahead = Ahead(stage.sums, stage.system, np.arange(len(world.up)), minutes.at_s)
    for lender in stage.lenders:
        lent, evicted = learn(lender, minutes, ceiling, ahead)
        _fill(whole, lender.rows, lent)
        for number in minutes.pods.number[evicted].tolist():
            lose(stage, number, "policy")
            wait_again(stage, number)
    world.wire.reports.append(Report(minutes.at_s, minutes.at_s + lag_s, minutes.reported, whole))


def _fill(whole: publishing.Figures, rows: Ints, lent: Lent | None) -> None:
    part = publishing.figures_of(lent, len(rows))
    for name in publishing.Figures.__slots__:
        getattr(whole, name)[rows] = getattr(part, name)
