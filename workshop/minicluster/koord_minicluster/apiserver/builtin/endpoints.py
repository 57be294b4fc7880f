"""Endpoints and EndpointSlices: where a service's pods are."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any, Final

from koord.api.text import formats
from koord_minicluster.apiserver.builtin.checks import Faults, Part, add_all, immutable, label_map
from koord_minicluster.apiserver.printing import AGE, NAME, NONE, UNSET, at, of, text
from koord_minicluster.apiserver.resource import Obj, Strategy
from koord_minicluster.apiserver.status import Cause, duplicate, invalid, not_supported, required, too_many

_LINK_MULTICAST: Final = ipaddress.ip_network("224.0.0.0/24")
_MOST_SHOWN: Final = 3
_TYPES: Final = ("FQDN", "IPv4", "IPv6")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_MOST_ENDPOINTS, _MOST_ADDRESSES, _MOST_HINTS, _MOST_PORTS = 1000, 100, 8, 20000


def default_endpoints(endpoints: Obj) -> None:
    for subset in endpoints.get("subsets") or ():
        for port in subset.get("ports") or ():
            if not port.get("protocol"):
                port["protocol"] = "TCP"


def validate_endpoints(endpoints: Obj) -> Sequence[Cause]:
    faults: Faults = []
    for i, subset in enumerate(endpoints.get("subsets") or ()):
        path, ports = f"subsets[{i}]", subset.get("ports") or ()
        addresses = (*(subset.get("addresses") or ()), *(subset.get("notReadyAddresses") or ()))
        if not addresses:
            faults.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
        for key in ("addresses", "notReadyAddresses"):
            for j, address in enumerate(subset.get(key) or ()):
                ip = address.get("ip", "")
                add_all(faults, f"{path}.{key}[{j}].ip", ip, formats.ip_address(ip))
                reachable(faults, ip, f"{path}.{key}[{j}].ip")
                if host := address.get("hostname"):
                    add_all(faults, f"{path}.{key}[{j}].hostname", host, formats.dns_label(host))
        for j, port in enumerate(ports):
            where = f"{path}.ports[{j}]"
            if len(ports) > 1 and not port.get("name"):
                faults.append(required(f"{where}.name"))
            elif port.get("name"):
                add_all(faults, f"{where}.name", port["name"], formats.dns_label(port["name"]))
            add_all(faults, f"{where}.port", port.get("port", 0), formats.port_number(port.get("port", 0)))
            if port.get("protocol") not in _PROTOCOLS:
                faults.append(not_supported(f"{where}.protocol", port.get("protocol", ""), _PROTOCOLS))
            if (said := port.get("appProtocol")) is not None:
                add_all(faults, f"{where}.appProtocol", said, formats.label_key(said))
    return faults


def reachable(faults: Faults, address: str, path: str) -> None:
    """An address that others can reach: not this machine's own, nor one of a link."""
    try:
        ip = ipaddress.ip_address(formats.without_zeros(address))
    except ValueError:
        faults.append(invalid(path, address, "must be a valid IP address"))
        return
    for wrong, said in (
        (ip.is_unspecified, f"may not be unspecified ({address})"),
        (ip.is_loopback, "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (ip.is_link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (ip in _LINK_MULTICAST, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    ):
        if wrong:
            faults.append(invalid(path, address, said))


def default_slice(obj: Obj) -> None:
    for port in obj.get("ports") or ():
        if port.get("name") is None:
            port["name"] = ""
        if port.get("protocol") is None:
            port["protocol"] = "TCP"


def count_change(new: Obj, old: Obj) -> None:
    """Labels count too: by them others find the slices of a service."""
    keys = [key for key in {*new, *old} if key != "metadata"]
    same = all(new.get(key) == old.get(key) for key in keys)
    if not same or (new["metadata"].get("labels") or {}) != (old["metadata"].get("labels") or {}):
        new["metadata"]["generation"] = int(old["metadata"].get("generation", 0)) + 1


def drop_topology(obj: Obj) -> None:
    for endpoint in obj.get("endpoints") or ():
        endpoint.pop("deprecatedTopology", None)


def _update(new: Obj, old: Obj) -> None:
    count_change(new, old)
    if new.get("endpoints") != old.get("endpoints"):
        drop_topology(new)


def validate_slice(obj: Obj) -> Sequence[Cause]:
    faults: Faults = []
    kind = obj.get("addressType", "")
    if not kind:
        faults.append(required("addressType"))
    elif kind not in _TYPES:
        faults.append(not_supported("addressType", kind, _TYPES))
    _ports(faults, obj.get("ports") or ())
    endpoints = obj.get("endpoints") or ()
    if len(endpoints) > _MOST_ENDPOINTS:
        faults.append(too_many("endpoints", len(endpoints), _MOST_ENDPOINTS))
        return faults
    for i, endpoint in enumerate(endpoints):
        _endpoint(faults, endpoint, kind, f"endpoints[{i}]")
    return faults


def _ports(faults: Faults, ports: Sequence[Part]) -> None:
    if len(ports) > _MOST_PORTS:
        faults.append(too_many("ports", len(ports), _MOST_PORTS))
        return
    seen: set[str] = set()
    for i, port in enumerate(ports):
        name, protocol = port.get("name") or "", port.get("protocol")
        if name:
            add_all(faults, f"ports[{i}].name", name, formats.dns_label(name))
        if name in seen:
            faults.append(duplicate(f"ports[{i}].name", name))
        seen.add(name)
        if protocol is None:
            faults.append(required(f"ports[{i}].protocol"))
        elif protocol not in _PROTOCOLS:
            faults.append(not_supported(f"ports[{i}].protocol", protocol, _PROTOCOLS))
        if (said := port.get("appProtocol")) is not None:
            add_all(faults, f"ports[{i}].appProtocol", said, formats.label_key(said))


def _endpoint(faults: Faults, endpoint: Part, kind: str, path: str) -> None:
    addresses = endpoint.get("addresses") or ()
    if not addresses:
        faults.append(required(f"{path}.addresses", "must contain at least 1 address"))
    elif len(addresses) > _MOST_ADDRESSES:
        faults.append(too_many(f"{path}.addresses", len(addresses), _MOST_ADDRESSES))
    for i, address in enumerate(addresses):
        _address(faults, address, kind, f"{path}.addresses", i)
    if (node := endpoint.get("nodeName")) is not None:
        add_all(faults, f"{path}.nodeName", node, formats.dns_subdomain(node))
    label_map(faults, endpoint.get("deprecatedTopology"), f"{path}.deprecatedTopology")
    if (host := endpoint.get("hostname")) is not None:
        add_all(faults, f"{path}.hostname", host, formats.dns_label(host))
    hints = endpoint.get("hints") or {}
    for key, check in (("forZones", formats.label_value), ("forNodes", formats.dns_subdomain)):
        listed = hints.get(key) or ()
        if len(listed) > _MOST_HINTS:
            faults.append(too_many(f"{path}.hints.{key}", len(listed), _MOST_HINTS))
            return
        seen: set[str] = set()
        for i, hint in enumerate(listed):
            where, name = f"{path}.hints.{key}[{i}].name", hint.get("name", "")
            if name in seen:
                faults.append(duplicate(where, name))
            seen.add(name)
            add_all(faults, where, name, check(name))


def _address(faults: Faults, address: str, kind: str, path: str, i: int) -> None:
    if kind == "FQDN":
        if fault := _domain_fault(address, f"{path}[{i}]"):
            faults.append(fault)
        return
    if kind not in ("IPv4", "IPv6"):
        return
    check = formats.legacy_ip_address if kind == "IPv4" else formats.ip_address
    if texts := check(address):
        add_all(faults, f"{path}[{i}]", address, texts)
        return
    if (":" in address) != (kind == "IPv6"):
        faults.append(invalid(path, address, f"must be an {kind} address"))
    reachable(faults, address, f"{path}[{i}]")


def _domain_fault(name: str, path: str) -> Cause | None:
    if not name:
        return required(path)
    name = name.removesuffix(".")
    if texts := formats.dns_subdomain(name):
        return invalid(path, name, ",".join(texts))
    parts = name.split(".")
    if len(parts) < 2:
        return invalid(path, name, "should be a domain with at least two segments separated by dots")
    return next((invalid(path, part, ",".join(texts)) for part in parts if (texts := formats.dns_label(part))), None)


def validate_slice_update(new: Obj, old: Obj) -> Sequence[Cause]:
    faults: Faults = []
    immutable(faults, new, old, ("addressType",), "")
    return faults


def slice_warnings(obj: Obj) -> Sequence[str]:
    if obj.get("addressType") == "FQDN":
        return ("spec.addressType: FQDN endpoints are deprecated",)
    return ()


def _endpoints_text(endpoints: Obj) -> str:
    shown: list[str] = []
    for subset in endpoints.get("subsets") or ():
        ips = [address.get("ip", "") for address in subset.get("addresses") or ()]
        ports = [port.get("port", 0) for port in subset.get("ports") or ()]
        shown += [f"{ip}:{port}" for port in ports for ip in ips] if ports else ips
    return _some(shown) if endpoints.get("subsets") else NONE


def _some(values: Sequence[str]) -> str:
    listed = ",".join(values[:_MOST_SHOWN])
    return listed if len(values) <= _MOST_SHOWN else f"{listed} + {len(values) - _MOST_SHOWN} more..."


def _slice_ports(obj: Obj) -> str:
    ports: Sequence[Mapping[str, Any]] = obj.get("ports") or ()
    shown = [str(port["port"] if port.get("port") is not None else port.get("name", "*")) for port in ports]
    return _some(shown) or UNSET


def _slice_endpoints(obj: Obj) -> str:
    addresses = [address for endpoint in obj.get("endpoints") or () for address in endpoint.get("addresses") or ()]
    return _some(addresses) or UNSET


ENDPOINTS: Final = Strategy(
    default=default_endpoints,
    validate=validate_endpoints,
    columns=(NAME, text("Endpoints", of(_endpoints_text)), AGE),
    has_status=False,
    has_generation=False,
    allow_create_on_update=True,
)
ENDPOINT_SLICE: Final = Strategy(
    default=default_slice,
    prepare_create=drop_topology,
    prepare_update=_update,
    validate=validate_slice,
    validate_update=validate_slice_update,
    warnings=slice_warnings,
    warns_again=lambda _new, _old: False,
    columns=(
        NAME,
        text("AddressType", at("addressType")),
        text("Ports", of(_slice_ports)),
        text("Endpoints", of(_slice_endpoints)),
        AGE,
    ),
    has_status=False,
)
