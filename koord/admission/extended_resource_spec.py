"""A pod's batch resources in an annotation, for components that do not see its spec: runtimes and their hooks.

It has only the batch-cpu and batch-memory of regular containers. It is written if it differs from the existing
annotation: a stale one on a pod without batch resources becomes `{}`.
"""

from __future__ import annotations

from typing import Any, Final

from koord.admission.plain import annotations_of, part, with_annotation
from koord.admission.request import FAILED, Json, refused
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.struct import EMPTY
from koord.api.protocol import names
from koord.api.protocol.annotations.pod_qos import EXTENDED_RESOURCE_SPEC, ExtendedResources, ExtendedResourceSpec
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.text.quantity import QuantityError, canonical

_RESOURCES: Final = (names.RESOURCE_BATCH_CPU, names.RESOURCE_BATCH_MEMORY)
_KEY: Final = EXTENDED_RESOURCE_SPEC.key


def annotated(pod: Json) -> Json:
    """The pod with the annotation that belongs to it; the same object where it has that already."""
    wanted = {}
    for i, container in enumerate(part(pod, "spec").get("containers") or ()):
        resources = _resources(container, f"spec.containers[{i}].resources")
        if resources is not None:
            wanted[str(container.get("name", ""))] = resources
    annotations = annotations_of(pod)
    if not wanted and _KEY not in annotations:
        return pod
    # Defaults are left out of the text, an empty map of one's own is not.
    spec = ExtendedResourceSpec(containers=wanted or EMPTY)
    if _current(annotations.get(_KEY, "")) == spec:
        return pod
    return with_annotation(pod, _KEY, EXTENDED_RESOURCE_SPEC.render(spec))


def _resources(container: Json, path: str) -> ExtendedResources | None:
    resources = container.get("resources")
    if not resources:
        return None
    limits = _batch(part(resources, "limits"), f"{path}.limits")
    requests = _batch(part(resources, "requests"), f"{path}.requests")
    return ExtendedResources(limits=limits or EMPTY, requests=requests or EMPTY) if limits or requests else None


def _batch(amounts: Json, path: str) -> dict[str, Any]:
    canonical_amounts = {}
    for name in _RESOURCES:
        if name in amounts:
            try:
                canonical_amounts[str(name)] = canonical(amounts[name])
            except QuantityError as error:
                raise refused(f"{path}[{name}]", str(error)) from None
    return canonical_amounts


def _current(text: str) -> ExtendedResourceSpec:
    try:
        spec = EXTENDED_RESOURCE_SPEC.read(ObjectMeta(annotations={_KEY: text}))
    except AnnotationError as error:
        wrong = "; ".join(map(str, error.faults))
        raise refused(
            f"metadata.annotations[{_KEY}]", f"{wrong}; leave it out, it is written for you", FAILED
        ) from None
    return ExtendedResourceSpec(
        containers={
            name: ExtendedResources(limits=_canonical(resources.limits), requests=_canonical(resources.requests))
            for name, resources in spec.containers.items()
        }
    )


def _canonical(amounts: Json) -> dict[str, Any]:
    return {name: canonical(amount) for name, amount in amounts.items()}
