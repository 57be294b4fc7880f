"""EndpointSlices: where can the pods of a Service be reached, and are they ready to be?

A Service with a selector has slices of at most `MOST` endpoints for each family of addresses and each set of port
numbers: a named target port may have another number in each pod. Endpoints stay in the slice that they are in; room in
slices is filled before a new one is made, so that a change of one pod writes one slice. A Service without endpoints has
one empty slice. Slices go with their Service by their owner reference; Services without a selector are left alone.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from koord.api.kinds import ENDPOINT_SLICES, SERVICES
from koord.api.kubernetes.core import Pod, Service, ServicePort
from koord.api.kubernetes.discovery import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from koord.api.kubernetes.meta import ObjectReference
from koord.api.kubernetes.words import RestartPolicy
from koord.api.text.selector import match_labels
from koord.api.workloads.new_pods import managing, reference_body
from koord_minicluster.controllers.actions import Action, Create, Patch, delete
from koord_minicluster.controllers.pods import is_ready

MOST: Final = 100
SERVICE_NAME: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
MANAGER: Final = "endpointslice-controller.k8s.io"
HEADLESS: Final = "service.kubernetes.io/headless"
_FAMILIES: Final = {4: "IPv4", 6: "IPv6"}

Group = tuple[str, tuple[EndpointPort, ...]]
"""What all endpoints of a slice share: the family of their addresses, and their ports."""


def is_ours(piece: EndpointSlice) -> bool:
    return piece.metadata.labels.get(MANAGED_BY) == MANAGER


def has_endpoints(service: Service) -> bool:
    """Whether the Service's endpoints are derived from pods; otherwise the Service's author writes them."""
    return bool(service.spec.selector) and service.spec.type != "ExternalName"


def decide(
    service: Service, pods: Iterable[Pod], zones: Mapping[str, str], slices: Iterable[EndpointSlice]
) -> list[Action]:
    """`pods` of the Service's namespace, `zones` of nodes, `slices` of the Service."""
    if service.metadata.deletion_timestamp is not None or not has_endpoints(service):
        return []
    wanted = _wanted(service, pods, zones)
    ours: dict[Group, list[EndpointSlice]] = {}
    for piece in sorted(slices, key=lambda piece: piece.metadata.name):
        if is_ours(piece) and piece.metadata.deletion_timestamp is None:
            ours.setdefault((piece.address_type, piece.ports), []).append(piece)
    actions: list[Action] = []
    for group in {**wanted, **ours}:
        actions += _slices(service, group, wanted.get(group), ours.get(group, []))
    return actions


def _slices(
    service: Service, group: Group, endpoints: Mapping[str, Endpoint] | None, there: Sequence[EndpointSlice]
) -> list[Action]:
    """What makes the slices of one group right. `endpoints` by address; None where the group is not wanted at all."""
    if endpoints is None:
        return [delete(ENDPOINT_SLICES, piece.metadata) for piece in there]
    kept: list[list[Endpoint]] = []
    placed: set[str] = set()
    for piece in there:
        own = [endpoints[address] for address in _addresses(piece) if address in endpoints and address not in placed]
        placed |= {endpoint.addresses[0] for endpoint in own}
        kept.append(own)
    new = [endpoint for address, endpoint in endpoints.items() if address not in placed]
    for own in kept:
        room = MOST - len(own)
        own += new[:room]
        del new[:room]
    actions: list[Action] = []
    is_first_empty = True
    for piece, own in zip(there, kept, strict=True):
        if not own and (endpoints or not is_first_empty):
            actions.append(delete(ENDPOINT_SLICES, piece.metadata))
            continue
        is_first_empty = is_first_empty and bool(own)
        if tuple(own) != piece.endpoints or not _labels(service).items() <= piece.metadata.labels.items():
            body = {"metadata": {"uid": piece.metadata.uid, "labels": _labels(service)}, "endpoints": _plain(own)}
            actions.append(Patch(ENDPOINT_SLICES, piece.metadata.namespace, piece.metadata.name, body, type="merge"))
    parts = [new[start : start + MOST] for start in range(0, len(new), MOST)]
    if not endpoints and not there:
        parts = [[]]
    return actions + [_create(service, group, part) for part in parts]


def _addresses(given: EndpointSlice) -> list[str]:
    return [address for endpoint in given.endpoints for address in endpoint.addresses]


def _create(service: Service, group: Group, endpoints: Sequence[Endpoint]) -> Create:
    meta = service.metadata
    family, ports = group
    body = {
        "metadata": {
            "generateName": f"{meta.name[:57]}-",
            "labels": _labels(service),
            "ownerReferences": [reference_body(managing(SERVICES, meta))],
        },
        "addressType": family,
        "endpoints": _plain(endpoints),
        "ports": [msgspec.to_builtins(port) for port in ports],
    }
    return Create(ENDPOINT_SLICES, meta.namespace, body)


def _plain(endpoints: Sequence[Endpoint]) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(endpoint, str_keys=True) for endpoint in endpoints]


def _labels(service: Service) -> dict[str, str]:
    labels = {**service.metadata.labels, SERVICE_NAME: service.metadata.name, MANAGED_BY: MANAGER}
    if service.spec.cluster_ip == "None":
        labels[HEADLESS] = ""
    return labels


def _wanted(service: Service, pods: Iterable[Pod], zones: Mapping[str, str]) -> dict[Group, dict[str, Endpoint]]:
    """Endpoints by group and address, in the order of the pods' names. Every family has at least one group."""
    selector = match_labels(service.spec.selector)
    endpoints: dict[Group, dict[str, Endpoint]] = {}
    for pod in sorted(pods, key=lambda pod: pod.metadata.name):
        address = pod.status.pod_ip
        if not address or pod.is_finished or not selector.matches(pod.metadata.labels):
            continue
        family = _family(address)
        if family in _families(service):
            group = (family, _ports(service, pod))
            endpoints.setdefault(group, {})[address] = _endpoint(service, pod, zones)
    for family in _families(service):
        if not any(group[0] == family for group in endpoints):
            endpoints[family, ()] = {}
    return endpoints


def _families(service: Service) -> tuple[str, ...]:
    if service.spec.ip_families:
        return service.spec.ip_families
    return (_family(service.spec.cluster_ip) or "IPv4",)


def _family(address: str) -> str:
    try:
        return _FAMILIES[ipaddress.ip_address(address).version]
    except ValueError:
        return ""


def _endpoint(service: Service, pod: Pod, zones: Mapping[str, str]) -> Endpoint:
    meta = pod.metadata
    serving, terminating = is_ready(pod), meta.deletion_timestamp is not None
    ready = service.spec.publish_not_ready_addresses or (serving and not terminating)
    return Endpoint(
        addresses=(pod.status.pod_ip,),
        conditions=EndpointConditions(ready, serving, terminating),
        target_ref=ObjectReference(kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid),
        node_name=pod.spec.node_name or None,
        zone=zones.get(pod.spec.node_name),
    )


def _ports(service: Service, pod: Pod) -> tuple[EndpointPort, ...]:
    """The Service's ports as this pod has them. A named port that the pod has not is left out."""
    numbers = ((port, _number(port, pod)) for port in service.spec.ports)
    return tuple(
        EndpointPort(port.name, port.protocol, number, port.app_protocol) for port, number in numbers if number
    )


def _number(port: ServicePort, pod: Pod) -> int | None:
    target = port.target_port
    if isinstance(target, int) or not target:
        return target or port.port
    sidecars = (sidecar for sidecar in pod.spec.init_containers if sidecar.restart_policy is RestartPolicy.ALWAYS)
    for container in (*pod.spec.containers, *sidecars):
        for container_port in container.ports:
            if container_port.name == target and container_port.protocol == port.protocol:
                return container_port.container_port
    return None
