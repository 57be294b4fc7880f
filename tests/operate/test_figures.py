"""The figures that alerts look at, made by what components count."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from prometheus_client.parser import text_string_to_metric_families

from koord.agent.live.reporting import Reporter
from koord.agent.report.report import Report
from koord.api.kinds import NODE_METRICS
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob
from koord.api.text.timestamp import from_seconds
from koord.descheduler.live.metrics import DeschedulerMetrics
from koord.kube.errors import Status, Unavailable
from koord.kube.metrics import Metrics
from koord.manager.live.metrics import ManagerMetrics
from koord.yarn.live.metrics import YarnMetrics

NOW = 1_800_000_000.0


def scraped(metrics: Metrics, name: str) -> dict[str, float]:
    """By the values of labels, in the order of their names."""
    return {
        "/".join(value for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
        if sample.name == name
    }


def test_nodes_are_counted_by_their_report() -> None:
    metrics = Metrics(process=False)
    manager = ManagerMetrics(metrics)
    manager.reported("n1", "", has_report=True)
    manager.reported("n2", "the NodeMetric is stale", has_report=True)
    manager.reported("n3", "the node has no NodeMetric", has_report=False)
    assert scraped(metrics, "koord_manager_nodes") == {"fresh": 1, "stale": 1, "missing": 1}
    manager.reported("n2", "", has_report=True)
    manager.forget("n3")
    assert scraped(metrics, "koord_manager_nodes") == {"fresh": 2, "stale": 0, "missing": 0}


def test_a_roll_out_that_stopped_is_told_until_it_is_gone() -> None:
    metrics = Metrics(process=False)
    manager = ManagerMetrics(metrics)
    manager.rolls_out("lending", 25, is_stopped=True)
    assert scraped(metrics, "koord_manager_rollout_stopped") == {"lending": 1}
    assert scraped(metrics, "koord_manager_rollout_percent") == {"lending": 25}
    manager.rolls_out("lending", None)
    assert scraped(metrics, "koord_manager_rollout_stopped") == {}


def test_jobs_that_have_not_ended_are_counted_and_the_oldest_that_runs_has_an_age() -> None:
    def job(name: str, phase: str, age_s: float) -> PodMigrationJob:
        meta = {"name": name, "creationTimestamp": from_seconds(NOW - age_s)}
        return convert(
            PodMigrationJob, {"metadata": meta, "spec": {"podRef": {"name": "p"}}, "status": {"phase": phase}}
        )

    jobs = [job("a", "Running", 60), job("b", "Running", 5000), job("c", "Pending", 9000), job("d", "Succeeded", 9999)]
    metrics = Metrics(process=False)
    DeschedulerMetrics(metrics).follow(lambda: jobs, lambda: NOW)
    assert scraped(metrics, "koord_descheduler_open_jobs") == {"New": 0, "Pending": 1, "Running": 2}
    assert scraped(metrics, "koord_descheduler_oldest_job_seconds") == {"": 5000}


def test_a_cap_of_yarn_that_is_not_seen_in_force_grows_old() -> None:
    metrics = Metrics(process=False)
    yarn = YarnMetrics(metrics)
    for now_s, is_open in ((0.0, False), (10.0, True), (400.0, True)):
        yarn.confirmed("c", "n1:8041", is_open=is_open, now_s=now_s)
    yarn.keep({("c", "n1:8041")})
    assert scraped(metrics, "koord_yarn_cap_unconfirmed_seconds") == {"c/n1:8041": 390}
    yarn.confirmed("c", "n1:8041", is_open=False, now_s=401.0)
    assert scraped(metrics, "koord_yarn_cap_unconfirmed_seconds") == {"c/n1:8041": 0}
    yarn.keep(set())
    assert scraped(metrics, "koord_yarn_cap_unconfirmed_seconds") == {}


def test_a_report_that_cannot_be_written_says_for_how_long() -> None:
    class Clock:
        now_s = 0.0

        def monotonic(self) -> float:
            return self.now_s

    class Client:
        fails = True

        async def patch(self, *args: object, **more: object) -> None:
            if self.fails:
                raise Unavailable(Status(message="away", code=503))

    clock, client = Clock(), Client()
    reporter = Reporter(cast("Any", client), cast("Any", clock), "n1", lambda: cast("Any", object()))
    report: Report[NodeMetric] = Report("usage", NODE_METRICS, lambda *_: {"status": {}}, lambda _: 60.0, 1.0)

    def tell() -> None:
        asyncio.run(reporter._tell(report, NodeMetric()))

    tell()
    clock.now_s = 100.0
    tell()
    assert reporter.failing_s() == {"usage": 100.0}
    client.fails = False
    tell()
    assert reporter.failing_s() == {"usage": 0.0}
