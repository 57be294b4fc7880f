"""Where a service's webhook really is: at a ready endpoint, since the service's own address leads nowhere here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from koord_minicluster.apiserver.admission.webhook_rules import ServiceRef
from koord_minicluster.apiserver.store import Collection

_SERVICE_NAME = "kubernetes.io/service-name"


def service_address(service: ServiceRef, collection: Callable[[str], Collection]) -> tuple[str, int]:
    """(host, port) of one endpoint. Raises LookupError with the reason, as the real server words it."""
    entry = collection("services").get(f"{service.namespace}/{service.name}")
    if entry is None:
        raise LookupError(f'service "{service.name}" not found')
    spec = msgspec.json.decode(entry.value).get("spec") or {}
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", "")), service.port
    port = next(
        (service_port for service_port in spec.get("ports") or () if service_port.get("port") == service.port), None
    )
    if port is None:
        raise LookupError(f'no service port {service.port} found for service "{service.name}"')
    for host, number in _endpoints(service, port.get("name") or "", collection):
        return host, number
    raise LookupError(f'no endpoints available for service "{service.name}"')


def _endpoints(
    service: ServiceRef, port_name: str, collection: Callable[[str], Collection]
) -> Iterator[tuple[str, int]]:
    for entry in collection("endpointslices.discovery.k8s.io").entries(f"{service.namespace}/"):
        if entry.index.labels.get(_SERVICE_NAME) == service.name:
            piece = msgspec.json.decode(entry.value)
            ready = [
                endpoint
                for endpoint in piece.get("endpoints") or ()
                if (endpoint.get("conditions") or {}).get("ready", True)
            ]
            yield from _paired(port_name, piece.get("ports"), [endpoint["addresses"][0] for endpoint in ready])
    entry_ = collection("endpoints").get(f"{service.namespace}/{service.name}")
    for subset in (msgspec.json.decode(entry_.value).get("subsets") or ()) if entry_ is not None else ():
        yield from _paired(port_name, subset.get("ports"), [address["ip"] for address in subset.get("addresses") or ()])


def _paired(port_name: str, ports: list[Mapping[str, Any]] | None, addresses: list[str]) -> Iterator[tuple[str, int]]:
    for port in ports or ():
        if (port.get("name") or "") == port_name and port.get("port"):
            yield from ((address, int(port["port"])) for address in addresses)
