"""LimitRanges at work: no pod and no claim may leave the bounds of its namespace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from koord.api.kubernetes.pod_admission import bounds
from koord.api.kubernetes.quota_usage import pod_amounts
from koord.api.text.quantity import canonical, milli
from koord_minicluster.apiserver.admission.attributes import Attributes, refusal
from koord_minicluster.apiserver.resource import Obj

Amounts = Mapping[str, Any]


def concerns(attributes: Attributes) -> bool:
    """Pods that are made or resized, claims that are made or changed."""
    resource = attributes.resource
    if resource.group or attributes.obj is None:
        return False
    if resource.plural == "pods":
        return attributes.subresource == ("" if attributes.operation == "CREATE" else "resize")
    return resource.plural == "persistentvolumeclaims" and not attributes.subresource


def check(attributes: Attributes, ranges: Iterable[Obj]) -> None:
    """403 where an object is outside of what its namespace allows."""
    if attributes.old is not None and attributes.old["metadata"].get("deletionTimestamp"):
        return
    faults = _claim_faults if attributes.resource.plural == "persistentvolumeclaims" else _pod_faults
    for range_ in ranges:
        assert attributes.obj is not None
        if texts := list(dict.fromkeys(faults(attributes.obj, range_))):
            raise refusal(attributes, texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


def _claim_faults(claim: Obj, limit_range: Obj) -> Iterator[str]:
    requests = (claim["spec"].get("resources") or {}).get("requests") or {}
    for bound in bounds(limit_range, "PersistentVolumeClaim"):
        for name, least in sorted((bound.get("min") or {}).items()):
            yield from _too_little("PersistentVolumeClaim", name, least, requests, {})
        for name, most in sorted((bound.get("max") or {}).items()):
            head = f"maximum {name} usage per PersistentVolumeClaim is {canonical(most)}"
            if name not in requests:
                yield f"{head}.  No request is specified"
            elif milli(requests[name]) > milli(most):
                yield f"{head}, but request is {canonical(requests[name])}"


def _pod_faults(pod: Obj, limit_range: Obj) -> Iterator[str]:
    spec = pod["spec"]
    for bound in limit_range["spec"].get("limits") or ():
        match bound.get("type"):
            case "Container":
                for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
                    resources = container.get("resources") or {}
                    yield from _bound_faults(bound, resources.get("requests") or {}, resources.get("limits") or {})
            case "Pod":
                yield from _bound_faults(bound, pod_amounts(spec, "requests"), pod_amounts(spec, "limits"))


def _bound_faults(bound: Obj, requests: Amounts, limits: Amounts) -> Iterator[str]:
    kind = bound["type"]
    for name, least in sorted((bound.get("min") or {}).items()):
        yield from _too_little(kind, name, least, requests, limits)
    for name, most in sorted((bound.get("max") or {}).items()):
        head = f"maximum {name} usage per {kind} is {canonical(most)}"
        if name not in limits:
            yield f"{head}.  No limit is specified"
        elif milli(limits[name]) > milli(most):
            yield f"{head}, but limit is {canonical(limits[name])}"
        elif name in requests and milli(requests[name]) > milli(most):
            yield f"{head}, but request is {canonical(requests[name])}"
    for name, ratio in sorted((bound.get("maxLimitRequestRatio") or {}).items()):
        head = f"{name} max limit to request ratio per {kind} is {canonical(ratio)}"
        request, limit = (milli(amounts_of[name]) if name in amounts_of else 0 for amounts_of in (requests, limits))
        if not request:
            yield f"{head}, but no request is specified or request is 0"
        elif not limit:
            yield f"{head}, but no limit is specified or limit is 0"
        elif limit / request * 1000 > milli(ratio):
            yield f"{head}, but provided ratio is {limit / request:f}"


def _too_little(kind: str, name: str, least: Any, requests: Amounts, limits: Amounts) -> Iterator[str]:
    head = f"minimum {name} usage per {kind} is {canonical(least)}"
    if name not in requests:
        yield f"{head}.  No request is specified"
    elif milli(requests[name]) < milli(least):
        yield f"{head}, but request is {canonical(requests[name])}"
    elif name in limits and milli(limits[name]) < milli(least):
        yield f"{head}, but limit is {canonical(limits[name])}"
