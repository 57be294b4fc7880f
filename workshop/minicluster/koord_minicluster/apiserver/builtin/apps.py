"""Deployments, ReplicaSets and DaemonSets: a selector that matches the template, and a way to roll out changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from koord.api.kubernetes.workload_defaults import (
    TEMPLATE_GENERATION,
    default_daemon_set,
    default_deployment,
    default_replica_set,
)
from koord_minicluster.apiserver.builtin.checks import (
    IMMUTABLE,
    Faults,
    Part,
    label_selector,
    labels_value,
    not_negative,
    selector_value,
    selects,
    selects_nothing_particular,
)
from koord_minicluster.apiserver.builtin.int_or_percent import below_all, number_of, validate_int_or_percent
from koord_minicluster.apiserver.builtin.pod_spec import validate_template
from koord_minicluster.apiserver.builtin.pod_warnings import template_warnings
from koord_minicluster.apiserver.builtin.statuses import (
    blank_status,
    counters,
    keep_metadata,
    not_decremented,
    replica_counts,
)
from koord_minicluster.apiserver.printing import (
    AGE,
    NAME,
    at,
    labels_text,
    number,
    of,
    selector_text,
    template_columns,
    text,
)
from koord_minicluster.apiserver.resource import Obj, Strategy
from koord_minicluster.apiserver.status import Cause, forbidden, invalid, not_supported, required

_MISMATCH: Final = "`selector` does not match template `labels`"


def selector_and_template(faults: Faults, spec: Part, kind: str) -> None:
    """A workload's selector, that it finds the pods made from its template, and the template."""
    selector = spec.get("selector")
    if selector is None:
        faults.append(required("spec.selector"))
    else:
        before = len(faults)
        label_selector(faults, selector, "spec.selector")
        if len(faults) > before:
            faults.append(invalid("spec.selector", selector_value(selector), "invalid label selector"))
            return
        if selects_nothing_particular(selector):
            faults.append(invalid("spec.selector", selector_value(selector), f"empty selector is invalid for {kind}"))
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    # An absent selector selects nothing; an empty one is already reported.
    if selector is None or (not selects_nothing_particular(selector) and not selects(selector, labels)):
        faults.append(invalid("spec.template.metadata.labels", labels_value(labels), _MISMATCH))
    validate_template(faults, template, "spec.template")
    always_restarted(faults, spec, "ReplicaSet")


def always_restarted(faults: Faults, spec: Part, kind: str) -> None:
    pod_spec = (spec.get("template") or {}).get("spec") or {}
    path = "spec.template.spec"
    if pod_spec.get("restartPolicy") != "Always":
        faults.append(not_supported(f"{path}.restartPolicy", pod_spec.get("restartPolicy", ""), ("Always",)))
    if pod_spec.get("activeDeadlineSeconds") is not None:
        faults.append(forbidden(f"{path}.activeDeadlineSeconds", f"activeDeadlineSeconds in {kind} is not Supported"))


def _warnings(obj: Obj) -> Sequence[str]:
    return template_warnings(obj["spec"].get("template"), "spec.template")


def new_generation(new: Obj, old: Obj) -> bool:
    return bool(new["metadata"].get("generation") != old["metadata"].get("generation"))


def prepare_deployment_update(new: Obj, old: Obj) -> None:
    # Controllers read annotations of a Deployment too, so their change is a new generation.
    if (new["metadata"].get("annotations") or {}) != (old["metadata"].get("annotations") or {}):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def validate_deployment(obj: Obj) -> Sequence[Cause]:
    faults: Faults = []
    spec = obj["spec"]
    not_negative(faults, spec, ("replicas",), "spec")
    selector_and_template(faults, spec, "deployment")
    _deployment_strategy(faults, spec.get("strategy") or {}, "spec.strategy")
    not_negative(faults, spec, ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"), "spec")
    deadline_s = spec.get("progressDeadlineSeconds")
    if deadline_s is not None and deadline_s <= spec.get("minReadySeconds", 0):
        faults.append(invalid("spec.progressDeadlineSeconds", deadline_s, "must be greater than minReadySeconds"))
    return faults


def _deployment_strategy(faults: Faults, strategy: Part, path: str) -> None:
    rolling = strategy.get("rollingUpdate")
    match strategy.get("type"):
        case "Recreate":
            if rolling is not None:
                text_ = "may not be specified when strategy `type` is 'Recreate'"
                faults.append(forbidden(f"{path}.rollingUpdate", text_))
        case "RollingUpdate":
            unavailable, surge = (rolling or {}).get("maxUnavailable", 0), (rolling or {}).get("maxSurge", 0)
            where = f"{path}.rollingUpdate"
            validate_int_or_percent(faults, unavailable, f"{where}.maxUnavailable")
            validate_int_or_percent(faults, surge, f"{where}.maxSurge")
            if number_of(unavailable) == 0 and number_of(surge) == 0:
                text_ = "may not be 0 when `maxSurge` is 0"
                faults.append(invalid(f"{where}.maxUnavailable", unavailable, text_))
            below_all(faults, unavailable, f"{where}.maxUnavailable")
        case _:
            faults.append(not_supported(path, _capital(strategy), ("Recreate", "RollingUpdate")))


def _capital(strategy: Part) -> dict[str, object]:
    """As the real server prints it: by the names of Go's fields."""
    return {"Type": strategy.get("type", ""), "RollingUpdate": strategy.get("rollingUpdate")}


def _selector_stays(new: Obj, old: Obj) -> Sequence[Cause]:
    selector = new["spec"].get("selector")
    if selector == old["spec"].get("selector"):
        return ()
    return [invalid("spec.selector", selector_value(selector), IMMUTABLE)]


def validate_deployment_status(new: Obj, old: Obj) -> Sequence[Cause]:
    faults: Faults = []
    status = new.get("status") or {}
    counters(
        faults,
        status,
        ("observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas",
         "unavailableReplicas", "terminatingReplicas", "collisionCount"),
    )  # fmt: skip
    replica_counts(faults, status, "updatedReplicas", "readyReplicas", "availableReplicas")
    not_decremented(faults, status, old.get("status") or {}, "collisionCount")
    return faults


def validate_replica_set(obj: Obj) -> Sequence[Cause]:
    faults: Faults = []
    not_negative(faults, obj["spec"], ("replicas", "minReadySeconds"), "spec")
    selector_and_template(faults, obj["spec"], "deployment")
    return faults


def validate_replica_set_status(new: Obj, _old: Obj) -> Sequence[Cause]:
    faults: Faults = []
    status = new.get("status") or {}
    keys = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration")
    counters(faults, status, (*keys, "terminatingReplicas"))
    replica_counts(faults, status, "fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    return faults


def prepare_daemon_set_create(obj: Obj) -> None:
    _DAEMON_SET_STATUS(obj)
    annotations = obj["metadata"].setdefault("annotations", {})
    if annotations.get(TEMPLATE_GENERATION, "0") == "0":
        annotations[TEMPLATE_GENERATION] = "1"


_LONGEST_COUNT: Final = 18
"""Digits of a generation that is counted on; others wrote what has more."""


def prepare_daemon_set_update(new: Obj, old: Obj) -> None:
    count = (old["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, "0")
    if (
        new["spec"].get("template") != old["spec"].get("template")
        and count.isdecimal()
        and len(count) <= _LONGEST_COUNT
    ):
        count = str(int(count) + 1)
    new["metadata"].setdefault("annotations", {})[TEMPLATE_GENERATION] = count


def validate_daemon_set(obj: Obj) -> Sequence[Cause]:
    faults: Faults = []
    spec = obj["spec"]
    selector = spec.get("selector")
    label_selector(faults, selector, "spec.selector")
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    if not faults and (selector is None or not selects(selector, labels)):
        faults.append(invalid("spec.template.metadata.labels", labels_value(labels), _MISMATCH))
    if selector is not None and selects_nothing_particular(selector):
        faults.append(invalid("spec.selector", selector_value(selector), "empty selector is invalid for daemonset"))
    validate_template(faults, template, "spec.template")
    always_restarted(faults, spec, "DaemonSet")
    not_negative(faults, spec, ("minReadySeconds",), "spec")
    _daemon_set_strategy(faults, spec.get("updateStrategy") or {}, "spec.updateStrategy")
    not_negative(faults, spec, ("revisionHistoryLimit",), "spec")
    return faults


def _daemon_set_strategy(faults: Faults, strategy: Part, path: str) -> None:
    if strategy.get("type") == "OnDelete":
        return
    if strategy.get("type") != "RollingUpdate":
        faults.append(not_supported(path, _capital(strategy), ("RollingUpdate", "OnDelete")))
        return
    rolling, where = strategy.get("rollingUpdate") or {}, f"{path}.rollingUpdate"
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    for check in (validate_int_or_percent, below_all):
        check(faults, unavailable, f"{where}.maxUnavailable")
        check(faults, surge, f"{where}.maxSurge")
    if number_of(unavailable) and number_of(surge):
        faults.append(invalid(f"{where}.maxSurge", surge, "may not be set when maxUnavailable is non-zero"))
    elif not number_of(unavailable) and not number_of(surge):
        faults.append(required(f"{where}.maxUnavailable", "cannot be 0 when maxSurge is 0"))


def validate_daemon_set_status(new: Obj, old: Obj) -> Sequence[Cause]:
    faults: Faults = []
    status = new.get("status") or {}
    counters(
        faults,
        status,
        ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady", "observedGeneration",
         "updatedNumberScheduled", "numberAvailable", "numberUnavailable", "collisionCount"),
    )  # fmt: skip
    not_decremented(faults, status, old.get("status") or {}, "collisionCount")
    return faults


def _ready(obj: Obj) -> str:
    return f"{(obj.get('status') or {}).get('readyReplicas', 0)}/{obj['spec'].get('replicas', 0)}"


_DAEMON_SET_STATUS: Final = blank_status("apps", "v1", "DaemonSet")
_SELECTOR: Final = text("Selector", of(lambda obj: selector_text(obj["spec"].get("selector"))), 1)


def without_replicas(obj: Obj) -> None:
    obj["spec"]["replicas"] = 0


def _without_generation(daemon_set: Obj) -> None:
    annotations = daemon_set["metadata"].setdefault("annotations", {})
    annotations["deprecated.daemonset.template.generation"] = "0"


DEPLOYMENT: Final = Strategy(
    default=default_deployment,
    prepare_create=blank_status("apps", "v1", "Deployment"),
    prepare_update=prepare_deployment_update,
    prepare_status=lambda new, old: keep_metadata(new, old, ("labels",)),
    validate=validate_deployment,
    validate_update=_selector_stays,
    validate_status=validate_deployment_status,
    warnings=_warnings,
    warns_again=new_generation,
    columns=(
        NAME,
        text("Ready", of(_ready)),
        text("Up-to-date", at("status", "updatedReplicas", default=0)),
        text("Available", at("status", "availableReplicas", default=0)),
        AGE,
        *template_columns("spec", "template"),
        text("Selector", of(lambda obj: selector_text(sel) if (sel := obj["spec"].get("selector")) else ""), 1),
    ),
    blank=without_replicas,
)
REPLICA_SET: Final = Strategy(
    blank=without_replicas,
    default=default_replica_set,
    prepare_create=blank_status("apps", "v1", "ReplicaSet"),
    validate=validate_replica_set,
    validate_update=_selector_stays,
    validate_status=validate_replica_set_status,
    warnings=_warnings,
    warns_again=new_generation,
    columns=(
        NAME,
        number("Desired", "spec", "replicas"),
        number("Current", "status", "replicas"),
        number("Ready", "status", "readyReplicas"),
        AGE,
        *template_columns("spec", "template"),
        _SELECTOR,
    ),
)
DAEMON_SET: Final = Strategy(
    blank=_without_generation,
    default=default_daemon_set,
    prepare_create=prepare_daemon_set_create,
    prepare_update=prepare_daemon_set_update,
    validate=validate_daemon_set,
    validate_update=_selector_stays,
    judges_change_first=True,
    validate_status=validate_daemon_set_status,
    warnings=_warnings,
    warns_again=new_generation,
    columns=(
        NAME,
        number("Desired", "status", "desiredNumberScheduled"),
        number("Current", "status", "currentNumberScheduled"),
        number("Ready", "status", "numberReady"),
        number("Up-to-date", "status", "updatedNumberScheduled"),
        number("Available", "status", "numberAvailable"),
        text("Node Selector", of(lambda obj: labels_text(obj["spec"]["template"]["spec"].get("nodeSelector")))),
        AGE,
        *template_columns("spec", "template"),
        _SELECTOR,
    ),
)
