"""Priority classes: what an update of a pod keeps, and which classes there may be.

Only one class may be the global default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from koord.api.kubernetes.pod_admission import global_default
from koord_minicluster.apiserver.admission.attributes import Attributes, refusal
from koord_minicluster.apiserver.resource import Obj

SYSTEM_CLASSES: Final = frozenset({"system-node-critical", "system-cluster-critical"})


def keep(pod: Obj, old: Obj | None) -> None:
    """An update that does not say a pod's priority keeps what creation resolved."""
    spec, was = pod.setdefault("spec", {}), (old or {}).get("spec") or {}
    for key in ("priority", "preemptionPolicy"):
        if spec.get(key) is None and was.get(key) is not None:
            spec[key] = was[key]


def validate_class(attributes: Attributes, classes: Callable[[], Iterable[Obj]]) -> None:
    """Raises 403 where another class is the global default already, and for the deletion of a system class."""
    obj = attributes.obj
    if attributes.operation == "DELETE" and attributes.name in SYSTEM_CLASSES:
        raise refusal(attributes, "this is a system priority class and cannot be deleted")
    if obj is None or not obj.get("globalDefault"):
        return
    default = global_default(classes())
    if default is None:
        return
    name = default["metadata"]["name"]
    if attributes.operation == "CREATE" or name != obj["metadata"].get("name"):
        raise refusal(attributes, f"PriorityClass {name} is already marked as default. Only one default can exist")
