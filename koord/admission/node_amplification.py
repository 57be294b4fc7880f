"""A node's cpu and memory, amplified: where its kubelet reports what the machine has, allocatable is raw * ratio.

What the kubelet reported stays in the annotation raw-allocatable: it is recorded where it is absent or where cpu or
memory change, for only kubelets report those. Without ratios the record goes. Capacity is never touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from koord.admission.plain import annotations_of, part, with_annotation, with_part
from koord.admission.request import FAILED, Json, refused
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.protocol import names
from koord.api.protocol.annotations.colocation import RAW_ALLOCATABLE, RESOURCE_AMPLIFICATION_RATIO
from koord.api.protocol.annotations.value import Annotation, AnnotationError, D, T
from koord.api.text.quantity import Number, QuantityError, canonical, from_milli, from_value, milli, parse

_AMPLIFIED: Final = (str(names.RESOURCE_CPU), str(names.RESOURCE_MEMORY))
_RATIO: Final = RESOURCE_AMPLIFICATION_RATIO.key
_RAW: Final = RAW_ALLOCATABLE.key
_ALLOCATABLE: Final = ("status", "allocatable")


def amplified(node: Json, old: Json | None) -> Json:
    """A node whose status is about to be stored, with amplified resources; the same object where none are."""
    annotations = annotations_of(node)
    if not annotations.get(_RATIO):
        if _RAW not in annotations:
            return node
        kept = {key: text for key, text in annotations.items() if key != _RAW}
        return with_part(node, kept, "metadata", "annotations")
    allocatable = part(node, *_ALLOCATABLE)
    if not allocatable:
        return node
    reported = {name: allocatable[name] for name in _AMPLIFIED if name in allocatable}
    try:
        before = None if old is None else _amounts(part(old, *_ALLOCATABLE))
        fresh = _RAW not in annotations or (before is not None and before != _amounts(reported))
        recorded = None if fresh else _read(RAW_ALLOCATABLE, annotations)
        raw: Mapping[str, Number] = reported if fresh else recorded or {}
        ratios = _read(RESOURCE_AMPLIFICATION_RATIO, annotations)
        larger = {
            name: scaled(raw[name], ratios[name]) for name in _AMPLIFIED if ratios.get(name, 0) > 1 and name in raw
        }
        if fresh and reported:
            text = RAW_ALLOCATABLE.render({name: canonical(amount) for name, amount in reported.items()})
            if annotations.get(_RAW) != text:
                node = with_annotation(node, _RAW, text)
    except QuantityError as error:
        raise refused("status.allocatable", str(error), FAILED) from None
    if all(allocatable.get(name) == amount for name, amount in larger.items()):
        return node
    return with_part(node, {**allocatable, **larger}, *_ALLOCATABLE)


def scaled(amount: Number, ratio: float) -> str:
    """An amount times a ratio, cut off at thousandths, in the format that it was written in."""
    thousandths = int(milli(amount) * ratio)
    if parse(amount).format == "BinarySI" and thousandths % 1000 == 0:
        return from_value(thousandths // 1000, binary=True)
    return from_milli(thousandths)


def _amounts(allocatable: Json) -> dict[str, int]:
    return {name: milli(allocatable[name]) for name in _AMPLIFIED if name in allocatable}


def _read(annotation: Annotation[T, D], annotations: Mapping[str, Any]) -> T | D:
    try:
        return annotation.read(ObjectMeta(annotations=annotations), "Node")
    except AnnotationError as error:
        wrong = "; ".join(map(str, error.faults))
        raise refused(f"metadata.annotations[{annotation.key}]", wrong, FAILED) from None
