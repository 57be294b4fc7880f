"""Gangs in the metrics, under the names that Koordinator's dashboards know."""

from __future__ import annotations

from msgspec.structs import replace

from koord.api.configuration.component_config import PluginConfig
from koord.api.configuration.scheduler_args import CoschedulingArgs
from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kinds import NODES
from koord.kube.clock import SystemClock
from koord.kube.metrics import Metrics
from koord.scheduler.core.core import Core
from koord.scheduler.live.metrics import SchedulerMetrics
from koord.scheduler.live.onlooker import Onlooker
from koord.scheduler.profiles import profiles_of
from tests.scheduler.builders import node
from tests.scheduler.gangs import World, member


def test_gangs_that_wait_are_counted_and_decisions_timed_by_size() -> None:
    metrics = Metrics()
    scheduler_metrics = SchedulerMetrics(metrics)
    world = World(1)
    world.put(*(member(f"p{i}", least=2) for i in range(2)))
    world.decide()
    scheduler_metrics.look(world.core, 0.0)
    scheduler_metrics.decided_job(2, 0.01, placed=False)
    scheduler_metrics.decided_job(150, 0.01, placed=True)
    scheduler_metrics.decided_job(5000, 0.01, placed=True)
    text = metrics.render().decode()
    assert "scheduler_waiting_gang_group_number 1.0" in text
    family = "scheduler_gang_schedule_cycle_duration_seconds_count"
    for size, reason in (
        ("1-100", "all pending pods is already been attempted"),
        ("101-200", "gang is already succeed"),
        (">1000", "gang is already succeed"),
    ):
        assert f'{family}{{job_size="{size}",reason="{reason}"}} 1.0' in text


def test_the_search_for_victims_is_timed_by_job_and_old_jobs_are_forgotten() -> None:
    metrics = Metrics()
    scheduler_metrics = SchedulerMetrics(metrics)
    args = CoschedulingArgs(enable_preemption=True)
    profile = replace(SHIPPED.profiles[0], plugin_config=(PluginConfig("Coscheduling", args),))
    observer = Onlooker(SystemClock(), scheduler_metrics.spent, for_job=scheduler_metrics.looked_for_victims)
    world = World()
    world.core = Core(profiles_of(replace(SHIPPED, profiles=(profile,))), alone=True, observer=observer)
    world.core.put(NODES, node("n0", cpu="2"))
    world.put(member("low", "low", least=1, on="n0", priority=-1))
    world.put(*(member(f"p{i}", least=2, priority=5) for i in range(2)))
    world.put(*(member(f"q{i}", "big", least=3, priority=5) for i in range(3)))
    world.decide()
    family = "scheduler_job_preemption_duration_seconds_count"
    text = metrics.render().decode()
    assert f'{family}{{jobName="shop/train",result="preempt success"}} 1.0' in text
    assert f'{family}{{jobName="shop/big",result="the job does not fit, whichever less important pods go."}}' in text
    for i in range(600):
        scheduler_metrics.looked_for_victims(f"shop/{i}", "preempt success", 0.1)
    text = metrics.render().decode()
    assert "shop/train" not in text
    assert text.count(f"{family}{{") == 500


def test_the_writing_of_quotas_is_timed() -> None:
    metrics = Metrics()
    scheduler_metrics = SchedulerMetrics(metrics)
    scheduler_metrics.written("ElasticQuota", 0.25)
    scheduler_metrics.written("PodGroup", 0.25)
    assert "scheduler_update_elastic_quota_status_duration_seconds_count 1.0" in metrics.render().decode()
