"""How fast do pods get their nodes, from their creation to the binding, with everything that is written on the way?

On the embedded API server, with hollow nodes that take pods through their phases and a scheduler that tells of what it
does: a burst of pods for the rate, then a steady trickle for the time that one pod waits. What the server could do at
best is measured beside it, as plain writes. On a real API server the same burst is scheduled by koord and by
kube-scheduler, in turn: there the server is the wall for both, and what they cost is the difference.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from koord.api.kinds import NAMESPACES, NODES, PODS
from koord.api.kubernetes.pod import Pod
from koord.bench import api_servers, peer_scheduler
from koord.bench.api_load import Target, encode
from koord.bench.api_servers import RunningServer
from koord.bench.result import Result, result
from koord.kube.client import Client
from koord.kube.errors import AlreadyExists
from koord.kube.informer import Informer
from koord.kube.locate import locate
from koord.kube.store import Delta

BENCH = "scheduling"
NAMESPACE = "bench"
CLIENTS = 8
WITHIN_S = 300.0
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Size:
    nodes: int
    burst: int
    trickle: int
    trickle_per_s: float
    real_nodes: int
    real_pods: int


FULL = Size(nodes=1000, burst=3000, trickle=600, trickle_per_s=60.0, real_nodes=5000, real_pods=10_000)
QUICK = Size(nodes=50, burst=200, trickle=40, trickle_per_s=20.0, real_nodes=50, real_pods=200)


def run(quick: bool = False, progress: Progress = lambda line: None) -> list[Result]:
    """All cases. `quick` shrinks them, and leaves out the goals for the full size."""
    size = QUICK if quick else FULL
    return [*_embedded(size, quick, progress), *_side_by_side(size, quick, progress)]


@dataclass(slots=True)
class Seen:
    """When pods were first seen, and when they were seen on a node."""

    made_s: dict[str, float] = field(default_factory=dict)
    bound_s: dict[str, float] = field(default_factory=dict)
    version: int = 0

    def hear(self, delta: Delta[Pod]) -> None:
        if delta.new is None:
            return
        key, now_s = delta.key, time.monotonic()
        self.version = max(self.version, int(delta.new.metadata.resource_version))
        self.made_s.setdefault(key, now_s)
        if delta.new.spec.node_name:
            self.bound_s.setdefault(key, now_s)

    async def all_bound(self, number: int) -> None:
        async with asyncio.timeout(WITHIN_S):
            while len(self.bound_s) < number:  # noqa: ASYNC110 - another process brings it about
                await asyncio.sleep(0.02)

    def waited_s(self, share: float, prefix: str) -> float:
        waits = sorted(
            bound_s - self.made_s[key]
            for key, bound_s in self.bound_s.items()
            if key.startswith(f"{NAMESPACE}/{prefix}")
        )
        return waits[min(len(waits) - 1, int(share * len(waits)))]


@asynccontextmanager
async def watching(client: Client) -> AsyncIterator[Seen]:
    """What becomes of the pods of the benchmark."""
    seen = Seen()
    informer: Informer[Pod] = Informer(client, PODS, namespace=NAMESPACE)
    informer.add_handler(seen.hear)
    task = asyncio.create_task(informer.run())
    await informer.synced()
    try:
        yield seen
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@contextmanager
def koord_process(server: RunningServer, *args: str) -> Iterator[subprocess.Popen[bytes]]:
    """A component of koord as a process; it is up when it says so."""
    with tempfile.NamedTemporaryFile(prefix="koord-bench-", suffix=".log") as log:
        command = [sys.executable, "-m", "koord", args[0], "--kubeconfig", str(server.kubeconfig), *args[1:]]
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        with api_servers.ended(process):
            said = {"scheduler": b"live.run: scheduling", "hollow": b"live.fleet: running"}[args[0]]
            deadline = time.monotonic() + WITHIN_S
            while said not in (text := Path(log.name).read_bytes()):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{command!r} does not work:\n{text.decode(errors='replace')[-3000:]}")
                time.sleep(0.05)
            yield process


def pod_request(name: str, scheduler: str = "default-scheduler", annotations: Mapping[str, str] | None = None) -> bytes:
    """The request that makes a small pod."""
    app = name.rpartition("-")[0]
    resources = {"requests": {"cpu": "100m", "memory": "128Mi"}}
    spec = {
        "schedulerName": scheduler,
        "containers": [{"name": "app", "image": "app:1", "resources": resources}],
        # New nodes are tainted until a controller finds them ready; there is none here.
        "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
    }
    meta = {"name": name, "labels": {"app": app}, "annotations": dict(annotations or {})}
    body = {"metadata": meta, "spec": spec}
    return encode("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", json.dumps(body).encode())


def _embedded(size: Size, quick: bool, progress: Progress) -> list[Result]:
    with api_servers.embedded() as server:
        progress("starting nodes")
        with (
            koord_process(server, "hollow", "--nodes", str(size.nodes)),
            koord_process(server, "scheduler", "--alone") as scheduler,
        ):
            return asyncio.run(_end_to_end(server, scheduler, size, quick, progress))


async def _end_to_end(
    server: RunningServer, scheduler: subprocess.Popen[bytes], size: Size, quick: bool, progress: Progress
) -> list[Result]:
    target = Target(server.config)
    case = f"embedded, {size.nodes} nodes"
    async with Client(locate(str(server.kubeconfig))) as client:
        await make_namespace(client)
        # Pods for nobody: what the server writes at best.
        plain = [pod_request(f"plain-{number}", "nobody") for number in range(size.burst // 2)]
        began_s = time.monotonic()
        await target.spread(CLIENTS, plain, 201)
        writes_per_s = len(plain) / (time.monotonic() - began_s)
        await client.delete_collection(PODS, namespace=NAMESPACE, grace_s=0)
        async with watching(client) as seen:
            progress(f"scheduling {size.burst} pods at once")
            before, cpu_before_s = await _version(client), api_servers.cpu_s(scheduler.pid)
            began_s = time.monotonic()
            await target.spread(CLIENTS, [pod_request(f"burst-{number}") for number in range(size.burst)], 201)
            await seen.all_bound(size.burst)
            took_s = time.monotonic() - began_s
            meanwhile = await _version(client) - before
            cpu_s = api_servers.cpu_s(scheduler.pid) - cpu_before_s
            writes = await at_rest(client) - before
            progress(f"scheduling {size.trickle_per_s:g} pods a second")
            for number in range(size.trickle):
                await target.spread(1, [pod_request(f"trickle-{number}")], 201)
                await asyncio.sleep(1 / size.trickle_per_s)
            await seen.all_bound(size.burst + size.trickle)
            p50_s, p99_s = seen.waited_s(0.5, "trickle"), seen.waited_s(0.99, "trickle")
    rate, per_pod = size.burst / took_s, writes / size.burst
    goals: dict[str, float | None] = {"rate": 250.0, "share": 80.0, "p99": 2.0}
    if quick:
        goals = dict.fromkeys(goals)
    share = 100 * rate / (writes_per_s / per_pod)
    busy = 100 * meanwhile / took_s / writes_per_s
    return [
        result(BENCH, case, "bound pods", rate, "pods/s", more_is_better=True, goal=goals["rate"]),
        result(BENCH, case, "writes", per_pod, "per pod"),
        result(BENCH, case, "plain writes", writes_per_s, "writes/s", more_is_better=True),
        result(BENCH, case, "of what writes allow", share, "%", more_is_better=True, goal=goals["share"]),
        result(BENCH, case, "writes until all are bound", busy, "%", more_is_better=True),
        result(BENCH, case, "scheduler's CPU", 1000 * cpu_s / size.burst, "ms/pod"),
        result(BENCH, case, "created to bound, p50", p50_s, "s"),
        result(BENCH, case, "created to bound, p99", p99_s, "s", goal=goals["p99"]),
    ]


async def make_namespace(client: Client) -> None:
    """The namespace in which the benchmark's pods are."""
    with suppress(AlreadyExists):
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})


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


def _side_by_side(size: Size, quick: bool, progress: Progress) -> list[Result]:
    binary = api_servers.find_binary("kube-scheduler")
    if binary is None:
        return []
    figures: list[dict[str, float]] = []
    for ours in (True, False):
        with api_servers.real() as server, tempfile.TemporaryDirectory(prefix="koord-bench-") as folder:
            if server is None:
                return []
            progress(f"{'koord' if ours else 'kube-scheduler'} on kube-apiserver: {size.real_nodes} nodes")
            asyncio.run(_fill(server, size.real_nodes))
            if ours:
                with koord_process(server, "scheduler", "--alone") as process:
                    figures.append(asyncio.run(_burst(server, process, size.real_pods)))
            else:
                with peer_scheduler.running(binary, server, Path(folder), all_nodes=False) as peer:
                    peer.wait(peer_scheduler.NODES, size.real_nodes)
                    figures.append(asyncio.run(_burst(server, peer.process, size.real_pods)))
    case = f"kube-apiserver, {size.real_nodes} nodes, {size.real_pods} pods"
    koord, kube = figures
    versions = api_servers.versions("kube-scheduler", "kube-apiserver", "etcd")

    def beside(metric: str, unit: str, *, more: bool = False, ratio: float | None = None) -> Result:
        wanted = None if quick else ratio
        return result(
            BENCH,
            case,
            metric,
            koord[metric],
            unit,
            baseline=kube[metric],
            more_is_better=more,
            ratio_goal=wanted,
            peer=versions,
        )

    return [
        beside("bound pods", "pods/s", more=True, ratio=1.0),
        beside("created to bound, p50", "s"),
        beside("created to bound, p99", "s"),
        beside("CPU", "s", ratio=2.0),
        beside("memory", "MB", ratio=2.0),
    ]


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


async def _burst(server: RunningServer, process: subprocess.Popen[bytes], pods: int) -> dict[str, float]:
    async with Client(locate(str(server.kubeconfig))) as client:
        await make_namespace(client)
        async with watching(client) as seen:
            cpu_before_s, began_s = api_servers.cpu_s(process.pid), time.monotonic()
            await Target(server.config).spread(CLIENTS, [pod_request(f"burst-{number}") for number in range(pods)], 201)
            await seen.all_bound(pods)
            return {
                "bound pods": pods / (time.monotonic() - began_s),
                "created to bound, p50": seen.waited_s(0.5, "burst"),
                "created to bound, p99": seen.waited_s(0.99, "burst"),
                "CPU": api_servers.cpu_s(process.pid) - cpu_before_s,
                "memory": api_servers.rss_mb(process.pid),
            }
