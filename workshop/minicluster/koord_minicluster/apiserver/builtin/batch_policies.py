"""When a job has failed or succeeded: its policies, and what its status may say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from koord.api.text import formats
from koord.api.text.timestamp import parse_timestamp
from koord.api.text.whole_number import whole_number
from koord_minicluster.apiserver.builtin.checks import Faults, Part, add_all
from koord_minicluster.apiserver.builtin.statuses import counters
from koord_minicluster.apiserver.resource import Obj
from koord_minicluster.apiserver.status import Cause, duplicate, invalid, not_supported, required, too_many

_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_STATUSES: Final = ("False", "True", "Unknown")
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")


def _quoted(values: Sequence[str]) -> str:
    """As Go prints a list of strings with %q."""
    return "[" + " ".join(f'"{value}"' for value in values) + "]"


def _omitted(path: str, text: str) -> Cause:
    return Cause(path, "FieldValueInvalid", f"Invalid value: {text}")


def validate_failure_policy(faults: Faults, spec: Part, path: str) -> None:
    rules = spec["podFailurePolicy"].get("rules") or ()
    if len(rules) > 20:
        faults.append(too_many(f"{path}.rules", len(rules), 20))
    pod_spec = (spec.get("template") or {}).get("spec") or {}
    containers = (*(pod_spec.get("containers") or ()), *(pod_spec.get("initContainers") or ()))
    names = {container.get("name") for container in containers}
    for i, rule in enumerate(rules):
        _failure_rule(faults, spec, rule, f"{path}.rules[{i}]", names)


def _failure_rule(faults: Faults, spec: Part, rule: Part, path: str, names: set[str | None]) -> None:
    action = rule.get("action", "")
    if not action:
        faults.append(required(f"{path}.action", f"valid values: {_quoted(_ACTIONS)}"))
    elif action not in _ACTIONS:
        faults.append(not_supported(f"{path}.action", action, _ACTIONS))
    elif action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        faults.append(invalid(f"{path}.action", action, "requires the backoffLimitPerIndex to be set"))
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or ()
    if codes is not None:
        _exit_codes(faults, codes, f"{path}.onExitCodes", names)
    for i, pattern in enumerate(conditions):
        where = f"{path}.onPodConditions[{i}]"
        add_all(faults, f"{where}.type", pattern.get("type", ""), formats.label_key(pattern.get("type", "")))
        if pattern.get("status") not in _STATUSES:
            faults.append(not_supported(f"{where}.status", pattern.get("status", ""), _STATUSES))
    if codes is not None and conditions:
        faults.append(_omitted(path, "specifying both OnExitCodes and OnPodConditions is not supported"))
    if codes is None and not conditions:
        faults.append(_omitted(path, "specifying one of OnExitCodes and OnPodConditions is required"))


def _exit_codes(faults: Faults, codes: Part, path: str, names: set[str | None]) -> None:
    operator, values = codes.get("operator", ""), codes.get("values") or []
    if not operator:
        faults.append(required(f"{path}.operator", f"valid values: {_quoted(('In', 'NotIn'))}"))
    elif operator not in ("In", "NotIn"):
        faults.append(not_supported(f"{path}.operator", operator, ("In", "NotIn")))
    container = codes.get("containerName")
    if container is not None and container not in names:
        text = "must be one of the container or initContainer names in the pod template"
        faults.append(invalid(f"{path}.containerName", container, text))
    if not values:
        faults.append(invalid(f"{path}.values", values, "at least one value is required"))
    elif len(values) > 255:
        faults.append(too_many(f"{path}.values", len(values), 255))
    seen: set[int] = set()
    for i, code in enumerate(values):
        if operator == "In" and code == 0:
            faults.append(invalid(f"{path}.values[{i}]", code, "must not be 0 for the In operator"))
        if code in seen:
            faults.append(duplicate(f"{path}.values[{i}]", code))
        seen.add(code)
    if sorted(values) != values:
        faults.append(invalid(f"{path}.values", values, "must be ordered"))


def validate_success_policy(faults: Faults, spec: Part, path: str) -> None:
    policy = spec["successPolicy"]
    if spec.get("completionMode") != "Indexed":
        faults.append(invalid(path, shown_success_policy(policy), "requires indexed completion mode"))
        return
    rules = policy.get("rules") or ()
    if not rules:
        text = "at least one rules must be specified when the successPolicy is specified"
        faults.append(required(f"{path}.rules", text))
    if len(rules) > 20:
        faults.append(too_many(f"{path}.rules", len(rules), 20))
    completions = spec.get("completions") or 0
    for i, rule in enumerate(rules):
        where, count = f"{path}.rules[{i}]", rule.get("succeededCount")
        if count is None and rule.get("succeededIndexes") is None:
            text = "at least one of succeededCount or succeededIndexes must be specified"
            faults.append(required(where, text))
        total = 0
        if (indexes := rule.get("succeededIndexes")) is not None:
            total, wrong = _indexes(indexes, completions)
            if wrong:
                text = f"error parsing succeededIndexes: {wrong}"
                faults.append(invalid(f"{where}.succeededIndexes", indexes, text))
        if count is not None:
            if count < 0:
                faults.append(invalid(f"{where}.succeededCount", count, "must be greater than or equal to 0"))
            if count > completions:
                text = f"must be less than or equal to {completions} (the number of specified completions)"
                faults.append(invalid(f"{where}.succeededCount", count, text))
            if indexes is not None and count > total:
                which = "the number of indexes in the specified succeededIndexes field"
                text = f"must be less than or equal to {total} ({which})"
                faults.append(invalid(f"{where}.succeededCount", count, text))


def _indexes(text: str, completions: int) -> tuple[int, str]:
    """How many indexes a text like `0-2,5` names, or what is wrong with it."""
    total, last = 0, -1
    for piece in text.split(",") if text else ():
        limits = piece.split("-")
        if len(limits) > 2:
            rule = "violates the requirement that an index interval can have at most two parts separated by '-'"
            return 0, f'the fragment "{piece}" {rule}'
        numbers: list[int] = []
        for limit in limits:
            if not _INTEGER.fullmatch(limit):
                return 0, f'cannot convert string to integer for index: "{limit}"'
            if whole_number(limit) >= completions:
                return 0, f'too large index: "{limit}"'
            if numbers and numbers[0] >= whole_number(limit):
                return 0, f"non-increasing order, previous: {numbers[0]}, current: {limit}"
            numbers.append(whole_number(limit))
        if last >= numbers[0]:
            return 0, f"non-increasing order, previous: {last}, current: {numbers[0]}"
        last = numbers[-1]
        total += last - numbers[0] + 1
    return total, ""


def shown_success_policy(policy: Part | None) -> dict[str, object] | None:
    """As Go's encoder prints it, with its own field names."""
    if policy is None:
        return None
    rules = [
        {"SucceededIndexes": rule.get("succeededIndexes"), "SucceededCount": rule.get("succeededCount")}
        for rule in policy.get("rules") or ()
    ]
    return {"Rules": rules}


def shown_failure_policy(policy: Part | None) -> dict[str, object] | None:
    if policy is None:
        return None
    rules = []
    for rule in policy.get("rules") or ():
        codes = rule.get("onExitCodes")
        rules.append(
            {
                "Action": rule.get("action", ""),
                "OnExitCodes": codes
                and {
                    "ContainerName": codes.get("containerName"),
                    "Operator": codes.get("operator", ""),
                    "Values": codes.get("values"),
                },
                "OnPodConditions": [
                    {"Type": condition.get("type", ""), "Status": condition.get("status", "")}
                    for condition in rule.get("onPodConditions") or ()
                ],
            }
        )
    return {"Rules": rules}


def validate_job_status(new: Obj, old: Obj) -> Sequence[Cause]:
    """A rule is asked only where what it speaks of changes, so that an older wrong does not block what is right."""
    faults: Faults = []
    status, was, spec = new.get("status") or {}, old.get("status") or {}, new["spec"]
    counters(faults, status, ("active", "succeeded", "failed", "ready", "terminating"))
    true, true_before = _true_conditions(status), _true_conditions(was)
    turned = true ^ true_before
    changed = {key for key in {*status, *was} if status.get(key) != was.get(key)}
    finished = bool(true & {"Complete", "Failed"})
    turned_finished = finished != bool(true_before & {"Complete", "Failed"})
    _conditions(faults, true, turned, spec)
    _times(faults, status, true, turned, changed)
    if finished:
        if status.get("active", 0) > 0 and (turned_finished or "active" in changed):
            faults.append(invalid("status.active", status["active"], "active>0 is invalid for finished job"))
        if not status.get("startTime") and (turned_finished or "startTime" in changed):
            faults.append(required("status.startTime", "startTime is required for finished job"))
        if (status.get("terminating") or 0) > 0 and (turned_finished or "terminating" in changed):
            text = "terminating>0 is invalid for finished job"
            faults.append(invalid("status.terminating", status["terminating"], text))
    if (status.get("ready") or 0) > status.get("active", 0) and changed & {"ready", "active"}:
        faults.append(invalid("status.ready", status["ready"], "cannot set more ready pods than active"))
    if status.get("completedIndexes") and spec.get("completionMode") != "Indexed" and "completedIndexes" in changed:
        text = "cannot set non-empty completedIndexes when non-indexed completion mode"
        faults.append(invalid("status.completedIndexes", status["completedIndexes"], text))
    _stays(faults, status, was, true, true_before, spec)
    return faults


def _conditions(faults: Faults, true: set[str], turned: set[str], spec: Part) -> None:
    path = "status.conditions"
    for failure in ("Failed", "FailureTarget"):
        if {"Complete", failure} <= true and turned & {"Complete", failure}:
            faults.append(_omitted(path, f"cannot set Complete=True and {failure}=true conditions"))
        if {"SuccessCriteriaMet", failure} <= true:
            faults.append(_omitted(path, f"cannot set SuccessCriteriaMet=True and {failure}=true conditions"))
    if "Failed" in true and "FailureTarget" not in true and "Failed" in turned:
        text = "cannot set Failed=True condition without the FailureTarget=true condition"
        faults.append(_omitted(path, text))
    if "Complete" in true and "SuccessCriteriaMet" not in true:
        if turned & {"Complete", "SuccessCriteriaMet"}:
            text = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
            faults.append(_omitted(path, text))
        if spec.get("successPolicy") is not None:
            text = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
            faults.append(_omitted(path, text))


def _times(faults: Faults, status: Part, true: set[str], turned: set[str], changed: set[str]) -> None:
    completed, started, path = status.get("completionTime"), status.get("startTime"), "status.completionTime"
    if "Complete" in turned or "completionTime" in changed:
        if completed and "Complete" not in true:
            text = "cannot set completionTime when there is no Complete=True condition"
            faults.append(invalid(path, completed, text))
        if "Complete" in true and not completed:
            faults.append(required(path, "completionTime is required for Complete jobs"))
    moved = changed & {"completionTime", "startTime"}
    if moved and completed and started and parse_timestamp(completed) < parse_timestamp(started):
        faults.append(invalid(path, completed, "must be equal to or after `startTime`"))


def _stays(faults: Faults, status: Part, was: Part, true: set[str], true_before: set[str], spec: Part) -> None:
    for kind in ("Failed", "Complete", "FailureTarget"):
        if kind in true_before and kind not in true:
            faults.append(_omitted("status.conditions", f"cannot disable the terminal {kind}=True condition"))
    for key in ("failed", "succeeded"):
        if status.get(key, 0) < was.get(key, 0):
            faults.append(invalid(f"status.{key}", status.get(key, 0), f"cannot decrease the {key} counter"))
    before = was.get("completionTime")
    if before and status.get("completionTime") and status["completionTime"] != before:
        faults.append(invalid("status.completionTime", status["completionTime"], "field is immutable"))
    if was.get("startTime") and status.get("startTime") != was["startTime"] and not spec.get("suspend"):
        faults.append(required("status.startTime", "startTime cannot be removed for unsuspended job"))
    if "SuccessCriteriaMet" in true_before and "SuccessCriteriaMet" not in true:
        faults.append(_omitted("status.conditions", "cannot disable the SuccessCriteriaMet=True condition"))


def _true_conditions(status: Part) -> set[str]:
    return {
        condition.get("type", "") for condition in status.get("conditions") or () if condition.get("status") == "True"
    }
