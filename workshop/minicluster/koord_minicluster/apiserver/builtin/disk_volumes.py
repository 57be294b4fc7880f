"""Volumes that name a storage system themselves: what each must say of its disk, share or target."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from koord.api.text import formats
from koord_minicluster.apiserver.builtin.checks import Faults, Part, add_all, choice
from koord_minicluster.apiserver.status import invalid, not_supported, required

_MUST_SAY: Final[Mapping[str, tuple[str, ...]]] = {
    "gitRepo": ("repository",),
    "iscsi": ("targetPortal", "iqn"),
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "glusterfs": ("endpoints", "path"),
    "rbd": ("monitors", "image"),
    "cinder": ("volumeID",),
    "cephfs": ("monitors",),
    "flexVolume": ("driver",),
    "azureFile": ("secretName", "shareName"),
    "azureDisk": ("diskName", "diskURI"),
    "vsphereVolume": ("volumePath",),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "scaleIO": ("gateway", "system", "volumeName"),
    "image": ("reference",),
}
_WORDS: Final = {"gcePersistentDisk": "persistentDisk"}
"""Sources that messages call otherwise."""
_LUN: Final = formats.range_fault(0, 255)
_PARTITION: Final = formats.range_fault(1, 255)
_INITIATORS: Final = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.([-a-z0-9]+\.)*[-a-z0-9]+(:[^,;*&$|\s]+)$"),
    "eui": re.compile(r"eui\.[A-Fa-f0-9]{16}$"),
    "naa": re.compile(r"naa\.[A-Fa-f0-9]{16,32}$"),
}
_NO_INITIATOR: Final = "must be valid format starting with iqn, eui, or naa"
_REGISTRY: Final = "must be a host:port pair or multiple pairs separated by commas"
_MANAGED: Final = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_BLOB: Final = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
_RESERVED: Final = (".kubernetes.io", ".k8s.io")

Check = Callable[[Faults, Part, str], None]


def _initiator(faults: Faults, name: str, path: str) -> None:
    pattern = _INITIATORS.get(name[:3])
    if pattern is None:
        faults.append(invalid(path, name, _NO_INITIATOR if path.startswith("spec.volumes") else "must be valid format"))
    elif not pattern.match(name):
        faults.append(invalid(path, name, "must be valid format"))


def _iscsi(faults: Faults, source: Part, path: str) -> None:
    if name := source.get("iqn"):
        _initiator(faults, name, f"{path}.iqn")
    if not 0 <= source.get("lun", 0) <= 255:
        faults.append(invalid(f"{path}.lun", source["lun"], _LUN))
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and source.get("secretRef") is None:
        faults.append(required(f"{path}.secretRef"))
    if (name := source.get("initiatorName")) is not None:
        _initiator(faults, name, f"{path}.initiatorname")


def _fibre(faults: Faults, source: Part, path: str) -> None:
    names, ids = source.get("targetWWNs") or [], source.get("wwids") or []
    if not names and not ids:
        text = "must specify either targetWWNs or wwids, but not both"
        faults.append(required(f"{path}.targetWWNs", text))
    if names and ids:
        text = "targetWWNs and wwids can not be specified simultaneously"
        faults.append(invalid(f"{path}.targetWWNs", names, text))
    if names:
        unit = source.get("lun")
        if unit is None:
            faults.append(required(f"{path}.lun", "lun is required if targetWWNs is specified"))
        elif not 0 <= unit <= 255:
            faults.append(invalid(f"{path}.lun", unit, _LUN))


def _partition(faults: Faults, source: Part, path: str) -> None:
    if not 0 <= source.get("partition", 0) <= 255:
        faults.append(invalid(f"{path}.partition", source["partition"], _PARTITION))


def _quobyte(faults: Faults, source: Part, path: str) -> None:
    registry = source.get("registry", "")
    if not registry:
        faults.append(required(f"{path}.registry", _REGISTRY))
    elif len(source.get("tenant", "")) >= 65:
        faults.append(required(f"{path}.tenant", "must be a UUID and may not exceed a length of 64 characters"))
    else:
        wrong = [pair for pair in registry.split(",") if pair.count(":") != 1]
        faults += [invalid(f"{path}.registry", registry, _REGISTRY) for _ in wrong]
    if not source.get("volume"):
        faults.append(required(f"{path}.volume"))


def _flocker(faults: Faults, source: Part, path: str) -> None:
    name, uuid = source.get("datasetName", ""), source.get("datasetUUID", "")
    if not name and not uuid:
        faults.append(required(path, "one of datasetName and datasetUUID is required"))
    if name and uuid:
        faults.append(invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously"))
    if "/" in name:
        faults.append(invalid(f"{path}.datasetName", name, "must not contain '/'"))


def _secret_name(faults: Faults, source: Part, path: str) -> None:
    if (ref := source.get("secretRef")) is not None and not ref.get("name"):
        faults.append(required(f"{path}.secretRef.name"))


def _flex(faults: Faults, source: Part, path: str) -> None:
    for key in source.get("options") or ():
        if f".{key.partition('/')[0].lower()}".endswith(_RESERVED):
            faults.append(invalid(f"{path}.options[{key}]", key, "kubernetes.io and k8s.io namespaces are reserved"))


def _azure_disk(faults: Faults, source: Part, path: str) -> None:
    modes, kinds = ("None", "ReadOnly", "ReadWrite"), ("Dedicated", "Managed", "Shared")
    choice(faults, source, "cachingMode", path, modes, modes)
    choice(faults, source, "kind", path, kinds, kinds)
    kind, uri = source.get("kind"), source.get("diskURI", "")
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        faults.append(not_supported(f"{path}.diskURI", uri, [_MANAGED]))
    elif kind is not None and kind != "Managed" and not uri.startswith("https://"):
        faults.append(not_supported(f"{path}.diskURI", uri, [_BLOB]))


def _storage_os(faults: Faults, source: Part, path: str) -> None:
    name, namespace = source.get("volumeName", ""), source.get("volumeNamespace", "")
    if not name:
        faults.append(required(f"{path}.volumeName"))
    else:
        add_all(faults, f"{path}.volumeName", name, formats.dns_label(name))
    if namespace:
        add_all(faults, f"{path}.volumeNamespace", namespace, formats.dns_label(namespace))
    _secret_name(faults, source, path)


def _image(faults: Faults, source: Part, path: str) -> None:
    policies = ("Always", "IfNotPresent", "Never")
    choice(faults, source, "pullPolicy", path, policies, policies)


_MORE: Final[Mapping[str, Check]] = {
    "iscsi": _iscsi,
    "fc": _fibre,
    "gcePersistentDisk": _partition,
    "awsElasticBlockStore": _partition,
    "quobyte": _quobyte,
    "flocker": _flocker,
    "cinder": _secret_name,
    "flexVolume": _flex,
    "azureDisk": _azure_disk,
    "storageos": _storage_os,
    "image": _image,
}


def validate_disk(faults: Faults, kind: str, source: Mapping[str, Any], path: str, *, of_volume: bool = False) -> None:
    """`path` is where the volume is; the source's own name is added as messages call it. `of_volume`: not in a pod."""
    where = f"{path}.{_WORDS.get(kind, kind)}"
    faults += [required(f"{where}.{key}") for key in _MUST_SAY.get(kind, ()) if not source.get(key)]
    if check := _MORE.get(kind):
        check(faults, source, where)
    if of_volume and kind == "iscsi":
        _secret_name(faults, source, where)
