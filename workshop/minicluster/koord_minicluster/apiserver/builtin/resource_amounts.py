"""Requests and limits: which resource names may be asked for, and in what amounts.

A name without a prefix is one of Kubernetes' own; one with a prefix is an extended resource: whole numbers only, and
never overcommitted, so its request equals its limit. Huge pages are never overcommitted either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from functools import lru_cache
from typing import Final

from koord.api.kubernetes.resource_names import HUGE_PAGES, is_huge_pages, is_native, may_overcommit
from koord.api.machinery.short_cache import short_cache
from koord.api.text import formats
from koord.api.text.quantity import Number, canonical, compare, parse, value
from koord_minicluster.apiserver.builtin.checks import Faults, Part, add_all, quantity_sign
from koord_minicluster.apiserver.remembering import remembering
from koord_minicluster.apiserver.status import Cause, duplicate, forbidden, invalid, not_found, not_supported, required

NOT_INTEGER: Final = "must be an integer"
NEGATIVE: Final = "must be greater than or equal to 0"

_COUNTED: Final = frozenset(
    {
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_COMPUTE: Final = frozenset(
    f"{prefix}{name}" for prefix in ("", "requests.", "limits.") for name in ("cpu", "memory", "ephemeral-storage")
)
_STANDARD: Final = _COUNTED | _COMPUTE | {"storage", "requests.storage"}
_OF_QUOTAS: Final = _COUNTED | _COMPUTE | {"requests.storage"}
_OF_CONTAINERS: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_OF_PODS: Final = ("cpu", "memory")


@short_cache(4096)
def is_extended(name: str) -> bool:
    if is_native(name) or name.startswith("requests."):
        return False
    return not formats.label_key(f"requests.{name}")


def is_whole(name: str) -> bool:
    """Whether a resource is counted in whole numbers."""
    return name in _COUNTED or is_extended(name)


@short_cache(4096)
def _name_faults(name: str) -> tuple[str, ...]:
    if faults := formats.label_key(name):
        return faults
    if "/" not in name and name not in _STANDARD and not name.startswith((HUGE_PAGES, "requests.hugepages-")):
        return ("must be a standard resource type or fully qualified",)
    return ()


@short_cache(4096)
def _container_name_faults(name: str) -> tuple[str, ...]:
    faults = _name_faults(name)
    if "/" not in name:
        if name not in _OF_CONTAINERS and not is_huge_pages(name):
            return (*faults, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        return (*faults, "doesn't follow extended resource name standard")
    return faults


def resource_name(faults: Faults, name: str, path: str) -> None:
    add_all(faults, path, name, _name_faults(name))


def container_resource_name(faults: Faults, name: str, path: str) -> None:
    add_all(faults, path, name, _container_name_faults(name))


def quota_resource_name(faults: Faults, name: str, path: str) -> None:
    resource_name(faults, name, path)
    if "/" not in name and not is_quota_standard(name):
        faults.append(invalid(path, name, "must be a standard resource for quota"))


def is_quota_standard(name: str) -> bool:
    """Whether a quota knows this resource without a prefix."""
    return name in _OF_QUOTAS or name.startswith((HUGE_PAGES, "requests.hugepages-"))


def amount(faults: Faults, name: str, quantity: Number, path: str) -> None:
    """Not negative, and whole where the resource is counted."""
    if quantity_sign(quantity) < 0:
        faults.append(invalid(path, canonical(quantity), NEGATIVE))
    if is_whole(name) and not _whole_number(quantity):
        faults.append(invalid(path, canonical(quantity), NOT_INTEGER))


@lru_cache(16384, typed=True)
def _whole_number(quantity: Number) -> bool:
    mantissa, exponent, _ = parse(quantity)
    return exponent >= 0 or mantissa % 10**-exponent == 0


def container_resources(faults: Faults, resources: Part, path: str, claims: Set[str] = frozenset()) -> None:
    if resources.get("claims"):
        _requirements(faults, resources, path, claims, of_pod=False)
    else:
        _without_claims(faults, resources, path)


@remembering
def _without_claims(faults: Faults, resources: Part, path: str) -> None:
    _requirements(faults, resources, path, frozenset(), of_pod=False)


def pod_resources(faults: Faults, resources: Part, path: str) -> None:
    """Resources of a pod as a whole."""
    if resources.get("claims"):
        faults.append(forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level"))
    _requirements(faults, resources, path, frozenset(), of_pod=True)


def _requirements(faults: Faults, resources: Part, path: str, claims: Set[str], of_pod: bool) -> None:
    limits: Mapping[str, Number] = resources.get("limits") or {}
    requests: Mapping[str, Number] = resources.get("requests") or {}
    if not limits and not requests and not resources.get("claims"):
        return
    for name, quantity in limits.items():
        _one(faults, name, quantity, f"{path}.limits[{name}]", of_pod)
    for name, quantity in requests.items():
        _one(faults, name, quantity, f"{path}.requests[{name}]", of_pod)
        limit = limits.get(name)
        if limit is None:
            if not may_overcommit(name):
                faults.append(required(f"{path}.limits", "Limit must be set for non overcommitable resources"))
        elif not may_overcommit(name):
            if compare(quantity, limit) != 0:
                text = f"must be equal to {name} limit of {canonical(limit)}"
                faults.append(invalid(f"{path}.requests", canonical(quantity), text))
        elif compare(quantity, limit) > 0:
            text = f"must be less than or equal to {name} limit of {canonical(limit)}"
            faults.append(invalid(f"{path}.requests", canonical(quantity), text))
    names = {*limits, *requests}
    if any(is_huge_pages(name) for name in names) and not names & {"cpu", "memory"}:
        faults.append(forbidden(path, "HugePages require cpu or memory"))
    _claims(faults, resources.get("claims") or (), claims, f"{path}.claims")


def _one(faults: Faults, name: str, quantity: Number, path: str, of_pod: bool) -> None:
    if not of_pod:
        add_all(faults, path, name, _container_name_faults(name))
    elif texts := _name_faults(name):
        add_all(faults, path, name, texts)
    elif name not in _OF_PODS and not is_huge_pages(name):
        faults.append(not_supported(path, name, ("cpu", HUGE_PAGES, "memory")))
    amount(faults, name, quantity, path)
    if is_huge_pages(name) and not _whole_pages(name, quantity):
        text = f"{canonical(quantity)} is not positive integer multiple of {name}"
        faults.append(invalid(path, canonical(quantity), text))


def _whole_pages(name: str, quantity: Number) -> bool:
    try:
        size = value(name.removeprefix(HUGE_PAGES))
    except ValueError:
        return False
    return size > 0 and value(quantity) % size == 0


def _claims(faults: Faults, claims: Sequence[Part], declared: Set[str], path: str) -> None:
    seen: set[str] = set()
    for i, claim in enumerate(claims):
        name, request = claim.get("name", ""), claim.get("request", "")
        where = f"{path}[{i}]"
        if not name:
            faults.append(required(where))
            continue
        key = f"{name}/{request}" if request else name
        if name in seen or key in seen:
            faults.append(duplicate(where, key if name not in seen else name))
        elif request:
            add_all(faults, f"{where}.request", request, formats.dns_label(request))
        elif any(claim.startswith(f"{name}/") for claim in seen):
            faults.append(duplicate(where, name))
        seen.add(key)
        if name not in declared:
            listed = f": {', '.join(sorted(declared))}" if declared else " which is empty"
            text = f"{not_found(where, name).message}: must be one of the names in pod.spec.resourceClaims{listed}"
            faults.append(Cause(where, "FieldValueNotFound", text))
