"""Bursts of pods on an API server: how soon are they bound, and what does that cost the scheduler?"""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from koord.api.kinds import NAMESPACES, PODS
from koord.api.kubernetes.pod import Pod
from koord.kube.client import Client
from koord.kube.errors import AlreadyExists
from koord.kube.informer import Informer
from koord.kube.locate import locate
from koord.kube.program import own_program
from koord.kube.store import Delta
from koord_bench import api_servers
from koord_bench.api_load import Target, encode
from koord_bench.api_servers import RunningServer
from koord_bench.children import start_child
from koord_bench.result import Result, result

NAMESPACE: Final = "bench"
CLIENTS: Final = 8
WITHIN_S: Final = 600.0
STALLED_S: Final = 120.0
"""After so long without a binding, pods that wait are stuck."""


@dataclass(frozen=True, slots=True)
class Burst:
    """How a burst of pods went."""

    pods: int
    pods_s: float
    "From the first creation until all were seen bound."
    p50_s: float
    "From a pod's creation to its binding."
    p99_s: float
    cpu_s: float
    "Of the scheduler."
    memory_mb: float
    "Of the scheduler, after it."


@dataclass(frozen=True, slots=True)
class Goals:
    """How many times better than another scheduler; None: no goal."""

    faster: float | None = None
    cheaper: float | None = None
    "In CPU."
    smaller: float | None = None
    "In memory."


def beside(bench: str, case: str, ours: Burst, theirs: Burst | None, *, peer: str, goals: Goals) -> list[Result]:
    """The figures of koord's burst beside those of the same burst that another scheduler bound."""

    def row(metric: str, unit: str, get: Callable[[Burst], float], goal: float | None = None) -> Result:
        baseline, more = None if theirs is None else get(theirs), metric == "bound pods"
        return result(
            bench, case, metric, get(ours), unit, baseline=baseline, more_is_better=more, ratio_goal=goal, peer=peer
        )

    return [
        row("bound pods", "pods/s", lambda each: each.pods_s, goals.faster),
        row("created to bound, p50", "s", lambda each: each.p50_s),
        row("created to bound, p99", "s", lambda each: each.p99_s),
        row("scheduler's CPU", "ms/pod", lambda each: 1000 * each.cpu_s / each.pods, goals.cheaper),
        row("memory", "MB", lambda each: each.memory_mb, goals.smaller),
    ]


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
        """Returns once so many are; whoever is stuck is named."""
        last, since_s = -1, time.monotonic()
        while (bound := len(self.bound_s)) < number:
            if bound != last:
                last, since_s = bound, time.monotonic()
            elif time.monotonic() - since_s > STALLED_S:
                stuck = sorted(self.made_s.keys() - self.bound_s.keys())
                raise RuntimeError(f"{bound} of {number} pods are bound, and none for {STALLED_S:g} s: {stuck[:20]}")
            await asyncio.sleep(0.02)

    def waited_s(self, share: float, *, since_s: float = 0.0) -> float:
        """What that share of the pods waited at most, of those made since then."""
        waits = sorted(
            bound_s - made_s for key, bound_s in self.bound_s.items() if (made_s := self.made_s[key]) >= since_s
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
        command = [*own_program(), args[0], "--kubeconfig", str(server.kubeconfig), *args[1:]]
        process = start_child(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
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


async def make_namespace(client: Client) -> None:
    """The namespace in which the benchmark's pods are."""
    with suppress(AlreadyExists):
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})


async def burst(server: RunningServer, scheduler: subprocess.Popen[bytes], requests: Sequence[bytes]) -> Burst:
    """Create the pods and wait until all are bound."""
    async with Client(locate(str(server.kubeconfig))) as client:
        await make_namespace(client)
        async with watching(client) as seen:
            before, cpu_before_s, began_s = len(seen.bound_s), api_servers.cpu_s(scheduler.pid), time.monotonic()
            await Target(server.config).spread(CLIENTS, requests, 201)
            await seen.all_bound(before + len(requests))
            took_s = time.monotonic() - began_s
            return Burst(
                len(requests),
                len(requests) / took_s,
                seen.waited_s(0.5, since_s=began_s),
                seen.waited_s(0.99, since_s=began_s),
                api_servers.cpu_s(scheduler.pid) - cpu_before_s,
                api_servers.rss_mb(scheduler.pid),
            )
