"""A new pod's way into a cluster, up to the question to koord's webhooks: what an API server has made of it by then.

An API server fills in defaults, completes the pod by what it finds in the cluster (service account, LimitRanges,
tolerations, priority, RuntimeClass), asks mutating webhooks, and does the first two again where they changed the pod;
only then are validating webhooks asked. `Arrivals` does the server's part, by the server's own functions.

Two things are taken at their word, though a server would refuse them, because manifests that were taken from a cluster
have them: a priority without a class, and one whose class is not among the manifests.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from koord.api import kinds
from koord.api.kubernetes import pod_admission
from koord.api.kubernetes.core import PriorityClass
from koord.api.kubernetes.pod_admission import PodRefused, Surroundings
from koord.api.kubernetes.pod_defaults import Obj, default_pod
from koord.api.machinery.codec import without_nulls
from koord.api.machinery.faults import BadInput
from koord.api.text.manifest import Manifest

KINDS: Final = (kinds.LIMIT_RANGES, kinds.RUNTIME_CLASSES)
"""What only the server's own admission looks at."""


class Arrivals:
    """What new pods meet, by what manifests say of the cluster. `classes` are all PriorityClasses, by name."""

    def __init__(self, items: Iterable[Manifest], classes: Iterable[PriorityClass]) -> None:
        self._classes = {class_.metadata.name: _plain(class_) for class_ in classes}
        self._runtimes: dict[str, Obj] = {}
        self._ranges: dict[str, dict[str, Obj]] = {}
        for item in items:
            if item.kind is kinds.RUNTIME_CLASSES:
                self._runtimes[item.key] = runtime = _own(item.data)
                pod_admission.default_runtime_class(runtime)
            elif item.kind is kinds.LIMIT_RANGES:
                namespace, _, name = item.key.partition("/")
                self._ranges.setdefault(namespace, {})[name] = bounds = _own(item.data)
                pod_admission.default_limit_range(bounds)

    def completed(self, pod: Any, namespace: str) -> Obj:
        """A copy of the pod as webhooks would see it. Raises PodRefused where it would not get so far."""
        completed_pod = _own(pod)
        try:
            default_pod(completed_pod)
            self._complete(completed_pod, namespace)
        except (AttributeError, TypeError, KeyError) as error:
            # The API server reads pods by their whole schema; manifests are read by the part that koord decides by.
            raise PodRefused(f"it cannot be read as a Pod: {error}") from error
        except BadInput as error:
            raise PodRefused(str(error)) from error
        return completed_pod

    def _complete(self, pod: Obj, namespace: str) -> None:
        ranges = self._ranges.get(namespace, {})
        spec = pod["spec"]
        said = spec.get("priority")
        name = spec.get("priorityClassName") or ""
        if said is not None and name not in self._classes:
            word = {"metadata": {"name": name}, "value": said, "preemptionPolicy": spec.get("preemptionPolicy")}
            around = self._around(ranges, {**self._classes, name: word}, word if not name else None)
            pod_admission.complete(pod, around)
            if not name:
                del spec["priorityClassName"]
        else:
            pod_admission.complete(pod, self._around(ranges, self._classes, None))

    def _around(self, ranges: dict[str, Obj], classes: dict[str, Obj], default: Obj | None) -> Surroundings:
        return Surroundings(
            limit_ranges=[ranges[name] for name in sorted(ranges)],
            priority_class=classes.get,
            priority_classes=lambda: [{**default, "globalDefault": True}] if default else classes.values(),
            runtime_class=self._runtimes.get,
        )


def _plain(given: PriorityClass) -> Obj:
    return {
        "metadata": {"name": given.metadata.name},
        "value": given.value,
        "globalDefault": given.global_default,
        "preemptionPolicy": str(given.preemption_policy),
    }


def _own(data: object) -> Obj:
    """A copy to change in place; nulls count as absent."""
    copy: Obj = msgspec.json.decode(msgspec.json.encode(without_nulls(data)))
    copy.setdefault("metadata", {})
    return copy
