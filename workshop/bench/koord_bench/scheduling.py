"""How fast do pods get their nodes, from their creation to the binding, with everything that is written on the way?

On the embedded API server, with hollow nodes that take pods through their phases and a scheduler that tells of what it
does: a burst of pods for the rate, then a steady trickle for the time that one pod waits. What the server could do at
best is measured beside it, as plain writes. On a real API server the same burst is scheduled by koord and by
kube-scheduler, in turn: there the server is the wall for both, and what they cost is the difference. Then koord and
Koordinator's own scheduler do the same with every plugin on (`contest`).
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from koord.api.kinds import NODES, PODS
from koord.kube.client import Client
from koord.kube.locate import locate
from koord_bench import api_servers, contest, peer_scheduler
from koord_bench.api_load import Target, encode
from koord_bench.api_servers import RunningServer
from koord_bench.bursts import (
    CLIENTS,
    NAMESPACE,
    WITHIN_S,
    Burst,
    Goals,
    burst,
    compare,
    koord_process,
    make_namespace,
    pod_request,
    watching,
)
from koord_bench.children import cpu_s
from koord_bench.harness import Progress, Report, Result, Size, silent

BENCH = "scheduling"
FULL = Size(nodes=1000, burst=3000, trickle=600, trickle_per_s=60.0, real_nodes=5000, real_pods=10_000)
QUICK = Size(nodes=50, burst=200, trickle=40, trickle_per_s=20.0, real_nodes=50, real_pods=200)


def run(quick: bool = False, progress: Progress = silent) -> list[Result]:
    report, size = Report(BENCH, quick, progress), QUICK if quick else FULL
    _embedded(report, size)
    _side_by_side(report, size)
    _every_plugin(report, size)
    return report.rows


def _embedded(report: Report, size: Size) -> None:
    with api_servers.embedded() as server:
        report.progress("starting nodes")
        with (
            koord_process(server, "hollow", "--nodes", str(size.nodes)),
            koord_process(server, "scheduler", "--alone") as scheduler,
        ):
            asyncio.run(_end_to_end(report, server, scheduler, size))


async def _end_to_end(report: Report, server: RunningServer, scheduler: subprocess.Popen[bytes], size: Size) -> None:
    target, progress = Target(server.config), report.progress
    async with Client(locate(str(server.kubeconfig))) as client:
        await make_namespace(client)
        # Pods that no scheduler takes: the server's own write rate.
        plain = [pod_request(f"plain-{number}", "nobody") for number in range(size.burst // 2)]
        began_s = time.monotonic()
        await target.spread(CLIENTS, plain, 201)
        writes_per_s = len(plain) / (time.monotonic() - began_s)
        await client.delete_collection(PODS, namespace=NAMESPACE, grace_s=0)
        async with watching(client) as times:
            progress(f"scheduling {size.burst} pods at once")
            before, cpu_before_s = await _version(client), cpu_s(scheduler.pid)
            began_s = time.monotonic()
            await target.spread(CLIENTS, [pod_request(f"burst-{number}") for number in range(size.burst)], 201)
            await times.all_bound(size.burst)
            took_s = time.monotonic() - began_s
            meanwhile = await _version(client) - before
            spent_s = cpu_s(scheduler.pid) - cpu_before_s
            writes = await at_rest(client) - before
            progress(f"scheduling {size.trickle_per_s:g} pods a second")
            trickled_s = time.monotonic()
            for number in range(size.trickle):
                await target.spread(1, [pod_request(f"trickle-{number}")], 201)
                await asyncio.sleep(1 / size.trickle_per_s)
            await times.all_bound(size.burst + size.trickle)
            p50_s, p99_s = (times.waited_s(share, since_s=trickled_s) for share in (0.5, 0.99))
    rate, per_pod = size.burst / took_s, writes / size.burst
    share = 100 * rate / (writes_per_s / per_pod)
    busy = 100 * meanwhile / took_s / writes_per_s
    case = report.case(f"embedded, {size.nodes} nodes")
    case.add("bound pods", rate, "pods/s", more_is_better=True, goal=250.0)
    case.add("writes", per_pod, "per pod")
    case.add("plain writes", writes_per_s, "writes/s", more_is_better=True)
    case.add("of what writes allow", share, "%", more_is_better=True, goal=80.0)
    case.add("writes until all are bound", busy, "%", more_is_better=True)
    case.add("scheduler's CPU", 1000 * spent_s / size.burst, "ms/pod")
    case.add("created to bound, p50", p50_s, "s")
    case.add("created to bound, p99", p99_s, "s", goal=2.0)


async def _version(client: Client) -> int:
    """The server's present version: each write is one more."""
    async for page in client.list_pages(NODES, limit=1):
        return int(page.metadata.resource_version)
    raise RuntimeError("no page")


async def at_rest(client: Client) -> int:
    """The version when hardly anything is written any more."""
    async with asyncio.timeout(WITHIN_S):
        last = await _version(client)
        while True:
            await asyncio.sleep(1)
            now = await _version(client)
            # Nodes report at all times.
            if now - last < 50:
                return now
            last = now


def _side_by_side(report: Report, size: Size) -> None:
    binary = api_servers.find_binary("kube-scheduler")
    if binary is None:
        return
    requests = [pod_request(f"burst-{number}") for number in range(size.real_pods)]
    figures: list[Burst] = []
    for ours in (True, False):
        with api_servers.real() as server, tempfile.TemporaryDirectory(prefix="koord-bench-") as folder:
            if server is None:
                return
            report.progress(f"{'koord' if ours else 'kube-scheduler'} on kube-apiserver: {size.real_nodes} nodes")
            asyncio.run(_fill(server, size.real_nodes))
            if ours:
                with koord_process(server, "scheduler", "--alone") as process:
                    figures.append(asyncio.run(burst(server, process, requests)))
            else:
                with peer_scheduler.running(binary, server, Path(folder), all_nodes=False) as peer:
                    peer.wait(peer_scheduler.NODES, size.real_nodes)
                    figures.append(asyncio.run(burst(server, peer.process, requests)))
    versions = api_servers.versions("kube-scheduler", "kube-apiserver", "etcd")
    case = report.case(f"kube-apiserver, {size.real_nodes} nodes, {size.real_pods} pods", versions)
    compare(case, figures[0], figures[1], Goals(faster=1.0, cheaper=2.0, smaller=2.0))


def _every_plugin(report: Report, size: Size) -> None:
    workloads = (contest.plain(size.real_pods // 4), contest.mixed(size.real_pods // 8))
    contest.add_rows(report, size.real_nodes, workloads, contest.GOALS)


async def _fill(server: RunningServer, nodes: int) -> None:
    amounts = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    requests = []
    for number in range(nodes):
        name = f"node-{number:05}"
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 3}"}
        body: dict[str, Any] = {
            "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": amounts, "capacity": amounts},
        }
        requests.append(encode("POST", "/api/v1/nodes", json.dumps(body).encode()))
    await Target(server.config).spread(CLIENTS, requests, 201)
