"""Which service has which address and which ports of the nodes: no two have the same.

Nothing routes to a service here, yet clients rely on its address being its own. What a write asks for or is given is
held for it while it is under way; once stored, it is the service's until that is changed or deleted.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

import msgspec

from koord.api.text import formats
from koord_minicluster.apiserver.builtin.checks import Part
from koord_minicluster.apiserver.builtin.service_families import ADDRESSES, range_faults, settle_families
from koord_minicluster.apiserver.resource import Obj, Resource
from koord_minicluster.apiserver.status import Cause, StatusError, internal_error, invalid

NODE_PORTS: Final = range(30000, 32768)
WITH_NODE_PORTS: Final = ("NodePort", "LoadBalancer")
_TAKEN_ADDRESS: Final = "provided IP is already allocated"
_TAKEN_PORT: Final = "provided port is already allocated"
_NO_PORT: Final = (
    f"provided port is not in the valid range. The range of valid ports is {NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
)

Asset = str | int
"""An address, or the number of a port."""


def needs_health_port(spec: Part) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


class Services(Protocol):
    """The stored services, and the listeners for their changes."""

    listeners: list[Callable[[Any], None]]

    def entries(self) -> Iterable[Any]: ...


class ServiceAllocator:
    """The addresses and ports of all services. `begin` and `end` enclose each write of a service."""

    def __init__(self) -> None:
        self._stored: dict[str, frozenset[Asset]] = {}
        self._held: dict[str, set[Asset]] = {}
        self._owners: dict[Asset, str] = {}

    def at_work(self, services: Resource) -> Resource:
        """The resource of services, with this allocator."""
        return replace(services, strategy=replace(services.strategy, begin=self.begin, end=self.end))

    def follow(self, collection: Services) -> None:
        for entry in collection.entries():
            self._store(msgspec.json.decode(entry.value))

        def changed(event: Any) -> None:
            service = msgspec.json.decode(event.entry.value)
            self._store({**service, "spec": {}} if event.type == "DELETED" else service)

        collection.listeners.append(changed)

    def begin(self, service: Obj, old: Obj | None, dry_run: bool) -> Sequence[Cause]:
        """Allocate families, address and ports; returns the causes if that is impossible."""
        spec, was = service["spec"], old["spec"] if old is not None else {}
        if spec.get("type") == "ExternalName":
            return ()
        address, plural_stays = spec.get("clusterIP"), (spec.get("clusterIPs") or []) == (was.get("clusterIPs") or [])
        if address and plural_stays and address != was.get("clusterIP"):
            spec["clusterIPs"] = [address]
        if faults := settle_families(spec):
            return faults
        uid = str(service["metadata"].get("uid", ""))
        if old is None or was.get("type") == "ExternalName":
            faults = self._take_address(service, uid, dry_run)
        if not faults and spec.get("type") in WITH_NODE_PORTS:
            faults = self._take_ports(spec, was, uid)
        if not faults and needs_health_port(spec) and not needs_health_port(was):
            self._take_health_port(spec, uid)
        return faults

    def end(self, uid: str) -> None:
        """The write is over. What was stored is known as that by now."""
        for asset in self._held.pop(uid, set()) - self._stored.get(uid, frozenset()):
            del self._owners[asset]

    def _take_address(self, service: Obj, uid: str, dry_run: bool) -> list[Cause]:
        spec, name = service["spec"], service["metadata"].get("name", "")
        if spec.get("clusterIP") == "None":
            return []
        asked = spec.get("clusterIPs") or []
        if faults := range_faults(asked):
            return faults
        which = f"IP {asked[0]}" if asked else "IP"
        free = asked[0] if asked else str(ADDRESSES[self._free(uid, 1, ADDRESSES.num_addresses - 1)])
        why = "".join(formats.path_segment(name))
        if dry_run:
            # The real server rehearses without asking who has the address.
            why = ""
        elif why:
            # The real server records the owner of an address first, by a name that it finds no record can have.
            parent = f'spec.parentRef.name: Invalid value: "{name}": {why}'
            why = f'IPAddress.networking.k8s.io "{free}" is invalid: {parent}'
        elif not self._take(free, uid):
            why = _TAKEN_ADDRESS
        if why:
            return [invalid("spec.clusterIPs", asked or [""], f"failed to allocate {which}: {why}")]
        spec["clusterIP"], spec["clusterIPs"] = free, [free]
        return []

    def _take_ports(self, spec: Obj, was: Part, uid: str) -> list[Cause]:
        before = {port["nodePort"] for port in was.get("ports") or () if port.get("nodePort")}
        allocates = spec["type"] == "NodePort" or spec.get("allocateLoadBalancerNodePorts") is not False
        ports: list[dict[str, Any]] = spec.get("ports") or []
        # One number serves all protocols of a port.
        shared: dict[int, int] = {}
        new: set[int] = set()
        for i, port in enumerate(ports):
            number = port.get("nodePort") or 0
            if not number and not allocates:
                continue
            if not was and not number:
                number = shared.get(port["port"]) or _asked_for(port["port"], ports)
            if not number:
                number = NODE_PORTS[self._free(uid, 0, len(NODE_PORTS), NODE_PORTS.start)]
            given = shared.get(port["port"]) == number if not was else number in before or number in new
            if not given and (why := self._port_fault(number, uid, new)):
                return [invalid(f"spec.ports[{i}].nodePort", number, why)]
            new.add(number)
            shared.setdefault(port["port"], number)
            port["nodePort"] = number
        return []

    def _port_fault(self, number: int, uid: str, new: set[int]) -> str:
        if number not in NODE_PORTS:
            return _NO_PORT
        return "" if number not in new and self._take(number, uid) else _TAKEN_PORT

    def _take_health_port(self, spec: Obj, uid: str) -> None:
        number = spec.get("healthCheckNodePort") or 0
        if not number:
            number = NODE_PORTS[self._free(uid, 0, len(NODE_PORTS), NODE_PORTS.start)]
            spec["healthCheckNodePort"] = number
        why = self._port_fault(number, uid, {port.get("nodePort") for port in spec.get("ports") or ()})
        if why:
            raise internal_error(f"failed to allocate requested HealthCheck NodePort {number}: {why}")

    def _take(self, asset: Asset, uid: str) -> bool:
        if self._owners.setdefault(asset, uid) != uid:
            return False
        self._held.setdefault(uid, set()).add(asset)
        return True

    def _free(self, uid: str, first: int, end: int, offset: int | None = None) -> int:
        """The index of a free address or port, near the one that the uid hashes to."""
        start, count = zlib.crc32(uid.encode()), end - first
        for step in range(count):
            index = first + (start + step) % count
            if (str(ADDRESSES[index]) if offset is None else offset + index) not in self._owners:
                return index
        what = "serviceIP" if offset is None else "nodePort"
        raise StatusError(500, "InternalError", f"Internal error occurred: failed to allocate a {what}: range is full")

    def _store(self, service: Obj) -> None:
        uid = str(service["metadata"].get("uid", ""))
        now = frozenset(_assets(service.get("spec") or {}))
        for asset in self._stored.get(uid, frozenset()) - now:
            if self._owners.get(asset) == uid and asset not in self._held.get(uid, ()):
                del self._owners[asset]
        for asset in now:
            self._owners.setdefault(asset, uid)
        if now:
            self._stored[uid] = now
        else:
            self._stored.pop(uid, None)


def _assets(spec: Part) -> Iterator[Asset]:
    yield from (address for address in spec.get("clusterIPs") or () if address != "None")
    yield from (port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort"))
    if port := spec.get("healthCheckNodePort"):
        yield port


def _asked_for(port: int, ports: list[dict[str, Any]]) -> int:
    """The node port that some protocol of a port asks for."""
    return next((entry["nodePort"] for entry in ports if entry["port"] == port and entry.get("nodePort")), 0)
