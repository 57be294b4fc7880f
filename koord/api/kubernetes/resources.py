"""How much a pod asks for, in integers: milli-cores of cpu, plain units of everything else.

As Kubernetes computes it (a sidecar is an init container that goes on running):
    requests = max( sum(containers) + sum(sidecars), max over init container i of (i + sidecars before i) ) + overhead
A pod-level amount replaces the maximum. While a running pod is resized, the largest of what is wanted, what is
granted and what is in force counts, so that nothing is promised twice. Older names of resources are read as today's,
and other systems' names of the pool as batch resources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from koord.api.kubernetes.pod import Container, ContainerStatus, Pod
from koord.api.kubernetes.words import PodConditionType
from koord.api.machinery.short_cache import short_cache
from koord.api.protocol.old_names import with_current_names
from koord.api.protocol.pool_names import in_pool
from koord.api.text.quantity import INT64_MAX, Number, QuantityError, ResourceList, parse, value
from koord.api.text.stored import stored_amount

NON_ZERO_REQUESTS: Final[Mapping[str, int]] = {"cpu": 100, "memory": 200 * 1024**2}
"""What a container that names no request counts for when nodes are compared: 100m and 200Mi."""

# Sums are exact, in thousandths of any resource, and rounded up once at the end, as Kubernetes does.
_Thousandths = Mapping[str, int]

_CPU: Final = "cpu"


def pod_requests(
    pod: Pod,
    *,
    overhead: bool = True,
    use_status: bool = True,
    missing: Mapping[str, int] | None = None,
    capped: bool = False,
    by_name: bool = False,
) -> dict[str, int]:
    """What the pod takes from a node.

    `use_status` counts a resize that is under way. `missing` are amounts for containers that do not name a resource
    (for example `NON_ZERO_REQUESTS`); an explicit 0 stays 0. `capped`: an amount beyond an int64 counts as the largest
    one; otherwise it raises QuantityError. A node takes the pods that it is given, whatever they say. `by_name`: other
    systems' names of the pool are kept.
    """
    exact = _exact if by_name else _of_container_capped if capped else _of_container
    statuses = _reported(pod) if use_status else {}
    infeasible = bool(statuses) and _resize_is_infeasible(pod)
    default = {name: amount if name == _CPU else amount * 1000 for name, amount in (missing or {}).items()}

    def requests(container: Container) -> _Thousandths:
        own = exact(container.resources.requests)
        status = statuses.get(container.name)
        if status is not None and status.resources is not None:
            granted, in_force = exact(status.allocated_resources), exact(status.resources.requests)
            own = _largest((granted, in_force) if infeasible else (own, granted, in_force))
        return {**default, **own} if default else own

    total = _running_or_starting(pod, requests)
    if pod.spec.resources is not None:
        total |= _pod_level(exact(pod.spec.resources.requests))
    if overhead:
        _add(total, exact(pod.spec.overhead))
    return _rounded(total)


def pod_limits(pod: Pod, *, overhead: bool = True, use_status: bool = True, capped: bool = False) -> dict[str, int]:
    """What the pod may use at most. A resource that only some containers limit has the sum of those limits."""
    exact = _of_container_capped if capped else _of_container
    statuses = _reported(pod) if use_status else {}
    infeasible = bool(statuses) and _resize_is_infeasible(pod)

    def limits(container: Container) -> _Thousandths:
        own = exact(container.resources.limits)
        status = statuses.get(container.name)
        if status is not None and status.resources is not None:
            in_force = exact(status.resources.limits)
            own = in_force if infeasible else _largest((own, in_force))
        return own

    total = _running_or_starting(pod, limits)
    if pod.spec.resources is not None:
        total |= _pod_level(exact(pod.spec.resources.limits))
    if overhead:
        _add(total, {name: amount for name, amount in exact(pod.spec.overhead).items() if total.get(name)})
    return _rounded(total)


def amounts(resources: ResourceList, *, capped: bool = False) -> dict[str, int]:
    """Any list of resources in integers: a node's allocatable, a quota's maximum. `capped` as for `pod_requests`."""
    return _rounded(_exact_or_capped(resources) if capped else _exact(resources))


def container_amounts(resources: ResourceList) -> dict[str, int]:
    """What a container requests or may use, with all names of the pool as batch resources; an amount beyond an int64
    counts as the largest one."""
    return _rounded(_of_container_capped(resources))


def stored_amounts(resources: ResourceList) -> dict[str, int]:
    """Amounts of a stored object: within bounds, and without invalid quantities."""
    try:
        parsed = amounts(resources, capped=True)
    except QuantityError:
        parsed = amounts({name: amount for name, amount in resources.items() if _is_quantity(amount)}, capped=True)
    return {name: stored_amount(amount) for name, amount in parsed.items()}


def _is_quantity(written: Number) -> bool:
    try:
        parse(written)
    except QuantityError:
        return False
    return True


def _running_or_starting(pod: Pod, of: Callable[[Container], _Thousandths]) -> dict[str, int]:
    """The most that the containers take together at any time of the pod's life."""
    running: dict[str, int] = {}
    for container in pod.spec.containers:
        _add(running, of(container))
    sidecars: dict[str, int] = {}
    starting: dict[str, int] = {}
    for container in pod.spec.init_containers:
        needed = of(container)
        if container.is_sidecar:
            _add(running, needed)
            _add(sidecars, needed)
            needed = sidecars
        else:
            needed = _sum(needed, sidecars)
        starting = _largest((starting, needed))
    return _largest((running, starting))


def _pod_level(exact: _Thousandths) -> _Thousandths:
    """The pod-level amounts that Kubernetes respects."""
    return {name: exact[name] for name in exact if name in ("cpu", "memory") or name.startswith("hugepages-")}


def _reported(pod: Pod) -> dict[str, ContainerStatus]:
    """By container, what the node reports of resources that can be resized: not those of ordinary init containers."""
    statuses = {status.name: status for status in pod.status.container_statuses if status.resources is not None}
    if pod.status.init_container_statuses:
        sidecars = {container.name for container in pod.spec.init_containers if container.is_sidecar}
        statuses |= {
            status.name: status
            for status in pod.status.init_container_statuses
            if status.resources is not None and status.name in sidecars
        }
    return statuses


def _resize_is_infeasible(pod: Pod) -> bool:
    pending = pod.status.condition(PodConditionType.RESIZE_PENDING)
    return pending is not None and pending.reason == "Infeasible"


def _exact(resources: ResourceList) -> dict[str, int]:
    return {name: _thousandths(quantity) for name, quantity in with_current_names(resources).items()}


def _exact_or_capped(resources: ResourceList) -> dict[str, int]:
    return {name: _capped(quantity) for name, quantity in with_current_names(resources).items()}


def _capped(quantity: Number) -> int:
    try:
        return _thousandths(quantity)
    except QuantityError:
        most = INT64_MAX * 1000
        return -most if parse(quantity).mantissa < 0 else most


def _of_container(resources: ResourceList) -> dict[str, int]:
    return in_pool(_exact(resources))


def _of_container_capped(resources: ResourceList) -> dict[str, int]:
    return in_pool(_exact_or_capped(resources))


@short_cache(16384)
def _thousandths(quantity: Number) -> int:
    value(quantity)  # refuses what cannot be counted
    mantissa, exponent, _ = parse(quantity)
    scale: int = 10 ** abs(exponent + 3)
    return mantissa * scale if exponent >= -3 else -(-mantissa // scale)


def _rounded(exact: _Thousandths) -> dict[str, int]:
    return {name: min(amount if name == _CPU else -(-amount // 1000), INT64_MAX) for name, amount in exact.items()}


def _add(total: dict[str, int], more: _Thousandths) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _sum(a: _Thousandths, b: _Thousandths) -> dict[str, int]:
    total = dict(a)
    _add(total, b)
    return total


def _largest(lists: Iterable[_Thousandths]) -> dict[str, int]:
    most: dict[str, int] = {}
    for resources in lists:
        for name, amount in resources.items():
            if name not in most or amount > most[name]:
                most[name] = amount
    return most
