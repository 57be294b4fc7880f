"""Whether the cluster is ready again, and keeps its promises: read from the API server, never from koord's state."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

from koord.api.kinds import NODES, PODS
from koord.api.kubernetes.pod import Pod
from koord.kube.background_task import background_task
from koord.kube.client import Client
from koord.kube.errors import AlreadyExists, ApiError
from koord.kube.informer import Informer
from koord.kube.store import Delta
from koord_chaos.faults.drawing import Fault
from koord_chaos.faults.kinds import BY_NAME, Target
from koord_chaos.faults.live.clusters import LEASES_OF, AnyCluster
from koord_chaos.faults.live.injectors import THIEF
from koord_chaos.faults.live.load import SPACE, Load, pod
from koord_chaos.faults.live.own_cluster import OwnCluster
from koord_chaos.invariants.invariant import violations
from koord_chaos.invariants.moment import Moment, Witness
from koord_chaos.invariants.placing import PARENT_QUOTAS, PLACING

LOOK_S: Final = 0.1
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
LOOK_AGAIN_S: Final = 1.0
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
}


class Places:
    """Every pod on every node it was ever on: a pod that has been on two was bound twice."""

    def __init__(self, client: Client) -> None:
        self._nodes: dict[str, set[str]] = {}
        self._names: dict[str, str] = {}
        self.informer: Informer[Pod] = Informer(client, PODS)
        self.informer.add_handler(self._heard)

    def _heard(self, delta: Delta[Pod]) -> None:
        if delta.new is not None and delta.new.spec.node_name:
            meta = delta.new.metadata
            self._nodes.setdefault(meta.uid, set()).add(delta.new.spec.node_name)
            self._names[meta.uid] = meta.key

    def bound_twice(self) -> list[str]:
        return [
            f"pod {self._names[uid]} ({uid}) was on {', '.join(sorted(nodes))}"
            for uid, nodes in self._nodes.items()
            if len(nodes) > 1
        ]


@asynccontextmanager
async def watching(client: Client) -> AsyncIterator[Places]:
    places = Places(client)
    async with background_task(places.informer.run(), name="places"):
        await places.informer.synced()
        yield places


async def objects(client: Client) -> dict[str, list[dict[str, Any]]]:
    """All objects that the invariants read."""
    listed = {}
    for kind, path in KINDS.items():
        _, _, body = await client.raw("GET", path)
        listed[kind] = list(msgspec.json.decode(body)["items"])
    return listed


class Judge:
    """Finds violations. Lists of several kinds are not of one moment, so a violation must be there at a second look."""

    def __init__(self, client: Client, places: Places, load: Load) -> None:
        self._client, self._places, self._load = client, places, load
        self._witness = Witness()

    async def violations(self) -> list[str]:
        moment = self._witness.look(await objects(self._client))
        broken = list(violations(PROMISES, moment))
        if broken:
            await asyncio.sleep(LOOK_AGAIN_S)
            later = Moment(
                await objects(self._client), new=moment.new, node_by_uid=moment.earlier, gangs=moment.gang_members
            )
            again = list(violations(PROMISES, later))
            broken = [violation for violation in broken if violation in again]
        return broken + self._places.bound_twice() + self._load.notes.lost(await self._load.stored_notes())


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
    return not isinstance(cluster, OwnCluster) or await _answers(cluster, fault.target)


def is_up(node: Any) -> bool:
    condition = node.status.condition("Ready")
    return condition is not None and condition.status == "True"


async def _answers(cluster: OwnCluster, name: str) -> bool:
    """Whether the component says that it is ready."""
    address = cluster.supervisor.children[name].endpoints.get("health")
    if address is None:
        await cluster.client.raw("GET", "/readyz")
        return True
    timeout = aiohttp.ClientTimeout(total=2)
    async with aiohttp.ClientSession(timeout=timeout) as session, session.get(f"{address}/readyz") as answer:
        return answer.status == 200


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


def resident_mib(pid: int) -> int:
    """Memory of a process, from the process table; 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES >> 20
    except (OSError, IndexError):
        return 0
