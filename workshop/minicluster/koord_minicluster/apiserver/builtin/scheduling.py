"""Leases, PriorityClasses and RuntimeClasses: small kinds that scheduling and election lean on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from koord.api.kubernetes.pod_admission import default_runtime_class
from koord.api.text import formats
from koord_minicluster.apiserver.builtin.checks import Faults, Part, add_all, immutable, label_map, not_negative
from koord_minicluster.apiserver.builtin.pod_scheduling import validate_tolerations
from koord_minicluster.apiserver.builtin.resource_amounts import container_resources
from koord_minicluster.apiserver.printing import AGE, NAME, at, text
from koord_minicluster.apiserver.resource import Column, Obj, Strategy
from koord_minicluster.apiserver.status import Cause, duplicate, forbidden, invalid, not_supported

_HIGHEST_OF_USERS: Final = 1_000_000_000
_SYSTEM: Final = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_PREEMPTION: Final = ("PreemptLowerPriority", "Never")


def validate_lease(lease: Obj) -> Sequence[Cause]:
    faults: Faults = []
    spec = lease.get("spec") or {}
    duration_s = spec.get("leaseDurationSeconds")
    if duration_s is not None and duration_s <= 0:
        faults.append(invalid("spec.leaseDurationSeconds", duration_s, "must be greater than 0"))
    not_negative(faults, spec, ("leaseTransitions",), "spec")
    return faults


def _prepare_lease(lease: Obj) -> None:
    # Coordinated election is not served.
    for key in ("strategy", "preferredHolder"):
        (lease.get("spec") or {}).pop(key, None)


def default_priority_class(obj: Obj) -> None:
    if obj.get("preemptionPolicy") is None:
        obj["preemptionPolicy"] = "PreemptLowerPriority"


def validate_priority_class(obj: Obj) -> Sequence[Cause]:
    faults: Faults = []
    name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
    if name.startswith("system-"):
        if why := _not_a_system_class(name, value, bool(obj.get("globalDefault"))):
            text_ = "priority class names with 'system-' prefix are reserved for system use only. error: "
            faults.append(forbidden("metadata.name", text_ + why))
    elif value > _HIGHEST_OF_USERS:
        text_ = f"maximum allowed value of a user defined priority is {_HIGHEST_OF_USERS}"
        faults.append(forbidden("value", text_))
    if obj.get("preemptionPolicy") not in _PREEMPTION:
        faults.append(not_supported("preemptionPolicy", obj.get("preemptionPolicy", ""), _PREEMPTION))
    return faults


def _not_a_system_class(name: str, value: int, is_default: bool) -> str | None:
    if name not in _SYSTEM:
        return f"{name} is not a known system priority class"
    if value != _SYSTEM[name]:
        return f"value of {name} PriorityClass must be {_SYSTEM[name]}"
    return f"globalDefault of {name} PriorityClass must be false" if is_default else None


def validate_priority_class_update(new: Obj, old: Obj) -> Sequence[Cause]:
    faults: Faults = []
    if new.get("value", 0) != old.get("value", 0):
        faults.append(forbidden("value", "may not be changed in an update."))
    immutable(faults, new, old, ("preemptionPolicy",), "")
    return faults


def _first_generation(obj: Obj) -> None:
    """Nothing about a priority class that could change counts as a new generation."""
    obj["metadata"]["generation"] = 1


def _shown_toleration(toleration: Part) -> dict[str, object]:
    """As Go's encoder prints it, with its own field names."""
    made: dict[str, object] = {
        word: toleration.get(word.lower(), "") for word in ("Key", "Operator", "Value", "Effect")
    }
    return {**made, "TolerationSeconds": toleration.get("tolerationSeconds")}


def validate_runtime_class(obj: Obj) -> Sequence[Cause]:
    faults: Faults = []
    handler = obj.get("handler", "")
    add_all(faults, "handler", handler, formats.dns_label(handler))
    if overhead := obj.get("overhead"):
        container_resources(faults, {"limits": overhead.get("podFixed") or {}}, "overhead")
    if where := obj.get("scheduling"):
        label_map(faults, where.get("nodeSelector"), "scheduling.nodeSelector")
        tolerations = where.get("tolerations") or ()
        validate_tolerations(faults, tolerations, "scheduling.tolerations")
        shown = [_shown_toleration(toleration) for toleration in tolerations]
        for i, toleration in enumerate(shown):
            if {**toleration, "TolerationSeconds": None} in ({**one, "TolerationSeconds": None} for one in shown[:i]):
                faults.append(duplicate(f"scheduling.tolerations[{i}]", toleration))
    return faults


def validate_runtime_class_update(new: Obj, old: Obj) -> Sequence[Cause]:
    faults: Faults = []
    immutable(faults, new, old, ("handler",), "")
    return faults


LEASE: Final = Strategy(
    prepare_create=_prepare_lease,
    prepare_update=lambda new, _old: _prepare_lease(new),
    validate=validate_lease,
    columns=(NAME, text("Holder", at("spec", "holderIdentity")), AGE),
    has_status=False,
    has_generation=False,
    allow_create_on_update=True,
    unconditional_update=False,
)
PRIORITY_CLASS: Final = Strategy(
    default=default_priority_class,
    prepare_create=_first_generation,
    validate=validate_priority_class,
    validate_update=validate_priority_class_update,
    columns=(
        NAME,
        Column("Value", "integer", at("value", default=0)),
        Column("Global-Default", "boolean", at("globalDefault", default=False)),
        AGE,
        text("PreemptionPolicy", at("preemptionPolicy")),
    ),
    has_status=False,
    has_generation=False,
)
RUNTIME_CLASS: Final = Strategy(
    default=default_runtime_class,
    validate=validate_runtime_class,
    validate_update=validate_runtime_class_update,
    columns=(NAME, text("Handler", at("handler")), AGE),
    has_status=False,
    has_generation=False,
    allow_create_on_update=True,
    unconditional_update=False,
)
