"""The values of the protocol's labels and annotations, typed.

One module for each concern; each label or annotation is a constant with `read`, `check` and `render`:
`cpu.RESOURCE_STATUS.read(pod.metadata).cpus`. `ALL` is the one list of them; `faults_of` looks a whole object over, for
admission and for events. QoS class and priority are in `koord.api.protocol.priority`.
"""

from __future__ import annotations

from typing import Any, Final

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.protocol.annotations import colocation, cpu, device, gang, load, notice, pod_qos, quota, reservation
from koord.api.protocol.annotations.value import Annotation, AnnotationError, Label, Value

__all__ = ["ALL", "Annotation", "AnnotationError", "Label", "faults_of"]

ALL: Final[tuple[Value[Any, Any], ...]] = (
    *pod_qos.VALUES,
    *cpu.VALUES,
    *colocation.VALUES,
    *gang.VALUES,
    *quota.VALUES,
    *reservation.VALUES,
    *device.VALUES,
    *load.VALUES,
    *notice.VALUES,
)


def faults_of(kind: str, meta: ObjectMeta) -> list[AnnotationError]:
    """All malformed labels and annotations of an object, those too that readers make do with."""
    if not meta.labels and not meta.annotations:
        return []
    errors = (value.check(meta, kind) for value in ALL if kind in value.on)
    return [error for error in errors if error is not None]
