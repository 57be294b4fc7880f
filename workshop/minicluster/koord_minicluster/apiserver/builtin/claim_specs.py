"""What a claim for a volume asks for, wherever it stands: by itself, in a StatefulSet, or in a pod's own volume."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from koord.api.text import formats
from koord.api.text.quantity import canonical
from koord_minicluster.apiserver.builtin.checks import Faults, Part, add_all, label_selector, quantity_sign
from koord_minicluster.apiserver.status import forbidden, invalid, not_supported, required

VOLUME_MODES: Final = ("Block", "Filesystem")
_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def access_modes(faults: Faults, modes: Sequence[str], path: str) -> None:
    for mode in modes:
        if mode not in _ACCESS_MODES:
            faults.append(not_supported(path, mode, _ACCESS_MODES))
    valid = {mode for mode in modes if mode in _ACCESS_MODES}
    if "ReadWriteOncePod" in valid and len(valid) > 1:
        faults.append(forbidden(path, "may not use ReadWriteOncePod with other access modes"))


def validate_claim_spec(faults: Faults, spec: Part, path: str) -> None:
    modes = spec.get("accessModes") or ()
    if not modes:
        faults.append(required(f"{path}.accessModes", "at least 1 access mode is required"))
    label_selector(faults, spec.get("selector"), f"{path}.selector")
    access_modes(faults, modes, f"{path}.accessModes")
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if size is None:
        faults.append(required(f"{path}.resources[storage]"))
    elif quantity_sign(size) <= 0:
        faults.append(invalid(f"{path}.resources[storage]", canonical(size), "must be greater than zero"))
    for key in ("storageClassName", "volumeAttributesClassName"):
        if name := spec.get(key):
            add_all(faults, f"{path}.{key}", name, formats.dns_subdomain(name))
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        faults.append(not_supported(f"{path}.volumeMode", mode, VOLUME_MODES))
    for key in ("dataSource", "dataSourceRef"):
        if (source := spec.get(key)) is not None:
            _data_source(faults, source, f"{path}.{key}")


def _data_source(faults: Faults, source: Part, path: str) -> None:
    for key in ("name", "kind"):
        if not source.get(key):
            faults.append(required(f"{path}.{key}"))
    group = source.get("apiGroup") or ""
    if not group and source.get("kind") != "PersistentVolumeClaim":
        text_ = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        faults.append(invalid(path, source.get("kind", ""), text_))
    elif group:
        add_all(faults, f"{path}.apiGroup", group, formats.dns_subdomain(group))
