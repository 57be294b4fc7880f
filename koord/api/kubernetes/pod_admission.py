"""What an API server makes of a new pod before it asks any webhook, beyond its defaults.

In order: service account, amounts of LimitRanges, a while to sit out a node that is not ready or not reachable,
priority, RuntimeClass. The server runs these steps again after webhooks have changed the pod, so each changes nothing
the second time. Offline commands run the same steps (`complete`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from koord.api.kubernetes.pod_defaults import Obj, round_amounts

TOLERATION_S: Final = 300
PRIORITY_WITHOUT_CLASS: Final = 0
LIMIT_RANGER_NOTE: Final = "kubernetes.io/limit-ranger"
OTHER_OVERHEAD: Final = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
LIMIT_KEYS: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_MIRROR: Final = "kubernetes.io/config.mirror"
_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class PodRefused(Exception):
    """A pod that contradicts what the cluster says: why, in Kubernetes' words."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a new pod meets in its cluster and namespace."""

    limit_ranges: Iterable[Obj]
    "Of the pod's namespace, by name."
    priority_class: Callable[[str], Obj | None]
    priority_classes: Callable[[], Iterable[Obj]]
    runtime_class: Callable[[str], Obj | None]
    service_accounts: bool = True
    "Whether pods that name no account get their namespace's default one."


def complete(pod: Obj, around: Surroundings) -> None:
    """In place. Raises PodRefused."""
    if around.service_accounts:
        set_service_account(pod)
    give_amounts(pod, around.limit_ranges)
    add_tolerations(pod)
    set_priority(pod, around.priority_class, around.priority_classes)
    set_runtime(pod, around.runtime_class)


def set_service_account(pod: Obj) -> None:
    """The namespace's default account, unless the pod names one. Pods that a node made itself have none."""
    if _MIRROR in (pod.get("metadata", {}).get("annotations") or {}):
        return
    spec = pod.setdefault("spec", {})
    name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = name


def give_amounts(pod: Obj, ranges: Iterable[Obj]) -> None:
    """The requests and limits that a namespace's LimitRanges give by default."""
    for limit_range in ranges:
        requests: dict[str, Any] = {}
        limits: dict[str, Any] = {}
        for bound in bounds(limit_range, "Container"):
            requests |= bound.get("defaultRequest") or {}
            limits |= bound.get("default") or {}
        refusals = [*_given(pod, "containers", "container", requests, limits)]
        refusals += _given(pod, "initContainers", "init container", requests, limits)
        if refusals:
            annotations = pod["metadata"].setdefault("annotations", {})
            annotations[LIMIT_RANGER_NOTE] = "LimitRanger plugin set: " + "; ".join(refusals)


def default_limit_range(obj: Obj) -> None:
    """What a LimitRange leaves out: limits by default are the maximum, requests the limits, else the minimum."""
    for item in (obj.get("spec") or {}).get("limits") or ():
        for key in LIMIT_KEYS:
            round_amounts(item.get(key))
        if item.get("type") == "Container":
            limits = {**(item.get("max") or {}), **(item.get("default") or {})}
            requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
            for key, amounts in (("default", limits), ("defaultRequest", requests)):
                if amounts:
                    item[key] = amounts


def default_runtime_class(obj: Obj) -> None:
    round_amounts((obj.get("overhead") or {}).get("podFixed"))


def bounds(limit_range: Obj, kind: str) -> list[Obj]:
    return [bound for bound in limit_range["spec"].get("limits") or () if bound.get("type") == kind]


def _given(pod: Obj, group: str, word: str, requests: Mapping[str, Any], limits: Mapping[str, Any]) -> Iterator[str]:
    for container in pod["spec"].get(group) or ():
        resources = container.setdefault("resources", {})
        for key, what, given in (("requests", "request", requests), ("limits", "limit", limits)):
            has = resources.get(key) or {}
            missing = sorted(name for name in given if name not in has)
            if missing:
                resources[key] = {**has, **{name: given[name] for name in missing}}
                yield f"{', '.join(missing)} {what} for {word} {container.get('name', '')}"


def add_tolerations(pod: Obj) -> None:
    spec = pod.setdefault("spec", {})
    tolerations = list(spec.get("tolerations") or ())
    tolerated = {
        key
        for key in _TAINTS
        for toleration in tolerations
        if toleration.get("key", "") in (key, "") and toleration.get("effect", "") in ("NoExecute", "")
    }
    missing = [key for key in _TAINTS if key not in tolerated]
    if missing:
        spec["tolerations"] = tolerations + [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_S}
            for key in missing
        ]


def set_priority(pod: Obj, class_of: Callable[[str], Obj | None], classes: Callable[[], Iterable[Obj]]) -> None:
    """The value of the class that the pod names, else of the global default, else 0. A pod may not contradict it."""
    spec = pod.setdefault("spec", {})
    name = spec.get("priorityClassName") or ""
    if name:
        chosen = class_of(name)
        if chosen is None:
            raise PodRefused(f"no PriorityClass with name {name} was found")
    else:
        chosen = global_default(classes())
        if chosen is not None:
            spec["priorityClassName"] = chosen["metadata"]["name"]
    priority = int(chosen.get("value", 0)) if chosen is not None else PRIORITY_WITHOUT_CLASS
    policy = chosen.get("preemptionPolicy") if chosen is not None else "PreemptLowerPriority"
    said = spec.get("priority")
    if said is not None and said != priority:
        raise PodRefused(
            f"the integer value of priority ({said}) must not be provided in pod spec; priority admission controller "
            f"computed {priority} from the given PriorityClass name"
        )
    spec["priority"] = priority
    if policy is None:
        return
    said = spec.get("preemptionPolicy")
    if said is not None and said != policy:
        raise PodRefused(
            f"the string value of PreemptionPolicy ({said}) must not be provided in pod spec; priority admission "
            f"controller computed {policy} from the given PriorityClass name"
        )
    spec["preemptionPolicy"] = policy


def global_default(classes: Iterable[Obj]) -> Obj | None:
    """The class for pods that name none. Should there be several by a race, the lowest."""
    defaults = [class_ for class_ in classes if class_.get("globalDefault")]
    return min(defaults, key=lambda class_: int(class_.get("value", 0)), default=None)


def set_runtime(pod: Obj, classes: Callable[[str], Obj | None]) -> None:
    """Overhead, node selector and tolerations of the pod's RuntimeClass."""
    runtime = runtime_of(pod, classes)
    if runtime is None:
        return
    spec = pod["spec"]
    fixed = (runtime.get("overhead") or {}).get("podFixed")
    if runtime.get("overhead") is not None:
        if spec.get("overhead") and spec["overhead"] != fixed:
            raise PodRefused(OTHER_OVERHEAD)
        spec["overhead"] = dict(fixed or {})
    where = runtime.get("scheduling") or {}
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in (where.get("nodeSelector") or {}).items():
        if key in selector and selector[key] != value:
            theirs = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}"
            raise PodRefused(f"conflict: {theirs}; pod.spec.nodeSelector[{key}] = {selector[key]}")
        selector[key] = value
    if selector:
        spec["nodeSelector"] = selector
    own = list(spec.get("tolerations") or ())
    more = [toleration for toleration in where.get("tolerations") or () if toleration not in own]
    if more:
        spec["tolerations"] = own + more


def runtime_of(pod: Obj, classes: Callable[[str], Obj | None]) -> Obj | None:
    name = pod["spec"].get("runtimeClassName")
    if name is None:
        return None
    runtime_class = classes(name)
    if runtime_class is None:
        raise PodRefused(f'pod rejected: RuntimeClass "{name}" not found')
    return runtime_class
