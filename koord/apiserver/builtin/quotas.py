"""LimitRanges and ResourceQuotas, which are kept for the tools that read them; and templates of pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from koord.apiserver.builtin.checks import Faults, not_negative
from koord.apiserver.builtin.pod_defaults import default_template, round_amounts
from koord.apiserver.builtin.pod_spec import validate_template
from koord.apiserver.builtin.resource_amounts import amount
from koord.apiserver.builtin.statuses import blank_status, counters, replica_counts
from koord.apiserver.printing import AGE, CREATED_AT, NAME, labels_text, number, of, template_columns, text
from koord.apiserver.resource import Column, Obj, Strategy
from koord.apiserver.status import Cause, forbidden, invalid, not_supported, required

_LIMIT_KEYS: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def default_limit_range(obj: Obj) -> None:
    for item in (obj.get("spec") or {}).get("limits") or ():
        for key in _LIMIT_KEYS:
            round_amounts(item.get(key))
        if item.get("type") == "Container":
            limits = {**(item.get("max") or {}), **(item.get("default") or {})}
            requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
            for key, amounts in (("default", limits), ("defaultRequest", requests)):
                if amounts:
                    item[key] = amounts


def default_quota(obj: Obj) -> None:
    round_amounts((obj.get("spec") or {}).get("hard"))
    for key in ("hard", "used"):
        round_amounts((obj.get("status") or {}).get(key))


def validate_quota(obj: Obj) -> Sequence[Cause]:
    faults: Faults = []
    for name, quantity in ((obj.get("spec") or {}).get("hard") or {}).items():
        amount(faults, name, quantity, f"spec.hard[{name}]")
    return faults


def validate_quota_update(new: Obj, old: Obj) -> Sequence[Cause]:
    scopes = (new.get("spec") or {}).get("scopes") or []
    if set(scopes) == set((old.get("spec") or {}).get("scopes") or ()):
        return ()
    return [invalid("spec.scopes", scopes, "field is immutable")]


def _quota_text(obj: Obj, of_limits: bool) -> str:
    status = obj.get("status") or {}
    used, hard = status.get("used") or {}, status.get("hard") or {}
    names = [name for name in sorted(hard) if name.startswith("limits.") == of_limits]
    return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)


def default_pod_template(obj: Obj) -> None:
    default_template(obj.get("template"))


def validate_pod_template(obj: Obj) -> Sequence[Cause]:
    faults: Faults = []
    validate_template(faults, obj.get("template") or {}, "template")
    return faults


def default_controller(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    template = spec.get("template")
    default_template(template)
    labels = ((template or {}).get("metadata") or {}).get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)
    if spec.get("replicas") is None:
        spec["replicas"] = 1


def validate_controller(obj: Obj) -> Sequence[Cause]:
    faults: Faults = []
    spec = obj["spec"]
    not_negative(faults, spec, ("minReadySeconds", "replicas"), "spec")
    selector, template = spec.get("selector") or {}, spec.get("template")
    if not selector:
        faults.append(required("spec.selector"))
    if template is None:
        faults.append(required("spec.template"))
        return faults
    labels = (template.get("metadata") or {}).get("labels") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        text_ = "`selector` does not match template `labels`"
        faults.append(invalid("spec.template.metadata.labels", labels or None, text_))
    validate_template(faults, template, "spec.template")
    pod_spec = template.get("spec") or {}
    if pod_spec.get("restartPolicy") != "Always":
        faults.append(not_supported("spec.template.spec.restartPolicy", pod_spec.get("restartPolicy", ""), ("Always",)))
    if pod_spec.get("activeDeadlineSeconds") is not None:
        text_ = "activeDeadlineSeconds in ReplicationController is not Supported"
        faults.append(forbidden("spec.template.spec.activeDeadlineSeconds", text_))
    return faults


def validate_controller_status(new: Obj, _old: Obj) -> Sequence[Cause]:
    faults: Faults = []
    status = new.get("status") or {}
    keys = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration")
    counters(faults, status, keys)
    replica_counts(faults, status, "fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    return faults


LIMIT_RANGE: Final = Strategy(
    default=default_limit_range,
    columns=(NAME, CREATED_AT),
    has_status=False,
    has_generation=False,
    allow_create_on_update=True,
)
RESOURCE_QUOTA: Final = Strategy(
    default=default_quota,
    prepare_create=blank_status("", "v1", "ResourceQuota"),
    validate=validate_quota,
    validate_update=validate_quota_update,
    columns=(
        NAME,
        text("Request", of(lambda obj: _quota_text(obj, of_limits=False))),
        text("Limit", of(lambda obj: _quota_text(obj, of_limits=True))),
        AGE,
    ),
    has_generation=False,
    returns_deleted=True,
)
POD_TEMPLATE: Final = Strategy(
    default=default_pod_template,
    validate=validate_pod_template,
    columns=(
        NAME,
        *(Column(each.name, each.type, each.cell) for each in template_columns("template")),
        text("Pod Labels", of(lambda obj: labels_text((obj["template"].get("metadata") or {}).get("labels")))),
    ),
    has_status=False,
    returns_deleted=True,
)
REPLICATION_CONTROLLER: Final = Strategy(
    orphans_by_default=True,
    default=default_controller,
    prepare_create=blank_status("", "v1", "ReplicationController"),
    validate=validate_controller,
    validate_status=validate_controller_status,
    fields=lambda obj: {"status.replicas": str((obj.get("status") or {}).get("replicas", 0))},
    columns=(
        NAME,
        number("Desired", "spec", "replicas"),
        number("Current", "status", "replicas"),
        number("Ready", "status", "readyReplicas"),
        AGE,
        *template_columns("spec", "template"),
        text("Selector", of(lambda obj: labels_text(obj["spec"].get("selector"))), 1),
    ),
)
