"""Events, in both of their forms: what happened to an object, and which component reported it.

An event with `eventTime` has the newer form, which requires the reporting component and the action.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from koord.api.text import formats
from koord_minicluster.apiserver.builtin.checks import Faults, add_all, immutable
from koord_minicluster.apiserver.builtin.event_forms import CORE, EVENTS, convert
from koord_minicluster.apiserver.printing import UNKNOWN, at, name, of, since, text
from koord_minicluster.apiserver.resource import Column, Obj, Strategy
from koord_minicluster.apiserver.status import Cause, invalid, required

_LIMITS: Final = (("reportingInstance", 128), ("action", 128), ("reason", 128))
_LONGEST_NOTE: Final = 1024
_FIXED: Final = (
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "reason", "type",
    "eventTime", "action", "related", "reportingComponent", "reportingInstance",
)  # fmt: skip
"""What a newer event keeps. The real server looks at the reason twice, and says so."""
_PARTS: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_CORE_FIELDS: Final = frozenset(
    {"reason", "type", "source", "reportingComponent", *(f"involvedObject.{p}" for p in _PARTS)}
)
_EVENTS_FIELDS: Final = frozenset({"reason", "type", "reportingController", *(f"regarding.{part}" for part in _PARTS)})
_SHOWN_AS: Final = {"reportingComponent": "reportingController"}


def validate(event: Obj) -> Sequence[Cause]:
    newer = event.get("apiVersion") == EVENTS
    event = convert(event, CORE)
    faults: Faults = []
    namespace = event["metadata"].get("namespace", "")
    about = (event.get("involvedObject") or {}).get("namespace", "")
    wrong = invalid("involvedObject.namespace", about, "does not match event.namespace")
    if not event.get("eventTime"):
        if (about and about != namespace) or (not about and namespace not in ("", "default")):
            faults.append(wrong)
        return faults
    if not about and namespace not in ("default", "kube-system"):
        faults.append(wrong)
    reporter, path = event.get("reportingComponent", ""), "reportingController" if newer else "reportingComponent"
    if not reporter:
        faults.append(required(path))
    add_all(faults, path, reporter, formats.label_key(reporter))
    for key, longest in _LIMITS:
        value = event.get(key, "")
        if not value:
            faults.append(required(key))
        if len(value) > longest:
            faults.append(invalid(key, "", f"can have at most {longest} characters"))
    if len(event.get("message", "")) > _LONGEST_NOTE:
        faults.append(invalid("message", "", f"can have at most {_LONGEST_NOTE} characters"))
    return faults


def validate_create(event: Obj) -> Sequence[Cause]:
    """What holds of new events that come in the newer form."""
    if event.get("apiVersion") != EVENTS:
        return ()
    event = convert(event, CORE)
    faults: Faults = []
    _series(faults, event)
    if not event.get("eventTime"):
        faults.append(required("eventTime"))
    if event.get("type") not in ("Normal", "Warning"):
        faults.append(invalid("type", "", f"has invalid value: {event.get('type', '')}"))
    for key in ("firstTimestamp", "lastTimestamp", "count", "source"):
        if event.get(key):
            faults.append(invalid(key, "", "needs to be unset"))
    return faults


def _series(faults: Faults, event: Obj) -> None:
    series = event.get("series")
    if series is not None:
        if series.get("count", 0) < 2:
            faults.append(invalid("series.count", "", "should be at least 2"))
        if not series.get("lastObservedTime"):
            faults.append(required("series.lastObservedTime"))


def validate_update(new: Obj, old: Obj) -> Sequence[Cause]:
    if new.get("apiVersion") != EVENTS:
        return ()
    new, old = convert(new, CORE), convert(old, CORE)
    faults: Faults = []
    if new.get("series") != old.get("series"):
        _series(faults, new)
    immutable(faults, new, old, _FIXED, "")
    return [Cause(_SHOWN_AS.get(fault.field, fault.field), fault.reason, fault.message) for fault in faults]


def fields(event: Obj) -> Mapping[str, str]:
    """By the names of both forms, since both lists are made from one index."""
    event = convert(event, CORE)
    about, reporter = event.get("involvedObject") or {}, event.get("reportingComponent", "")
    values = {"reason": event.get("reason", ""), "type": event.get("type", "")}
    for part in _PARTS:
        values[f"involvedObject.{part}"] = values[f"regarding.{part}"] = about.get(part, "")
    values["reportingComponent"] = values["reportingController"] = reporter
    values["source"] = (event.get("source") or {}).get("component") or reporter
    return values


def _first_seen(event: Obj, now_s: float) -> str:
    event = convert(event, CORE)
    return since(event.get("firstTimestamp") or event.get("eventTime"), now_s)


def _last_seen(event: Obj, now_s: float) -> str:
    event = convert(event, CORE)
    if (series := event.get("series")) is not None:
        return since(series.get("lastObservedTime"), now_s)
    seen = since(event.get("lastTimestamp"), now_s)
    return _first_seen(event, now_s) if seen == UNKNOWN else seen


def _object(event: Obj) -> str:
    about = convert(event, CORE).get("involvedObject") or {}
    kind = about.get("kind", "").lower()
    return f"{kind}/{about['name']}" if about.get("name") else kind


def _source(event: Obj) -> str:
    event = convert(event, CORE)
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent", "")
    instance = source.get("host") or event.get("reportingInstance", "")
    return f"{component}, {instance}" if instance else component


def _count(event: Obj) -> int:
    event = convert(event, CORE)
    series = event.get("series")
    return int(series.get("count", 0)) if series is not None else event.get("count") or 1


def _field_path(event: Obj) -> str:
    return str((convert(event, CORE).get("involvedObject") or {}).get("fieldPath", ""))


def _message(event: Obj) -> str:
    return str(convert(event, CORE).get("message", "")).strip()


CORE_EVENT: Final = Strategy(
    has_dependents=False,
    validate=validate,
    validate_create=validate_create,
    validate_update=validate_update,
    fields=fields,
    selectable=_CORE_FIELDS,
    columns=(
        text("Last Seen", _last_seen),
        text("Type", at("type")),
        text("Reason", at("reason")),
        text("Object", of(_object)),
        text("Subobject", of(_field_path), 1),
        text("Source", of(_source), 1),
        text("Message", of(_message)),
        text("First Seen", _first_seen, 1),
        text("Count", of(_count), 1),
        Column("Name", "string", name, format="name", priority=1),
    ),
    has_status=False,
    has_generation=False,
    allow_create_on_update=True,
)
EVENTS_EVENT: Final = replace(CORE_EVENT, selectable=_EVENTS_FIELDS)
