"""resource.k8s.io: claims of devices, their templates, what drivers publish, and classes of devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from koord.api.text import formats
from koord_minicluster.apiserver.builtin.checks import Faults, Part, add_all, immutable
from koord_minicluster.apiserver.builtin.statuses import keep_metadata
from koord_minicluster.apiserver.printing import AGE, NAME, UNSET, at, text
from koord_minicluster.apiserver.resource import Column, Obj, Strategy
from koord_minicluster.apiserver.status import Cause, duplicate, forbidden, invalid, not_supported, required, too_many

MOST_REQUESTS: Final = 32
MOST_ALTERNATIVES: Final = 8
MOST_CONSUMERS: Final = 256
MOST_DEVICES: Final = 128
_MODES: Final = ("All", "ExactCount")
_NOT_OF_STATUS: Final = ("annotations", "deletionTimestamp", "finalizers", "labels", "ownerReferences")
_FIXED: Final = "field is immutable"


def _requests(spec: Part) -> Iterable[Obj]:
    """All requests and their alternatives, without their names."""
    for request in (spec.get("devices") or {}).get("requests") or ():
        if request.get("exactly") is not None:
            yield request["exactly"]
        yield from request.get("firstAvailable") or ()


def _default_spec(spec: Part) -> None:
    for request in _requests(spec):
        if not request.get("allocationMode"):
            request["allocationMode"] = "ExactCount"
        if request["allocationMode"] == "ExactCount" and not request.get("count"):
            request["count"] = 1
        for toleration in request.get("tolerations") or ():
            if not toleration.get("operator"):
                toleration["operator"] = "Equal"


def _default_claim(claim: Obj) -> None:
    _default_spec(claim.setdefault("spec", {}))


def _default_template(template: Obj) -> None:
    _default_spec(template.setdefault("spec", {}).setdefault("spec", {}))


def _validate_spec(faults: Faults, spec: Part, path: str) -> None:
    requests = (spec.get("devices") or {}).get("requests") or ()
    if len(requests) > MOST_REQUESTS:
        faults.append(too_many(f"{path}.devices.requests", len(requests), MOST_REQUESTS))
    seen: set[str] = set()
    for i, request in enumerate(requests):
        at_ = f"{path}.devices.requests[{i}]"
        _name(faults, request, at_, seen)
        exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or ()
        if (exactly is None) is not bool(alternatives):
            names = "`exactly` or `firstAvailable`"
            if exactly is None:
                faults.append(required(at_, f"exactly one of {names} is required"))
            else:
                faults.append(invalid(at_, None, f"exactly one of {names} is required, but multiple fields are set"))
        if exactly is not None:
            _validate_request(faults, exactly, f"{at_}.exactly")
        if len(alternatives) > MOST_ALTERNATIVES:
            faults.append(too_many(f"{at_}.firstAvailable", len(alternatives), MOST_ALTERNATIVES))
        names_seen: set[str] = set()
        for j, alternative in enumerate(alternatives):
            _name(faults, alternative, f"{at_}.firstAvailable[{j}]", names_seen)
            _validate_request(faults, alternative, f"{at_}.firstAvailable[{j}]")
    for i, constraint in enumerate((spec.get("devices") or {}).get("constraints") or ()):
        if not constraint.get("matchAttribute") and not constraint.get("distinctAttribute"):
            faults.append(required(f"{path}.devices.constraints[{i}]", "exactly one of the fields must be set"))


def _name(faults: Faults, part: Part, path: str, seen: set[str]) -> None:
    name = part.get("name") or ""
    if not name:
        faults.append(required(f"{path}.name"))
        return
    add_all(faults, f"{path}.name", name, formats.dns_label(name))
    if name in seen:
        faults.append(duplicate(f"{path}.name", name))
    seen.add(name)


def _validate_request(faults: Faults, request: Part, path: str) -> None:
    class_name = request.get("deviceClassName") or ""
    if not class_name:
        faults.append(required(f"{path}.deviceClassName"))
    else:
        add_all(faults, f"{path}.deviceClassName", class_name, formats.dns_subdomain(class_name))
    mode, count = request.get("allocationMode") or "", request.get("count") or 0
    if mode not in _MODES:
        faults.append(not_supported(f"{path}.allocationMode", mode, _MODES))
    elif mode == "All" and count:
        faults.append(invalid(f"{path}.count", count, 'must not be specified when allocationMode is "All"'))
    elif mode == "ExactCount" and count <= 0:
        faults.append(invalid(f"{path}.count", count, "must be greater than zero"))
    _selectors(faults, request, path)


def _selectors(faults: Faults, part: Part, path: str) -> None:
    for i, selector in enumerate(part.get("selectors") or ()):
        if not (selector.get("cel") or {}).get("expression"):
            faults.append(required(f"{path}.selectors[{i}].cel.expression"))


def _validate_claim(claim: Obj) -> Sequence[Cause]:
    faults: Faults = []
    _validate_spec(faults, claim["spec"], "spec")
    return faults


def _validate_template(template: Obj) -> Sequence[Cause]:
    faults: Faults = []
    _validate_spec(faults, template["spec"].get("spec") or {}, "spec.spec")
    return faults


def _fixed_spec(new: Obj, old: Obj) -> Sequence[Cause]:
    faults: Faults = []
    immutable(faults, new, old, ("spec",), "")
    return faults


def _prepare_claim(claim: Obj) -> None:
    claim["status"] = {}


def _prepare_claim_status(new: Obj, old: Obj) -> None:
    """Without an allocation there is nothing that drivers could report."""
    keep_metadata(new, old, _NOT_OF_STATUS)
    status = new.get("status") or {}
    if not status.get("allocation"):
        status.pop("devices", None)


def _validate_claim_status(new: Obj, old: Obj) -> Sequence[Cause]:
    faults: Faults = []
    status, was = new.get("status") or {}, old.get("status") or {}
    allocation, allocated = status.get("allocation"), was.get("allocation")
    consumers = status.get("reservedFor") or ()
    if allocation and allocated and allocation != allocated:
        faults.append(invalid("status.allocation", allocation, _FIXED))
    if consumers and not allocation:
        faults.append(forbidden("status.reservedFor", "may not be specified when `allocated` is not set"))
    if len(consumers) > MOST_CONSUMERS:
        faults.append(too_many("status.reservedFor", len(consumers), MOST_CONSUMERS))
    before = {consumer.get("uid") for consumer in was.get("reservedFor") or ()}
    for i, consumer in enumerate(consumers):
        for key in ("resource", "name", "uid"):
            if not consumer.get(key):
                faults.append(required(f"status.reservedFor[{i}].{key}"))
        if old["metadata"].get("deletionTimestamp") and consumer.get("uid") not in before:
            faults.append(forbidden("status.reservedFor", "new consumers may not be added while the claim is deleted"))
    return faults


def _default_slice(slice_: Obj) -> None:
    for device in slice_.setdefault("spec", {}).get("devices") or ():
        for capacity in (device.get("capacity") or {}).values():
            capacity.setdefault("value", "0")


def _validate_slice(slice_: Obj) -> Sequence[Cause]:
    faults: Faults = []
    spec = slice_["spec"]
    driver, pool = spec.get("driver") or "", spec.get("pool") or {}
    if not driver:
        faults.append(required("spec.driver"))
    else:
        add_all(faults, "spec.driver", driver, formats.dns_subdomain(driver))
    if not pool.get("name"):
        faults.append(required("spec.pool.name"))
    if (pool.get("resourceSliceCount") or 0) <= 0:
        text_ = "must be greater than zero"
        faults.append(invalid("spec.pool.resourceSliceCount", pool.get("resourceSliceCount") or 0, text_))
    where = [key for key in ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection") if spec.get(key)]
    if len(where) != 1:
        names = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
        more = ", but multiple fields are set"
        faults.append(invalid("spec", "{" + ", ".join(where) + "}", names + more) if where else required("spec", names))
    devices = spec.get("devices") or ()
    if len(devices) > MOST_DEVICES:
        faults.append(too_many("spec.devices", len(devices), MOST_DEVICES))
    seen: set[str] = set()
    for i, device in enumerate(devices):
        _name(faults, device, f"spec.devices[{i}]", seen)
    return faults


def _validate_slice_update(new: Obj, old: Obj) -> Sequence[Cause]:
    faults: Faults = []
    immutable(faults, new["spec"], old["spec"], ("driver", "nodeName"), "spec")
    immutable(faults, new["spec"].get("pool") or {}, old["spec"].get("pool") or {}, ("name",), "spec.pool")
    return faults


def _slice_fields(slice_: Obj) -> Mapping[str, str]:
    spec = slice_.get("spec") or {}
    return {"spec.nodeName": spec.get("nodeName") or "", "spec.driver": spec.get("driver") or ""}


def _validate_class(class_: Obj) -> Sequence[Cause]:
    faults: Faults = []
    _selectors(faults, class_["spec"], "spec")
    return faults


def _state(claim: Obj, _now_s: float) -> object:
    status = claim.get("status") or {}
    words = ["deleted"] if claim["metadata"].get("deletionTimestamp") else []
    words += (
        ["allocated", "reserved"] if status.get("reservedFor") else ["allocated"] if status.get("allocation") else []
    )
    return ",".join(words) if words else "pending"


CLAIM: Final = Strategy(
    default=_default_claim,
    prepare_create=_prepare_claim,
    prepare_status=_prepare_claim_status,
    validate=_validate_claim,
    validate_update=_fixed_spec,
    validate_status=_validate_claim_status,
    has_generation=False,
    columns=(NAME, Column("State", "string", _state), AGE),
)
TEMPLATE: Final = Strategy(
    default=_default_template,
    validate=_validate_template,
    validate_update=_fixed_spec,
    has_status=False,
    has_generation=False,
    columns=(NAME, AGE),
)
SLICE: Final = Strategy(
    default=_default_slice,
    validate=_validate_slice,
    validate_update=_validate_slice_update,
    fields=_slice_fields,
    has_status=False,
    columns=(
        NAME,
        text("Node", at("spec", "nodeName", default=UNSET)),
        text("Driver", at("spec", "driver")),
        text("Pool", at("spec", "pool", "name")),
        AGE,
    ),
)
CLASS: Final = Strategy(validate=_validate_class, has_status=False, columns=(NAME, AGE))
