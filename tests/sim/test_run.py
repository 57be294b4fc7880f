"""Whole runs: what is conserved, what repeats, what is never exceeded."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from koord.api.machinery.faults import BadInput
from koord.api.text import manifest
from koord.sim.cluster import ArrivalView, Cluster
from koord.sim.columns import BatchTasks
from koord.sim.lending import lenders
from koord.sim.outcome import Outcome
from koord.sim.policies.registry import POLICIES
from koord.sim.run import outcome_of, run
from koord.sim.scenario import Scenario
from koord.sim.stage import Stage, restart, stage_of
from koord.sim.steps import step
from koord.sim.tasks import Status
from tests.sim import small
from tests.sim.small import Fixed

QUICK = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def stage(scenario: Scenario, cluster: Cluster, policy: Fixed, seed: int = 1) -> Stage:
    return stage_of(scenario, cluster, lenders(scenario, cluster.nodes, {"": policy}), seed, None, None)


def as_bytes(outcome: Outcome) -> bytes:
    return json.dumps(outcome.as_json()).encode()


def test_the_same_seed_gives_the_same_bytes_and_another_one_others() -> None:
    scenario = small.scenario(duration="40m")
    first, again, other = (run(scenario, small.cluster(), {"": Fixed()}, seed=seed) for seed in (1, 1, 2))
    assert as_bytes(first) == as_bytes(again)
    assert as_bytes(first) != as_bytes(replace(other, seed=1, digest=first.digest))


def test_batch_pods_run_where_the_policy_lends_and_finish() -> None:
    outcome = run(small.scenario(duration="3h"), small.cluster(), {"": Fixed()})
    assert outcome.totals.finished == outcome.totals.arrived == 40
    assert outcome.totals.got_percent == 100
    asked = sum(quota.asked_milli_s for quota in outcome.quotas)
    assert outcome.totals.work_milli_s == pytest.approx(asked)


def test_without_lending_every_batch_pod_waits_until_the_end() -> None:
    outcome = run(small.scenario(duration="1h"), small.cluster(), {"": Fixed(share=0.0)})
    assert outcome.totals.work_milli_s == 0
    assert outcome.series.pending[-1] == 40
    assert outcome.totals.wait_p99_s > 3000


def test_without_co_location_batch_pods_run_on_what_services_do_not_request() -> None:
    # Services request 8 of 16 cores: four batch pods of 2 cores fit on each of three nodes.
    none = POLICIES["none"]
    outcome = run(small.scenario(duration="40m"), small.cluster(batch=small.tasks(40, every_s=0)), {"": none})
    assert outcome.series.running.max() == 12
    assert outcome.series.lent_milli.max() == 0
    assert outcome.totals.finished == 12


def test_a_pool_without_co_location_gets_no_batch_pod_of_another_pool() -> None:
    cluster = small.cluster(4, pools=("on", "off"))
    scenario = small.scenario(duration="40m", cluster={"pools": {"on": 0.5, "off": 0.5}})
    outcome = run(scenario, cluster, {"on": Fixed(), "off": POLICIES["none"]})
    assert outcome.by_pool["on"].work_milli_s > 0
    assert outcome.by_pool["off"].work_milli_s == 0


@QUICK
@given(
    share=st.floats(0.2, 2.0),
    use=st.floats(0.3, 1.5),
    cores=st.sampled_from([1.0, 4.0, 6.0]),
    guards=st.booleans(),
    starves=st.booleans(),
    failures=st.booleans(),
    seed=st.integers(0, 2**40),
)
def test_cpu_and_work_are_conserved(
    share: float, use: float, cores: float, guards: bool, starves: bool, failures: bool, seed: int
) -> None:
    scenario = small.scenario(
        duration="1h",
        batch={"checkpoint": "7m"},
        faults={"nodeFailures": {"every": "1h", "lasting": "8m"}} if failures else {},
    )
    cluster = small.cluster(batch=small.tasks(30, cores=cores, use=use))
    playing = stage(scenario, cluster, Fixed(share=share, guards=guards, starves=starves), seed)
    world, source = playing.world, playing.source
    used_milli_s = 0.0
    for _ in range(scenario.ticks):
        step(playing)
        table, series = world.table, world.recorded.series
        used_milli_s += series["batch_used_milli"][-1] * 60
        # No node uses more than it has.
        used = series["services_milli"][-1] + series["batch_used_milli"][-1]
        assert used <= series["capacity_milli"][-1] * (1 + 1e-9)
        # Work that was done is either there or lost, and what is left makes up the whole.
        numbers = np.arange(table.count)
        there = source.work_at(table.source[numbers], table.progress_s[numbers])
        assert used_milli_s == pytest.approx(there.sum() + table.lost_milli_s[numbers].sum(), rel=1e-9, abs=1e-3)
        assert (there <= source.work[table.source[numbers]] * (1 + 1e-9)).all()
        # The scheduler and the world agree about every pod, and each is in one place.
        placed = table.with_status(Status.PLACED)
        known = playing.scheduler.placing.core.cluster.pods
        for number in placed.tolist():
            record, row = known[f"batch/{number}-{table.tries[number]}"]
            assert record.key.startswith("batch/")
            assert playing.scheduler.placing.core.cluster.table.names[row] == cluster.nodes.names[table.node[number]]
        assert sum(1 for key in known if key.startswith("batch/")) == len(placed)
        requested = np.bincount(
            table.node[placed], weights=source.tasks.request_cpu_milli[table.source[placed]], minlength=3
        )
        assert world.requested_milli == pytest.approx(requested)
    assert sum(world.recorded.series["wasted_milli_s"]) == pytest.approx(world.table.column("lost_milli_s").sum())


def test_a_ceiling_keeps_the_mean_use_of_nodes_near_the_mark() -> None:
    crowded = small.cluster(batch=small.tasks(60, cores=4, use=1.5, minutes=120, every_s=10))
    guarded, open_ = (
        run(small.scenario(), crowded, {"": Fixed(share=2.0, guards=guards)}, seed=3) for guards in (True, False)
    )
    used = [outcome.totals.services_percent + outcome.totals.batch_percent for outcome in (guarded, open_)]
    assert used[0] == pytest.approx(85, abs=1.5)
    assert used[1] > 95
    assert guarded.totals.got_percent < open_.totals.got_percent


def test_an_evicted_task_goes_back_to_its_checkpoint_and_runs_again() -> None:
    crowded = small.cluster(1, batch=small.tasks(8, cores=4, use=1.5, minutes=60, every_s=10), cores=16)
    outcome = run(small.scenario(duration="4h"), crowded, {"": Fixed(share=1.5, starves=True)})
    assert outcome.totals.evicted > 0
    assert outcome.totals.wasted_milli_s == pytest.approx(sum(pod.lost_milli_s for pod in outcome.evicted))
    assert {pod.by for pod in outcome.evicted} == {"policy"}
    (quota,) = outcome.quotas
    assert quota.done_milli_s == pytest.approx(outcome.totals.work_milli_s, abs=1e-3)


def test_a_failed_node_loses_work_and_its_pods_come_back_elsewhere() -> None:
    scenario = small.scenario(
        duration="3h", faults={"nodeFailures": {"every": "2h", "lasting": "30m"}}, batch={"checkpoint": "10m"}
    )
    outcome = run(scenario, small.cluster(6), {"": Fixed()}, seed=5)
    assert outcome.series.capacity_milli.min() < outcome.series.capacity_milli.max()
    assert {pod.by for pod in outcome.evicted} == {"node"}
    assert outcome.totals.finished == 40


def test_services_of_a_node_that_stays_away_are_placed_on_others() -> None:
    scenario = small.scenario(duration="3h", faults={"nodeFailures": {"every": "3h", "lasting": "90m"}})
    playing = stage(scenario, small.cluster(4), Fixed(), seed=2)
    moved = 0
    for _ in range(scenario.ticks):
        step(playing)
        away = playing.outages.down_for(playing.now_s - 60, 300, 4)
        assert not away[playing.world.service_node].any()
        moved = max(moved, int(playing.world.service_moves.sum()))
    assert moved > 0


@pytest.mark.parametrize("faults", [{"reportLag": "2m"}, {"apiDelay": "2m"}, {"reportLag": "1m", "apiDelay": "1m"}])
def test_lag_of_reports_and_writes_delays_the_first_batch_pod(faults: dict[str, str]) -> None:
    scenario = small.scenario(duration="20m", faults=faults)
    outcome = run(scenario, small.cluster(), {"": Fixed()})
    direct = run(small.scenario(duration="20m"), small.cluster(), {"": Fixed()})
    assert np.argmax(outcome.series.running > 0) == np.argmax(direct.series.running > 0) + 2


def test_a_node_whose_reports_stop_lends_nothing_after_the_degrade_time() -> None:
    scenario = small.scenario(faults={"lostReports": 1.0}, colocation={"degradeTimeMinutes": 5})
    outcome = run(scenario, small.cluster(), {"": Fixed()})
    assert outcome.series.lent_milli.max() == 0
    silent = small.scenario(duration="24h", faults={"silentNodes": 1.0}, colocation={"degradeTimeMinutes": 5})
    lent = run(silent, small.cluster(1, batch=small.tasks(1)), {"": Fixed()}).series.lent_milli
    # An hour a day without reports, less the five minutes for which the last one counts.
    assert (lent == 0).sum() == pytest.approx(55, abs=2)


def test_quotas_are_never_exceeded() -> None:
    text = """
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: research, namespace: batch}
spec:
  max: {kubernetes.io/batch-cpu: 6k, kubernetes.io/batch-memory: 100Gi}
  min: {kubernetes.io/batch-cpu: 0, kubernetes.io/batch-memory: 0}
"""
    tasks = small.tasks(20, cores=2, every_s=1, queue=["research", ""] * 10)
    scenario = small.scenario(duration="90m")
    cluster = small.cluster(batch=tasks)
    manifests = manifest.parse(text, "quotas.yaml").require_valid()
    playing = stage_of(scenario, cluster, lenders(scenario, cluster.nodes, {"": Fixed()}), 1, manifests, None)
    most = 0
    for _ in range(scenario.ticks):
        step(playing)
        table = playing.world.table
        placed = table.with_status(Status.PLACED)
        assert tasks.queue is not None
        of_quota = [number for number in placed.tolist() if tasks.queue[table.source[number]] == "research"]
        most = max(most, 2000 * len(of_quota))
    assert most == 6000
    outcome = outcome_of(playing, 1, ended=True, digest="")
    assert [quota.name for quota in outcome.quotas] == ["", "research"]
    assert outcome.totals.fairness < 1 or outcome.quotas[1].finished == 10


def test_a_gang_starts_whole_or_not_at_all() -> None:
    gangs = ["a"] * 4 + ["b"] * 4
    scenario = small.scenario(duration="30m")
    cluster = small.cluster(1, batch=small.tasks(8, cores=2, every_s=1, minutes=60, gang=gangs))
    playing = stage(scenario, cluster, Fixed(share=0.6))
    for _ in range(scenario.ticks):
        step(playing)
        table = playing.world.table
        placed = [gangs[table.source[number]] for number in table.with_status(Status.PLACED).tolist()]
        assert all(placed.count(gang) in (0, 4) for gang in "ab")
    assert len(playing.world.table.with_status(Status.PLACED)) == 4


def test_saturating_demand_keeps_pods_waiting_and_repeats_the_trace() -> None:
    scenario = small.scenario(batch={"arrivals": "saturate", "pending": 5})
    outcome = run(scenario, small.cluster(batch=small.tasks(7, minutes=10)), {"": Fixed()})
    assert outcome.totals.arrived > 14
    assert (outcome.series.pending <= 5).all()
    assert outcome.series.pending[-1] > 0


def test_services_without_a_recorded_node_are_placed_by_the_scheduler() -> None:
    outcome = run(small.scenario(duration="10m"), small.cluster(placed=False), {"": Fixed()})
    placed = run(small.scenario(duration="10m"), small.cluster(), {"": Fixed()})
    assert outcome.series.services_milli[-1] == pytest.approx(placed.series.services_milli[-1], rel=0.3)
    assert (outcome.nodes.services_milli > 0).all()


def test_a_service_uses_nothing_while_its_curve_has_no_value() -> None:
    curves = small.services(1, per_node=1, hours=1)
    curves.cpu_milli[0, 4:8] = np.nan
    scenario = small.scenario(duration="1h", noise={"minute": 0, "tenSeconds": 0})
    outcome = run(scenario, small.cluster(1, curves=curves), {"": Fixed()})
    exists = outcome.series.services_milli > 0
    assert exists.tolist() == [True] * 20 + [False] * 20 + [True] * 20


class Closed:
    """Arrivals that keep two pods in the cluster."""

    def __init__(self) -> None:
        self.views: list[ArrivalView] = []

    def due(self, now_s: float, view: ArrivalView) -> BatchTasks:
        self.views.append(view)
        return small.tasks(max(0, 2 - view.pending - view.running), minutes=10)


def test_arrivals_may_follow_what_happens() -> None:
    arrivals = Closed()
    cluster = small.cluster(batch=small.tasks(0))
    outcome = run(small.scenario(), cluster, {"": Fixed()}, arrivals=arrivals)
    assert outcome.series.running.max() == 2
    assert sum(len(view.done) for view in arrivals.views) == pytest.approx(outcome.totals.finished, abs=2)


def test_pools_have_policies_of_their_own() -> None:
    scenario = small.scenario(duration="1h", cluster={"pools": {"web": 0.5, "lab": 0.5}}, pools={"lab": {}})
    cluster = small.cluster(4, pools=("web", "lab"))
    outcome = run(scenario, cluster, {"web": Fixed(share=0.0), "lab": Fixed(share=0.5, name="half")})
    assert outcome.policy == {"web": "fixed", "lab": "half"}
    assert outcome.by_pool["web"].work_milli_s == 0
    assert outcome.by_pool["lab"].work_milli_s == pytest.approx(outcome.totals.work_milli_s)


def test_a_pool_without_policy_is_refused() -> None:
    with pytest.raises(BadInput, match="no policy for the pool 'lab'"):
        run(small.scenario(), small.cluster(4, pools=("web", "lab")), {"web": Fixed()})


def test_the_scheduler_decides_no_more_than_its_throughput() -> None:
    scenario = small.scenario(duration="10m", scheduler={"podsPerSecond": 0.05})
    outcome = run(scenario, small.cluster(batch=small.tasks(40, every_s=0.1)), {"": Fixed()})
    assert np.diff(outcome.series.running).max() <= 3


def test_totals_leave_the_warm_up_out() -> None:
    scenario = small.scenario(warmUp="1h")
    outcome = run(scenario, small.cluster(), {"": Fixed()})
    assert outcome.totals.minutes == 60
    assert len(outcome.series.at_s) == 120
    assert outcome.totals.work_milli_s == pytest.approx(outcome.series.batch_used_milli[60:].sum() * 60)


def test_a_run_that_is_stopped_gives_what_it_has() -> None:
    minutes = 0

    def stop() -> bool:
        nonlocal minutes
        minutes += 1
        return minutes == 30

    outcome = run(small.scenario(), small.cluster(), {"": Fixed()}, stop=stop)
    assert not outcome.ended
    assert len(outcome.series.at_s) == 30


def test_a_restarted_scheduler_knows_all_pods() -> None:
    playing = stage(small.scenario(), small.cluster(), Fixed())
    for _ in range(30):
        step(playing)
    before = set(playing.scheduler.placing.core.cluster.pods)
    restart(playing)
    assert set(playing.scheduler.placing.core.cluster.pods) == before
