"""Nodes: taints must be unique, capacities sane, and what identifies a node does not change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from koord.api.kubernetes.pod_defaults import round_amounts
from koord.api.text import formats
from koord_minicluster.apiserver.bodies import json_text
from koord_minicluster.apiserver.builtin.checks import Faults, Part, add_all
from koord_minicluster.apiserver.builtin.pod_scheduling import taint_effect
from koord_minicluster.apiserver.builtin.resource_amounts import amount
from koord_minicluster.apiserver.printing import AGE, NAME, NONE, UNKNOWN, at, of, text
from koord_minicluster.apiserver.resource import Column, Obj, Strategy
from koord_minicluster.apiserver.status import Cause, duplicate, forbidden, invalid, required, shown

_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_AVOIDED: Final = "scheduler.alpha.kubernetes.io/preferAvoidPods"
_ROLE_LABEL: Final = "kubernetes.io/role"


def default(node: Obj) -> None:
    status = node.setdefault("status", {})
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])
    round_amounts(status.get("capacity"))
    round_amounts(status.get("allocatable"))
    spec = node.setdefault("spec", {})
    if spec.get("podCIDR") and (not spec.get("podCIDRs") or spec["podCIDRs"][0] != spec["podCIDR"]):
        # Older clients know only the one.
        spec["podCIDRs"] = [spec["podCIDR"]]
    elif spec.get("podCIDRs"):
        spec["podCIDR"] = spec["podCIDRs"][0]


def prepare_create(node: Obj) -> None:
    node["spec"].pop("configSource", None)
    (node.get("status") or {}).pop("config", None)


def validate(node: Obj) -> Sequence[Cause]:
    faults: Faults = []
    _taints(faults, node["spec"].get("taints") or (), "metadata.taints")
    _amounts(faults, node)
    avoided = (node["metadata"].get("annotations") or {}).get(_AVOIDED) or ""
    if avoided and (fault := json_text.fault(avoided.encode())):
        faults.append(invalid("metadata.annotations.AvoidPods", _AVOIDED, fault))
    _pod_ranges(faults, node["spec"].get("podCIDRs") or [])
    return faults


def _pod_ranges(faults: Faults, ranges: Sequence[str]) -> None:
    texts = [formats.cidr(value) for value in ranges]
    for i, value in enumerate(ranges):
        add_all(faults, f"spec.podCIDRs[{i}]", value, texts[i])
    if len(ranges) < 2:
        return
    for i, value in enumerate(ranges):
        if texts[i]:
            why = f"invalid CIDR[{i}]: <nil> (invalid CIDR address: {value})"
            text_ = f"Internal error: invalid PodCIDRs. failed to check with dual stack with error:{why}"
            faults.append(Cause("spec.podCIDRs", "InternalError", text_))
            break
    families = {":" in value for value in ranges}
    if any(texts) or len(families) < 2 or len(ranges) > 2:
        text_ = "may specify no more than one CIDR for each IP family"
        faults.append(invalid("spec.podCIDRs", ranges, text_))


def _amounts(faults: Faults, node: Obj) -> None:
    status = node.get("status") or {}
    for key in ("capacity", "allocatable"):
        for name, quantity in (status.get(key) or {}).items():
            amount(faults, name, quantity, f"status.{key}.{name}")


def _taints(faults: Faults, taints: Sequence[Part], path: str) -> None:
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(taints):
        where, key, effect = f"{path}[{i}]", taint.get("key", ""), taint.get("effect", "")
        add_all(faults, f"{where}.key", key, formats.label_key(key))
        if texts := formats.label_value(taint.get("value", "")):
            faults.append(invalid(f"{where}.value", taint["value"], ";".join(texts)))
        if not effect:
            faults.append(required(f"{where}.effect"))
        else:
            taint_effect(faults, effect, f"{where}.effect")
        if (key, effect) in seen:
            text_ = f"Duplicate value: {shown(_ordered(taint))}: taints must be unique by key and effect pair"
            faults.append(Cause(where, "FieldValueDuplicate", text_))
        seen.add((key, effect))


def _ordered(taint: Part) -> dict[str, object]:
    """A taint as Go's encoder prints it, with its own field names."""
    return {
        "Key": taint.get("key", ""),
        "Value": taint.get("value", ""),
        "Effect": taint.get("effect", ""),
        "TimeAdded": taint.get("timeAdded"),
    }


def validate_update(new: Obj, old: Obj) -> Sequence[Cause]:
    faults: Faults = []
    # The real server checks amounts and taints a second time here, and says so twice.
    _amounts(faults, new)
    _identity(faults, new, old)
    _taints(faults, new["spec"].get("taints") or (), "metadata.taints")
    return faults


def validate_status(new: Obj, old: Obj) -> Sequence[Cause]:
    faults: Faults = []
    _amounts(faults, new)
    _identity(faults, new, old)
    return faults


def _identity(faults: Faults, new: Obj, old: Obj) -> None:
    seen: list[Part] = []
    for i, address in enumerate((new.get("status") or {}).get("addresses") or ()):
        if address in seen:
            value = {"Type": address.get("type", ""), "Address": address.get("address", "")}
            faults.append(duplicate(f"status.addresses[{i}]", value))
        seen.append(address)
    text_ = 'node updates may not change {} except from "" to valid'
    if (before := old["spec"].get("podCIDRs")) and before != new["spec"].get("podCIDRs"):
        faults.append(forbidden("spec.podCIDRs", text_.format("podCIDR")))
    if (provider := old["spec"].get("providerID")) and provider != new["spec"].get("providerID"):
        faults.append(forbidden("spec.providerID", text_.format("providerID")))


def warnings(node: Obj) -> Sequence[str]:
    said = []
    if node["spec"].get("configSource") is not None:
        said.append("spec.configSource: the feature is no longer supported")
    if node["spec"].get("externalID"):
        said.append("spec.externalID: this field is deprecated, and is unused by Kubernetes")
    return said


def fields(node: Obj) -> Mapping[str, str]:
    return {"spec.unschedulable": "true" if node["spec"].get("unschedulable") else "false"}


def _status(node: Obj) -> str:
    conditions = {condition.get("type"): condition for condition in (node.get("status") or {}).get("conditions") or ()}
    ready = conditions.get("Ready")
    said = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{said},SchedulingDisabled" if node["spec"].get("unschedulable") else said


def _roles(node: Obj) -> str:
    roles = set()
    for key, value in (node["metadata"].get("labels") or {}).items():
        if key.startswith(_ROLE_PREFIX) and len(key) > len(_ROLE_PREFIX):
            roles.add(key.removeprefix(_ROLE_PREFIX))
        elif key == _ROLE_LABEL and value:
            roles.add(value)
    return ",".join(sorted(roles)) or NONE


def _address(kind: str, node: Obj) -> str:
    addresses = (node.get("status") or {}).get("addresses") or ()
    return next((address.get("address", "") for address in addresses if address.get("type") == kind), NONE)


def _info(key: str, node: Obj) -> str:
    return ((node.get("status") or {}).get("nodeInfo") or {}).get(key) or UNKNOWN


COLUMNS: Final[tuple[Column, ...]] = (
    NAME,
    text("Status", of(_status)),
    text("Roles", of(_roles)),
    AGE,
    text("Version", at("status", "nodeInfo", "kubeletVersion")),
    text("Internal-IP", of(lambda node: _address("InternalIP", node)), 1),
    text("External-IP", of(lambda node: _address("ExternalIP", node)), 1),
    text("OS-Image", of(lambda node: _info("osImage", node)), 1),
    text("Kernel-Version", of(lambda node: _info("kernelVersion", node)), 1),
    text("Container-Runtime", of(lambda node: _info("containerRuntimeVersion", node)), 1),
)

STRATEGY: Final = Strategy(
    warnings=warnings,
    default=default,
    prepare_create=prepare_create,
    validate=validate,
    validate_update=validate_update,
    validate_status=validate_status,
    fields=fields,
    columns=COLUMNS,
    has_generation=False,
)
