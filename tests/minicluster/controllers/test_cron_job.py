"""CronJobs: which Job is due, by the existing Jobs and the time."""

from __future__ import annotations

import random
from typing import Any

import pytest

from koord.api.kinds import CRON_JOBS, JOBS
from koord.api.kubernetes.workloads import CronJob, Job
from koord.api.machinery.codec import convert
from koord.api.text.cron import parse
from koord.api.text.timestamp import from_seconds, parse_timestamp
from koord_minicluster.controllers.actions import Create, Delete, Patch, Plan, Tell
from koord_minicluster.controllers.cron_job import decide, latest

MADE_S = parse_timestamp("2026-11-15T04:00:30Z")
MINUTE_S = 60.0


def cron_job(status: dict[str, Any] | None = None, **spec: Any) -> CronJob:
    pod = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": pod}}}, **spec}
    metadata = {"name": "tick", "namespace": "shop", "uid": "u", "creationTimestamp": from_seconds(MADE_S)}
    return convert(CRON_JOBS.type, {"metadata": metadata, "spec": spec, "status": status or {}})


def job(body: Any, end: str = "", at_s: float = 0.0) -> Job:
    """A new Job; with its end."""
    status = {}
    if end:
        status = {"conditions": [{"type": end, "status": "True"}], "completionTime": from_seconds(at_s)}
    name = body["metadata"]["name"]
    return convert(JOBS.type, {**body, "metadata": {**body["metadata"], "uid": name}, "status": status})


def created(plan: Plan) -> list[Any]:
    return [action.body for action in plan.actions if isinstance(action, Create)]


def reasons(plan: Plan) -> list[str]:
    return [action.reason for action in plan.actions if isinstance(action, Tell)]


def test_a_job_is_made_at_its_time_and_not_before() -> None:
    given = cron_job()
    early = decide(given, [], MADE_S + 10)
    assert not early.actions
    assert early.again_in_s == 20.0
    (body,) = created(decide(given, [], MADE_S + 31))
    minutes = int(parse_timestamp("2026-11-15T04:01:00Z")) // 60
    assert body["metadata"]["name"] == f"tick-{minutes}"
    assert body["metadata"]["ownerReferences"][0]["uid"] == "u"


def test_a_job_that_was_made_and_not_noted_is_noted_and_not_made_again() -> None:
    given = cron_job()
    (body,) = created(decide(given, [], MADE_S + 31))
    plan = decide(given, [job(body)], MADE_S + 40)
    assert not created(plan)
    (patch,) = (action for action in plan.actions if isinstance(action, Patch))
    assert patch.body["status"]["lastScheduleTime"] == "2026-11-15T04:01:00Z"
    assert [each["name"] for each in patch.body["status"]["active"]] == [body["metadata"]["name"]]


def test_of_missed_times_only_the_latest_is_made_up_for() -> None:
    plan = decide(cron_job(), [], MADE_S + 90 * MINUTE_S)
    assert [body["metadata"]["annotations"] for body in created(plan)] == [
        {"batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-11-15T05:30:00Z"}
    ]
    assert "TooManyMissedTimes" not in reasons(plan)
    assert "TooManyMissedTimes" in reasons(decide(cron_job(), [], MADE_S + 200 * MINUTE_S))


def test_a_time_is_lost_after_the_starting_deadline() -> None:
    given = cron_job(schedule="0 * * * *", startingDeadlineSeconds=60)
    hour_s = parse_timestamp("2026-11-15T05:00:00Z")
    assert created(decide(given, [], hour_s + 59))
    assert not created(decide(given, [], hour_s + 61))


@pytest.mark.parametrize(
    ("policy", "makes", "deletes"), [("Allow", True, False), ("Forbid", False, False), ("Replace", True, True)]
)
def test_a_job_that_still_runs_counts_by_the_concurrency_policy(policy: str, makes: bool, deletes: bool) -> None:
    given = cron_job(concurrencyPolicy=policy)
    running = job(created(decide(given, [], MADE_S + 31))[0])
    plan = decide(given, [running], MADE_S + 91)
    assert bool(created(plan)) == makes
    assert any(isinstance(action, Delete) for action in plan.actions) == deletes
    assert ("JobAlreadyActive" in reasons(plan)) == (policy == "Forbid")


def test_nothing_starts_while_it_is_suspended() -> None:
    plan = decide(cron_job(suspend=True), [], MADE_S + 600)
    assert not plan.actions
    assert plan.again_in_s is None


def test_finished_jobs_are_kept_up_to_the_history_limits() -> None:
    given = cron_job(successfulJobsHistoryLimit=2, failedJobsHistoryLimit=0, suspend=True)
    bodies = [created(decide(cron_job(), [], MADE_S + 31 + 60 * i))[0] for i in range(5)]
    ends = ["Complete", "Complete", "Failed", "Complete", ""]
    jobs = [job(body, end, MADE_S + 60 * i) for i, (body, end) in enumerate(zip(bodies, ends, strict=True))]
    plan = decide(given, jobs, MADE_S + 600)
    gone = {action.name for action in plan.actions if isinstance(action, Delete)}
    assert gone == {jobs[0].metadata.name, jobs[2].metadata.name}


def test_a_schedule_that_cannot_be_read_is_told_and_nothing_starts() -> None:
    plan = decide(cron_job(schedule="soon"), [], MADE_S + 600)
    assert reasons(plan) == ["UnparseableSchedule"]


def test_the_latest_time_of_a_year_of_minutes_is_found_at_once() -> None:
    looks = 0
    schedule = parse("* * * * *")

    class Counting:
        every_s = 0

        def next_after(self, time_s: float) -> float | None:
            nonlocal looks
            looks += 1
            return schedule.next_after(time_s)

    now_s = MADE_S + 365 * 86_400
    assert latest(Counting(), MADE_S, now_s) == now_s - 30  # type: ignore[arg-type]  # counts how often it is asked
    assert looks < 10


@pytest.mark.parametrize("policy", ["Allow", "Forbid", "Replace"])
def test_a_controller_that_is_killed_after_any_action_runs_no_time_twice(policy: str) -> None:
    """An hour of ticks. Each decision is carried out up to some action, then a new controller takes over."""
    chance = random.Random(12)
    given = cron_job(concurrencyPolicy=policy)
    jobs: dict[str, Job] = {}
    ever: list[str] = []
    now_s = MADE_S
    while now_s < MADE_S + 3600:
        plan = decide(given, list(jobs.values()), now_s)
        for action in plan.actions[: chance.randint(0, len(plan.actions))]:
            if isinstance(action, Create):
                made = job(action.body)
                ever.append(made.metadata.name)
                jobs[made.metadata.name] = made
            elif isinstance(action, Delete):
                del jobs[action.name]
            elif isinstance(action, Patch):
                given = cron_job({**_status(given), **action.body["status"]}, concurrencyPolicy=policy)
        for name, each in list(jobs.items()):
            if chance.random() < 0.1 and not each.status.conditions:
                body = {"metadata": {"name": name, "annotations": dict(each.metadata.annotations)}}
                jobs[name] = job(body, "Complete", now_s)
        now_s += chance.choice((0.5, 5.0, 20.0, 61.0))
    assert len(ever) == len(set(ever))
    assert len(ever) > 10


def _status(given: CronJob) -> dict[str, Any]:
    manifest: dict[str, Any] = CRON_JOBS.manifest(given)
    return dict(manifest.get("status") or {})
