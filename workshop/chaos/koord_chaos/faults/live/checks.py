"""Whether the cluster is ready again, and keeps its promises: read from the API server, never from koord's state."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

from koord.api.configuration.descheduler_args import MigrationControllerArgs
from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kinds import NODES, PODS
from koord.kube.client import Client
from koord.kube.errors import AlreadyExists, ApiError, NotFound
from koord.scheduler.core.core import Core
from koord.scheduler.core.decision import Bind, Wait
from koord.scheduler.core.inputs import INPUTS
from koord.scheduler.core.moment import Moment as SchedulerMoment
from koord.scheduler.profiles import profiles_of
from koord_chaos.faults.drawing import Fault
from koord_chaos.faults.kinds import BY_NAME, Target
from koord_chaos.faults.live.clusters import LEASES_OF, AnyCluster
from koord_chaos.faults.live.injectors import THIEF
from koord_chaos.faults.live.ledger import Ledger
from koord_chaos.faults.live.load import SPACE, Load, pod
from koord_chaos.faults.live.own_cluster import OwnCluster
from koord_chaos.faults.live.places import Places
from koord_chaos.invariants.invariant import violations
from koord_chaos.invariants.moment import Moment, Witness
from koord_chaos.invariants.moving import MOVING, Migrations
from koord_chaos.invariants.placing import PARENT_QUOTAS, PLACING
from koord_chaos.invariants.processes import MEMORY, MemoryUse
from koord_chaos.invariants.resting import RESTING, Rest

LOOK_S: Final = 0.1
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
LOOK_AGAIN_S: Final = 1.0
MOST_MIB: Final = 512
MOST_GROWTH: Final = 1.5
LEASE_S: Final = 20.0
"""Longer than a killed leader's lease."""
AMOUNTS: Final = "node.koordinator.sh/originExtendedAllocatable"
WRITTEN_BY_MANAGERS: Final[Mapping[str, str]] = {
    "Node": "/api/v1/nodes",
    "NodeSLO": "/apis/slo.koordinator.sh/v1alpha1/nodeslos",
    "NodeMetric": "/apis/slo.koordinator.sh/v1alpha1/nodemetrics",
}
LOOK_AT_REST_S: Final = 5.0
LIMITS: Final = MigrationControllerArgs().completed()
PROBE: Final = "probe"
PROMISES: Final = tuple(invariant for invariant in PLACING if invariant is not PARENT_QUOTAS)
"""Parents of quotas are not checked by the configuration that ships."""
KINDS: Final[Mapping[str, str]] = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/pods",
    "PodGroup": "/apis/scheduling.sigs.k8s.io/v1alpha1/podgroups",
    "ElasticQuota": "/apis/scheduling.sigs.k8s.io/v1alpha1/elasticquotas",
    "Reservation": "/apis/scheduling.koordinator.sh/v1alpha1/reservations",
    "NodeResourceTopology": "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies",
    "Device": "/apis/scheduling.koordinator.sh/v1alpha1/devices",
    "PodMigrationJob": "/apis/scheduling.koordinator.sh/v1alpha1/podmigrationjobs",
}


async def objects(client: Client) -> dict[str, list[dict[str, Any]]]:
    """All objects that the invariants read."""
    listed = {}
    for kind, path in KINDS.items():
        _, _, body = await client.raw("GET", path)
        listed[kind] = list(msgspec.json.decode(body)["items"])
    return listed


class Judge:
    """Finds violations. Lists of several kinds are not of one moment, so a violation must be there at a second look."""

    def __init__(self, client: Client, places: Places, load: Load, ledger: Ledger | None = None) -> None:
        self._client, self._places, self._load, self._ledger = client, places, load, ledger
        self._witness = Witness()

    async def violations(self) -> list[str]:
        moment = self._witness.look(self._places.at_best(await objects(self._client)))
        broken = found_in(moment)
        if broken:
            await asyncio.sleep(LOOK_AGAIN_S)
            listed = self._places.at_best(await objects(self._client))
            later = Moment(listed, new=moment.new, node_by_uid=moment.earlier)
            again = found_in(later)
            broken = [violation for violation in broken if violation in again]
        self._places.forget()
        broken += [] if self._ledger is None else self._ledger.violations()
        return broken + self._places.bound_twice() + self._load.notes.lost(await self._load.stored_notes())

    async def at_rest(self, within_s: float) -> list[str]:
        """Violations that are still there after this time without load: pods that wait in vain, incomplete gangs,
        migrations without end."""
        until_s, broken = time.monotonic() + within_s, [""]
        while broken and time.monotonic() < until_s:
            await asyncio.sleep(LOOK_AT_REST_S)
            with suppress(ApiError, OSError):
                moment = Moment(await objects(self._client), gangs=self._places.gangs())
                broken = list(violations(RESTING, Rest(moment, await would_bind(self._client))))
                broken += violations(MOVING, Migrations(moment.objects, should_be_over=True))
        return broken

    async def stale_figures(self, cluster: OwnCluster, within_s: float) -> list[str]:
        writes = await written_afresh(cluster, within_s)
        return list(violations(RESTING, Rest(Moment({}), writes=writes)))


def found_in(moment: Moment) -> list[str]:
    migrations = Migrations(moment.objects, LIMITS.max_migrating_per_node, LIMITS.max_migrating_per_namespace)
    return [*violations(PROMISES, moment), *violations(MOVING, migrations)]


async def figures(client: Client) -> dict[str, Any]:
    """What managers write about nodes, but for amounts that follow usage: by object."""
    result: dict[str, Any] = {}
    for kind, path in WRITTEN_BY_MANAGERS.items():
        _, _, body = await client.raw("GET", path)
        for manifest in msgspec.json.decode(body)["items"]:
            head = manifest["metadata"]
            said = {key: text for key, text in (head.get("annotations") or {}).items() if key != AMOUNTS}
            written = {"labels": head.get("labels"), "annotations": said} if kind == "Node" else manifest["spec"]
            result[f"{kind} {head['name']}"] = written
    return result


async def written_afresh(cluster: OwnCluster, within_s: float) -> list[str]:
    """What managers that start afresh write otherwise, each as one sentence."""
    before = await figures(cluster.client)
    managers = [name for name in (await cluster.targets())[Target.PROCESS] if name.startswith("manager")]
    for name in managers:
        await cluster.kill(name)
    await asyncio.sleep(LEASE_S)
    until_s = time.monotonic() + within_s
    while time.monotonic() < until_s and set(managers) & set(await cluster.late()):  # noqa: ASYNC110
        await asyncio.sleep(LOOK_AGAIN_S)
    await asyncio.sleep(LEASE_S)
    after = await figures(cluster.client)
    return [
        f"{name}: {after.get(name)} instead of {before.get(name)}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


async def would_bind(client: Client) -> list[str]:
    """What a scheduler that starts afresh would bind, from the objects of the API server."""
    now_s = time.time()
    core = Core(profiles_of(SHIPPED), alone=True, hints=False, now=SchedulerMoment(now_s, time.monotonic()))
    for source in INPUTS:
        with suppress(NotFound):
            core.put_many(source.kind, await client.list(source.kind))
    binds: list[str] = []
    while (decision := core.decide()) is not None:
        match decision:
            case Bind(members=members):
                binds += [f"{member.ask.key} to {member.node}" for member in members]
            case Wait(bind=Bind(members=members)):
                binds += [f"{member.ask.key} to {member.node}" for member in members]
    return binds


async def until_recovered(cluster: AnyCluster, fault: Fault, within_s: float) -> float | None:
    """Seconds until what was disturbed is ready; None if it is not in time."""
    began_s = time.monotonic()
    while time.monotonic() < began_s + within_s:
        with suppress(ApiError, OSError, aiohttp.ClientError, TimeoutError):
            if await _is_recovered(cluster, fault):
                return time.monotonic() - began_s
        await asyncio.sleep(LOOK_S)
    return None


async def _is_recovered(cluster: AnyCluster, fault: Fault) -> bool:
    target = BY_NAME[fault.kind].target
    if target is Target.NODE:
        nodes = await cluster.client.list(NODES, fields=f"metadata.name={fault.target}")
        return all(is_up(node) for node in nodes)
    if target is Target.LEADER:
        spec = (await cluster.lease(LEASES_OF[fault.target]))["spec"]
        return spec.get("holderIdentity") not in ("", None, THIEF)
    if fault.target in await cluster.late():
        return False
    return not isinstance(cluster, OwnCluster) or await cluster.answers(fault.target)


def is_up(node: Any) -> bool:
    condition = node.status.condition("Ready")
    return condition is not None and condition.status == "True"


async def until_it_works(cluster: AnyCluster, within_s: float) -> tuple[float | None, str]:
    """Seconds until a new pod runs, all nodes are ready and no component is late; None, and why, if not in time."""
    began_s, why = time.monotonic(), ""
    while time.monotonic() < began_s + within_s:
        try:
            why = await _what_is_missing(cluster)
        except (ApiError, OSError) as error:
            why = str(error)
        if not why:
            await _remove_probe(cluster.client)
            return time.monotonic() - began_s, ""
        await asyncio.sleep(LOOK_S)
    return None, why


async def _what_is_missing(cluster: AnyCluster) -> str:
    if late := await cluster.late():
        return f"not ready: {', '.join(late)}"
    if down := [node.metadata.name for node in await cluster.client.list(NODES) if not is_up(node)]:
        return f"nodes not ready: {', '.join(down)}"
    with suppress(AlreadyExists):
        manifest = pod(PROBE, {"cpu": "10m", "memory": "1Mi"}, priority="important")
        await cluster.client.create(PODS, {**manifest, "metadata": {"name": PROBE, "namespace": SPACE}})
    probe = await cluster.client.get(PODS, PROBE, namespace=SPACE)
    return "" if probe.status.phase == "Running" else f"a new pod is {probe.status.phase} on {probe.spec.node_name!r}"


async def _remove_probe(client: Client) -> None:
    with suppress(ApiError):
        await client.delete(PODS, PROBE, namespace=SPACE, grace_s=0)


def excessive_memory(samples: Mapping[str, Sequence[int]]) -> list[str]:
    """`samples`: MiB by component, one for each round."""
    return [
        violation
        for name, amounts in samples.items()
        for violation in violations(
            MEMORY, MemoryUse(name, [amount << 20 for amount in amounts if amount], MOST_MIB << 20, MOST_GROWTH)
        )
    ]


def resident_mib(pid: int) -> int:
    """Memory of a process, from the process table; 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES >> 20
    except (OSError, IndexError):
        return 0
