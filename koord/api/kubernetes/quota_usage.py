"""How much of a namespace's quotas an object uses, and which quotas count it.

Pods count by what they ask for, claims by their size, services by the ports and balancers they need, and every object
by its kind: `count/RESOURCE.GROUP`. A quota with scopes is about pods alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from koord.api.text.quantity import canonical, milli, minus, parse, plus

Obj = Mapping[str, Any]
"""An object, or a part of one, as decoded from JSON."""
Amounts = Mapping[str, Any]

_MUST_SAY: Final = frozenset(
    {"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"}
)  # fmt: skip
_PLAIN: Final = ("cpu", "memory", "ephemeral-storage")
_POD_LEVEL: Final = ("cpu", "memory")
_OLD_NAMES: Final = frozenset({"configmaps", "replicationcontrollers", "resourcequotas", "secrets"})
"""Kinds that could be counted by their bare name before all could be."""


def usage(group: str, plural: str, obj: Obj) -> dict[str, str]:
    """What an object of a resource uses, by the names that quotas have for it."""
    used = {count_name(group, plural): "1"}
    if not group:
        match plural:
            case "pods":
                if not _is_over(obj):
                    spec = obj["spec"]
                    used |= _compute(pod_amounts(spec, "requests"), pod_amounts(spec, "limits"))
                    used |= _with_overhead(used, spec.get("overhead") or {})
            case "services":
                used |= {"services": "1", **_of_service(obj["spec"])}
            case "persistentvolumeclaims":
                used |= {"persistentvolumeclaims": "1", **_of_claim(obj["spec"])}
            case other if other in _OLD_NAMES:
                used[other] = "1"
    return used


def count_name(group: str, plural: str) -> str:
    return f"count/{plural}.{group}" if group else f"count/{plural}"


def _is_over(pod: Obj) -> bool:
    """Whether a pod has ended, or is about to: then only its object is left to count."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _compute(requests: Amounts, limits: Amounts) -> dict[str, str]:
    used = {"pods": "1"}
    for name, amount in requests.items():
        if name in _PLAIN or name.startswith("hugepages-"):
            used[name] = used[f"requests.{name}"] = amount
        elif not _is_native(name):
            used[f"requests.{name}"] = amount
    used |= {f"limits.{name}": limits[name] for name in _PLAIN if name in limits}
    return used


def _with_overhead(used: Amounts, overhead: Mapping[str, Any]) -> dict[str, str]:
    more = {}
    for name, amount in overhead.items():
        for key in (name, f"requests.{name}", f"limits.{name}"):
            if key in used:
                more[key] = plus(used[key], amount)
    return more


def _of_service(spec: Obj) -> dict[str, str]:
    ports = spec.get("ports") or ()
    match spec.get("type"):
        case "NodePort":
            return {"services.nodeports": str(len(ports))}
        case "LoadBalancer":
            allocates = spec.get("allocateLoadBalancerNodePorts") is not False
            taken = len(ports) if allocates else sum(1 for port in ports if port.get("nodePort"))
            return {"services.nodeports": str(taken), "services.loadbalancers": "1"}
    return {}


def _of_claim(spec: Obj) -> dict[str, str]:
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    used = {"requests.storage": canonical(size)} if size is not None else {}
    if name := spec.get("storageClassName"):
        prefix = f"{name}.storageclass.storage.k8s.io"
        used |= {f"{prefix}/{key}": amount for key, amount in [("persistentvolumeclaims", "1"), *used.items()]}
    return used


def countable(group: str, plural: str, names: Iterable[str]) -> list[str]:
    """Those of a quota's names that objects of a resource can use."""
    return [name for name in names if name == count_name(group, plural) or (not group and _is_of(plural, name))]


def _is_of(plural: str, name: str) -> bool:
    match plural:
        case "pods":
            bare = name.removeprefix("requests.")
            plain = name in ("pods", *_PLAIN) or (name.partition(".")[0] in ("requests", "limits") and bare in _PLAIN)
            limit = name.removeprefix("limits.") in _PLAIN
            extended = name.startswith("requests.") and "/" in name and not _is_native(bare)
            return plain or limit or bare.startswith("hugepages-") or extended
        case "services":
            return name in ("services", "services.nodeports", "services.loadbalancers")
        case "persistentvolumeclaims":
            return name in ("persistentvolumeclaims", "requests.storage") or ".storageclass.storage.k8s.io/" in name
    return name == plural and name in _OLD_NAMES


def counts(quota: Obj, group: str, plural: str, obj: Obj) -> bool:
    """Whether an object is in the scopes of a quota."""
    spec = quota.get("spec") or {}
    wanted = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    wanted += (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    if not wanted:
        return True
    return (group, plural) == ("", "pods") and all(_in_scope(scope, obj) for scope in wanted)


def _in_scope(scope: Obj, pod: Obj) -> bool:
    spec = pod["spec"]
    ends = (spec.get("activeDeadlineSeconds") or -1) >= 0
    match scope.get("scopeName"):
        case "Terminating":
            return ends
        case "NotTerminating":
            return not ends
        case "BestEffort":
            return _asks_for_nothing(spec)
        case "NotBestEffort":
            return not _asks_for_nothing(spec)
        case "PriorityClass":
            return _has_class(scope, spec.get("priorityClassName") or "")
        case "CrossNamespacePodAffinity":
            return _looks_around(spec.get("affinity") or {})
    return False


def _asks_for_nothing(spec: Obj) -> bool:
    """Whether a pod is of the class BestEffort."""
    parts = [spec, *(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return not any(
        milli(amount) > 0
        for part in parts
        for key in ("requests", "limits")
        for name, amount in ((part.get("resources") or {}).get(key) or {}).items()
        if name in _POD_LEVEL
    )


def _has_class(scope: Obj, name: str) -> bool:
    values = scope.get("values") or ()
    match scope.get("operator"):
        case "Exists":
            return bool(name)
        case "DoesNotExist":
            return not name
        case "In":
            return bool(name) and name in values
    return name not in values


def _looks_around(affinity: Obj) -> bool:
    """Whether a pod's affinities look into other namespaces."""
    for key in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(key) or {}
        terms = list(part.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        preferred = part.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [preference.get("podAffinityTerm") or {} for preference in preferred]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


def unsaid(pod: Obj, names: Iterable[str]) -> str:
    """What containers must say of themselves where a quota limits it, and do not."""
    if (pod["spec"].get("resources") or {}) != {}:
        return ""
    wanted = _MUST_SAY & set(names)
    missing: dict[str, set[str]] = {}
    for container in (*(pod["spec"].get("containers") or ()), *(pod["spec"].get("initContainers") or ())):
        resources = container.get("resources") or {}
        for name in wanted - _compute(resources.get("requests") or {}, resources.get("limits") or {}).keys():
            missing.setdefault(name, set()).add(container.get("name", ""))
    missing_of = "; ".join(f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))
    return f"must specify {missing_of}" if missing_of else ""


def grown(now: Amounts, before: Amounts) -> dict[str, str]:
    """What is used more than before; nothing that is used less."""
    made = {name: minus(amount, before[name]) if name in before else amount for name, amount in now.items()}
    return {name: amount for name, amount in made.items() if parse(amount).mantissa > 0}


def over(amounts: Amounts, limits: Amounts) -> list[str]:
    """The names whose amounts exceed the limit."""
    return [name for name in amounts if name in limits and parse(minus(limits[name], amounts[name])).mantissa < 0]


def _is_native(name: str) -> bool:
    """Whether a resource is Kubernetes' own."""
    return "/" not in name or "kubernetes.io/" in name


def pod_amounts(spec: Obj, key: str) -> dict[str, str]:
    """What a whole pod asks for: its containers together, or the most that it needs while it begins."""
    total: dict[str, str] = {}
    beside: dict[str, str] = {}
    at_first: dict[str, str] = {}
    for container in spec.get("containers") or ():
        total = _sum(total, (container.get("resources") or {}).get(key) or {})
    for container in spec.get("initContainers") or ():
        own = (container.get("resources") or {}).get(key) or {}
        if container.get("restartPolicy") == "Always":
            total, beside = _sum(total, own), _sum(beside, own)
            needed = beside
        else:
            needed = _sum(own, beside)
        at_first = _most(at_first, needed)
    total = _most(total, at_first)
    whole = (spec.get("resources") or {}).get(key) or {}
    return total | {name: canonical(whole[name]) for name in _POD_LEVEL if name in whole}


def _sum(one: Amounts, other: Amounts) -> dict[str, str]:
    made = {name: canonical(amount) for name, amount in one.items()}
    for name, amount in other.items():
        made[name] = plus(made[name], amount) if name in made else canonical(amount)
    return made


def _most(one: Amounts, other: Amounts) -> dict[str, str]:
    made = {name: canonical(amount) for name, amount in one.items()}
    for name, amount in other.items():
        if name not in made or parse(minus(made[name], amount)).mantissa < 0:
            made[name] = canonical(amount)
    return made
