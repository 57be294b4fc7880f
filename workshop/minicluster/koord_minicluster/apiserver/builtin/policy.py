"""PodDisruptionBudgets: how many pods must stay, or how many may go, but not both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from koord.api.text import formats
from koord_minicluster.apiserver.builtin.checks import Faults, Part, add_all, label_selector, selector_value
from koord_minicluster.apiserver.builtin.int_or_percent import below_all, validate_int_or_percent
from koord_minicluster.apiserver.builtin.statuses import blank_status, counters
from koord_minicluster.apiserver.printing import AGE, NAME, number, of, text
from koord_minicluster.apiserver.resource import Obj, Strategy
from koord_minicluster.apiserver.status import Cause, invalid, not_supported, required

_EVICTION_POLICIES: Final = ("AlwaysAllow", "IfHealthyBudget")


def validate(budget: Obj) -> Sequence[Cause]:
    faults: Faults = []
    spec = budget.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        faults.append(invalid("spec", _spec_shown(spec), "minAvailable and maxUnavailable cannot be both set"))
    for key in ("minAvailable", "maxUnavailable"):
        if (value := spec.get(key)) is not None:
            validate_int_or_percent(faults, value, f"spec.{key}")
            below_all(faults, value, f"spec.{key}")
    label_selector(faults, spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _EVICTION_POLICIES:
        faults.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, _EVICTION_POLICIES))
    return faults


def _spec_shown(spec: Part) -> dict[str, object]:
    """A spec as Go's encoder prints it, with its own field names."""
    return {
        "MinAvailable": spec.get("minAvailable"),
        "Selector": selector_value(spec.get("selector")),
        "MaxUnavailable": spec.get("maxUnavailable"),
        "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
    }


def validate_status(new: Obj, _old: Obj) -> Sequence[Cause]:
    faults: Faults = []
    status = new.get("status") or {}
    for i, condition in enumerate(status.get("conditions") or ()):
        path, kind = f"status.conditions[{i}]", condition.get("type", "")
        add_all(faults, f"{path}.type", kind, formats.label_key(kind))
        if condition.get("status") not in ("True", "False", "Unknown"):
            listed = ("False", "True", "Unknown")
            faults.append(not_supported(f"{path}.status", condition.get("status", ""), listed))
        if not condition.get("lastTransitionTime"):
            faults.append(required(f"{path}.lastTransitionTime"))
        if not condition.get("reason"):
            faults.append(required(f"{path}.reason"))
    counters(faults, status, ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"))
    return faults


def _shown(key: str, budget: Obj) -> str:
    value = (budget.get("spec") or {}).get(key)
    return "N/A" if value is None else str(value)


DISRUPTION_BUDGET: Final = Strategy(
    prepare_create=blank_status("policy", "v1", "PodDisruptionBudget"),
    validate=validate,
    validate_status=validate_status,
    columns=(
        NAME,
        text("Min Available", of(lambda obj: _shown("minAvailable", obj))),
        text("Max Unavailable", of(lambda obj: _shown("maxUnavailable", obj))),
        number("Allowed Disruptions", "status", "disruptionsAllowed"),
        AGE,
    ),
    unconditional_update=False,
)
