"""What a pod's QoS class, priority class and resources must be to one another, and what of it may never change.

    BE goes with mid, batch or free; LSR with prod; all others with any class (and BE is what batch resources need)
    LSR and LSE pods get cores of their own, so they ask for whole ones, and for at least one
On an update, the QoS class, the priority class and the rank within it do not change.
All faults are reported at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import pod_requests
from koord.api.machinery.faults import Fault
from koord.api.protocol import names
from koord.api.protocol.pool_names import ALIASES
from koord.api.protocol.priority import FORBIDDEN_PAIRS, PriorityClass, QoSClass, raw_priority_class, raw_qos_class
from koord.api.text.quantity import QuantityError, from_milli

_QOS: Final = f"metadata.labels[{names.LABEL_QOS_CLASS}]"
_RANK: Final = f"metadata.labels[{names.LABEL_PRIORITY}]"
_BATCH: Final = (names.RESOURCE_BATCH_CPU, names.RESOURCE_BATCH_MEMORY)
_WHOLE_CORES: Final = (QoSClass.LSR, QoSClass.LSE)
_REQUESTS: Final = "spec.containers[*].resources.requests"


def faults(pod: Pod, priority: int | None) -> Iterator[Fault]:
    """What is wrong with a pod by itself. `priority` is its number, wherever it comes from."""
    labels = pod.metadata.labels
    qos, class_ = raw_qos_class(labels), raw_priority_class(labels, priority)
    try:
        yield from _batch_faults(pod, qos)
        if (qos, class_) in FORBIDDEN_PAIRS:
            yield _pair_fault(qos, class_, labels.get(names.LABEL_PRIORITY_CLASS), priority)
        if qos in _WHOLE_CORES:
            yield from _core_faults(pod, qos)
    except QuantityError as error:
        yield Fault(_REQUESTS, str(error))


def change_faults(
    old: Pod, new: Pod, old_priority: int | None, new_priority: int | None, *, rank_may_change: bool
) -> Iterator[Fault]:
    """What may not have changed."""
    before, after = old.metadata.labels, new.metadata.labels
    old_qos, new_qos = raw_qos_class(before), raw_qos_class(after)
    if old_qos is not new_qos:
        yield Fault(_QOS, f"is immutable: must stay {_said(old_qos)}, not become {_said(new_qos)}")
    old_class, new_class = raw_priority_class(before, old_priority), raw_priority_class(after, new_priority)
    if old_class is not new_class:
        yield Fault(
            "spec.priority", f"is immutable in its class: must stay {_said(old_class)}, not become {_said(new_class)}"
        )
    old_rank, new_rank = before.get(names.LABEL_PRIORITY, ""), after.get(names.LABEL_PRIORITY, "")
    if old_rank != new_rank and not rank_may_change:
        yield Fault(_RANK, f"is immutable: must stay {old_rank or 'absent'}, not become {new_rank or 'absent'}")


def _batch_faults(pod: Pod, qos: QoSClass) -> Iterator[Fault]:
    if qos is QoSClass.BE or not _mentions_batch(pod):
        return
    requests = pod_requests(pod, use_status=False)
    asked = [name for name in _BATCH if requests.get(name)]
    if asked:
        yield Fault(_QOS, f"must be {QoSClass.BE} for a pod that asks for {' and '.join(asked)}, not {_said(qos)}")


def _mentions_batch(pod: Pod) -> bool:
    """Whether a check is worthwhile: almost no pod without a QoS class has these resources."""
    spec = pod.spec
    lists = [container.resources.requests for container in (*spec.containers, *spec.init_containers)]
    names_ = {name for amounts in (*lists, spec.overhead) for name in amounts}
    return any(name.endswith(("/batch-cpu", "/batch-memory")) or name in ALIASES for name in names_)


def _pair_fault(qos: QoSClass, class_: PriorityClass, label: str | None, priority: int | None) -> Fault:
    allowed = [str(class_) for class_ in PriorityClass if class_ and (qos, class_) not in FORBIDDEN_PAIRS]
    if label is not None:
        where, written = f"metadata.labels[{names.LABEL_PRIORITY_CLASS}]", f"{label!r}"
    else:
        where, written = "spec.priority", "absent" if priority is None else str(priority)
    is_ = f"{written}, of class {class_}" if class_ else f"{written}, of no class"
    return Fault(where, f"must be of class {' or '.join(allowed)} for a pod with QoS class {qos}; it is {is_}")


def _core_faults(pod: Pod, qos: QoSClass) -> Iterator[Fault]:
    cpu_milli = pod_requests(pod, use_status=False).get(names.RESOURCE_CPU, 0)
    wanted = f"must be a whole number of cores, at least 1, for a pod with QoS class {qos}"
    if cpu_milli == 0:
        yield Fault(f"{_REQUESTS}[cpu]", f"{wanted}; none is requested")
    elif cpu_milli % 1000:
        yield Fault(f"{_REQUESTS}[cpu]", f"{wanted}, not {from_milli(cpu_milli)}")


def _said(class_: QoSClass | PriorityClass) -> str:
    return str(class_) or "none"
