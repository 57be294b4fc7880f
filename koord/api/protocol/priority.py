"""Priority classes and QoS classes: how important a pod is, and how it shares its node.

Each has a *raw* form (what was said: a label, or the band that spec.priority lies in) and one *with default* (what is
taken where nothing was said). The chain of defaults:
    Kubernetes QoS -> QoS class -> priority class -> priority number.
Kubernetes' own PriorityClass object is `kubernetes.core.PriorityClass`; the class here is the band that it names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from koord.api.kubernetes.pod import Pod, PodSpec, ResourceRequirements
from koord.api.kubernetes.words import KubeQoS
from koord.api.machinery.faults import BadInput
from koord.api.protocol import names
from koord.api.text.quantity import Number, parse
from koord.api.text.whole_number import whole_number


class QoSClass(StrEnum):
    LSE = "LSE"
    "Latency sensitive, with cores of its own that no other pod may use."
    LSR = "LSR"
    "Latency sensitive, with reserved cores that only best-effort pods may use too."
    LS = "LS"
    "Latency sensitive, in the pool of shared cores."
    BE = "BE"
    "Best effort: gets what the others leave, and is held back when they need it."
    SYSTEM = "SYSTEM"
    "A node's own services."
    NONE = ""


class PriorityClass(StrEnum):
    PROD = names.PRIORITY_CLASS_PROD
    MID = names.PRIORITY_CLASS_MID
    BATCH = names.PRIORITY_CLASS_BATCH
    FREE = names.PRIORITY_CLASS_FREE
    NONE = ""


BANDS: Final[Mapping[PriorityClass, range]] = {
    PriorityClass.PROD: range(9000, 10000),
    PriorityClass.MID: range(7000, 8000),
    PriorityClass.BATCH: range(5000, 6000),
    PriorityClass.FREE: range(3000, 4000),
}
"""The values of spec.priority that belong to a class. The PriorityClass objects have the lowest one of each."""

DEFAULT_PRIORITY: Final[Mapping[PriorityClass, int]] = {
    PriorityClass.PROD: 9500,
    PriorityClass.MID: 7500,
    PriorityClass.BATCH: 5500,
    PriorityClass.FREE: 3500,
    PriorityClass.NONE: 0,
}

QOS_OF_KUBE_QOS: Final[Mapping[KubeQoS, QoSClass]] = {
    KubeQoS.GUARANTEED: QoSClass.LSR,
    KubeQoS.BURSTABLE: QoSClass.LS,
    KubeQoS.BEST_EFFORT: QoSClass.BE,
}

PRIORITY_CLASS_OF_QOS: Final[Mapping[QoSClass, PriorityClass]] = {
    QoSClass.SYSTEM: PriorityClass.PROD,
    QoSClass.LSE: PriorityClass.PROD,
    QoSClass.LSR: PriorityClass.PROD,
    QoSClass.LS: PriorityClass.PROD,
    QoSClass.BE: PriorityClass.BATCH,
    QoSClass.NONE: PriorityClass.NONE,
}

SLO_CLASS_OF_QOS: Final[Mapping[QoSClass, str]] = {
    QoSClass.LSE: "lsr_class",
    QoSClass.LSR: "lsr_class",
    QoSClass.LS: "ls_class",
    QoSClass.BE: "be_class",
    QoSClass.SYSTEM: "system_class",
}
"""Which part of a NodeSLO's resourceQOSStrategy governs a pod: a field of `ResourceQOSStrategy`."""

FORBIDDEN_PAIRS: Final[frozenset[tuple[QoSClass, PriorityClass]]] = frozenset(
    {
        (QoSClass.BE, PriorityClass.NONE),
        (QoSClass.BE, PriorityClass.PROD),
        (QoSClass.LSR, PriorityClass.NONE),
        (QoSClass.LSR, PriorityClass.MID),
        (QoSClass.LSR, PriorityClass.BATCH),
        (QoSClass.LSR, PriorityClass.FREE),
    }
)
"""Raw QoS class and raw priority class that no pod may have together. All other pairs are accepted."""

_INT32: Final = range(-(2**31), 2**31)
_INTEGER: Final = re.compile(
    r"(?P<sign>[+-]?)"
    r"(?:0[xX](?P<hex>(?:_?[0-9a-fA-F])+)|0[bB](?P<binary>(?:_?[01])+)|0[oO](?P<octal>(?:_?[0-7])+)"
    r"|0(?P<old_octal>(?:_?[0-7])*)|(?P<decimal>[1-9](?:_?[0-9])*))"
)
_BASES: Final = {"hex": 16, "binary": 2, "octal": 8, "old_octal": 8}
_QOS_RESOURCES: Final = ("cpu", "memory")


class SubPriorityError(BadInput):
    """The label koordinator.sh/priority is no number."""


def raw_qos_class(labels: Mapping[str, str]) -> QoSClass:
    """What the QoS label says; NONE where it is absent or says something else."""
    return _QOS_CLASSES.get(labels.get(names.LABEL_QOS_CLASS, ""), QoSClass.NONE)


def qos_class(pod: Pod) -> QoSClass:
    """The QoS class with default."""
    raw = raw_qos_class(pod.metadata.labels)
    return raw if raw is not QoSClass.NONE else QOS_OF_KUBE_QOS.get(kube_qos(pod), QoSClass.NONE)


def class_of_priority(priority: int | None) -> PriorityClass:
    """The class in whose band a priority lies."""
    if priority is None:
        return PriorityClass.NONE
    return next((class_ for class_, band in BANDS.items() if priority in band), PriorityClass.NONE)


def raw_priority_class(labels: Mapping[str, str], priority: int | None) -> PriorityClass:
    """What the label says (a label that says something else means NONE), else the band of spec.priority."""
    label = labels.get(names.LABEL_PRIORITY_CLASS)
    if label is not None:
        return _PRIORITY_CLASSES.get(label, PriorityClass.NONE)
    return class_of_priority(priority)


def priority_class(pod: Pod) -> PriorityClass:
    """The priority class with default."""
    raw = raw_priority_class(pod.metadata.labels, pod.spec.priority)
    return raw if raw is not PriorityClass.NONE else PRIORITY_CLASS_OF_QOS[qos_class(pod)]


def priority(pod: Pod) -> int:
    """The priority number with default: spec.priority, unless it is unset or 0."""
    return pod.spec.priority or DEFAULT_PRIORITY[priority_class(pod)]


def sub_priority(labels: Mapping[str, str]) -> int:
    """The order among pods of one priority, larger first. The label may have any base: 10, 0xa, 0o12, 0b1_010."""
    text = labels.get(names.LABEL_PRIORITY, "")
    if not text:
        return 0
    match = _INTEGER.fullmatch(text)
    if match is None:
        raise SubPriorityError(f"label {names.LABEL_PRIORITY} is {text[:60]!r}; it must be an integer, as in 10 or 0xa")
    base = match.lastgroup
    assert base is not None
    digits = match[base].replace("_", "")
    number = whole_number(digits) if base == "decimal" else int(digits or "0", _BASES[base])
    number = -number if match["sign"] == "-" else number
    if number not in _INT32:
        raise SubPriorityError(
            f"label {names.LABEL_PRIORITY} is {text[:60]}; it must be from {_INT32.start} to {_INT32.stop - 1}"
        )
    return number


_KUBE_QOS: Final = frozenset(KubeQoS)


def kube_qos(pod: Pod) -> KubeQoS:
    """Kubernetes' QoS of a pod: what its status says, if that is one of the three, else what its resources come to."""
    said = pod.status.qos_class
    return said if said in _KUBE_QOS else compute_kube_qos(pod.spec)


def compute_kube_qos(spec: PodSpec) -> KubeQoS:
    """Kubernetes' QoS by resources. Only cpu and memory count; pod-level resources count instead of the containers'.

    Guaranteed: each container (init containers too) limits both, and in sum requests equal limits.
    BestEffort: no container requests or limits either. Burstable: all else.
    """
    if spec.resources is not None:
        parts: tuple[ResourceRequirements, ...] = (spec.resources,)
        # Kubernetes looks at pod-level limits only where there are any.
        limited = not spec.resources.limits or _positive(spec.resources.limits).keys() == set(_QOS_RESOURCES)
    else:
        parts = tuple(container.resources for container in (*spec.containers, *spec.init_containers))
        limited = all(_positive(part.limits).keys() == set(_QOS_RESOURCES) for part in parts)
    requests = _total(part.requests for part in parts)
    limits = _total(part.limits for part in parts)
    if not requests and not limits:
        return KubeQoS.BEST_EFFORT
    return KubeQoS.GUARANTEED if limited and requests == limits else KubeQoS.BURSTABLE


def _positive(resources: Mapping[str, Number]) -> dict[str, int]:
    """The amounts above zero that count for QoS, exactly, in billionths."""
    amounts = {name: _billionths(resources[name]) for name in _QOS_RESOURCES if name in resources}
    return {name: amount for name, amount in amounts.items() if amount > 0}


def _total(lists: Iterable[Mapping[str, Number]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for resources in lists:
        for name, amount in _positive(resources).items():
            total[name] = total.get(name, 0) + amount
    return total


def _billionths(quantity: Number) -> int:
    mantissa, exponent, _ = parse(quantity)
    # Absurd exponents must not cost memory; nothing that differs only above this is ever compared.
    scale: int = 10 ** min(exponent + 9, 60)
    return mantissa * scale


_QOS_CLASSES: Final[Mapping[str, QoSClass]] = {class_.value: class_ for class_ in QoSClass}
_PRIORITY_CLASSES: Final[Mapping[str, PriorityClass]] = {class_.value: class_ for class_ in PriorityClass}
