"""One node of a running cluster for `koord explain node/NAME`: only the objects that decide about it are read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from koord.api import kinds
from koord.api.kinds import Kind
from koord.api.machinery.codec import decode
from koord.api.machinery.struct import Struct
from koord.api.protocol import names
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.protocol.crd.reservation import Reservation
from koord.api.text.manifest import Manifest, Manifests
from koord.api.text.timestamp import TimestampError, parse_timestamp
from koord.kube.client import Client
from koord.kube.errors import Forbidden, NotFound
from koord.manager.lending.freshness import duration
from koord.manager.writes import FIELD_MANAGER
from koord.offline.live.snapshot import manifest_of, merged

CLOCK_OFF_S: Final = 60.0
"""A larger difference between a report's own time and the server's is reported."""
_BY_NAME: tuple[Kind[Any], ...] = (kinds.NODE_METRICS, kinds.NODE_RESOURCE_TOPOLOGIES, kinds.DEVICES)


class _Written(Struct):
    manager: str = ""
    subresource: str = ""
    time: str = ""


class _Managed(Struct):
    managed_fields: tuple[_Written, ...] = ()


class _Object(Struct):
    metadata: _Managed = _Managed()


@dataclass(frozen=True, slots=True)
class NodeSnapshot:
    """What the cluster knows of a node."""

    items: tuple[Manifest, ...]
    written_s: float | None
    "When the manager last wrote the node's status."
    manager: str
    "Why no manager writes it; empty if a manager leads, or if that is unknown."
    remarks: tuple[str, ...] = ()


def with_node(
    change: Manifests, name: str, kubeconfig: str | None, context: str | None, now_s: float
) -> tuple[Manifests, NodeSnapshot]:
    """A change together with what the cluster knows of a node."""

    async def look() -> NodeSnapshot:
        async with Client.from_config(kubeconfig, context) as client:
            return await node_snapshot(client, name, now_s)

    seen = asyncio.run(look())
    return merged(change, seen.items), seen


async def node_snapshot(client: Client, name: str, now_s: float) -> NodeSnapshot:
    manifests: list[Manifest] = []
    written_s = None
    try:
        node = await client.get(kinds.NODES, name)
        written_s = last_written_s(await client.get_bytes(kinds.NODES, name), FIELD_MANAGER)
        manifests.append(manifest_of(kinds.NODES, node))
    except NotFound:
        # The manifests may have it, and know what to say where they have not.
        manifests += [manifest_of(kinds.NODES, stored_node) for stored_node in await client.list(kinds.NODES)]
    remarks = await _clock_of(client, name)
    for kind in _BY_NAME:
        manifests += await _one(client, kind, name)
    for config_name in (names.CONFIGMAP_SLO_CONTROLLER, names.CONFIGMAP_SLO_IN_FORCE):
        manifests += await _one(client, kinds.CONFIG_MAPS, config_name, namespace=names.NAMESPACE_KOORDINATOR)
    pods = await client.list(kinds.PODS, fields=f"spec.nodeName={name}")
    manifests += [manifest_of(kinds.PODS, pod) for pod in pods]
    held = [reservation for reservation in await reservations(client) if reservation.status.node_name == name]
    manifests += [manifest_of(kinds.RESERVATIONS, reservation) for reservation in held]
    return NodeSnapshot(tuple(manifests), written_s, await who_is_missing(client, now_s), remarks)


async def reservations(client: Client) -> Sequence[Reservation]:
    """Where the kind is served and may be read."""
    try:
        return await client.list(kinds.RESERVATIONS)
    except (NotFound, Forbidden):
        return ()


async def _one(client: Client, kind: Kind[Any], name: str, namespace: str = "") -> list[Manifest]:
    try:
        return [manifest_of(kind, await client.get(kind, name, namespace=namespace))]
    except NotFound:
        # The object, or the whole kind, is not there.
        return []


def last_written_s(obj: bytes, manager: str = "") -> float | None:
    """When any client, or only `manager`, last wrote the status of an object, as its managed fields tell."""
    times = []
    for written in decode(_Object, obj).metadata.managed_fields:
        if written.subresource == "status" and manager in ("", written.manager):
            try:
                times.append(parse_timestamp(written.time))
            except TimestampError:
                continue
    return max(times, default=None)


async def _clock_of(client: Client, name: str) -> tuple[str, ...]:
    """Whether the node's clock is off: the API server notes by its own when a report was written."""
    try:
        data = await client.get_bytes(kinds.NODE_METRICS, name)
    except NotFound:
        return ()
    return clock_remarks(data)


def clock_remarks(metric: bytes) -> tuple[str, ...]:
    """Remarks about a node's clock."""
    updated, written_s = decode(NodeMetric, metric).status.update_time, last_written_s(metric)
    if updated is None or written_s is None:
        return ()
    off_s = parse_timestamp(updated) - written_s
    if abs(off_s) < CLOCK_OFF_S:
        return ()
    side, looks = ("ahead of", "younger") if off_s > 0 else ("behind", "older")
    off = duration(abs(off_s))
    return (f"the clock of the node is {off} {side} that of the API server: its reports look {looks} than they are",)


async def who_is_missing(client: Client, now_s: float) -> str:
    """That no manager leads, for people; empty where one does."""
    lease = f"lease {names.NAMESPACE_KOORDINATOR}/{names.LEASE_MANAGER}"
    try:
        spec = (await client.get(kinds.LEASES, names.LEASE_MANAGER, namespace=names.NAMESPACE_KOORDINATOR)).spec
    except NotFound:
        return f"no manager leads: there is no {lease}"
    except Forbidden:
        return ""
    if not spec.holder_identity or not spec.renew_time:
        return f"no manager leads: nobody holds {lease}"
    age_s = now_s - parse_timestamp(spec.renew_time)
    if age_s > max(1, spec.lease_duration_seconds):
        return f"no manager leads: {spec.holder_identity} last renewed {lease} {duration(age_s)} ago"
    return ""
