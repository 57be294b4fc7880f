"""storage.k8s.io: classes of storage, drivers, and what is attached where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from koord.api.text import formats
from koord.api.text.quantity import canonical
from koord_minicluster.apiserver.builtin.checks import (
    Faults,
    Part,
    add_all,
    choice,
    immutable,
    label_selector,
    not_negative,
    quantity_sign,
)
from koord_minicluster.apiserver.builtin.pod_volumes import csi_driver_name
from koord_minicluster.apiserver.builtin.statuses import keep_metadata
from koord_minicluster.apiserver.printing import AGE, CREATED_AT, NAME, NONE, UNSET, age, at, of, text
from koord_minicluster.apiserver.resource import Column, Obj, Strategy
from koord_minicluster.apiserver.status import Cause, duplicate, forbidden, invalid, not_supported, required, too_long

_DEFAULT_CLASS: Final = ("storageclass.kubernetes.io/is-default-class",
                         "storageclass.beta.kubernetes.io/is-default-class")  # fmt: skip
_FS_GROUP: Final = ("File", "None", "ReadWriteOnceWithFSType")
_BINDING: Final = ("Immediate", "WaitForFirstConsumer")
_MOST_PARAMETERS: Final = 512
_PARAMETERS_LIMIT_BYTES: Final = 256 << 10
_NOT_OF_STATUS: Final = ("annotations", "deletionTimestamp", "finalizers", "labels", "ownerReferences")


def default_class(obj: Obj) -> None:
    for key, value in (("reclaimPolicy", "Delete"), ("volumeBindingMode", "Immediate")):
        if obj.get(key) is None:
            obj[key] = value


def _provisioner(faults: Faults, obj: Obj, key: str) -> None:
    name = obj.get(key, "")
    if not name:
        faults.append(required(key))
    else:
        add_all(faults, key, name.lower(), formats.label_key(name.lower()))


def _parameters(faults: Faults, obj: Obj) -> None:
    given: Mapping[str, str] = obj.get("parameters") or {}
    if len(given) > _MOST_PARAMETERS:
        faults.append(too_long("parameters", _MOST_PARAMETERS))
        return
    if "" in given:
        faults.append(invalid("parameters", "", "field can not be empty."))
    if sum(len(key.encode()) + len(value.encode()) for key, value in given.items()) > _PARAMETERS_LIMIT_BYTES:
        faults.append(too_long("parameters", _PARAMETERS_LIMIT_BYTES))


def validate_class(obj: Obj) -> Sequence[Cause]:
    faults: Faults = []
    _provisioner(faults, obj, "provisioner")
    _parameters(faults, obj)
    choice(faults, obj, "reclaimPolicy", "", ("Delete", "Retain", ""), ("Delete", "Retain"))
    choice(faults, obj, "volumeBindingMode", "", _BINDING, _BINDING)
    _topologies(faults, obj.get("allowedTopologies") or ())
    return faults


def _topologies(faults: Faults, terms: Sequence[Part]) -> None:
    # The real server compares with as many terms that say nothing as there are terms, before those that it has seen.
    seen: list[dict[str, set[str]]] = [{} for _ in terms]
    for i, term in enumerate(terms):
        said: dict[str, set[str]] = {}
        for j, expression in enumerate(term.get("matchLabelExpressions") or ()):
            path, key, values = (
                f"allowedTopologies[{i}].matchLabelExpressions[{j}]",
                expression.get("key", ""),
                set[str](),
            )
            if not expression.get("values"):
                faults.append(required(f"{path}.values"))
            for n, value in enumerate(expression.get("values") or ()):
                if value in values:
                    faults.append(duplicate(f"{path}.values[{n}]", value))
                values.add(value)
            add_all(faults, f"{path}.key", key, formats.label_key(key))
            if key in said:
                faults.append(duplicate(f"{path}.key", key))
            said[key] = values
        path = f"allowedTopologies[{i}].matchLabelExpressions"
        faults += [duplicate(path, "") for other in seen if other == said]
        seen.append(said)


def validate_class_update(new: Obj, old: Obj) -> Sequence[Cause]:
    faults: Faults = []
    for key in ("parameters", "provisioner", "reclaimPolicy"):
        if new.get(key) != old.get(key):
            faults.append(forbidden(key, f"updates to {key} are forbidden."))
    immutable(faults, new, old, ("volumeBindingMode",), "")
    return faults


def default_driver(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    for key, value in (
        ("attachRequired", True),
        ("podInfoOnMount", False),
        ("storageCapacity", False),
        ("fsGroupPolicy", "ReadWriteOnceWithFSType"),
        ("requiresRepublish", False),
        ("seLinuxMount", False),
    ):
        if spec.get(key) is None:
            spec[key] = value
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]


def count_driver_change(new: Obj, old: Obj) -> None:
    """Changes of a driver are counted, though its beginning is not."""
    if new.get("spec") != old.get("spec"):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def validate_driver(obj: Obj) -> Sequence[Cause]:
    faults: Faults = []
    spec = obj["spec"]
    choice(faults, spec, "fsGroupPolicy", "spec", _FS_GROUP, _FS_GROUP)
    seen: set[str] = set()
    for i, request in enumerate(spec.get("tokenRequests") or ()):
        path, audience = f"spec.tokenRequests[{i}]", request.get("audience", "")
        if audience in seen:
            faults.append(duplicate(f"{path}.audience", audience))
            continue
        seen.add(audience)
        seconds = request.get("expirationSeconds")
        if seconds is not None and seconds < 600:
            text_ = "may not specify a duration less than 10 minutes"
            faults.append(invalid(f"{path}.expirationSeconds", seconds, text_))
    for mode in spec.get("volumeLifecycleModes") or ():
        if mode not in ("Persistent", "Ephemeral"):
            faults.append(not_supported("spec.volumeLifecycleModes", mode, ("Persistent", "Ephemeral")))
    period_s = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period_s is not None and period_s < 10:
        text_ = "must be greater than or equal to 10 seconds"
        faults.append(invalid("spec.nodeAllocatableUpdatePeriodSeconds", period_s, text_))
    return faults


def validate_driver_update(new: Obj, old: Obj) -> Sequence[Cause]:
    faults: Faults = []
    if new["spec"].get("attachRequired") != old["spec"].get("attachRequired"):
        faults.append(invalid("spec.attachedRequired", new["spec"].get("attachRequired"), "field is immutable"))
    immutable(faults, new["spec"], old["spec"], ("volumeLifecycleModes",), "spec")
    return faults


def validate_csi_node(obj: Obj) -> Sequence[Cause]:
    faults: Faults = []
    seen: set[str] = set()
    for i, driver in enumerate(obj["spec"].get("drivers") or ()):
        path, name = f"spec.drivers[{i}]", driver.get("name", "")
        csi_driver_name(faults, name, f"{path}.name")
        if not driver.get("nodeID"):
            faults.append(required(f"{path}.nodeID"))
        elif len(driver["nodeID"]) > 256:
            faults.append(invalid(f"{path}.nodeID", driver["nodeID"], "must be 256 characters or less"))
        not_negative(faults, driver.get("allocatable") or {}, ("count",), f"{path}.allocatable")
        if name in seen:
            faults.append(duplicate(f"{path}.name", name))
        seen.add(name)
        keys: set[str] = set()
        for key in driver.get("topologyKeys") or ():
            if not key:
                faults.append(required(path))
            if key in keys:
                faults.append(duplicate(path, key))
            keys.add(key)
            add_all(faults, path, key, formats.label_key(key))
    return faults


def validate_csi_node_update(new: Obj, old: Obj) -> Sequence[Cause]:
    faults: Faults = []
    former = {driver.get("name"): _fixed(driver) for driver in old["spec"].get("drivers") or ()}
    for driver in new["spec"].get("drivers") or ():
        before = former.get(driver.get("name"))
        if before is not None and before != _fixed(driver):
            faults.append(invalid("spec.drivers", _shown_driver(driver), "field is immutable"))
    return faults


def _shown_driver(driver: Part) -> dict[str, Any]:
    """As Go's encoder prints it, with its own field names."""
    allocatable = driver.get("allocatable")
    return {
        "Name": driver.get("name", ""),
        "NodeID": driver.get("nodeID", ""),
        "TopologyKeys": driver.get("topologyKeys"),
        "Allocatable": {"Count": allocatable.get("count")} if allocatable is not None else None,
    }


def _fixed(driver: Part) -> dict[str, Any]:
    return {key: value for key, value in driver.items() if key != "allocatable"}


def validate_capacity(obj: Obj) -> Sequence[Cause]:
    faults: Faults = []
    label_selector(faults, obj.get("nodeTopology"), "nodeTopology")
    name = obj.get("storageClassName", "")
    add_all(faults, "storageClassName", name, formats.dns_subdomain(name))
    capacity = obj.get("capacity")
    if capacity is not None and quantity_sign(capacity) < 0:
        faults.append(invalid("capacity", canonical(capacity), "must be greater than or equal to 0"))
    return faults


def validate_capacity_update(new: Obj, old: Obj) -> Sequence[Cause]:
    faults: Faults = []
    immutable(faults, new, old, ("nodeTopology", "storageClassName"), "")
    return faults


def _inline(faults: Faults, spec: Part, path: str) -> None:
    where = "in the context of inline volumes"
    for key in ("claimRef", "capacity"):
        if spec.get(key):
            faults.append(forbidden(f"{path}.{key}", f"may not be specified {where}"))
    if spec.get("csi") is None:
        faults.append(required(f"{path}.csi", f"has to be specified {where}"))
    if not spec.get("accessModes"):
        faults.append(required(f"{path}.accessModes"))
    if spec.get("persistentVolumeReclaimPolicy") not in (None, "", "Retain"):
        faults.append(forbidden(f"{path}.persistentVolumeReclaimPolicy", f"may only be Retain {where}"))
    for key in ("nodeAffinity", "storageClassName"):
        if spec.get(key):
            faults.append(forbidden(f"{path}.{key}", f"may not be specified {where}"))
    if spec.get("volumeMode") not in (None, "Filesystem"):
        text_ = f"may not specify volumeMode other than Filesystem {where}"
        faults.append(forbidden(f"{path}.volumeMode", text_))


def validate_attachment(obj: Obj) -> Sequence[Cause]:
    faults: Faults = []
    spec = obj["spec"]
    source: Mapping[str, Any] = spec.get("source") or {}
    if not spec.get("attacher"):
        faults.append(required("spec.attacher"))
    one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    inline, name = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    if inline is None and name is None:
        faults.append(required("spec.source", one))
    elif inline is not None and name is not None:
        faults.append(forbidden("spec.source", one))
    elif name == "":
        faults.append(required("spec.source.persistentVolumeName", "must specify non empty persistentVolumeName"))
    if inline is not None and name is None:
        _inline(faults, inline, "spec.source.inlineVolumeSpec")
    node = spec.get("nodeName", "")
    add_all(faults, "spec.nodeName", node, formats.dns_subdomain(node))
    return faults


def validate_attachment_create(obj: Obj) -> Sequence[Cause]:
    faults: Faults = []
    csi_driver_name(faults, obj["spec"].get("attacher", ""), "spec.attacher")
    if (name := (obj["spec"].get("source") or {}).get("persistentVolumeName")) is not None:
        add_all(faults, "spec.source.persistentVolumeName", name, formats.dns_subdomain(name))
    return faults


def validate_attachment_update(new: Obj, old: Obj) -> Sequence[Cause]:
    if new["spec"] == old["spec"]:
        return ()
    spec, source = new["spec"], new["spec"].get("source") or {}
    shown = {
        "Attacher": spec.get("attacher", ""),
        "Source": {
            "PersistentVolumeName": source.get("persistentVolumeName"),
            "InlineVolumeSpec": source.get("inlineVolumeSpec"),
        },
        "NodeName": spec.get("nodeName", ""),
    }
    return [invalid("spec", shown, "field is immutable")]


def validate_attributes_class(obj: Obj) -> Sequence[Cause]:
    faults: Faults = []
    _provisioner(faults, obj, "driverName")
    _parameters(faults, obj)
    if not obj.get("parameters"):
        faults.append(required("parameters", "must contain at least one key/value pair"))
    return faults


def validate_attributes_class_update(new: Obj, old: Obj) -> Sequence[Cause]:
    return [
        forbidden(key, f"updates to {key} are forbidden.")
        for key in ("driverName", "parameters")
        if new.get(key) != old.get(key)
    ]


def _class_name(obj: Obj) -> str:
    annotations = obj["metadata"].get("annotations") or {}
    is_default = any(annotations.get(key) == "true" for key in _DEFAULT_CLASS)
    return f"{obj['metadata'].get('name', '')} (default)" if is_default else str(obj["metadata"].get("name", ""))


def _audiences(obj: Obj) -> str:
    requests = obj["spec"].get("tokenRequests")
    return UNSET if requests is None else ",".join(token_request.get("audience", "") for token_request in requests)


def _flag(column: str, *path: str) -> Column:
    return Column(column, "boolean", at(*path, default=False))


STORAGE_CLASS: Final = Strategy(
    default=default_class,
    validate=validate_class,
    validate_update=validate_class_update,
    columns=(
        Column("Name", "string", of(_class_name), format="name"),
        text("Provisioner", at("provisioner")),
        text("ReclaimPolicy", at("reclaimPolicy", default="Delete")),
        text("VolumeBindingMode", at("volumeBindingMode", default="Immediate")),
        text("AllowVolumeExpansion", at("allowVolumeExpansion", default=False)),
        AGE,
    ),
    has_status=False,
    has_generation=False,
    returns_deleted=True,
)
ATTRIBUTES_CLASS: Final = Strategy(
    validate=validate_attributes_class,
    validate_update=validate_attributes_class_update,
    judges_change_first=True,
    columns=(NAME, text("DriverName", at("driverName")), AGE),
    has_status=False,
    has_generation=False,
    returns_deleted=True,
)
CSI_DRIVER: Final = Strategy(
    default=default_driver,
    prepare_update=count_driver_change,
    validate=validate_driver,
    validate_update=validate_driver_update,
    columns=(
        NAME,
        Column("AttachRequired", "boolean", at("spec", "attachRequired", default=True)),
        _flag("PodInfoOnMount", "spec", "podInfoOnMount"),
        _flag("StorageCapacity", "spec", "storageCapacity"),
        text("TokenRequests", of(_audiences)),
        _flag("RequiresRepublish", "spec", "requiresRepublish"),
        text("Modes", of(lambda o: ",".join(o["spec"].get("volumeLifecycleModes") or ()) or NONE)),
        AGE,
    ),
    has_status=False,
    has_generation=False,
    unconditional_update=False,
    returns_deleted=True,
)
CSI_NODE: Final = Strategy(
    judges_twice=True,
    validate=validate_csi_node,
    validate_update=validate_csi_node_update,
    columns=(NAME, Column("Drivers", "integer", of(lambda o: len(o["spec"].get("drivers") or ()))), AGE),
    has_status=False,
    has_generation=False,
    unconditional_update=False,
    returns_deleted=True,
)
CSI_STORAGE_CAPACITY: Final = Strategy(
    validate=validate_capacity,
    validate_update=validate_capacity_update,
    columns=(NAME, CREATED_AT),
    has_status=False,
    has_generation=False,
    unconditional_update=False,
)
VOLUME_ATTACHMENT: Final = Strategy(
    prepare_status=lambda new, old: keep_metadata(new, old, _NOT_OF_STATUS),
    validate=validate_attachment,
    validate_create=validate_attachment_create,
    validate_update=validate_attachment_update,
    columns=(
        NAME,
        Column("Attacher", "string", at("spec", "attacher"), format="name"),
        text("PV", at("spec", "source", "persistentVolumeName")),
        text("Node", at("spec", "nodeName")),
        _flag("Attached", "status", "attached"),
        Column("Age", "string", age),
    ),
    has_generation=False,
    unconditional_update=False,
    returns_deleted=True,
)
