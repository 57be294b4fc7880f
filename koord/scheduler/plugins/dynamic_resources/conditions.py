"""Devices that must be prepared before a pod is bound: what drivers say of them in the claim's status.

A device names binding conditions, which its driver makes true, and failure conditions. A claim whose preparation failed
or took too long cannot be used: its devices are given back, and others are sought.
"""

from __future__ import annotations

from koord.api.kubernetes.dynamic_resources import AllocatedDeviceStatus, DeviceResult, ResourceClaim
from koord.api.text.timestamp import parse_timestamp


def needs_preparation(results: tuple[DeviceResult, ...]) -> bool:
    return any(result.binding_conditions for result in results)


def failure(claim: ResourceClaim, now_s: float, within_s: float) -> str:
    """Why the devices of a claim cannot be used; empty: they can, or may be so soon. `within_s`: the seconds that
    drivers have."""
    allocation = claim.status.allocation
    if allocation is None or not needs_preparation(allocation.devices.results):
        return ""
    for result in allocation.devices.results:
        failed = _true(claim, result, result.binding_failure_conditions)
        if failed:
            return f"device binding failed: claim={claim.metadata.key}, {result.pool}/{result.device}: {failed[0]}"
    began = allocation.allocation_timestamp
    began_s = parse_timestamp(began) if began else None
    if began_s is not None and now_s > began_s + within_s and missing(claim):
        return f"device binding timeout: claim={claim.metadata.key}"
    return ""


def missing(claim: ResourceClaim) -> list[str]:
    """The conditions that are not true yet."""
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    return [
        f"{condition} of {result.pool}/{result.device}"
        for result in results
        for condition in result.binding_conditions
        if not _true(claim, result, (condition,))
    ]


def _true(claim: ResourceClaim, result: DeviceResult, conditions: tuple[str, ...]) -> list[str]:
    """Those of some conditions of a device that are true."""
    status = next((status for status in claim.status.devices if _is_about(status, result)), None)
    said = {condition.type for condition in status.conditions if condition.status == "True"} if status else set[str]()
    return [condition for condition in conditions if condition in said]


def _is_about(status: AllocatedDeviceStatus, result: DeviceResult) -> bool:
    mine = (result.driver, result.pool, result.device, result.share_id)
    return (status.driver, status.pool, status.device, status.share_id) == mine
