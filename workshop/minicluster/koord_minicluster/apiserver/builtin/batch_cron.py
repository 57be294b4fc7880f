"""CronJobs: a schedule in cron's five fields, and the job to make at each time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from zoneinfo import available_timezones

from koord.api.kubernetes.workload_defaults import default_cron_job
from koord.api.text import cron
from koord_minicluster.apiserver.builtin.apps import new_generation
from koord_minicluster.apiserver.builtin.batch import validate_job_spec
from koord_minicluster.apiserver.builtin.checks import Faults, Part, not_negative, one_of, selector_value
from koord_minicluster.apiserver.builtin.pod_warnings import template_warnings
from koord_minicluster.apiserver.builtin.statuses import blank_status
from koord_minicluster.apiserver.printing import (
    AGE,
    NAME,
    NONE,
    UNSET,
    at,
    of,
    selector_text,
    since,
    template_columns,
    text,
)
from koord_minicluster.apiserver.resource import Column, Obj, Strategy
from koord_minicluster.apiserver.status import Cause, invalid, not_supported, required

_ZONE_PART: Final = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")
_LONGEST_NAME: Final = 52


def schedule_fault(schedule: str) -> str | None:
    """Why a text is no schedule."""
    try:
        cron.parse(schedule)
    except cron.CronError as error:
        return str(error)
    return None


def _validate(obj: Obj, old: Obj | None) -> Faults:
    faults: Faults = []
    spec = obj["spec"]
    was = old["spec"] if old else {}
    _schedule(faults, spec, was)
    not_negative(faults, spec, ("startingDeadlineSeconds",), "spec")
    if spec.get("timeZone") != was.get("timeZone"):
        _time_zone(faults, spec.get("timeZone"))
    one_of(faults, "spec.concurrencyPolicy", spec.get("concurrencyPolicy", ""), ("Allow", "Forbid", "Replace"))
    job_spec = (spec.get("jobTemplate") or {}).get("spec") or {}
    validate_job_spec(faults, {"completionMode": "NonIndexed", **job_spec}, "spec.jobTemplate.spec")
    if job_spec.get("selector") is not None:
        text_ = "`selector` will be auto-generated"
        faults.append(invalid("spec.jobTemplate.spec.selector", selector_value(job_spec["selector"]), text_))
    if job_spec.get("manualSelector"):
        faults.append(not_supported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false")))
    not_negative(faults, spec, ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"), "spec")
    return faults


def _schedule(faults: Faults, spec: Part, was: Part) -> None:
    schedule = spec.get("schedule", "")
    if not schedule:
        faults.append(required("spec.schedule"))
        return
    if fault := schedule_fault(schedule):
        faults.append(invalid("spec.schedule", schedule, fault))
    if "TZ" in schedule:
        if "TZ" not in was.get("schedule", ""):
            text_ = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            faults.append(invalid("spec.schedule", schedule, text_))
        elif spec.get("timeZone") is not None:
            text_ = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
            faults.append(invalid("spec.schedule", schedule, text_))


def _time_zone(faults: Faults, zone: str | None) -> None:
    path = "spec.timeZone"
    if zone is None:
        return
    if not zone:
        faults.append(invalid(path, zone, "timeZone must be nil or non-empty string"))
        return
    parts = zone.split("/")
    if any(p in (".", "..") or p.startswith("-") or not _ZONE_PART.fullmatch(p) for p in parts):
        faults.append(invalid(path, zone, f"unknown time zone {zone}"))
    elif zone.lower() == "local":
        text_ = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        faults.append(invalid(path, zone, text_))
    elif zone not in available_timezones():
        faults.append(invalid(path, zone, f"unknown time zone {zone}"))


def validate_create(obj: Obj) -> Sequence[Cause]:
    faults = _validate(obj, None)
    name = obj["metadata"].get("name", "")
    if len(name) > _LONGEST_NAME:
        faults.append(invalid("metadata.name", name, f"must be no more than {_LONGEST_NAME} characters"))
    return faults


def _last_schedule(obj: Obj, now_s: float) -> str:
    last = (obj.get("status") or {}).get("lastScheduleTime")
    return since(last, now_s) if last else NONE


def _job_selector(obj: Obj) -> str:
    return selector_text(((obj["spec"].get("jobTemplate") or {}).get("spec") or {}).get("selector"))


def _suspended(obj: Obj) -> str:
    suspended = obj["spec"].get("suspend")
    return UNSET if suspended is None else "True" if suspended else "False"


CRON_JOB: Final = Strategy(
    default=default_cron_job,
    prepare_create=blank_status("batch", "v1", "CronJob"),
    validate_create=validate_create,
    validate_update=_validate,
    warnings=lambda obj: template_warnings(
        ((obj["spec"].get("jobTemplate") or {}).get("spec") or {}).get("template"), "spec.jobTemplate.spec.template"
    ),
    warns_again=new_generation,
    columns=(
        NAME,
        text("Schedule", at("spec", "schedule")),
        text("Timezone", at("spec", "timeZone", default=NONE)),
        Column("Suspend", "boolean", of(_suspended)),
        Column("Active", "integer", of(lambda o: len((o.get("status") or {}).get("active") or ()))),
        text("Last Schedule", _last_schedule),
        AGE,
        *template_columns("spec", "jobTemplate", "spec", "template"),
        text("Selector", of(_job_selector), 1),
    ),
)
