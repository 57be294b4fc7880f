"""Pods that name a RuntimeClass get what it costs and where it runs; a pod cannot say these itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from koord.minicluster.apiserver.admission.attributes import Attributes, refusal
from koord.minicluster.apiserver.resource import Obj

_OTHER: Final = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_UNKNOWN: Final = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"

Classes = Callable[[str], Obj | None]


def complete(attributes: Attributes, pod: Obj, classes: Classes) -> None:
    """Overhead, node selector and tolerations of the pod's class; 403 where the pod contradicts it."""
    runtime = _class(attributes, pod, classes)
    if runtime is None:
        return
    spec = pod["spec"]
    fixed = (runtime.get("overhead") or {}).get("podFixed")
    if runtime.get("overhead") is not None:
        if spec.get("overhead") and spec["overhead"] != fixed:
            raise refusal(attributes, _OTHER)
        spec["overhead"] = dict(fixed or {})
    where = runtime.get("scheduling") or {}
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in (where.get("nodeSelector") or {}).items():
        if key in selector and selector[key] != value:
            theirs = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}"
            raise refusal(attributes, f"conflict: {theirs}; pod.spec.nodeSelector[{key}] = {selector[key]}")
        selector[key] = value
    if selector:
        spec["nodeSelector"] = selector
    own = list(spec.get("tolerations") or ())
    more = [each for each in where.get("tolerations") or () if each not in own]
    if more:
        spec["tolerations"] = own + more


def check(attributes: Attributes, pod: Obj, classes: Classes) -> None:
    """403 where a pod says what only its class may."""
    runtime, overhead = _class(attributes, pod, classes), pod["spec"].get("overhead")
    if runtime is not None and runtime.get("overhead") is not None:
        if (runtime["overhead"].get("podFixed") or {}) != (overhead or {}):
            raise refusal(attributes, _OTHER)
    elif overhead is not None:
        raise refusal(attributes, _UNKNOWN)


def _class(attributes: Attributes, pod: Obj, classes: Classes) -> Obj | None:
    name = pod["spec"].get("runtimeClassName")
    if name is None:
        return None
    found = classes(name)
    if found is None:
        raise refusal(attributes, f'pod rejected: RuntimeClass "{name}" not found')
    return found
