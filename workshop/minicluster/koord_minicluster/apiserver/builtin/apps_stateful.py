"""StatefulSets and the revisions that workloads keep of their templates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from koord.api.kubernetes.workload_defaults import default_stateful_set
from koord.api.text import formats
from koord_minicluster.apiserver.builtin.apps import always_restarted, new_generation, without_replicas
from koord_minicluster.apiserver.builtin.checks import (
    IMMUTABLE,
    Faults,
    Part,
    add_all,
    annotation_map,
    label_map,
    label_selector,
    labels_value,
    not_negative,
    selector_value,
    selects,
    selects_nothing_particular,
)
from koord_minicluster.apiserver.builtin.claim_specs import validate_claim_spec
from koord_minicluster.apiserver.builtin.pod_spec import validate_pod_annotations, validate_template
from koord_minicluster.apiserver.builtin.pod_warnings import template_warnings
from koord_minicluster.apiserver.builtin.statuses import blank_status, counters, replica_counts
from koord_minicluster.apiserver.printing import AGE, NAME, NONE, at, of, template_columns, text
from koord_minicluster.apiserver.resource import Obj, Strategy
from koord_minicluster.apiserver.status import Cause, forbidden, invalid, not_supported, required

_POLICIES: Final = ("Retain", "Delete")
_FREE: Final = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip
_FIXED: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def validate_stateful_set(obj: Obj) -> Sequence[Cause]:
    faults: Faults = []
    spec = obj["spec"]
    policy = spec.get("podManagementPolicy")
    if policy not in ("OrderedReady", "Parallel"):
        faults.append(invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))
    _update_strategy(faults, spec.get("updateStrategy") or {}, "spec.updateStrategy")
    for key in ("whenDeleted", "whenScaled"):
        value = (spec.get("persistentVolumeClaimRetentionPolicy") or {}).get(key, "")
        if value not in _POLICIES:
            faults.append(not_supported(f"spec.persistentVolumeClaimRetentionPolicy.{key}", value, _POLICIES))
    not_negative(faults, spec, ("replicas", "minReadySeconds"), "spec")
    if (ordinals := spec.get("ordinals")) is not None and ordinals.get("start", 0) < 0:
        faults.append(invalid("spec.ordinals.start", ordinals["start"], "must be greater than or equal to 0"))
    _selector_and_template(faults, spec)
    always_restarted(faults, spec, "StatefulSet")
    return faults


def _update_strategy(faults: Faults, strategy: Part, path: str) -> None:
    rolling = strategy.get("rollingUpdate")
    match strategy.get("type"):
        case "OnDelete":
            if rolling is not None:
                text_ = "only allowed for updateStrategy 'RollingUpdate'"
                faults.append(invalid(f"{path}.rollingUpdate", _rolling_shown(rolling), text_))
        case "RollingUpdate":
            if rolling is not None:
                not_negative(faults, rolling, ("partition",), f"{path}.rollingUpdate")
        case _:
            shown = {"Type": strategy.get("type", ""), "RollingUpdate": _rolling_shown(rolling)}
            faults.append(invalid(path, shown, "must be 'RollingUpdate' or 'OnDelete'"))


def _rolling_shown(rolling: Part | None) -> dict[str, object] | None:
    """As Go's encoder prints it, with its own field names."""
    if rolling is None:
        return None
    return {"Partition": rolling.get("partition") or 0, "MaxUnavailable": rolling.get("maxUnavailable")}


def _selector_and_template(faults: Faults, spec: Part) -> None:
    selector, template = spec.get("selector"), spec.get("template") or {}
    before = len(faults)
    if selector is None:
        faults.append(required("spec.selector"))
    else:
        label_selector(faults, selector, "spec.selector")
        if len(faults) > before:
            faults.append(invalid("spec.selector", selector_value(selector), ""))
            return
        if selects_nothing_particular(selector):
            faults.append(
                invalid("spec.selector", selector_value(selector), "empty selector is invalid for statefulset")
            )
    meta = template.get("metadata") or {}
    labels = meta.get("labels") or {}
    if selector is None or (not selects_nothing_particular(selector) and not selects(selector, labels)):
        text_ = "`selector` does not match template `labels`"
        faults.append(invalid("spec.template.metadata.labels", labels_value(labels), text_))
    validate_template(faults, _with_claims(template, spec), "spec.template")
    # The real server looks at the template's metadata twice, and says so.
    label_map(faults, labels, "spec.template.labels")
    annotation_map(faults, meta.get("annotations"), "spec.template.annotations")
    validate_pod_annotations(faults, meta.get("annotations"), template.get("spec") or {}, "spec.template.annotations")


def _with_claims(template: Part, spec: Part) -> dict[str, Any]:
    """The template as its pods will be: with a volume for each claim, and a name of their own."""
    pod_spec = {k: v for k, v in (template.get("spec") or {}).items() if k not in ("hostname", "subdomain")}
    names = [(claim.get("metadata") or {}).get("name", "") for claim in spec.get("volumeClaimTemplates") or ()]
    if names:
        added = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in dict.fromkeys(names)]
        kept = [volume for volume in pod_spec.get("volumes") or () if volume.get("name") not in names]
        pod_spec["volumes"] = [*added, *kept]
    return {**template, "spec": pod_spec}


def validate_stateful_set_create(obj: Obj) -> Sequence[Cause]:
    faults: Faults = []
    for i, claim in enumerate(obj["spec"].get("volumeClaimTemplates") or ()):
        validate_claim_spec(faults, claim.get("spec") or {}, f"spec.volumeClaimTemplates[{i}].spec")
    if name := obj["spec"].get("serviceName"):
        add_all(faults, "spec.serviceName", name, formats.dns_label(name))
    return faults


def validate_stateful_set_update(new: Obj, old: Obj) -> Sequence[Cause]:
    def fixed(obj: Obj) -> dict[str, Any]:
        return {key: value for key, value in obj["spec"].items() if key not in _FREE}

    return () if fixed(new) == fixed(old) else [forbidden("spec", _FIXED)]


def validate_stateful_set_status(new: Obj, _old: Obj) -> Sequence[Cause]:
    faults: Faults = []
    status = new.get("status") or {}
    keys = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    counters(faults, status, (*keys, "observedGeneration", "collisionCount"))
    replica_counts(faults, status, "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    return faults


def validate_revision(obj: Obj) -> Sequence[Cause]:
    faults: Faults = []
    not_negative(faults, obj, ("revision",), "")
    return faults


def validate_revision_create(obj: Obj) -> Sequence[Cause]:
    data = obj.get("data")
    if data is None:
        return [required("data", "data is mandatory")]
    return () if isinstance(data, dict) else [required("data", "data must be a valid JSON object")]


def validate_revision_update(new: Obj, old: Obj) -> Sequence[Cause]:
    return () if new.get("data") == old.get("data") else [invalid("data", new.get("data"), IMMUTABLE)]


def _controller(obj: Obj) -> str:
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            group = owner.get("apiVersion", "").rpartition("/")[0]
            kind = f"{owner.get('kind', '')}.{group}" if group else owner.get("kind", "")
            return f"{kind.lower()}/{owner.get('name', '')}"
    return NONE


def _ready(obj: Obj) -> str:
    return f"{(obj.get('status') or {}).get('readyReplicas', 0)}/{obj['spec'].get('replicas', 0)}"


_blank_status = blank_status("apps", "v1", "StatefulSet")


def _prepare_create(obj: Obj) -> None:
    _blank_status(obj)
    _drop_unavailable(obj)


def _drop_unavailable(obj: Obj) -> None:
    """How many pods may be away in an update is not for users to say yet: the field is read and let go."""
    rolling = (obj["spec"].get("updateStrategy") or {}).get("rollingUpdate")
    if rolling is not None:
        rolling.pop("maxUnavailable", None)


STATEFUL_SET: Final = Strategy(
    blank=without_replicas,
    default=default_stateful_set,
    prepare_create=_prepare_create,
    prepare_update=lambda new, _old: _drop_unavailable(new),
    validate=validate_stateful_set,
    validate_create=validate_stateful_set_create,
    validate_update=validate_stateful_set_update,
    validate_status=validate_stateful_set_status,
    warnings=lambda obj: template_warnings(obj["spec"].get("template"), "spec.template"),
    warns_again=new_generation,
    columns=(NAME, text("Ready", of(_ready)), AGE, *template_columns("spec", "template")),
    name_fault=lambda name: next(iter(formats.dns_label(name)), None),
)
CONTROLLER_REVISION: Final = Strategy(
    validate=validate_revision,
    validate_create=validate_revision_create,
    validate_update=validate_revision_update,
    columns=(
        NAME,
        text("Controller", of(_controller)),
        text("Revision", at("revision", default=0)),
        AGE,
    ),
    has_status=False,
    has_generation=False,
)
