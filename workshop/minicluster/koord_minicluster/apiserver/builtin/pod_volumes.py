"""Volumes of a pod: each has one source, and what a container mounts must be among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from koord.api.text import formats
from koord_minicluster.apiserver.builtin.checks import (
    Faults,
    Part,
    add_all,
    backsteps,
    descending_path,
    inner_path,
    quantity_sign,
)
from koord_minicluster.apiserver.builtin.claim_specs import validate_claim_spec
from koord_minicluster.apiserver.builtin.disk_volumes import validate_disk
from koord_minicluster.apiserver.builtin.pod_refs import field_ref, resource_field_ref
from koord_minicluster.apiserver.remembering import remembering
from koord_minicluster.apiserver.status import (
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
    too_long,
)

_MODE: Final = "must be a number between 0 and 0777 (octal), both inclusive"
_ONE_TYPE: Final = "may not specify more than 1 volume type"
_HOST_PATH_TYPES: Final = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip
_FILE_FIELDS: Final = (
    "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid",
)  # fmt: skip
_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_RECURSIONS: Final = ("Disabled", "Enabled", "IfPossible")

Volumes = Mapping[str, Part]
"""A pod's volumes without fault, by name."""


def validate_volumes(faults: Faults, volumes: Sequence[Part], path: str, pod_name: str) -> Volumes:
    by_name: dict[str, Part] = {}
    for i, volume in enumerate(volumes):
        where, name = f"{path}[{i}]", volume.get("name", "")
        before = len(faults)
        _source(faults, volume, where, pod_name)
        if not name:
            faults.append(required(f"{where}.name"))
        elif texts := formats.dns_label(name):
            add_all(faults, f"{where}.name", name, texts)
        if name in by_name:
            faults.append(duplicate(f"{where}.name", name))
        if len(faults) == before:
            by_name[name] = volume
    return by_name


def _source(faults: Faults, volume: Part, path: str, pod_name: str) -> None:
    kinds = [key for key, source in volume.items() if source is not None and key in _SOURCE_PLACES]
    if len(kinds) > 1:
        kinds.sort(key=_SOURCE_PLACES.__getitem__)
    if not kinds:
        faults.append(required(path, "must specify a volume type"))
        return
    first, *more = kinds
    if check := _SOURCES.get(first):
        check(faults, volume[first], f"{path}.{first}")
    else:
        validate_disk(faults, first, volume[first], path)
    if first == "ephemeral" and pod_name and volume.get("name"):
        claim = f"{pod_name}-{volume['name']}"
        for text in formats.dns_subdomain(claim):
            faults.append(invalid(f"{path}.name", volume["name"], f'PVC name "{claim}": {text}'))
    for key in more:
        faults.append(forbidden(f"{path}.{key}", _ONE_TYPE))


def _empty_dir(faults: Faults, source: Part, path: str) -> None:
    limit = source.get("sizeLimit")
    if limit is not None and quantity_sign(limit) < 0:
        faults.append(forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity"))


def validate_host_path(faults: Faults, source: Part, path: str) -> None:
    if not source.get("path"):
        faults.append(required(f"{path}.path"))
        return
    backsteps(faults, f"{path}.path", source["path"])
    kind = source.get("type")
    if kind is not None and kind not in _HOST_PATH_TYPES:
        faults.append(not_supported(f"{path}.type", kind, _HOST_PATH_TYPES))


def _mode(faults: Faults, part: Part, key: str, path: str) -> None:
    mode = part.get(key)
    if mode is not None and not 0 <= mode <= 0o777:
        faults.append(invalid(f"{path}.{key}", mode, _MODE))


def _secret(faults: Faults, source: Part, path: str) -> None:
    if not source.get("secretName"):
        faults.append(required(f"{path}.secretName"))
    _mode(faults, source, "defaultMode", path)
    _items(faults, source.get("items") or (), path)


def _config_map(faults: Faults, source: Part, path: str) -> None:
    if not source.get("name"):
        faults.append(required(f"{path}.name"))
    _mode(faults, source, "defaultMode", path)
    _items(faults, source.get("items") or (), path)


def _items(faults: Faults, items: Sequence[Part], path: str) -> None:
    for i, item in enumerate(items):
        where = f"{path}.items[{i}]"
        if not item.get("key"):
            faults.append(required(f"{where}.key"))
        if not item.get("path"):
            faults.append(required(f"{where}.path"))
        inner_path(faults, f"{where}.path", item.get("path", ""))
        _mode(faults, item, "mode", where)


def _claim(faults: Faults, source: Part, path: str) -> None:
    if not source.get("claimName"):
        faults.append(required(f"{path}.claimName"))


def validate_nfs(faults: Faults, source: Part, path: str) -> None:
    if not source.get("server"):
        faults.append(required(f"{path}.server"))
    target = source.get("path", "")
    if not target:
        faults.append(required(f"{path}.path"))
    if not target.startswith("/"):
        faults.append(invalid(f"{path}.path", target, "must be an absolute path"))


def _csi(faults: Faults, source: Part, path: str) -> None:
    csi_driver_name(faults, source.get("driver", ""), f"{path}.driver")


def csi_driver_name(faults: Faults, name: str, path: str) -> None:
    if not name:
        faults.append(required(path))
        return
    if len(name) > 63:
        faults.append(too_long(path, 63))
    add_all(faults, path, name, formats.dns_subdomain(name.lower()))


def _downward(faults: Faults, source: Part, path: str) -> None:
    _mode(faults, source, "defaultMode", path)
    for item in source.get("items") or ():
        _downward_file(faults, item, path)


def _downward_file(faults: Faults, item: Part, path: str) -> None:
    if not item.get("path"):
        faults.append(required(f"{path}.path"))
    inner_path(faults, f"{path}.path", item.get("path", ""))
    if item.get("fieldRef") is not None:
        field_ref(faults, item["fieldRef"], f"{path}.fieldRef", _FILE_FIELDS)
        if item.get("resourceFieldRef") is not None:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            faults.append(invalid(path, "resource", text))
    elif item.get("resourceFieldRef") is not None:
        resource_field_ref(faults, item["resourceFieldRef"], f"{path}.resourceFieldRef", in_volume=True)
    else:
        faults.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    _mode(faults, item, "mode", path)


def _projected(faults: Faults, source: Part, path: str) -> None:
    _mode(faults, source, "defaultMode", path)
    taken: set[str] = set()
    for i, part in enumerate(source.get("sources") or ()):
        where = f"{path}.sources[{i}]"
        for key in ("secret", "configMap"):
            if (ref := part.get(key)) is not None:
                if not ref.get("name"):
                    faults.append(required(f"{where}.{key}.name"))
                _items(faults, ref.get("items") or (), f"{where}.{key}")
                _no_conflicts(faults, ref.get("items") or (), taken, path, ref.get("name", ""))
        if (downward := part.get("downwardAPI")) is not None:
            for item in downward.get("items") or ():
                _downward_file(faults, item, f"{where}.downwardAPI")
                _no_conflicts(faults, [item], taken, path, item.get("path", ""))
        if (token := part.get("serviceAccountToken")) is not None:
            _token(faults, token, where, path)
        if sum(value is not None for value in part.values()) > 1:
            faults.append(forbidden(where, "may not specify more than 1 volume type per source"))


def _no_conflicts(faults: Faults, items: Sequence[Part], taken: set[str], path: str, shown: str) -> None:
    for item in items:
        if target := item.get("path"):
            if target in taken:
                faults.append(invalid(path, shown, "conflicting duplicate paths"))
            taken.add(target)


def _token(faults: Faults, token: Part, path: str, volume_path: str) -> None:
    seconds = token.get("expirationSeconds") or 0
    where = f"{path}.serviceAccountToken.expirationSeconds"
    if seconds < 600:
        faults.append(invalid(where, seconds, "may not specify a duration less than 10 minutes"))
    if seconds > 1 << 32:
        faults.append(invalid(where, seconds, "may not specify a duration larger than 2^32 seconds"))
    if not token.get("path"):
        faults.append(required(f"{volume_path}.path"))
    else:
        inner_path(faults, f"{volume_path}.path", token["path"])


def _ephemeral(faults: Faults, source: Part, path: str) -> None:
    template = source.get("volumeClaimTemplate")
    if template is None:
        faults.append(required(f"{path}.volumeClaimTemplate"))
    else:
        validate_claim_spec(faults, template.get("spec") or {}, f"{path}.volumeClaimTemplate.spec")


_SOURCE_ORDER: Final = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi",
    "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc",
    "flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk",
    "storageos", "projected", "scaleIO", "csi", "ephemeral", "image",
)  # fmt: skip
_SOURCE_PLACES: Final = {key: place for place, key in enumerate(_SOURCE_ORDER)}
_SOURCES: Final[Mapping[str, Callable[[Faults, Part, str], None]]] = {
    "emptyDir": remembering(_empty_dir),
    "hostPath": validate_host_path,
    "secret": _secret,
    "nfs": validate_nfs,
    "persistentVolumeClaim": _claim,
    "downwardAPI": _downward,
    "configMap": remembering(_config_map),
    "projected": remembering(_projected),
    "csi": _csi,
    "ephemeral": _ephemeral,
}
"""The sources that Kubernetes itself serves; `disk_volumes` has the others."""


_PLAIN_MOUNT: Final = frozenset({"name", "mountPath", "readOnly"})


def _are_plain(mounts: Sequence[Part], volumes: Volumes) -> bool:
    """Whether there is surely nothing wrong with them, as with most: without a path for each, it is soon said."""
    taken: set[str] = set()
    for mount in mounts:
        target = mount.get("mountPath")
        if not target or target in taken or mount.get("name") not in volumes or not mount.keys() <= _PLAIN_MOUNT:
            return False
        taken.add(target)
    return True


def validate_mounts(faults: Faults, container: Part, volumes: Volumes, path: str) -> None:
    mounts, devices = container.get("volumeMounts") or (), container.get("volumeDevices") or ()
    if not devices and _are_plain(mounts, volumes):
        return
    device_paths = {device.get("name", ""): device.get("devicePath", "") for device in devices}
    taken: set[str] = set()
    for i, mount in enumerate(mounts):
        where, name, target = f"{path}.volumeMounts[{i}]", mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            faults.append(required(f"{where}.name"))
        if name not in volumes:
            faults.append(not_found(f"{where}.name", name))
        if not target:
            faults.append(required(f"{where}.mountPath"))
        if target in taken:
            faults.append(invalid(f"{where}.mountPath", target, "must be unique"))
        taken.add(target)
        if name in device_paths:
            faults.append(invalid(f"{where}.name", name, "must not already exist in volumeDevices"))
        if target in device_paths.values():
            text = "must not already exist as a path in volumeDevices"
            faults.append(invalid(f"{where}.mountPath", target, text))
        _sub_paths(faults, mount, where, f"{path}.volumeMounts")
        if (propagation := mount.get("mountPropagation")) is not None:
            _propagation(faults, propagation, container, f"{path}.volumeMounts.mountPropagation")
        _recursion(faults, mount, f"{path}.volumeMounts.recursiveReadOnly")
    if devices:
        _devices(faults, devices, mounts, volumes, f"{path}.volumeDevices")


def _sub_paths(faults: Faults, mount: Part, where: str, path: str) -> None:
    if sub_path := mount.get("subPath"):
        descending_path(faults, f"{path}.subPath", sub_path)
    if expression := mount.get("subPathExpr"):
        if mount.get("subPath"):
            text = "subPathExpr and subPath are mutually exclusive"
            faults.append(invalid(f"{where}.subPathExpr", expression, text))
        descending_path(faults, f"{path}.subPathExpr", expression)


def _recursion(faults: Faults, mount: Part, path: str) -> None:
    how = mount.get("recursiveReadOnly")
    if how in (None, "Disabled"):
        return
    if how not in _RECURSIONS:
        faults.append(not_supported(path, how, _RECURSIONS))
        return
    if not mount.get("readOnly"):
        faults.append(forbidden(path, "may only be specified when readOnly is true"))
    if mount.get("mountPropagation") not in (None, "None"):
        faults.append(forbidden(path, "may only be specified when mountPropagation is None or not specified"))


def _propagation(faults: Faults, propagation: str, container: Part, path: str) -> None:
    if propagation not in _PROPAGATIONS:
        faults.append(not_supported(path, propagation, _PROPAGATIONS))
    if propagation == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        text = "Bidirectional mount propagation is available only to privileged containers"
        faults.append(forbidden(path, text))


def _devices(faults: Faults, devices: Sequence[Part], mounts: Sequence[Part], volumes: Volumes, path: str) -> None:
    mounted = {mount.get("name", ""): mount.get("mountPath", "") for mount in mounts}
    names: set[str] = set()
    targets: set[str] = set()
    for i, device in enumerate(devices):
        where, name, target = f"{path}[{i}]", device.get("name", ""), device.get("devicePath", "")
        if not name:
            faults.append(required(f"{where}.name"))
        if name in names:
            faults.append(invalid(f"{where}.name", name, "must be unique"))
        if name not in volumes:
            faults.append(not_found(f"{where}.name", name))
        elif not {"persistentVolumeClaim", "ephemeral"} & volumes[name].keys():
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            faults.append(invalid(f"{where}.name", name, text))
        if not target:
            faults.append(required(f"{where}.devicePath"))
        if target in targets:
            faults.append(invalid(f"{where}.devicePath", target, "must be unique"))
        if ".." in target.split("/"):
            faults.append(invalid(f"{where}.devicePath", target, "can not contain backsteps ('..')"))
        targets.add(target)
        if name in mounted:
            faults.append(invalid(f"{where}.name", name, "must not already exist in volumeMounts"))
        if target in mounted.values():
            text = "must not already exist as a path in volumeMounts"
            faults.append(invalid(f"{where}.devicePath", target, text))
        if name:
            names.add(name)
