"""Services, Endpoints and EndpointSlices."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from typing import Any, Final

from koord.api.text import formats
from koord_minicluster.apiserver.builtin.checks import Faults, Part, add_all, choice, label_map, port_or_name
from koord_minicluster.apiserver.builtin.endpoints import reachable
from koord_minicluster.apiserver.builtin.service_allocation import WITH_NODE_PORTS, needs_health_port
from koord_minicluster.apiserver.builtin.service_families import related_faults
from koord_minicluster.apiserver.printing import AGE, NAME, NONE, UNKNOWN, at, labels_text, of, text
from koord_minicluster.apiserver.resource import Obj, Strategy
from koord_minicluster.apiserver.status import Cause, duplicate, forbidden, invalid, not_supported, required

_LINK_MULTICAST: Final = ipaddress.ip_network("224.0.0.0/24")
_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_BALANCED_ONLY: Final = "may only be used when `type` is 'LoadBalancer'"
_RANGES: Final = "service.beta.kubernetes.io/load-balancer-source-ranges"
_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")


def default_service(service: Obj) -> None:
    spec = service.setdefault("spec", {})
    if not spec.get("sessionAffinity"):
        spec["sessionAffinity"] = "None"
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        config = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        if config.get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
    if not spec.get("type"):
        spec["type"] = "ClusterIP"
    for port in spec.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port", 0)
    reachable = spec["type"] in WITH_NODE_PORTS or (spec["type"] == "ClusterIP" and spec.get("externalIPs"))
    if reachable and not spec.get("externalTrafficPolicy"):
        spec["externalTrafficPolicy"] = "Cluster"
    if spec.get("internalTrafficPolicy") is None and spec["type"] != "ExternalName":
        spec["internalTrafficPolicy"] = "Cluster"
    if spec["type"] == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is None:
        spec["allocateLoadBalancerNodePorts"] = True
    service.setdefault("status", {}).setdefault("loadBalancer", {})


def prepare_create(service: Obj) -> None:
    service["status"] = {"loadBalancer": {}}


def prepare_update(new: Obj, old: Obj) -> None:
    spec, was = new["spec"], old["spec"]
    if spec.get("type") != "ExternalName" and was.get("type") != "ExternalName":
        for key in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if not spec.get(key) and was.get(key):
                spec[key] = was[key]
    elif was.get("type") != "ExternalName":
        _drop_addresses(spec, was)
    had_ports, has_ports = was.get("type") in WITH_NODE_PORTS, spec.get("type") in WITH_NODE_PORTS
    if had_ports and has_ports:
        _keep_ports(spec.get("ports") or (), was.get("ports") or ())
    elif had_ports and _numbers(spec) == _numbers(was):
        for port in spec.get("ports") or ():
            port.pop("nodePort", None)
    if needs_health_port(was):
        if needs_health_port(spec):
            spec["healthCheckNodePort"] = spec.get("healthCheckNodePort") or was.get("healthCheckNodePort")
        else:
            _drop_same(spec, was, "healthCheckNodePort")
    if was.get("type") == "LoadBalancer" and spec.get("type") != "LoadBalancer":
        _drop_same(spec, was, "allocateLoadBalancerNodePorts")
        _drop_same(spec, was, "loadBalancerClass")
    if _is_reachable(was) and not _is_reachable(spec):
        _drop_same(spec, was, "externalTrafficPolicy")
    if spec.get("type") != "LoadBalancer":
        new["status"] = {**(new.get("status") or {}), "loadBalancer": {}}


def _drop_addresses(spec: Obj, was: Part) -> None:
    """A service that has become a name alone, where its writer did not also change the addresses."""
    if spec.get("clusterIP") == was.get("clusterIP") or not spec.get("clusterIPs"):
        spec.pop("clusterIP", None)
        spec.pop("clusterIPs", None)
    for key in ("internalTrafficPolicy", "ipFamilies", "ipFamilyPolicy"):
        _drop_same(spec, was, key)


def _drop_same(spec: Obj, was: Part, key: str) -> None:
    if spec.get(key) == was.get(key):
        spec.pop(key, None)


def _is_reachable(spec: Part) -> bool:
    """Whether a service is for those outside the cluster too."""
    return spec.get("type") in WITH_NODE_PORTS or (spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs")))


def _keep_ports(ports: Iterable[Obj], before: Iterable[Part]) -> None:
    """Ports that a writer leaves out stay those of the port of the same name, if no other has taken them."""
    numbers = {port.get("name", ""): port.get("nodePort") for port in before}
    used = {port.get("nodePort") for port in ports} & set(numbers.values())
    for port in ports:
        number = numbers.get(port.get("name", ""))
        if not port.get("nodePort") and number and number not in used:
            port["nodePort"] = number


def _numbers(spec: Part) -> set[int]:
    return {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}


def validate_service(service: Obj) -> Sequence[Cause]:
    faults: Faults = []
    spec = service["spec"]
    kind, ports = spec.get("type", ""), spec.get("ports") or ()
    headless = spec.get("clusterIP") == "None"
    if not ports and not headless and kind != "ExternalName":
        faults.append(required("spec.ports"))
    if headless and kind in WITH_NODE_PORTS:
        faults.append(invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"))
    if kind == "ExternalName":
        _external_name(faults, spec)
    names: set[str] = set()
    for i, port in enumerate(ports):
        _port(faults, port, f"spec.ports[{i}]", len(ports) > 1, names)
    label_map(faults, spec.get("selector"), "spec.selector")
    affinity = spec.get("sessionAffinity", "")
    if affinity not in ("ClientIP", "None"):
        faults.append(not_supported("spec.sessionAffinity", affinity, ("ClientIP", "None")))
    if kind != "ExternalName":
        faults += related_faults(spec)
    for i, address in enumerate(spec.get("externalIPs") or ()):
        if texts := formats.legacy_ip_address(address):
            add_all(faults, f"spec.externalIPs[{i}]", address, texts)
        else:
            reachable(faults, address, f"spec.externalIPs[{i}]")
    if kind not in _TYPES:
        faults.append(not_supported("spec.type", kind, _TYPES))
    _port_conflicts(faults, ports, kind)
    _source_ranges(faults, service, kind)
    if spec.get("allocateLoadBalancerNodePorts") is not None and kind != "LoadBalancer":
        faults.append(forbidden("spec.allocateLoadBalancerNodePorts", _BALANCED_ONLY))
    _traffic(faults, spec, kind)
    choice(faults, spec, "trafficDistribution", "spec", _DISTRIBUTIONS, _DISTRIBUTIONS)
    return faults


def _external_name(faults: Faults, spec: Part) -> None:
    for key in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(key):
            faults.append(forbidden(f"spec.{key}", "may not be set for ExternalName services"))
    name = spec.get("externalName", "").removesuffix(".")
    if not name:
        faults.append(required("spec.externalName"))
    else:
        add_all(faults, "spec.externalName", name, formats.dns_subdomain(name))


def _port(faults: Faults, port: Part, path: str, need_name: bool, names: set[str]) -> None:
    name, number = port.get("name", ""), port.get("port", 0)
    if name:
        add_all(faults, f"{path}.name", name, formats.dns_label(name))
        if name in names:
            faults.append(duplicate(f"{path}.name", name))
        names.add(name)
    elif need_name:
        faults.append(required(f"{path}.name"))
    add_all(faults, f"{path}.port", number, formats.port_number(number))
    if port.get("protocol") not in _PROTOCOLS:
        faults.append(not_supported(f"{path}.protocol", port.get("protocol", ""), _PROTOCOLS))
    port_or_name(faults, f"{path}.targetPort", port.get("targetPort", 0))
    if (protocol := port.get("appProtocol")) is not None:
        add_all(faults, f"{path}.appProtocol", protocol, formats.label_key(protocol))


def _port_conflicts(faults: Faults, ports: Sequence[Part], kind: str) -> None:
    if kind == "ClusterIP":
        for i, port in enumerate(ports):
            if port.get("nodePort"):
                text_ = "may not be used when `type` is 'ClusterIP'"
                faults.append(forbidden(f"spec.ports[{i}].nodePort", text_))
    node_ports: set[tuple[Any, Any]] = set()
    for i, port in enumerate(ports):
        if number := port.get("nodePort"):
            if (port.get("protocol"), number) in node_ports:
                faults.append(duplicate(f"spec.ports[{i}].nodePort", number))
            node_ports.add((port.get("protocol"), number))
    seen: set[tuple[Any, Any]] = set()
    for i, port in enumerate(ports):
        key = (port.get("protocol"), port.get("port"))
        if key in seen:
            # The real server prints a whole port with only these two set, by the names of Go's fields.
            head = {"Name": "", "Protocol": key[0], "AppProtocol": None}
            faults.append(duplicate(f"spec.ports[{i}]", {**head, "Port": key[1], "TargetPort": 0, "NodePort": 0}))
        seen.add(key)


def _source_ranges(faults: Faults, service: Obj, kind: str) -> None:
    ranges, path = service["spec"].get("loadBalancerSourceRanges") or (), "spec.LoadBalancerSourceRanges"
    said = (service["metadata"].get("annotations") or {}).get(_RANGES)
    if not ranges and said is None:
        return
    if not ranges:
        path = f"metadata.annotations[{_RANGES}]"
    if kind != "LoadBalancer":
        faults.append(forbidden(path, _BALANCED_ONLY))
    for i, range_ in enumerate(ranges):
        add_all(faults, f"{path}[{i}]", range_.strip(), formats.cidr(range_.strip()))
    for range_ in (said or "").split(",") if not ranges and (said or "").strip() else ():
        add_all(faults, path, range_.strip(), formats.cidr(range_.strip()))


def _traffic(faults: Faults, spec: Part, kind: str) -> None:
    external = spec.get("externalTrafficPolicy", "")
    open_ = kind in WITH_NODE_PORTS or (kind == "ClusterIP" and spec.get("externalIPs"))
    if external and not open_:
        text_ = "may only be set for externally-accessible services"
        faults.append(invalid("spec.externalTrafficPolicy", external, text_))
    elif external and external not in ("Cluster", "Local"):
        faults.append(not_supported("spec.externalTrafficPolicy", external, ("Cluster", "Local")))
    internal = spec.get("internalTrafficPolicy")
    if internal is not None and internal not in ("Cluster", "Local"):
        faults.append(not_supported("spec.internalTrafficPolicy", internal, ("Cluster", "Local")))


def validate_service_update(new: Obj, old: Obj) -> Sequence[Cause]:
    spec, was = new["spec"], old["spec"]
    if "ExternalName" in (spec.get("type"), was.get("type")):
        return ()
    before, after = was.get("clusterIPs") or [], spec.get("clusterIPs") or []
    if before and before[0] and before[:1] != after[:1]:
        return [invalid("spec.clusterIPs[0]", after, "may not change once set")]
    return ()


def warnings(service: Obj) -> Sequence[str]:
    return [
        f'spec.externalIPs[{i}]: non-standard IP address "{address}" will be considered invalid in a future '
        f'Kubernetes release: use "{formats.without_zeros(address)}"'
        for i, address in enumerate(service["spec"].get("externalIPs") or ())
        if formats.without_zeros(address) != address
    ]


def _external(service: Obj) -> str:
    spec = service["spec"]
    addresses = list(spec.get("externalIPs") or ())
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(addresses) or NONE
        case "LoadBalancer":
            ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
            shown = sorted({ingress_point.get("ip") or ingress_point.get("hostname", "") for ingress_point in ingress})
            return ",".join([*shown, *addresses]) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
    return UNKNOWN


def _ports_text(service: Obj) -> str:
    shown = []
    for port in service["spec"].get("ports") or ():
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port.get('port', 0)}{node_port}/{port.get('protocol', '')}")
    return ",".join(shown) or NONE


SERVICE: Final = Strategy(
    default=default_service,
    prepare_create=prepare_create,
    prepare_update=prepare_update,
    validate=validate_service,
    validate_update=validate_service_update,
    fields=lambda obj: {"spec.clusterIP": obj["spec"].get("clusterIP", ""), "spec.type": obj["spec"].get("type", "")},
    columns=(
        NAME,
        text("Type", at("spec", "type")),
        text("Cluster-IP", of(lambda obj: next(iter(obj["spec"].get("clusterIPs") or ()), NONE))),
        text("External-IP", of(_external)),
        text("Port(s)", of(_ports_text)),
        AGE,
        text("Selector", of(lambda obj: labels_text(obj["spec"].get("selector"))), 1),
    ),
    warnings=warnings,
    name_fault=lambda name: next(iter(formats.dns_1035_label(name)), None),
    has_generation=False,
    allow_create_on_update=True,
    returns_deleted=True,
)
