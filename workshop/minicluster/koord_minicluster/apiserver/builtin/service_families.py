"""The addresses of a service and their families, on a cluster that has IPv4 alone.

The real server looks at these before all else about a service, and tells of nothing else where they are wrong.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Final

from koord.api.text import formats
from koord_minicluster.apiserver.builtin.checks import Part
from koord_minicluster.apiserver.resource import Obj
from koord_minicluster.apiserver.status import Cause, duplicate, invalid, not_supported, required

ADDRESSES: Final = ipaddress.IPv4Network("10.96.0.0/12")
_FAMILIES: Final = ("IPv4", "IPv6")
_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
_SINGLE: Final = "SingleStack"
_ELSEWHERE: Final = "the provided network does not match the current range"
_MULTIPLE: Final = "must be 'RequireDualStack' or 'PreferDualStack' when multiple {} are specified"


def settle_families(spec: Obj) -> list[Cause]:
    """Fill in policy and families as far as they follow from the rest; or what is wrong with them."""
    headless = spec.get("clusterIP") == "None" and not spec.get("selector")
    if spec.get("ipFamilyPolicy") is None:
        spec["ipFamilyPolicy"] = "RequireDualStack" if headless else _SINGLE
    faults = list(related_faults(spec)) or list(_infer(spec))
    if faults:
        return faults
    families = list(spec.get("ipFamilies") or [])
    if headless:
        families = families or ["IPv4"]
        if len(families) < 2 and spec["ipFamilyPolicy"] != _SINGLE:
            families.append("IPv6" if families[0] == "IPv4" else "IPv4")
        spec["ipFamilies"] = families
        return []
    if spec["ipFamilyPolicy"] == "RequireDualStack":
        text = "this cluster is not configured for dual-stack services"
        faults.append(invalid("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], text))
    for i, family in enumerate(families):
        if family != "IPv4":
            faults.append(invalid(f"spec.ipFamilies[{i}]", family, "not configured on this cluster"))
    spec["ipFamilies"] = families or ["IPv4"]
    return faults


def _infer(spec: Obj) -> Iterator[Cause]:
    """The families of the addresses that are given, where they are not said."""
    addresses, families = spec.get("clusterIPs") or [], list(spec.get("ipFamilies") or [])
    policy = spec["ipFamilyPolicy"]
    if policy == _SINGLE:
        if len(addresses) == 2:
            yield invalid("spec.ipFamilyPolicy", policy, _MULTIPLE.format("cluster IPs"))
        if len(families) == 2:
            yield invalid("spec.ipFamilyPolicy", policy, _MULTIPLE.format("IP families"))
    for i, address in enumerate(addresses):
        if address == "None":
            break
        if i >= len(families):
            family = _family(address)
            if family != "IPv4":
                yield invalid(f"spec.clusterIPs[{i}]", addresses, f"{family} is not configured on this cluster")
            else:
                families.append(family)
    if families:
        spec["ipFamilies"] = families


def _family(address: str) -> str:
    return "IPv6" if ":" in address else "IPv4"


def range_faults(addresses: list[str]) -> list[Cause]:
    """Addresses that this cluster has not to give."""
    first, last = ADDRESSES[0], ADDRESSES[-1]
    return [
        invalid("spec.clusterIPs", addresses, f"failed to allocate IP {address}: {_ELSEWHERE}")
        for address in addresses
        if address != "None" and not first < ipaddress.IPv4Address(address) < last
    ]


def related_faults(spec: Part) -> Iterator[Cause]:
    """What holds of address, addresses, families and policy, whatever the cluster has."""
    addresses, families = spec.get("clusterIPs") or [], spec.get("ipFamilies") or []
    yield from _first_address_faults(spec.get("clusterIP", ""), addresses)
    for i, family in enumerate(families):
        if family not in _FAMILIES:
            yield not_supported(f"spec.ipFamilies[{i}]", family, _FAMILIES)
        if family in families[:i]:
            yield duplicate(f"spec.ipFamilies[{i}]", family)
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in _POLICIES:
        yield not_supported("spec.ipFamilyPolicy", policy, _POLICIES)
    wrong = False
    for i, address in enumerate(addresses):
        if i == 0 and address == "None":
            if len(addresses) > 1:
                wrong = True
                yield invalid("spec.clusterIPs", addresses, "'None' must be the first and only value")
            continue
        for text in formats.ip_address(address):
            wrong = True
            yield invalid(f"spec.clusterIPs[{i}]", address, text)
    if len(addresses) > 2:
        yield invalid("spec.clusterIPs", addresses, "may only hold up to 2 values")
    if wrong:
        return
    if len(addresses) > 1 and {_family(address) for address in addresses} != set(_FAMILIES):
        yield invalid("spec.clusterIPs", addresses, "may specify no more than one IP for each IP family")
    if addresses[:1] != ["None"]:
        for i, (address, family) in enumerate(zip(addresses, families, strict=False)):
            if family in _FAMILIES and _family(address) != family:
                text = f"expected an {family} value as indicated by `ipFamilies[{i}]`"
                yield invalid(f"spec.clusterIPs[{i}]", address, text)


def _first_address_faults(address: str, addresses: list[str]) -> Iterator[Cause]:
    if not address:
        if addresses:
            yield invalid("spec.clusterIPs", addresses, "must be empty when `clusterIP` is not specified")
    elif not addresses:
        yield required("spec.clusterIPs")
    elif addresses[0] != address:
        yield invalid("spec.clusterIPs", addresses, "first value must match `clusterIP`")
