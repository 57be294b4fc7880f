from __future__ import annotations

from koord.api.configuration.descheduler_args import MigrationControllerArgs
from koord.api.kubernetes.meta import ObjectMeta, ObjectReference
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob, PodMigrationJobSpec
from koord.api.text.timestamp import from_seconds
from koord.descheduler.arbitration import arbitrate
from koord.descheduler.job_request import move_name, sorted_out
from koord.descheduler.rules import Rules
from koord.descheduler.workloads import workloads_of
from tests.descheduler.build import NOW_S, deployment, pod


def test_two_that_see_the_same_jobs_of_a_pod_name_the_next_one_alike() -> None:
    assert move_name("uid", ["first", "second"]) == move_name("uid", ["second", "first"])
    names = {move_name("uid", []), move_name("uid", ["first"]), move_name("other", [])}
    assert len(names) == 3


def test_a_second_job_for_a_pod_waits_and_names_the_first() -> None:
    moved = pod("web-1", "a")
    jobs = [
        PodMigrationJob(
            metadata=ObjectMeta(name=name, uid=name, creation_timestamp=from_seconds(NOW_S - age_s)),
            spec=PodMigrationJobSpec(pod_ref=ObjectReference(namespace="default", name="web-1")),
        )
        for name, age_s in (("young", 1.0), ("old", 9.0))
    ]
    rules = Rules.of(MigrationControllerArgs().completed())
    asked, moves = sorted_out(jobs, {"default/web-1": moved}.get, NOW_S, lambda _: rules)
    rulings = {
        ruling.request.name: ruling for ruling in arbitrate(asked, workloads_of(deployment("web", 9), [moved]), moves)
    }
    assert rulings["old"].outcome == "passes"
    assert rulings["young"].outcome == "waits"
    assert "PodMigrationJob old" in rulings["young"].why
