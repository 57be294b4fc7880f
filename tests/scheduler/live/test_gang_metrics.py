"""Gangs in the metrics, under the names that Koordinator's dashboards know."""

from __future__ import annotations

from koord.kube.metrics import Metrics
from koord.scheduler.live.metrics import SchedulerMetrics
from tests.scheduler.gangs import World, member


def test_gangs_that_wait_are_counted_and_decisions_timed_by_size() -> None:
    metrics = Metrics()
    told = SchedulerMetrics(metrics)
    world = World(1)
    world.put(*(member(f"p{i}", least=2) for i in range(2)))
    world.decide()
    told.look(world.core, 0.0)
    told.decided_job(2, 0.01, placed=False)
    told.decided_job(150, 0.01, placed=True)
    told.decided_job(5000, 0.01, placed=True)
    text = metrics.render().decode()
    assert "scheduler_waiting_gang_group_number 1.0" in text
    family = "scheduler_gang_schedule_cycle_duration_seconds_count"
    for size, reason in (
        ("1-100", "all pending pods is already been attempted"),
        ("101-200", "gang is already succeed"),
        (">1000", "gang is already succeed"),
    ):
        assert f'{family}{{job_size="{size}",reason="{reason}"}} 1.0' in text
