"""What every pod gets: a service account name, and a while to sit out a node that is not ready or not reachable."""

from __future__ import annotations

from typing import Final

from koord.minicluster.apiserver.resource import Obj

TOLERATION_S: Final = 300
_MIRROR: Final = "kubernetes.io/config.mirror"
_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def set_service_account(pod: Obj) -> None:
    """The namespace's default account, unless the pod names one. Pods that a node made itself have none."""
    if _MIRROR in (pod.get("metadata", {}).get("annotations") or {}):
        return
    spec = pod.setdefault("spec", {})
    name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = name


def add_tolerations(pod: Obj) -> None:
    spec = pod.setdefault("spec", {})
    tolerations = list(spec.get("tolerations") or ())
    tolerated = {
        key
        for key in _TAINTS
        for each in tolerations
        if each.get("key", "") in (key, "") and each.get("effect", "") in ("NoExecute", "")
    }
    missing = [key for key in _TAINTS if key not in tolerated]
    if missing:
        spec["tolerations"] = tolerations + [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_S}
            for key in missing
        ]
