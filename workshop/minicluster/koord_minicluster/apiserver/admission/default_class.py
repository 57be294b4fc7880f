"""Claims that name no class of storage get the cluster's default one, if there is one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from koord_minicluster.apiserver.resource import Obj

_DEFAULT: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"


def complete(claim: Obj, classes: Iterable[Obj]) -> None:
    """The newest of several defaults; of equally new ones the first by name."""
    spec = claim.setdefault("spec", {})
    if spec.get("storageClassName") is not None or _CLASS_ANNOTATION in (claim["metadata"].get("annotations") or {}):
        return
    defaults = [class_ for class_ in classes if _is_default(class_)]
    if defaults:
        by_name = sorted(defaults, key=lambda class_: str(class_["metadata"]["name"]))
        newest = max(by_name, key=lambda class_: str(class_["metadata"].get("creationTimestamp", "")))
        spec["storageClassName"] = newest["metadata"]["name"]


def _is_default(storage_class: Obj) -> bool:
    annotations = storage_class["metadata"].get("annotations") or {}
    return any(annotations.get(key) == "true" for key in _DEFAULT)
