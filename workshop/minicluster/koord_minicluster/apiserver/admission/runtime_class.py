"""The last look at a pod's overhead: only its RuntimeClass may say it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from koord.api.kubernetes.pod_admission import OTHER_OVERHEAD, PodRefused, runtime_of
from koord_minicluster.apiserver.admission.attributes import Attributes, refusal
from koord_minicluster.apiserver.resource import Obj

_UNKNOWN: Final = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


def check(attributes: Attributes, pod: Obj, classes: Callable[[str], Obj | None]) -> None:
    """403 where a pod says what only its class may."""
    try:
        runtime = runtime_of(pod, classes)
    except PodRefused as error:
        raise refusal(attributes, str(error)) from error
    overhead = pod["spec"].get("overhead")
    if runtime is not None and runtime.get("overhead") is not None:
        if (runtime["overhead"].get("podFixed") or {}) != (overhead or {}):
            raise refusal(attributes, OTHER_OVERHEAD)
    elif overhead is not None:
        raise refusal(attributes, _UNKNOWN)
