"""The Job of one time of a CronJob's schedule. Its name says the time, so that no time can have two Jobs."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from koord.api.kinds import CRON_JOBS
from koord.api.kubernetes.workloads import CronJob
from koord.api.text import cron
from koord.api.text.timestamp import from_seconds
from koord.api.workloads.new_pods import managing, reference_body

SCHEDULED_AT: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"


def schedule_of(given: CronJob) -> cron.Schedule:
    """Raises CronError."""
    return cron.parse(given.spec.schedule, given.spec.time_zone)


def job_name(given: CronJob, time_s: float) -> str:
    """With the minutes since 1970."""
    return f"{given.metadata.name}-{int(time_s) // 60}"


def new_job(given: CronJob, time_s: float) -> dict[str, Any]:
    template = given.spec.job_template
    written = template.get("metadata") or {}
    schedule = schedule_of(given)
    shown = from_seconds(time_s) if schedule.zone is None else _in_zone(time_s, schedule)
    metadata: dict[str, Any] = {
        "name": job_name(given, time_s),
        "annotations": {**(written.get("annotations") or {}), SCHEDULED_AT: shown},
        "ownerReferences": [reference_body(managing(CRON_JOBS, given.metadata))],
    }
    if written.get("labels"):
        metadata["labels"] = written["labels"]
    return {"metadata": metadata, "spec": template.get("spec") or {}}


def _in_zone(time_s: float, schedule: cron.Schedule) -> str:
    return datetime.fromtimestamp(time_s, schedule.zone).isoformat(timespec="seconds")
