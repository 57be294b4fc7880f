"""Labels and annotations of the protocol that cannot be read, in whole or in part.

Some of them say where a pod may be placed: if the scheduler cannot read one of those, it places the pod nowhere, so the
pod is refused. All others count as absent or as their default, and the answer carries a warning. Asked when they are
new or changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.faults import Fault
from koord.api.protocol import names
from koord.api.protocol.annotations import ALL, cpu, device, gang, reservation
from koord.api.protocol.annotations.value import Label, Value
from koord.api.protocol.misspelt_keys import misspelt
from koord.api.protocol.priority import SubPriorityError, sub_priority


def _by_key(kind: str) -> dict[str, Value[Any, Any]]:
    return {key: value for value in ALL if kind in value.on for key in (value.key, *value.old_keys)}


_VALUES: Final[Mapping[str, Mapping[str, Value[Any, Any]]]] = {kind: _by_key(kind) for kind in ("Pod", "Node")}


PLACES_BY: Final[tuple[Value[Any, Any], ...]] = (
    cpu.NUMA_TOPOLOGY_SPEC,
    cpu.RESOURCE_SPEC,
    device.DEVICE_ALLOCATE_HINT,
    device.DEVICE_JOINT_ALLOCATE,
    device.GPU_PARTITION_SPEC,
    gang.MIN_AVAILABLE,
    gang.POD_GROUP_MIN_AVAILABLE,
    reservation.EXACT_MATCH_RESERVATION,
    reservation.RESERVATION_AFFINITY,
    reservation.SCHEDULING_HINT,
)
"""What the scheduler must be able to read of a pod before it places it. A test tries all others."""


def faults(pod: Pod, old: ObjectMeta | None) -> Iterator[Fault]:
    """Why the scheduler would find no node for a pod. Faults that `old`, the stored pod, has too are not refused, and
    none of a pod that has a node is."""
    for value in () if pod.spec.node_name else PLACES_BY:
        error = value.check(pod.metadata)
        if error is None or (old is not None and value.check(old)):
            continue
        where, why = "labels" if isinstance(value, Label) else "annotations", "; ".join(map(str, error.faults))
        yield Fault(f"metadata.{where}[{error.key}]", f"{why}; koord's scheduler would find no node for the pod")


def warnings(kind: str, meta: ObjectMeta, old: ObjectMeta | None) -> Iterator[str]:
    """What of an object's labels and annotations cannot be read or has no effect. `old`: the stored object."""
    if old is not None and old.labels == meta.labels and old.annotations == meta.annotations:
        return
    for field, texts in (("labels", meta.labels), ("annotations", meta.annotations)):
        for key, near in misspelt(texts):
            yield f"metadata.{field}[{key}]: koord does not know this key (did you mean {near}?)"
    values_of_kind = _VALUES[kind]
    seen: set[str] = set()
    for key in (*meta.labels, *meta.annotations):
        value = values_of_kind.get(key)
        if value is None or value.key in seen:
            continue
        seen.add(value.key)
        if error := value.check(meta, kind):
            if value not in PLACES_BY:
                yield f"{error}; it counts as absent or as its default"
        elif error := value.idle(meta, kind):
            yield f"{error}; it has no effect"
    if kind == "Pod" and names.LABEL_PRIORITY in meta.labels:
        try:
            sub_priority(meta.labels)
        except SubPriorityError as error:
            yield str(error)
