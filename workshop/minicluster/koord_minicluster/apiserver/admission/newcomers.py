"""What new nodes and volumes get from the server, for controllers to take away: nothing runs on a node before it is
known to be ready, and no volume goes while something uses it."""

from __future__ import annotations

from typing import Final

from koord_minicluster.apiserver.resource import Obj

NOT_READY: Final = "node.kubernetes.io/not-ready"
_PROTECTED: Final = {
    "persistentvolumeclaims": "kubernetes.io/pvc-protection",
    "persistentvolumes": "kubernetes.io/pv-protection",
    "volumeattributesclasses.storage.k8s.io": "kubernetes.io/vac-protection",
}


def admit(collection: str, obj: Obj, disabled: frozenset[str] = frozenset()) -> None:
    """Completes a new object of that collection."""
    if collection == "nodes" and "TaintNodesByCondition" not in disabled:
        _taint(obj)
    elif (finalizer := _PROTECTED.get(collection)) and "StorageObjectInUseProtection" not in disabled:
        meta = obj.setdefault("metadata", {})
        finalizers = list(meta.get("finalizers") or ())
        if finalizer not in finalizers:
            meta["finalizers"] = [*finalizers, finalizer]


def _taint(node: Obj) -> None:
    spec = node.setdefault("spec", {})
    taints = list(spec.get("taints") or ())
    if not any(taint.get("key") == NOT_READY and taint.get("effect") == "NoSchedule" for taint in taints):
        spec["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]
