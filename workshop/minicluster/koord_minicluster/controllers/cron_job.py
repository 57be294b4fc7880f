"""CronJob: which Job is due now, which Jobs are deleted, and the status.

The Jobs themselves record the past runs: a Job's name contains its time, and its annotation has the exact time. So a
controller that is killed between creating a Job and recording it does not create a second one. A time counts as missed
until a Job for it exists; of several missed times only the latest is run, and none after `startingDeadlineSeconds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from koord.api.kinds import CRON_JOBS, JOBS
from koord.api.kubernetes.meta import ObjectReference
from koord.api.kubernetes.workloads import CronJob, CronJobStatus, Job
from koord.api.text.cron import CronError, Schedule
from koord.api.text.timestamp import TimestampError, from_seconds, parse_timestamp
from koord.api.workloads.cron_jobs import SCHEDULED_AT, job_name, new_job, schedule_of
from koord_minicluster.controllers import conditions
from koord_minicluster.controllers.actions import Action, Create, Delete, Plan, Tell
from koord_minicluster.controllers.job import is_finished
from koord_minicluster.controllers.status_patch import status_change, status_patch

MOST_MISSED: Final = 100
LONGEST_WAIT_S: Final = 60.0
"""Clocks are set and machines sleep: checking at this interval finds times that no timer fired for."""
_WINDOWS_S: Final = (120.0, 3_600.0, 86_400.0, 32 * 86_400.0, 400 * 86_400.0)


def decide(cron_job: CronJob, jobs: Sequence[Job], now_s: float) -> Plan:
    """`jobs`: those that the CronJob manages, finished ones among them."""
    meta = cron_job.metadata
    actions: list[Action] = [*_completed(cron_job, jobs)]
    change = status_change(cron_job.status, _status(cron_job, jobs))
    actions += status_patch(CRON_JOBS, meta, change)
    actions += _outlived(cron_job, jobs)
    if meta.deletion_timestamp is not None or cron_job.spec.suspend:
        return Plan(tuple(actions))
    try:
        schedule = schedule_of(cron_job)
    except CronError as error:
        note = f"unparseable schedule {cron_job.spec.schedule!r}: {error}"
        return Plan((*actions, Tell("UnparseableSchedule", note, "Warning")))
    actions += _due(cron_job, schedule, jobs, now_s)
    following_s = schedule.next_after(now_s)
    wait_s = None if following_s is None else min(LONGEST_WAIT_S, following_s - now_s)
    return Plan(tuple(actions), wait_s)


def _due(cron_job: CronJob, schedule: Schedule, jobs: Sequence[Job], now_s: float) -> list[Action]:
    """The Job for the latest time that has none, if it may start."""
    spec, meta = cron_job.spec, cron_job.metadata
    since_s = _last_run_s(cron_job, jobs)
    if since_s is None:
        since_s = _time_s(meta.creation_timestamp) or now_s
    deadline_s = spec.starting_deadline_seconds
    if deadline_s is not None:
        since_s = max(since_s, now_s - deadline_s)
    time_s = latest(schedule, since_s, now_s)
    if time_s is None or any(job.metadata.name == job_name(cron_job, time_s) for job in jobs):
        return []
    actions: list[Action] = []
    if _is_many(schedule, since_s, now_s):
        note = f"Missed more than {MOST_MISSED} start times; only the latest, {from_seconds(time_s)}, is made up for."
        actions.append(Tell("TooManyMissedTimes", note, "Warning"))
    active = [job for job in jobs if not is_finished(job)]
    if active and spec.concurrency_policy == "Forbid":
        actions.append(
            Tell("JobAlreadyActive", f"Not starting a job, because {active[0].metadata.name} is still active.")
        )
        return actions
    name = job_name(cron_job, time_s)
    replaced = [_delete(job) for job in active] if spec.concurrency_policy == "Replace" else []
    made = Create(JOBS, meta.namespace, new_job(cron_job, time_s))
    return [*actions, *replaced, made, Tell("SuccessfulCreate", f"Created job {name}")]


def latest(schedule: Schedule, since_s: float, now_s: float) -> float | None:
    """The last time after `since_s` that is not after `now_s`.

    Looked for in growing windows before now, so that a schedule of every minute and a year without a run costs no more
    than a few looks.
    """
    if schedule.every_s:
        periods = int(now_s - int(since_s)) // schedule.every_s
        return float(int(since_s) + periods * schedule.every_s) if periods > 0 else None
    for window_s in (*_WINDOWS_S, now_s - since_s):
        latest_s = None
        time_s = schedule.next_after(max(since_s, now_s - window_s))
        while time_s is not None and time_s <= now_s:
            latest_s, time_s = time_s, schedule.next_after(time_s)
        if latest_s is not None or window_s >= now_s - since_s:
            return latest_s
    return None


def _is_many(schedule: Schedule, since_s: float, now_s: float) -> bool:
    for _ in range(MOST_MISSED + 1):
        time_s = schedule.next_after(since_s)
        if time_s is None or time_s > now_s:
            return False
        since_s = time_s
    return True


def _last_run_s(cron_job: CronJob, jobs: Sequence[Job]) -> float | None:
    """The time of the last Job, as noted or as the Jobs themselves say."""
    times = [_time_s(cron_job.status.last_schedule_time), *(_scheduled_s(job) for job in jobs)]
    return max((time_s for time_s in times if time_s is not None), default=None)


def _scheduled_s(job: Job) -> float | None:
    return _time_s(job.metadata.annotations.get(SCHEDULED_AT))


def _status(cron_job: CronJob, jobs: Sequence[Job]) -> CronJobStatus:
    old = cron_job.status
    last_s = _last_run_s(cron_job, jobs)
    ends = [job.status.completion_time for job in jobs if conditions.is_true(job.status.conditions, "Complete")]
    successes = [end for end in (old.last_successful_time, *ends) if end]
    return CronJobStatus(
        active=tuple(_reference(job) for job in sorted(jobs, key=_age) if not is_finished(job)),
        last_schedule_time=from_seconds(last_s) if last_s is not None else None,
        last_successful_time=max(successes, key=lambda end: _time_s(end) or 0.0, default=None),
    )


def _completed(cron_job: CronJob, jobs: Sequence[Job]) -> list[Tell]:
    """Jobs that were active when last noted, and have ended or are gone."""
    by_uid = {job.metadata.uid: job for job in jobs}
    events = []
    for reference in cron_job.status.active:
        job = by_uid.get(reference.uid)
        if job is None:
            events.append(Tell("MissingJob", f"Active job went missing: {reference.name}"))
        elif is_finished(job):
            how = "Complete" if conditions.is_true(job.status.conditions, "Complete") else "Failed"
            events.append(Tell("SawCompletedJob", f"Saw completed job: {job.metadata.name}, condition: {how}"))
    return events


def _outlived(cron_job: CronJob, jobs: Sequence[Job]) -> list[Delete]:
    """Finished Jobs beyond the history limits, the oldest first."""
    spec = cron_job.spec
    finished = sorted((job for job in jobs if is_finished(job)), key=_age)
    going = []
    for type_, limit in (("Complete", spec.successful_jobs_history_limit), ("Failed", spec.failed_jobs_history_limit)):
        ended = [job for job in finished if conditions.is_true(job.status.conditions, type_)]
        if limit is not None:
            going += [_delete(job) for job in ended[: max(0, len(ended) - limit)]]
    return going


def _delete(job: Job) -> Delete:
    meta = job.metadata
    return Delete(JOBS, meta.namespace, meta.name, meta.uid, propagation="Background")


def _reference(job: Job) -> ObjectReference:
    meta = job.metadata
    return ObjectReference(JOBS.api_version, JOBS.kind, meta.namespace, meta.name, meta.uid)


def _age(job: Job) -> tuple[float, str]:
    return _scheduled_s(job) or _time_s(job.metadata.creation_timestamp) or 0.0, job.metadata.name


def _time_s(text: str | None) -> float | None:
    try:
        return parse_timestamp(text) if text else None
    except TimestampError:
        return None
