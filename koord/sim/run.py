"""A run: minute by minute through a scenario, with a lending policy for each pool.

    outcome = run(scenario, cluster, {"": POLICIES["adaptive"]}, seed=1)

Equal arguments give an equal outcome, byte by byte, also across a checkpoint. A minute goes like this:

    nodes fail and come back, services come and go, batch pods arrive
    reports reach the manager, which publishes by its rules; the scheduler decides
    use is sampled every 10 s, batch gets what services and the ceiling leave, tasks advance
    policies learn, batch pods are evicted or end, the descheduler has its round
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from koord.api.machinery.faults import BadInput
from koord.api.text.manifest import Manifests
from koord.sim import checkpoint
from koord.sim.cluster import Arrivals, Cluster
from koord.sim.latency import LatencyModel
from koord.sim.lending import lenders
from koord.sim.outcome import Outcome
from koord.sim.policies.policy import Policy
from koord.sim.recording import WHOLE, evicted_of, nodes_of, quotas_of, series_of, totals_of
from koord.sim.scenario import TICK_S, Scenario
from koord.sim.stage import Stage, restart, stage_of
from koord.sim.steps import step
from koord.sim.tasks import Status


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is."""

    at_s: float
    of_s: float
    pending: int
    running: int


def run(
    scenario: Scenario,
    cluster: Cluster,
    policies: Mapping[str, Policy[Any]],
    *,
    seed: int = 0,
    manifests: Manifests | None = None,
    arrivals: Arrivals | None = None,
    latency: LatencyModel | None = None,
    progress: Callable[[Progress], None] = lambda progress: None,
    stop: Callable[[], bool] = lambda: False,
    save: Callable[[bytes], None] | None = None,
    resume: bytes | None = None,
) -> Outcome:
    """Run a scenario. `policies`: by pool; "" is for pools that are not named. `arrivals`: instead of the times of the
    cluster's tasks. `latency`: the model of response times; None: they are NaN. `progress` and `stop` are asked after
    each minute; a run that is stopped gives what it has so far. `save` gets a checkpoint at each restart of the
    scheduler (`Scenario.restart`); `resume` is one of them: the run continues there."""
    if arrivals is not None and (save is not None or resume is not None):
        raise BadInput("a run whose pods come by what happens has no checkpoints")
    stage = stage_of(scenario, cluster, lenders(scenario, cluster.nodes, policies), seed, manifests, arrivals, latency)
    digest = checkpoint.digest(scenario, cluster, policies, seed, latency, manifests)
    if resume is not None:
        checkpoint.restore(resume, stage, digest)
        restart(stage)
    world, ticks = stage.world, scenario.ticks
    while world.tick < ticks:
        if world.tick and world.tick % scenario.restart_ticks == 0 and not stage.has_restarted:
            if save is not None:
                save(checkpoint.snapshot(stage, digest))
            restart(stage)
        step(stage)
        progress(_progress(stage, ticks))
        if stop():
            break
    return outcome_of(stage, seed, ended=world.tick >= ticks, digest=digest)


def outcome_of(stage: Stage, seed: int, *, ended: bool, digest: str) -> Outcome:
    """What a run came to so far."""
    world, nodes = stage.world, stage.cluster.nodes
    begin_s = stage.scenario.warm_up_ticks * TICK_S
    quotas = quotas_of(world.table, stage.source, begin_s)
    totals = {
        pool: totals_of(
            world.recorded, pool, nodes, world.table, stage.source, begin_s=begin_s, now_s=stage.now_s, quotas=quotas
        )
        for pool in stage.pool_rows
    }
    return Outcome(
        scenario=stage.scenario.name,
        policy={lender.pool: lender.policy.name for lender in stage.lenders},
        seed=seed,
        ended=ended,
        series=series_of(world.recorded),
        by_pool={pool: of_pool for pool, of_pool in totals.items() if pool != WHOLE},
        totals=totals[WHOLE],
        nodes=nodes_of(world.recorded, nodes),
        quotas=quotas,
        evicted=evicted_of(world.recorded),
        repairs=stage.cluster.repairs,
        digest=digest,
    )


def _progress(stage: Stage, ticks: int) -> Progress:
    table = stage.world.table
    return Progress(
        stage.world.tick * TICK_S,
        ticks * TICK_S,
        len(table.with_status(Status.PENDING)),
        len(table.with_status(Status.PLACED)),
    )
