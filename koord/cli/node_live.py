"""One node of a running cluster, as `koord explain node/NAME` takes it: only what decides about it is asked for."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from koord.api import kinds, names
from koord.api.codec import decode
from koord.api.kinds import Kind
from koord.api.manifest import Manifest, Manifests
from koord.api.struct import Struct
from koord.api.timestamp import TimestampError, parse_timestamp
from koord.kube.client import Client
from koord.kube.errors import ApiError, Forbidden, NotFound
from koord.manager.node_resource.freshness import duration
from koord.manager.writes import FIELD_MANAGER

_BY_NAME: tuple[Kind[Any], ...] = (kinds.NODE_METRICS, kinds.NODE_RESOURCE_TOPOLOGIES, kinds.DEVICES)


class _Written(Struct):
    manager: str = ""
    subresource: str = ""
    time: str = ""


class _Managed(Struct):
    managed_fields: tuple[_Written, ...] = ()


class _Object(Struct):
    metadata: _Managed = _Managed()


def with_node(
    change: Manifests, name: str, kubeconfig: str | None, context: str | None, now_s: float
) -> tuple[Manifests, float | None, str]:
    """A change with what the cluster knows of a node; when the manager last wrote it; whether a manager is there."""
    try:
        found, written_s, who = asyncio.run(_look(name, kubeconfig, context, now_s))
    except ApiError as error:
        raise click.ClickException(str(error)) from None
    changed = {(item.kind, item.key) for item in change.items}
    kept = [item for item in found if (item.kind, item.key) not in changed]
    return change.with_items((*kept, *change.items)), written_s, who


async def _look(
    name: str, kubeconfig: str | None, context: str | None, now_s: float
) -> tuple[list[Manifest], float | None, str]:
    found: list[Manifest] = []
    written_s = None
    async with Client.from_config(kubeconfig, context) as client:
        try:
            node = await client.get(kinds.NODES, name)
            written_s = last_written_s(await client.get_bytes(kinds.NODES, name))
            found.append(_manifest(kinds.NODES, node))
        except NotFound:
            # The manifests may have it, and know what to say where they have not.
            found += [_manifest(kinds.NODES, each) for each in await client.list(kinds.NODES)]
        for kind in _BY_NAME:
            found += await _one(client, kind, name)
        found += await _one(
            client, kinds.CONFIG_MAPS, names.CONFIGMAP_SLO_CONTROLLER, namespace=names.NAMESPACE_KOORDINATOR
        )
        pods = await client.list(kinds.PODS, fields=f"spec.nodeName={name}")
        found += [_manifest(kinds.PODS, each) for each in pods]
        return found, written_s, await _manager(client, now_s)


async def _one(client: Client, kind: Kind[Any], name: str, namespace: str = "") -> list[Manifest]:
    try:
        return [_manifest(kind, await client.get(kind, name, namespace=namespace))]
    except NotFound:
        # The object, or the whole kind, is not there.
        return []


def _manifest(kind: Kind[Any], obj: Any) -> Manifest:
    head = {"name": obj.metadata.name, "namespace": obj.metadata.namespace}
    return Manifest(kind, obj, {"kind": kind.kind, "metadata": head}, "the cluster", 0)


def last_written_s(node: bytes) -> float | None:
    """When the manager last wrote the node's status, as its managed fields tell."""
    times = []
    for each in decode(_Object, node).metadata.managed_fields:
        if each.manager == FIELD_MANAGER and each.subresource == "status":
            try:
                times.append(parse_timestamp(each.time))
            except TimestampError:
                continue
    return max(times, default=None)


async def _manager(client: Client, now_s: float) -> str:
    """Who leads, for people."""
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
