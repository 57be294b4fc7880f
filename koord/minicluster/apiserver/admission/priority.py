"""Priority classes: a pod names a class, the server writes the class's value into the pod.

Without a class name the global default applies, and without one of those the priority is 0. What the pod says itself
must agree with the class. Only one class may be the global default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from koord.minicluster.apiserver.admission.attributes import Attributes, refusal
from koord.minicluster.apiserver.resource import Obj

PRIORITY_WITHOUT_CLASS: Final = 0
SYSTEM_CLASSES: Final = frozenset({"system-node-critical", "system-cluster-critical"})


def admit_pod(
    attributes: Attributes,
    pod: Obj,
    class_of: Callable[[str], Obj | None],
    classes: Callable[[], Iterable[Obj]],
) -> None:
    """Resolve the pod's priority in place; raises 403. An update keeps what creation resolved."""
    spec = pod.setdefault("spec", {})
    if attributes.operation == "UPDATE":
        was = (attributes.old or {}).get("spec") or {}
        for key in ("priority", "preemptionPolicy"):
            if spec.get(key) is None and was.get(key) is not None:
                spec[key] = was[key]
        return
    name = spec.get("priorityClassName") or ""
    if name:
        chosen = class_of(name)
        if chosen is None:
            raise refusal(attributes, f"no PriorityClass with name {name} was found")
    else:
        chosen = global_default(classes())
        if chosen is not None:
            spec["priorityClassName"] = chosen["metadata"]["name"]
    priority = int(chosen.get("value", 0)) if chosen is not None else PRIORITY_WITHOUT_CLASS
    policy = chosen.get("preemptionPolicy") if chosen is not None else "PreemptLowerPriority"
    said = spec.get("priority")
    if said is not None and said != priority:
        raise refusal(
            attributes,
            f"the integer value of priority ({said}) must not be provided in pod spec; priority admission controller "
            f"computed {priority} from the given PriorityClass name",
        )
    spec["priority"] = priority
    if policy is None:
        return
    said = spec.get("preemptionPolicy")
    if said is not None and said != policy:
        raise refusal(
            attributes,
            f"the string value of PreemptionPolicy ({said}) must not be provided in pod spec; priority admission "
            f"controller computed {policy} from the given PriorityClass name",
        )
    spec["preemptionPolicy"] = policy


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


def global_default(classes: Iterable[Obj]) -> Obj | None:
    """The class for pods that name none. Should there be several by a race, the lowest."""
    defaults = [each for each in classes if each.get("globalDefault")]
    return min(defaults, key=lambda each: int(each.get("value", 0)), default=None)
