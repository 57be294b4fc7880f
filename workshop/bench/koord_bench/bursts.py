"""Bursts of pods on an API server: how soon are they bound, and what does that cost the scheduler?"""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
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
from koord_bench.api_load import Target, encode
from koord_bench.api_servers import RunningServer
from koord_bench.children import cpu_s, rss_mb, running, wait_until
from koord_bench.harness import Case, percentile

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

    @property
    def cpu_ms_per_pod(self) -> float:
        return 1000 * self.cpu_s / self.pods


@dataclass(frozen=True, slots=True)
class Goals:
    """How many times better than another scheduler; None: no goal."""

    faster: float | None = None
    cheaper: float | None = None
    "In CPU."
    smaller: float | None = None
    "In memory."


def compare(case: Case, ours: Burst, theirs: Burst | None, goals: Goals) -> None:
    """Add the figures of koord's burst, with those of the same burst that another scheduler bound."""
    for metric, unit, attribute, ratio_goal in (
        ("bound pods", "pods/s", "pods_s", goals.faster),
        ("created to bound, p50", "s", "p50_s", None),
        ("created to bound, p99", "s", "p99_s", None),
        ("scheduler's CPU", "ms/pod", "cpu_ms_per_pod", goals.cheaper),
        ("memory", "MB", "memory_mb", goals.smaller),
    ):
        baseline, more = getattr(theirs, attribute, None), metric == "bound pods"
        case.add(metric, getattr(ours, attribute), unit, baseline=baseline, more_is_better=more, ratio_goal=ratio_goal)


@dataclass(slots=True)
class PodTimes:
    """When pods were first seen, and when they were seen on a node."""

    made_s: dict[str, float] = field(default_factory=dict)
    bound_s: dict[str, float] = field(default_factory=dict)

    def handle(self, delta: Delta[Pod]) -> None:
        if delta.new is None:
            return
        key, now_s = delta.key, time.monotonic()
        self.made_s.setdefault(key, now_s)
        if delta.new.spec.node_name:
            self.bound_s.setdefault(key, now_s)

    async def all_bound(self, number: int) -> None:
        """Wait for this number of bound pods. Raises RuntimeError, which names the pods that are stuck."""
        last, since_s = -1, time.monotonic()
        while (bound := len(self.bound_s)) < number:
            if bound != last:
                last, since_s = bound, time.monotonic()
            elif time.monotonic() - since_s > STALLED_S:
                stuck = sorted(self.made_s.keys() - self.bound_s.keys())
                raise RuntimeError(f"{bound} of {number} pods are bound, and none for {STALLED_S:g} s: {stuck[:20]}")
            await asyncio.sleep(0.02)

    def waited_s(self, share: float, *, since_s: float = 0.0) -> float:
        """The longest wait in that share of the pods that were made since then."""
        waits = (bound_s - made_s for key, bound_s in self.bound_s.items() if (made_s := self.made_s[key]) >= since_s)
        return percentile(waits, share)


@asynccontextmanager
async def watching(client: Client, namespace: str = NAMESPACE) -> AsyncIterator[PodTimes]:
    """Follow the pods of the benchmark."""
    times = PodTimes()
    informer: Informer[Pod] = Informer(client, PODS, namespace=namespace)
    informer.add_handler(times.handle)
    task = asyncio.create_task(informer.run())
    await informer.synced()
    try:
        yield times
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@contextmanager
def koord_process(server: RunningServer, *args: str) -> Iterator[subprocess.Popen[bytes]]:
    """A component of koord as a process that has logged its start."""
    with tempfile.NamedTemporaryFile(prefix="koord-bench-", suffix=".log") as file:
        command, log = [*own_program(), args[0], "--kubeconfig", str(server.kubeconfig), *args[1:]], Path(file.name)
        with running(command, log) as process:
            line = {"scheduler": b"live.run: scheduling", "hollow": b"live.fleet: running"}[args[0]]
            wait_until(lambda: line in log.read_bytes(), process, log, within_s=WITHIN_S, every_s=0.05)
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
        async with watching(client) as times:
            before, cpu_before_s, began_s = len(times.bound_s), cpu_s(scheduler.pid), time.monotonic()
            await Target(server.config).spread(CLIENTS, requests, 201)
            await times.all_bound(before + len(requests))
            took_s = time.monotonic() - began_s
            return Burst(
                len(requests),
                len(requests) / took_s,
                times.waited_s(0.5, since_s=began_s),
                times.waited_s(0.99, since_s=began_s),
                cpu_s(scheduler.pid) - cpu_before_s,
                rss_mb(scheduler.pid),
            )
