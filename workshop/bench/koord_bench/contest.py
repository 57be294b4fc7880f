"""koord's scheduler beside Koordinator's own, with every plugin on: the same cluster, configuration and pods, in turn.

Both run on kube-apiserver and etcd, which are the wall for the rate. Koordinator's scheduler takes part where
`koord-scheduler` is installed beside them.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from koord.api.kinds import POD_GROUPS, PODS, RESERVATIONS, Kind
from koord.api.protocol import names
from koord.kube.client import Client
from koord.kube.locate import locate
from koord_bench import api_servers, every_plugin, peer_scheduler
from koord_bench.api_load import Target
from koord_bench.api_servers import RunningServer
from koord_bench.bursts import CLIENTS, NAMESPACE, WITHIN_S, Burst, Goals, burst, compare, koord_process
from koord_bench.harness import Progress, Report

PEER: Final = "koord-scheduler"
OWNERS: Final = 4
"""Of a reservation."""
GANG: Final = 64
GOALS: Final = Goals(faster=2.5, cheaper=5.0)
_TAINTED: Final = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]
"""New nodes are tainted until a controller finds them ready; there is none here."""
Object = dict[str, Any]
Texts = dict[str, str]


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    pods: Sequence[Object]
    before: Sequence[tuple[Kind[Any], Object]] = ()
    "What must be there first."


def plain(number: int) -> Workload:
    """Small pods of twenty teams."""
    return Workload("plain pods", [_pod(f"plain-{i}", team=i) for i in range(number)])


def mixed(number: int) -> Workload:
    """Of ten pods: four of teams, two with CPUs of their own, one with half a GPU, two best-effort ones, one owner of a
    reservation, which has room for four."""
    kinds = (_pod, _own_cpus, _pod, _best_effort, _gpu_share, _pod, _own_cpus, _owner, _best_effort, _pod)
    pods = [kinds[i % len(kinds)](f"mixed-{i}", team=i) for i in range(number)]
    rooms = [(RESERVATIONS, _reservation(i)) for i in range(-(-number // (10 * OWNERS)))]
    return Workload("mixed pods", pods, rooms)


def gangs(number: int) -> Workload:
    """Jobs of 64 pods, each with its PodGroup."""
    groups = [
        (POD_GROUPS, {"metadata": {"name": f"gang-{i}"}, "spec": {"minMember": GANG}}) for i in range(number // GANG)
    ]
    members = [
        _pod(f"gang-{i // GANG}-{i % GANG}", team=i // GANG, labels={names.LABEL_POD_GROUP: f"gang-{i // GANG}"})
        for i in range(GANG * len(groups))
    ]
    return Workload(f"gangs of {GANG}", members, groups)


def add_rows(report: Report, nodes: int, workloads: Sequence[Workload], goals: Goals) -> None:
    """koord's figures of all workloads, with Koordinator's as the baseline."""
    binary = api_servers.find_binary(PEER)
    ours = _measured(None, nodes, workloads, report.progress)
    theirs = _measured(binary, nodes, workloads, report.progress) if binary and ours else {}
    versions = api_servers.versions(PEER, "kube-apiserver", "etcd")
    for name, own in ours.items():
        case = report.case(f"every plugin, kube-apiserver, {nodes} nodes, {own.pods} {name}", versions)
        compare(case, own, theirs.get(name), goals)


def _measured(binary: Path | None, nodes: int, workloads: Sequence[Workload], progress: Progress) -> dict[str, Burst]:
    """By name of the workload; empty if no real API server is installed."""
    who = binary.name if binary else "koord"
    with api_servers.real() as server:
        if server is None:
            return {}
        progress(f"{who} with every plugin on kube-apiserver: {nodes} nodes")
        asyncio.run(every_plugin.make(server, nodes))
        bursts = {}
        with _scheduler(binary, server, nodes) as process:
            for workload in workloads:
                progress(f"{who}: {len(workload.pods)} {workload.name}")
                bursts[workload.name] = asyncio.run(_scheduled(server, process, workload))
        return bursts


@contextmanager
def _scheduler(binary: Path | None, server: RunningServer, nodes: int) -> Iterator[subprocess.Popen[bytes]]:
    with tempfile.TemporaryDirectory(prefix="koord-bench-") as folder:
        config = every_plugin.configuration()
        if binary is None:
            file = Path(folder, "config.json")
            file.write_text(json.dumps(config))
            with koord_process(server, "scheduler", "--config", str(file)) as process:
                yield process
        else:
            with peer_scheduler.running(binary, server, Path(folder), all_nodes=False, configuration=config) as peer:
                peer.wait(peer_scheduler.NODES, nodes)
                yield peer.process


async def _scheduled(server: RunningServer, process: subprocess.Popen[bytes], workload: Workload) -> Burst:
    before = [every_plugin.create(kind, obj) for kind, obj in workload.before]
    await Target(server.config).spread(CLIENTS, before, 201)
    async with Client(locate(str(server.kubeconfig))) as client, asyncio.timeout(WITHIN_S):
        while any(room.status.phase != "Available" for room in await client.list(RESERVATIONS)):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    return await burst(server, process, [every_plugin.create(PODS, pod) for pod in workload.pods])


def _pod(
    name: str,
    *,
    team: int,
    asks: Texts | None = None,
    labels: Texts | None = None,
    annotations: Texts | None = None,
    priority: str = "koord-prod",
) -> Object:
    """A small pod of a team, unless it says otherwise."""
    amounts = dict(asks or {"cpu": "100m", "memory": "128Mi"})
    own = {
        "app": name.rpartition("-")[0],
        names.LABEL_QUOTA_NAME: f"team-{team % every_plugin.TEAMS}",
        **(labels or {}),
    }
    spec = {
        "schedulerName": PEER,
        "priorityClassName": priority,
        "containers": [{"name": "app", "image": "app:1", "resources": {"requests": amounts, "limits": amounts}}],
        "tolerations": _TAINTED,
    }
    meta = {"name": name, "namespace": NAMESPACE, "labels": own, "annotations": dict(annotations or {})}
    return {"metadata": meta, "spec": spec}


def _own_cpus(name: str, *, team: int) -> Object:
    bound: Texts = {names.ANNOTATION_RESOURCE_SPEC: json.dumps({"requiredCPUBindPolicy": "FullPCPUs"})}
    asks = {"cpu": "4", "memory": "8Gi"}
    return _pod(name, team=team, asks=asks, labels={names.LABEL_QOS_CLASS: "LSR"}, annotations=bound)


def _best_effort(name: str, *, team: int) -> Object:
    asks: Texts = {names.RESOURCE_BATCH_CPU: "1000", names.RESOURCE_BATCH_MEMORY: "1Gi"}
    return _pod(name, team=team, asks=asks, labels={names.LABEL_QOS_CLASS: "BE"}, priority="koord-batch")


def _gpu_share(name: str, *, team: int) -> Object:
    half: Texts = {names.RESOURCE_GPU_CORE: "50", names.RESOURCE_GPU_MEMORY_RATIO: "50"}
    return _pod(name, team=team, asks={"cpu": "2", "memory": "8Gi", **half})


def _owner(name: str, *, team: int) -> Object:
    return _pod(name, team=team, asks={"cpu": "1", "memory": "2Gi"}, labels={"app": "owner"})


def _reservation(i: int) -> Object:
    amounts = {"cpu": str(OWNERS), "memory": f"{2 * OWNERS}Gi"}
    template = {
        "schedulerName": PEER,
        "containers": [{"name": "app", "image": "app:1", "resources": {"requests": amounts, "limits": amounts}}],
        "tolerations": _TAINTED,
    }
    return {
        "metadata": {"name": f"room-{i}"},
        "spec": {
            "template": {"spec": template},
            "owners": [{"labelSelector": {"matchLabels": {"app": "owner"}}}],
            "allocateOnce": False,
            "allocatePolicy": "Aligned",
            "ttl": "24h",
        },
    }
