"""PersistentVolumeClaims and PersistentVolumes: storage that is asked for, and storage that there is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from koord.api.kubernetes.pod_defaults import default_claim_spec, round_amounts
from koord.api.text import formats
from koord.api.text.quantity import Number, canonical, compare, milli, value
from koord_minicluster.apiserver.builtin.checks import Faults, Part, add_all, immutable, quantity_sign
from koord_minicluster.apiserver.builtin.claim_specs import VOLUME_MODES, access_modes, validate_claim_spec
from koord_minicluster.apiserver.builtin.disk_volumes import validate_disk
from koord_minicluster.apiserver.builtin.pod_scheduling import node_selector
from koord_minicluster.apiserver.builtin.pod_volumes import csi_driver_name, validate_host_path, validate_nfs
from koord_minicluster.apiserver.printing import AGE, NAME, UNSET, at, of, text
from koord_minicluster.apiserver.resource import Obj, Strategy
from koord_minicluster.apiserver.status import Cause, forbidden, invalid, not_supported, required

_SHORT_MODES: Final = (("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"),
                       ("ReadWriteOncePod", "RWOP"))  # fmt: skip
_CSI_SECRETS: Final = (
    "controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef",
)  # fmt: skip
_RECLAIM: Final = ("Delete", "Recycle", "Retain")
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_OLD_CLASS: Final = 'deprecated since v1.8; use "storageClassName" attribute instead'
_MOUNT_OPTIONS: Final = "volume.beta.kubernetes.io/mount-options"
_MOUNTED: Final = frozenset(
    {"gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "nfs", "rbd", "quobyte", "iscsi", "cinder", "cephfs",
     "azureFile", "vsphereVolume", "azureDisk", "photonPersistentDisk"}
)  # fmt: skip
"""Sources that take options for mounting in an annotation."""
_OLD_ANNOTATIONS: Final = {
    _CLASS_ANNOTATION: _OLD_CLASS,
    _MOUNT_OPTIONS: 'deprecated since v1.31; use "mountOptions" attribute instead',
}
_OLD_SOURCES: Final = (
    ("cephfs", "cephfs", "v1.28", "v1.31"), ("photonPersistentDisk", "photonPersistentDisk", "v1.11", "v1.16"),
    ("scaleIO", "scaleIO", "v1.16", "v1.22"), ("storageos", "storageOS", "v1.22", "v1.25"),
    ("glusterfs", "glusterfs", "v1.25", "v1.26"), ("rbd", "rbd", "v1.28", "v1.31"),
)  # fmt: skip
_CLAIM_FIXED: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)
_DATA_SOURCES: Final = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))
"""What dataSource may name; anything else is dropped from it, and belongs in dataSourceRef."""
_NOT_SOURCES: Final = frozenset(
    {"accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy",
     "storageClassName", "volumeAttributesClassName", "volumeMode"}
)  # fmt: skip


def default_claim(claim: Obj) -> None:
    spec = claim.setdefault("spec", {})
    default_claim_spec(spec)
    if not claim.setdefault("status", {}).get("phase"):
        claim["status"]["phase"] = "Pending"


def _settle_sources(spec: Obj) -> None:
    """Two names of one field, kept equal; what only the newer one may say is dropped from the older."""
    source = spec.get("dataSource")
    if source is not None and (source.get("apiGroup") or "", source.get("kind", "")) not in _DATA_SOURCES:
        del spec["dataSource"]
    if (spec.get("dataSourceRef") or {}).get("namespace"):
        # Of other namespaces nothing is taken yet.
        del spec["dataSourceRef"]
    for key, other in (("dataSource", "dataSourceRef"), ("dataSourceRef", "dataSource")):
        if spec.get(key) is not None and spec.get(other) is None:
            spec[other] = dict(spec[key])


def claim_warnings(claim: Obj) -> Sequence[str]:
    said = []
    if _CLASS_ANNOTATION in (claim["metadata"].get("annotations") or {}):
        said.append(f"metadata.annotations[{_CLASS_ANNOTATION}]: {_OLD_CLASS}")
    for key in ("requests", "limits"):
        amount = ((claim["spec"].get("resources") or {}).get(key) or {}).get("storage")
        if amount is not None and milli(amount) % 1000:
            text_ = f'fractional byte value "{canonical(amount)}" is invalid, must be an integer'
            said.append(f"spec.resources.{key}[storage]: {text_}")
    return said


def _prepare_claim(claim: Obj) -> None:
    claim["status"] = {}
    _settle_sources(claim["spec"])


def _when_read(claim: Obj) -> bool:
    if claim["status"].get("phase"):
        return False
    claim["status"]["phase"] = "Pending"
    return True


def validate_claim(claim: Obj) -> Sequence[Cause]:
    faults: Faults = []
    validate_claim_spec(faults, claim["spec"], "spec")
    return faults


def validate_claim_update(new: Obj, old: Obj) -> Sequence[Cause]:
    faults: Faults = []
    spec, was = new["spec"], old["spec"]
    aside: set[str] = set()
    if not was.get("volumeName"):
        aside.add("volumeName")
    if was.get("storageClassName") is None and spec.get("storageClassName") is not None:
        aside.add("storageClassName")
    annotations, annotations_were = new["metadata"].get("annotations") or {}, old["metadata"].get("annotations") or {}
    if annotations.get(_CLASS_ANNOTATION) != annotations_were.get(_CLASS_ANNOTATION):
        shown = annotations.get(_CLASS_ANNOTATION, "")
        faults.append(invalid(f"metadata.annotations.{_CLASS_ANNOTATION}", shown, "field is immutable"))
    bound = (old.get("status") or {}).get("phase") == "Bound"
    if bound:
        aside.add("volumeAttributesClassName")
    if _claim_part(spec, aside, bound) != _claim_part(was, aside, bound):
        faults.append(forbidden("spec", _CLAIM_FIXED))
    size, size_was = _size(spec), _size(was)
    capacity = ((old.get("status") or {}).get("capacity") or {}).get("storage", 0)
    if compare(size, size_was) < 0 and compare(size, capacity) <= 0:
        text_ = "field can not be less than status.capacity"
        faults.append(forbidden("spec.resources.requests.storage", text_))
    immutable(faults, spec, was, ("volumeMode",), "")
    return faults


def _size(spec: Part) -> Number:
    size: Number = ((spec.get("resources") or {}).get("requests") or {}).get("storage", 0)
    return size


def _claim_part(spec: Part, aside: set[str], bound: bool) -> dict[str, Any]:
    kept = {key: part for key, part in spec.items() if key not in aside}
    if bound and (resources := kept.get("resources")):
        requests = {key: size for key, size in (resources.get("requests") or {}).items() if key != "storage"}
        kept["resources"] = {**resources, "requests": requests}
    return kept


def validate_claim_status(new: Obj, _old: Obj) -> Sequence[Cause]:
    faults: Faults = []
    for name, quantity in ((new.get("status") or {}).get("capacity") or {}).items():
        if quantity_sign(quantity) < 0:
            text_ = "must be a valid resource quantity"
            faults.append(invalid(f"status.capacity[{name}]", value(quantity), text_))
    return faults


def default_volume(volume: Obj) -> None:
    spec = volume.setdefault("spec", {})
    round_amounts(spec.get("capacity"))
    if not spec.get("persistentVolumeReclaimPolicy"):
        spec["persistentVolumeReclaimPolicy"] = "Retain"
    if spec.get("volumeMode") is None:
        spec["volumeMode"] = "Filesystem"
    if (host_path := spec.get("hostPath")) is not None and host_path.get("type") is None:
        host_path["type"] = ""
    if not volume.setdefault("status", {}).get("phase"):
        volume["status"]["phase"] = "Pending"


def _prepare_volume(volume: Obj) -> None:
    volume["status"] = {"phase": "Pending"}
    if created := volume["metadata"].get("creationTimestamp"):
        volume["status"]["lastPhaseTransitionTime"] = created


def validate_volume(volume: Obj) -> Sequence[Cause]:
    faults: Faults = []
    spec = volume["spec"]
    modes, capacity = spec.get("accessModes") or (), spec.get("capacity") or {}
    if not modes:
        faults.append(required("spec.accessModes"))
    access_modes(faults, modes, "spec.accessModes")
    if not capacity:
        faults.append(required("spec.capacity"))
    if set(capacity) != {"storage"}:
        faults.append(not_supported("spec.capacity", capacity or None, ("storage",)))
    for name, quantity in capacity.items():
        if quantity_sign(quantity) < 0:
            text_ = "must be a valid resource quantity"
            faults.append(invalid(f"spec.capacity[{name}]", value(quantity), text_))
        if quantity_sign(quantity) <= 0:
            faults.append(invalid(f"spec.capacity[{name}]", canonical(quantity), "must be greater than zero"))
    policy = spec.get("persistentVolumeReclaimPolicy", "")
    if policy not in _RECLAIM:
        faults.append(not_supported("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM))
    if (affinity := spec.get("nodeAffinity")) is not None:
        if affinity.get("required") is None:
            faults.append(required("spec.nodeAffinity.required", "must specify required node constraints"))
        else:
            node_selector(faults, affinity["required"], "spec.nodeAffinity.required")
    _volume_source(faults, spec)
    if name := spec.get("storageClassName"):
        add_all(faults, "spec.storageClassName", name, formats.dns_subdomain(name))
    if spec.get("volumeMode") not in VOLUME_MODES:
        faults.append(not_supported("spec.volumeMode", spec.get("volumeMode", ""), VOLUME_MODES))
    if (name := spec.get("volumeAttributesClassName")) is not None:
        path = "spec.volumeAttributesClassName"
        if not name:
            faults.append(required(path, "an empty string is disallowed"))
        else:
            add_all(faults, path, name, formats.dns_subdomain(name))
        if spec.get("csi") is None:
            faults.append(required("spec.csi", "has to be specified when using volumeAttributesClassName"))
    if _MOUNT_OPTIONS in (volume["metadata"].get("annotations") or {}) and not _sources(spec).keys() & _MOUNTED:
        text_ = "may not specify mount options for this volume type"
        faults.append(forbidden(f"metadata.annotations.{_MOUNT_OPTIONS}", text_))
    return faults


def volume_warnings(volume: Obj) -> Sequence[str]:
    spec, annotations = volume["spec"], volume["metadata"].get("annotations") or {}
    said = [f"metadata.annotations[{key}]: {text_}" for key, text_ in _OLD_ANNOTATIONS.items() if key in annotations]
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        advice = "Instead, the recommended approach is to use dynamic provisioning."
        said.append(f"spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. {advice}")
    for key, word, since, dead in _OLD_SOURCES:
        if spec.get(key) is not None:
            said.append(f"spec.{word}: deprecated in {since}, non-functional in {dead}+")
    return said


def _sources(spec: Part) -> dict[str, Any]:
    return {key: source for key, source in spec.items() if key not in _NOT_SOURCES and source is not None}


def _volume_source(faults: Faults, spec: Part) -> None:
    sources = _sources(spec)
    if not sources:
        faults.append(required("spec", "must specify a volume type"))
        return
    first, *more = sources
    path = f"spec.{first}"
    match first:
        case "hostPath":
            validate_host_path(faults, sources[first], path)
            if sources[first].get("path") == "/" and spec.get("persistentVolumeReclaimPolicy") == "Recycle":
                text_ = "may not be 'recycle' for a hostPath mount of '/'"
                faults.append(forbidden("spec.persistentVolumeReclaimPolicy", text_))
        case "nfs":
            validate_nfs(faults, sources[first], path)
        case "csi":
            csi_driver_name(faults, sources[first].get("driver", ""), f"{path}.driver")
            if not sources[first].get("volumeHandle"):
                faults.append(required(f"{path}.volumeHandle"))
            for key in _CSI_SECRETS:
                if (ref := sources[first].get(key)) is not None:
                    faults += [required(f"{path}.{key}.{part}") for part in ("name", "namespace") if not ref.get(part)]
        case "local":
            if not sources[first].get("path"):
                faults.append(required(f"{path}.path"))
            if spec.get("nodeAffinity") is None:
                faults.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
        case _:
            validate_disk(faults, first, sources[first], "spec", of_volume=True)
    for key in more:
        faults.append(forbidden(f"spec.{key}", "may not specify more than 1 volume type"))


def validate_volume_update(new: Obj, old: Obj) -> Sequence[Cause]:
    faults: Faults = []
    if _sources(new["spec"]) != _sources(old["spec"]):
        text_ = "spec.persistentvolumesource is immutable after creation"
        faults.append(forbidden("spec.persistentvolumesource", text_))
    immutable(faults, new["spec"], old["spec"], ("volumeMode",), "")
    affinity = old["spec"].get("nodeAffinity")
    if affinity is not None and affinity != new["spec"].get("nodeAffinity"):
        text_ = "field is immutable, except for updating from beta label to GA"
        faults.append(invalid("nodeAffinity", new["spec"].get("nodeAffinity"), text_))
    return faults


def prepare_volume_status(new: Obj, old: Obj) -> None:
    was, status = old.get("status") or {}, new.setdefault("status", {})
    if status.get("phase") == was.get("phase") and was.get("lastPhaseTransitionTime"):
        status.setdefault("lastPhaseTransitionTime", was["lastPhaseTransitionTime"])


def _modes(modes: Iterable[str] | None) -> str:
    given = set(modes or ())
    return ",".join(short for long, short in _SHORT_MODES if long in given)


def _phase(obj: Obj) -> str:
    return "Terminating" if obj["metadata"].get("deletionTimestamp") else (obj.get("status") or {}).get("phase", "")


def _class(obj: Obj) -> str:
    annotations = obj["metadata"].get("annotations") or {}
    return str(annotations.get(_CLASS_ANNOTATION) or obj["spec"].get("storageClassName") or "")


def _claim_capacity(claim: Obj) -> str:
    if not claim["spec"].get("volumeName"):
        return ""
    return str(((claim.get("status") or {}).get("capacity") or {}).get("storage", "0"))


def _claim_ref(volume: Obj) -> str:
    ref = volume["spec"].get("claimRef")
    return f"{ref.get('namespace', '')}/{ref.get('name', '')}" if ref else ""


_ATTRIBUTES: Final = text("VolumeAttributesClass", at("spec", "volumeAttributesClassName", default=UNSET))
_MODE: Final = text("VolumeMode", at("spec", "volumeMode", default=UNSET), 1)

CLAIM: Final = Strategy(
    warnings=claim_warnings,
    default=default_claim,
    prepare_create=_prepare_claim,
    prepare_update=lambda new, _old: _settle_sources(new["spec"]),
    when_read=_when_read,
    validate=validate_claim,
    validate_update=validate_claim_update,
    validate_status=validate_claim_status,
    columns=(
        NAME,
        text("Status", of(_phase)),
        text("Volume", at("spec", "volumeName")),
        text("Capacity", of(_claim_capacity)),
        text(
            "Access Modes",
            of(lambda o: _modes((o.get("status") or {}).get("accessModes")) if o["spec"].get("volumeName") else ""),
        ),
        text("StorageClass", of(_class)),
        _ATTRIBUTES,
        AGE,
        _MODE,
    ),
    has_generation=False,
    returns_deleted=True,
)
VOLUME: Final = Strategy(
    warnings=volume_warnings,
    judges_twice=True,
    default=default_volume,
    prepare_create=_prepare_volume,
    prepare_status=prepare_volume_status,
    validate=validate_volume,
    validate_update=validate_volume_update,
    columns=(
        NAME,
        text("Capacity", at("spec", "capacity", "storage", default="0")),
        text("Access Modes", of(lambda o: _modes(o["spec"].get("accessModes")))),
        text("Reclaim Policy", at("spec", "persistentVolumeReclaimPolicy")),
        text("Status", of(_phase)),
        text("Claim", of(_claim_ref)),
        text("StorageClass", of(_class)),
        _ATTRIBUTES,
        text("Reason", at("status", "reason")),
        AGE,
        _MODE,
    ),
    has_generation=False,
    returns_deleted=True,
)
