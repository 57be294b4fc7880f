"""Pods: what is particular about storing them.

A new pod is Pending, whatever its author says. Its spec hardly changes afterwards: images, a deadline, more
tolerations, fewer gates. A bound pod is deleted gracefully: it stays until its node has stopped it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from koord.api.kubernetes.pod_defaults import default_pod
from koord.api.text import formats
from koord_minicluster.apiserver.builtin.checks import Faults, Part, add_all, immutable
from koord_minicluster.apiserver.builtin.pod_columns import COLUMNS
from koord_minicluster.apiserver.builtin.pod_containers import image_without_spaces
from koord_minicluster.apiserver.builtin.pod_qos import qos_class
from koord_minicluster.apiserver.builtin.pod_scheduling import apply_label_keys, validate_tolerations
from koord_minicluster.apiserver.builtin.pod_spec import validate_pod_annotations, validate_pod_spec
from koord_minicluster.apiserver.builtin.pod_subresources import PARTIAL_UPDATES
from koord_minicluster.apiserver.builtin.pod_warnings import pod_warnings
from koord_minicluster.apiserver.builtin.statuses import keep_metadata
from koord_minicluster.apiserver.resource import Obj, Strategy
from koord_minicluster.apiserver.status import Cause, forbidden, invalid, required

_INT32_MAX: Final = 2**31 - 1
_UPDATABLE: Final = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    )
)
_OWN_CONDITIONS: Final = ("PodScheduled", "Ready", "Initialized")


def _drop_stop_signals(spec: Obj) -> None:
    """How a container is asked to stop is not for users to say yet: the field is read and let go."""
    for group in ("initContainers", "containers"):
        for container in spec.get(group) or ():
            if (hooks := container.get("lifecycle")) is not None and hooks.pop("stopSignal", None) and not hooks:
                del container["lifecycle"]


def prepare_create(pod: Obj) -> None:
    spec = pod["spec"]
    _drop_stop_signals(spec)
    pod["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": pod["metadata"].get("creationTimestamp"),
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    if spec.get("affinity") or spec.get("topologySpreadConstraints"):
        apply_label_keys(spec, pod["metadata"].get("labels") or {})


def prepare_status(new: Obj, old: Obj) -> None:
    keep_metadata(new, old, ("deletionTimestamp", "ownerReferences"))
    status, was = new.setdefault("status", {}), old.get("status") or {}
    for key in ("qosClass", "observedGeneration"):
        if not status.get(key) and was.get(key):
            status[key] = was[key]
    seen = {condition.get("type"): condition for condition in reversed(was.get("conditions") or ())}
    for condition in status.get("conditions") or ():
        before = seen.get(condition.get("type"), {}).get("observedGeneration")
        if before and not condition.get("observedGeneration"):
            condition["observedGeneration"] = before


def validate_metadata(pod: Obj) -> Faults:
    faults: Faults = []
    validate_pod_annotations(faults, pod["metadata"].get("annotations"), pod["spec"], "metadata.annotations")
    return faults


def validate(pod: Obj) -> Sequence[Cause]:
    faults = validate_metadata(pod)
    meta, spec = pod["metadata"], pod["spec"]
    validate_pod_spec(faults, spec, "spec", pod_name=meta.get("name", ""), is_pod=True)
    if not spec.get("serviceAccountName") and spec.get("volumes"):
        _no_tokens(faults, spec)
    for group in ("containers", "initContainers"):
        for i, container in enumerate(spec.get(group) or ()):
            image_without_spaces(faults, container, f"spec.{group}[{i}]")
    return faults


def _no_tokens(faults: Faults, spec: Part) -> None:
    for i, volume in enumerate(spec["volumes"]):
        for j, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if source.get("serviceAccountToken") is not None:
                where = f"spec.volumes[{i}].projected.sources[{j}].serviceAccountToken"
                faults.append(forbidden(where, "must not be specified when serviceAccountName is not set"))


def validate_create(pod: Obj) -> Sequence[Cause]:
    faults: Faults = []
    if pod["spec"].get("ephemeralContainers"):
        faults.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if pod["spec"].get("nodeName") and pod["spec"].get("schedulingGates"):
        text = "cannot be set until all schedulingGates have been cleared"
        faults.append(forbidden("spec.nodeName", text))
    return faults


def validate_update(new: Obj, old: Obj) -> Sequence[Cause]:
    faults: Faults = []
    spec, was = new["spec"], old["spec"]
    if spec == was:
        return ()
    for group in ("containers", "initContainers"):
        if len(spec.get(group) or ()) != len(was.get(group) or ()):
            faults.append(forbidden(f"spec.{group}", "pod updates may not add or remove containers"))
            return faults
        for i, container in enumerate(spec.get(group) or ()):
            if not container.get("image"):
                faults.append(required(f"spec.{group}[{i}].image"))
            image_without_spaces(faults, container, f"spec.{group}[{i}]")
    if not _deadline(faults, spec.get("activeDeadlineSeconds"), was.get("activeDeadlineSeconds")):
        return faults
    _added_tolerations(faults, spec.get("tolerations") or (), was.get("tolerations") or ())
    gates = {gate.get("name", "") for gate in was.get("schedulingGates") or ()}
    for i, gate in enumerate(spec.get("schedulingGates") or ()):
        if (name := gate.get("name", "")) not in gates:
            text = f"only deletion is allowed, but found new scheduling gate '{name}'"
            faults.append(forbidden(f"spec.schedulingGates[{i}].name", text))
    if not _same_but_for_updatable(faults, spec, was, bool(gates)):
        faults.append(forbidden("spec", f"pod updates may not change fields other than {_UPDATABLE}"))
    return faults


def _deadline(faults: Faults, new_s: int | None, old_s: int | None) -> bool:
    """Whether the rest of an update is worth looking at."""
    path = "spec.activeDeadlineSeconds"
    if new_s is None:
        if old_s is not None:
            faults.append(invalid(path, None, "must not update from a positive integer to nil value"))
    elif not 0 <= new_s <= _INT32_MAX:
        faults.append(invalid(path, new_s, formats.range_fault(0, _INT32_MAX)))
        return False
    elif old_s is not None and old_s < new_s:
        faults.append(invalid(path, new_s, "must be less than or equal to previous value"))
        return False
    return True


def _added_tolerations(faults: Faults, new: Sequence[Part], old: Sequence[Part]) -> None:
    def apart_from_time(toleration: Part) -> dict[str, Any]:
        return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}

    present = [apart_from_time(toleration) for toleration in new]
    if any(apart_from_time(toleration) not in present for toleration in old):
        text = "existing toleration can not be modified except its tolerationSeconds"
        faults.append(forbidden("spec.tolerations", text))
        return
    validate_tolerations(faults, new, "spec.tolerations")


def _same_but_for_updatable(faults: Faults, spec: Part, was: Part, gated: bool) -> bool:
    """Whether a pod's specs are equal but for what may change; a gated pod may still be told where to go."""
    free = {"containers", "initContainers", "activeDeadlineSeconds", "tolerations", "schedulingGates"}
    if spec.get("terminationGracePeriodSeconds") == 1 and (was.get("terminationGracePeriodSeconds") or 0) < 0:
        free.add("terminationGracePeriodSeconds")
    if gated:
        free |= {"nodeSelector", "affinity"}
        _gated_changes(faults, spec, was)
        if _but(spec.get("affinity") or {}, "nodeAffinity") != _but(was.get("affinity") or {}, "nodeAffinity"):
            return False
    for group in ("containers", "initContainers"):
        pairs = zip(spec.get(group) or (), was.get(group) or (), strict=True)
        if any(_but(container, "image") != _but(before, "image") for container, before in pairs):
            return False
    return _but(spec, *free) == _but(was, *free)


def _but(part: Part, *keys: str) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key not in keys}


def _gated_changes(faults: Faults, spec: Part, was: Part) -> None:
    selector = spec.get("nodeSelector") or {}
    if any(selector.get(key) != value for key, value in (was.get("nodeSelector") or {}).items()):
        text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        faults.append(invalid("spec.nodeSelector", selector, text))
    path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    terms, before = _required_terms(spec), _required_terms(was)
    if before and len(terms) != len(before):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        faults.append(invalid(path, terms, text))
        return
    for i, (term, old_term) in enumerate(zip(terms, before, strict=False)):
        if not _only_added(term, old_term):
            faults.append(invalid(f"{path}[{i}]", term, "only additions are allowed (no mutations or deletions)"))


def _required_terms(spec: Part) -> list[Part]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    selector = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return list(selector.get("nodeSelectorTerms") or ())


def _only_added(term: Part, old: Part) -> bool:
    keys = ("matchExpressions", "matchFields")
    if not any(old.get(key) for key in keys):
        # A term without conditions matches no node; adding one would widen it.
        return not any(term.get(key) for key in keys)
    return all((term.get(key) or [])[: len(old.get(key) or [])] == (old.get(key) or []) for key in keys)


def validate_status(new: Obj, old: Obj) -> Sequence[Cause]:
    faults: Faults = []
    status, was = new.get("status") or {}, old.get("status") or {}
    for i, condition in enumerate(status.get("conditions") or ()):
        kind = condition.get("type", "")
        if kind not in _OWN_CONDITIONS:
            add_all(faults, f"status.conditions[{i}].Type", kind, formats.label_key(kind))
    nominated = status.get("nominatedNodeName", "")
    if nominated and nominated != was.get("nominatedNodeName", ""):
        add_all(faults, "status.nominatedNodeName", nominated, formats.dns_subdomain(nominated))
        if old["spec"].get("nodeName"):
            text = "may not be set on pods that are already bound to a node"
            faults.append(forbidden("status.nominatedNodeName", text))
    immutable(faults, status, was, ("qosClass",), "status")
    if old["spec"].get("restartPolicy") != "Always":
        _terminated_stays(faults, status, was, old["spec"])
    for i, address in enumerate(status.get("podIPs") or ()):
        add_all(faults, f"status.podIPs[{i}]", address.get("ip", ""), formats.ip_address(address.get("ip", "")))
    hosts = status.get("hostIPs") or ()
    if hosts and hosts[0].get("ip") != status.get("hostIP", ""):
        faults.append(invalid("status.hostIPs[0].ip", hosts[0].get("ip", ""), "must be equal to `hostIP`"))
    return faults


def _terminated_stays(faults: Faults, status: Part, was: Part, spec: Part) -> None:
    current = {
        container_status.get("name"): container_status for container_status in status.get("containerStatuses") or ()
    }
    policies = {container.get("name"): container.get("restartPolicy") for container in spec.get("containers") or ()}
    for i, before in enumerate(was.get("containerStatuses") or ()):
        ended, name = (before.get("state") or {}).get("terminated"), before.get("name")
        if ended is None or name not in current or (current[name].get("state") or {}).get("terminated") is not None:
            continue
        policy = policies.get(name) or spec.get("restartPolicy")
        if policy == "Always" or (policy == "OnFailure" and ended.get("exitCode", 0) != 0):
            continue
        where = f"status.containerStatuses[{i}].state"
        faults.append(forbidden(where, "may not be transitioned to non-terminated state"))


def fields(pod: Obj) -> Mapping[str, str]:
    spec, status = pod["spec"], pod.get("status") or {}
    addresses = status.get("podIPs")
    return {
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.restartPolicy": spec.get("restartPolicy", ""),
        "spec.schedulerName": spec.get("schedulerName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
        "status.phase": status.get("phase", ""),
        "status.podIP": addresses[0].get("ip", "") if addresses else status.get("podIP", ""),
        # May be asked for, and is never anything: as the real server has it.
        "status.podIPs": "",
        "status.nominatedNodeName": status.get("nominatedNodeName", ""),
    }


def grace_s(pod: Obj, asked_s: int | None) -> int:
    """How long a deleted pod may take to stop. One that runs nowhere, or no longer, needs no time."""
    if not pod["spec"].get("nodeName") or (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
        return 0
    period_s: int = pod["spec"].get("terminationGracePeriodSeconds") or 0 if asked_s is None else asked_s
    return 1 if period_s < 0 else period_s


STRATEGY: Final = Strategy(
    default=default_pod,
    prepare_create=prepare_create,
    prepare_status=prepare_status,
    validate=validate,
    validate_metadata=validate_metadata,
    validate_create=validate_create,
    validate_update=validate_update,
    validate_status=validate_status,
    partial_updates=PARTIAL_UPDATES,
    fields=fields,
    columns=COLUMNS,
    warnings=pod_warnings,
    warns_again=lambda _new, _old: False,
    graceful=grace_s,
    returns_deleted=True,
)
