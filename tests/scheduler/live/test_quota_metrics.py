"""Quotas in the metrics, under the names that Koordinator's dashboards know, however many there are."""

from __future__ import annotations

import pytest

from koord.kube.clock import SystemClock
from koord.kube.metrics import Metrics
from koord.scheduler.live.metrics import SchedulerMetrics
from koord.scheduler.plugins.quota import measured
from tests.scheduler.quotas import Teams, quota, team_pod


def shown(metrics: Metrics, family: str) -> list[str]:
    return [line for line in metrics.render().decode().splitlines() if line.startswith(family)]


def test_only_quotas_that_changed_are_told_again_and_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "AT_ONCE", 4)
    metrics, teams = Metrics(process=False), Teams(100)
    scheduler_metrics = SchedulerMetrics(metrics)
    all_ = [quota(f"team{i}", "1", "10") for i in range(10)]
    teams.put(*all_)
    seen: list[int] = []
    for _ in range(4):
        teams.core.take_writes()
        scheduler_metrics.look(teams.core, teams.now_s)
        teams.wait(2)
        seen.append(sum('field="min"' in line for line in shown(metrics, "scheduler_elastic_quota_status{")))
    assert seen == [4, 8, 10, 10]
    teams.put(team_pod("p", "team3", "2", on="n0"))
    teams.delete(all_[5])
    teams.core.take_writes()
    scheduler_metrics.look(teams.core, teams.now_s)
    lines = shown(metrics, "scheduler_elastic_quota_status{")
    (used,) = [line for line in lines if 'name="team3"' in line and 'field="used"' in line]
    assert used.endswith(" 2000.0")
    assert not [line for line in lines if 'name="team5"' in line], "what is gone is told no more"


def test_the_accounting_of_quotas_is_timed_by_operation() -> None:
    metrics, teams = Metrics(process=False), Teams(100)
    scheduler_metrics = SchedulerMetrics(metrics)
    teams.core.cluster.ticks = SystemClock().monotonic
    a, pod = quota("a", "1", "10"), team_pod("p", "a")
    teams.put(a, pod)
    assert teams.settle() == {"p"}
    teams.delete(pod, a)
    scheduler_metrics.look(teams.core, teams.now_s)
    counts = {
        line.split('operation="')[1].split('"')[0]: float(line.rsplit(" ", 1)[1])
        for line in shown(metrics, "scheduler_elastic_quota_process_latency_count")
    }
    assert counts == {
        "UpdateQuota": 1.0, "OnPodAdd": 1.0, "OnPodUpdate": 1.0, "RefreshRuntime": 1.0, "OnPodDelete": 1.0,
        "DeleteQuota": 1.0,
    }  # fmt: skip
