"""EndpointSlices: where the pods of a Service can be reached."""

from __future__ import annotations

from collections.abc import Mapping

from koord.api.kubernetes.meta import ObjectMeta, ObjectReference
from koord.api.machinery.struct import EMPTY, Struct


class EndpointConditions(Struct):
    """`ready` is serving and not terminating; unset means yes."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class Endpoint(Struct):
    addresses: tuple[str, ...] = ()
    conditions: EndpointConditions = EndpointConditions()
    hostname: str | None = None
    target_ref: ObjectReference | None = None
    node_name: str | None = None
    zone: str | None = None
    deprecated_topology: Mapping[str, str] = EMPTY


class EndpointPort(Struct):
    name: str | None = None
    protocol: str | None = None
    port: int | None = None
    app_protocol: str | None = None


class EndpointSlice(Struct):
    metadata: ObjectMeta = ObjectMeta()
    address_type: str = ""
    endpoints: tuple[Endpoint, ...] = ()
    ports: tuple[EndpointPort, ...] = ()
