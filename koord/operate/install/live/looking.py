"""Looks at a cluster for `koord check`: what `readiness` judges."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress

from koord.api.kinds import (
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    DEVICES,
    LEASES,
    NODE_METRICS,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
)
from koord.api.protocol import names
from koord.api.text.timestamp import TimestampError, parse_timestamp
from koord.kube.errors import Forbidden
from koord.operate.install import versions
from koord.operate.install.live.cluster import Cluster, said
from koord.operate.install.live.installing import find_record, needed, standing
from koord.operate.install.live.may_i import missing
from koord.operate.install.manifest import COMPONENT, Json, Key, key_of, labels_of, metadata_of
from koord.operate.install.objects import desired
from koord.operate.install.others import AUTOSCALER_STATUS, BY_GROUP, CLUSTER_AUTOSCALER, Neighbour, System, neighbour
from koord.operate.install.plan import is_own
from koord.operate.install.readiness import LeaseState, NodeFacts
from koord.operate.install.settings import Settings
from koord.operate.install.traces import AGENT_WRITES, WRITERS, written_by


async def settings_of(cluster: Cluster, namespace: str) -> Settings | None:
    record = await find_record(cluster, namespace)
    return record.settings if record is not None else None


async def lacking(cluster: Cluster, settings: Settings) -> list[str]:
    wanted = needed([key_of(manifest) for manifest in desired(settings)], settings)
    return [str(right) for right in await missing(cluster, wanted)]


async def leases(cluster: Cluster) -> dict[str, LeaseState]:
    states = {}
    async for lease in cluster.all_of(LEASES, namespace=names.NAMESPACE_KOORDINATOR):
        renewed, duration = said(lease, "spec", "renewTime"), said(lease, "spec", "leaseDurationSeconds")
        try:
            age_s = time.time() - parse_timestamp(str(renewed or ""))
        except TimestampError:
            age_s = float("inf")
        fresh = isinstance(duration, int) and age_s <= duration
        states[key_of(lease).name] = LeaseState(str(said(lease, "spec", "holderIdentity") or ""), fresh)
    return states


async def workloads(cluster: Cluster, settings: Settings) -> tuple[dict[str, str], list[Neighbour]]:
    """What each of koord's components lacks, by name; and the other systems on the cluster."""
    own: dict[str, str] = {}
    others: list[Neighbour] = []
    for kind in (DEPLOYMENTS, DAEMON_SETS):
        async for workload in cluster.all_of(kind):
            if is_own(workload) and key_of(workload).namespace == settings.namespace:
                own[str(labels_of(workload).get(COMPONENT, ""))] = standing(workload)
            elif (other := neighbour(workload)) is not None:
                others.append(other)
    return own, [*others, *await _run_elsewhere(cluster, {other.system for other in others})]


async def _run_elsewhere(cluster: Cluster, seen: set[System]) -> list[Neighbour]:
    """Systems that run outside the cluster, recognized by their API groups and objects in it."""
    groups = await cluster.groups()
    neighbours = [Neighbour(system, f"API group {group}") for group, system in BY_GROUP.items() if group in groups]
    with suppress(Forbidden):
        if await cluster.get(AUTOSCALER_STATUS) is not None:
            neighbours.append(Neighbour(CLUSTER_AUTOSCALER, str(AUTOSCALER_STATUS)))
    return [other for other in neighbours if other.system not in seen]


async def nodes(cluster: Cluster) -> list[NodeFacts]:
    return [_node(node) async for node in cluster.all_of(NODES)]


def _node(node: Json) -> NodeFacts:
    amounts = said(node, "status", "allocatable")
    lends = isinstance(amounts, Mapping) and names.RESOURCE_BATCH_CPU in amounts
    writers = written_by(node, ("status", "allocatable", names.RESOURCE_BATCH_CPU))
    kernel = said(node, "status", "nodeInfo", "kernelVersion")
    others = tuple(writer for writer in writers if writer not in WRITERS | {"koord-install"})
    return NodeFacts(str(metadata_of(node).get("name", "")), str(kernel or ""), lends, others, kubelet_of(node))


def kubelet_of(node: Json) -> str:
    return str(said(node, "status", "nodeInfo", "kubeletVersion") or "")


async def has_old_kubelets(cluster: Cluster) -> bool:
    """Whether agents need the wider right to query kubelets. Without access to nodes, the server's version counts."""
    server = (await cluster.client.server_version()).numbers
    kubelets: list[str] = []
    with suppress(Forbidden):
        kubelets = [kubelet_of(node) async for node in cluster.all_of(NODES)]
    return versions.has_old_kubelets(server, kubelets)


async def counted(cluster: Cluster) -> tuple[int, int]:
    """How many nodes report their topology, and their devices."""
    topologies = sum([1 async for _ in cluster.all_of(NODE_RESOURCE_TOPOLOGIES)])
    return topologies, sum([1 async for _ in cluster.all_of(DEVICES)])


async def reporting_agents(cluster: Cluster) -> set[str]:
    """Nodes whose last usage report was written by koord's agent."""
    path = ("status", "updateTime")
    return {
        key_of(metric).name async for metric in cluster.all_of(NODE_METRICS) if AGENT_WRITES in written_by(metric, path)
    }


async def configuration(cluster: Cluster, which: Iterable[str]) -> list[Mapping[str, str] | None]:
    """The data of ConfigMaps in koordinator-system; None for one that does not exist."""
    texts: list[Mapping[str, str] | None] = []
    for name in which:
        manifest = await cluster.get(Key(CONFIG_MAPS.api_version, CONFIG_MAPS.kind, name, names.NAMESPACE_KOORDINATOR))
        data = manifest.get("data") if manifest is not None else None
        texts.append({str(k): str(v) for k, v in data.items()} if isinstance(data, Mapping) else None)
    return texts
