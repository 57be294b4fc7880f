"""Slices, classes and claims in a line, and the search on one node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from koord.api.kubernetes.dynamic_resources import (
    AllocationResult,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from koord.api.kubernetes.node import Node
from koord.api.machinery.codec import convert
from koord.scheduler.plugins.dynamic_resources.pools import Pool, PoolId, SlicedDevice, in_order, pool_for
from koord.scheduler.plugins.dynamic_resources.requests import wanted_of
from koord.scheduler.plugins.dynamic_resources.results import allocations
from koord.scheduler.plugins.dynamic_resources.search import NoSolution, search
from koord.scheduler.plugins.dynamic_resources.usage import Usage

DRIVER = "d"
ANY = convert(DeviceClass, {"metadata": {"name": "any"}})


def device(name: str, model: str = "", **more: Any) -> dict[str, Any]:
    return {"name": name, **({"attributes": {"model": {"string": model}}} if model else {}), **more}


def slice_(
    name: str,
    *devices: str | dict[str, Any],
    pool: str = "p",
    driver: str = DRIVER,
    node: str | None = "n1",
    generation: int = 1,
    count: int = 1,
    **more: Any,
) -> ResourceSlice:
    listed = [device(item) if isinstance(item, str) else item for item in devices]
    spec = {
        "driver": driver,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
        **({"nodeName": node} if node else {}),
        "devices": listed,
        **more,
    }
    return convert(ResourceSlice, {"metadata": {"name": name}, "spec": spec})


def request(name: str = "r", device_class: str = "any", **more: Any) -> dict[str, Any]:
    selectors = [{"cel": {"expression": text}} for text in more.pop("where", ())]
    exactly = {"deviceClassName": device_class, **({"selectors": selectors} if selectors else {}), **more}
    return {"name": name, "exactly": exactly}


def claim(name: str, *requests: dict[str, Any], **devices: Any) -> ResourceClaim:
    data = {
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}"},
        "spec": {"devices": {"requests": list(requests or [request()]), **devices}},
    }
    return convert(ResourceClaim, data)


def of_model(model: str) -> str:
    return f'device.attributes["{DRIVER}"].?model.orValue("") == "{model}"'


def pools_of(
    slices: Iterable[ResourceSlice], node: str = "n1", rules: Sequence[DeviceTaintRule] = (), **labels: str
) -> list[Pool]:
    by_pool: dict[PoolId, list[ResourceSlice]] = {}
    for item in sorted(slices, key=lambda item: item.metadata.name):
        by_pool.setdefault(PoolId(item.spec.driver, item.spec.pool.name), []).append(item)
    where = convert(Node, {"metadata": {"name": node, "labels": labels}})

    def devices_of(of: ResourceSlice) -> tuple[SlicedDevice, ...]:
        return tuple(SlicedDevice(item, of, rules) for item in of.spec.devices)

    seen = (pool_for(pool_id, by_pool[pool_id], where, devices_of) for pool_id in by_pool)
    return in_order(pool for pool in seen if pool is not None)


def allocated(
    claims: Sequence[ResourceClaim],
    slices: Iterable[ResourceSlice],
    *,
    node: str = "n1",
    usage: Usage | None = None,
    classes: Mapping[str, DeviceClass] | None = None,
    rules: Sequence[DeviceTaintRule] = (),
    **labels: str,
) -> list[AllocationResult] | str:
    """What each claim gets on a node, or why there is no solution."""
    by_name = {"any": ANY, **(classes or {})}
    wanted = [wanted_of(item, by_name) for item in claims]
    solution = search(wanted, pools_of(slices, node, rules, **labels), usage or Usage())
    if isinstance(solution, NoSolution):
        return solution.why or "no"
    return allocations(wanted, solution, node, by_name, 0.0)


def names(result: list[AllocationResult] | str) -> list[list[str]] | str:
    """`request: pool/device` of each claim."""
    if isinstance(result, str):
        return result
    return [[f"{item.request}: {item.pool}/{item.device}" for item in one.devices.results] for one in result]


def holding(**claims: AllocationResult) -> Usage:
    usage = Usage()
    for name, allocation in claims.items():
        usage.count(name, allocation, +1)
    return usage


def having(*devices: str, pool: str = "p", driver: str = DRIVER, **more: Any) -> AllocationResult:
    results = [{"request": "r", "driver": driver, "pool": pool, "device": item, **more} for item in devices]
    return convert(AllocationResult, {"devices": {"results": results}})
