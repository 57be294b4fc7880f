"""ResourceQuotas, which are kept for the tools that read them; templates of pods and their oldest controller."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from koord.api.kubernetes.pod_defaults import default_template, round_amounts
from koord.api.kubernetes.workload_defaults import default_controller
from koord_minicluster.apiserver.builtin.checks import Faults, Part, labels_value, not_negative
from koord_minicluster.apiserver.builtin.pod_spec import validate_template
from koord_minicluster.apiserver.builtin.resource_amounts import amount, is_quota_standard, quota_resource_name
from koord_minicluster.apiserver.builtin.statuses import blank_status, counters, replica_counts
from koord_minicluster.apiserver.printing import AGE, NAME, labels_text, number, of, template_columns, text
from koord_minicluster.apiserver.resource import Column, Obj, Strategy
from koord_minicluster.apiserver.status import Cause, forbidden, invalid, not_supported, required

_POD_RESOURCES: Final = frozenset(
    {"pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}
)
_SCOPES: Final = {
    **dict.fromkeys(
        ("Terminating", "NotTerminating", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity"), _POD_RESOURCES
    ),
    "BestEffort": frozenset({"pods"}),
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
"""The scopes of a quota, each with the resources that it can bound."""
_PAIRS: Final = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
_ONLY_EXISTS: Final = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def default_quota(obj: Obj) -> None:
    round_amounts((obj.get("spec") or {}).get("hard"))
    for key in ("hard", "used"):
        round_amounts((obj.get("status") or {}).get(key))


def validate_quota(obj: Obj) -> Sequence[Cause]:
    faults: Faults = []
    spec = obj.get("spec") or {}
    _validate_quota_spec(faults, spec)
    _quantities(faults, obj.get("status") or {}, "status")
    return faults


def _validate_quota_spec(faults: Faults, spec: Part) -> None:
    hard = spec.get("hard") or {}
    _quantities(faults, spec, "spec")
    _scopes(faults, spec.get("scopes") or [], hard)
    if (selector := spec.get("scopeSelector")) is not None:
        _scope_selector(faults, selector, spec.get("scopes"), hard)


def _quantities(faults: Faults, part: Part, path: str) -> None:
    for key in ("hard", "used"):
        for name, quantity in sorted((part.get(key) or {}).items()):
            quota_resource_name(faults, name, f"{path}.{key}[{name}]")
            amount(faults, name, quantity, f"{path}.{key}[{name}]")


def _scopes(faults: Faults, scopes: Sequence[str], hard: Iterable[str]) -> None:
    for scope in scopes:
        if scope not in _SCOPES:
            faults.append(invalid("spec.scopes", scopes, "unsupported scope"))
        for _ in _out_of_scope(scope, hard):
            faults.append(invalid("spec.scopes", scopes, "unsupported scope applied to resource"))
    for pair in _PAIRS:
        if set(pair) <= set(scopes):
            faults.append(invalid("spec.scopes", scopes, "conflicting scopes"))


def _out_of_scope(scope: str, hard: Iterable[str]) -> list[str]:
    """The bounded resources that this scope cannot bound."""
    within = _SCOPES.get(scope)
    return [] if within is None else [name for name in hard if is_quota_standard(name) and name not in within]


def _scope_selector(faults: Faults, selector: Part, scopes: Sequence[str] | None, hard: Iterable[str]) -> None:
    path = "spec.scopeSelector.matchExpressions"
    conditions = selector.get("matchExpressions") or ()
    for condition in conditions:
        scope, operator = condition.get("scopeName", ""), condition.get("operator", "")
        values = condition.get("values") or []
        if scope not in _SCOPES:
            faults.append(invalid(f"{path}.scopeName", scope, "unsupported scope"))
        for _ in _out_of_scope(scope, hard):
            faults.append(invalid(path, _selector_value(conditions), "unsupported scope applied to resource"))
        if scope in _SCOPES and scope not in ("PriorityClass", "VolumeAttributesClass") and operator != "Exists":
            faults.append(invalid(f"{path}.operator", operator, _ONLY_EXISTS))
        if operator in ("In", "NotIn"):
            if not values:
                text_ = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                faults.append(required(f"{path}.values", text_))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                text_ = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                faults.append(invalid(f"{path}.values", values, text_))
        else:
            faults.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    for pair in _PAIRS:
        if set(pair) <= {condition.get("scopeName") for condition in conditions}:
            faults.append(invalid(path, scopes, "conflicting scopes"))


def _selector_value(conditions: Iterable[Part]) -> dict[str, object]:
    """A scope selector as Go's encoder prints it, with its own field names."""
    return {
        "MatchExpressions": [
            {
                "ScopeName": condition.get("scopeName", ""),
                "Operator": condition.get("operator", ""),
                "Values": condition.get("values") or None,
            }
            for condition in conditions
        ]
    }


def validate_quota_update(new: Obj, old: Obj) -> Sequence[Cause]:
    faults: Faults = []
    spec = new.get("spec") or {}
    if set(spec.get("scopes") or ()) != set((old.get("spec") or {}).get("scopes") or ()):
        faults.append(invalid("spec.scopes", spec.get("scopes"), "field is immutable"))
    return faults


def validate_quota_status(new: Obj, _old: Obj) -> Sequence[Cause]:
    faults: Faults = []
    _quantities(faults, new.get("status") or {}, "status")
    return faults


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
        faults.append(invalid("spec.template.metadata.labels", labels_value(labels), text_))
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


RESOURCE_QUOTA: Final = Strategy(
    default=default_quota,
    prepare_create=blank_status("", "v1", "ResourceQuota"),
    validate=validate_quota,
    validate_update=validate_quota_update,
    validate_status=validate_quota_status,
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
        *(Column(column.name, column.type, column.cell) for column in template_columns("template")),
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
