"""How long is a large cluster without a scheduler when the one that leads ends?

Two schedulers on the embedded API server follow 5,000 nodes and 150,000 pods, and one leads. New pods come all the
time. The leader ends twice: first it is asked to (SIGTERM, as in a roll-out or a drain), and gives its lease back; then
it is killed, and its lease has to run out, as Kubernetes' leases do. What counts is when the other one binds.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from koord.api.kinds import LEASES
from koord.api.kubernetes.coordination import Lease
from koord.api.protocol import names
from koord.kube.client import Client
from koord.kube.informer import Informer
from koord.kube.locate import locate
from koord.kube.store import Delta
from koord_bench import api_servers
from koord_bench.api_load import Target, encode
from koord_bench.api_servers import RunningServer
from koord_bench.bursts import CLIENTS, PodTimes, koord_process, make_namespace, pod_request, watching
from koord_bench.children import cpu_s
from koord_bench.harness import Progress, Report, Result, Size, silent

BENCH: Final = "takeover"
FULL: Final = Size(nodes=5_000, pods=150_000)
QUICK: Final = Size(nodes=100, pods=1_000)
EVERY_S: Final = 0.05
"""Between two new pods."""
WITHIN_S: Final = 120.0
GOAL_S: Final = 2.0
Process: TypeAlias = subprocess.Popen[bytes]
OLD: Final = "old"
"""The namespace of pods that have nodes from the start."""


def run(quick: bool = False, progress: Progress = silent) -> list[Result]:
    report, size = Report(BENCH, quick, progress), QUICK if quick else FULL
    with api_servers.embedded() as server:
        progress(f"creating {size.nodes} nodes and {size.pods} pods")
        asyncio.run(_fill(server, size))
        asyncio.run(_measure(report, server, size))
    return report.rows


@dataclass(slots=True)
class LeaseHistory:
    """The holders of the scheduler's lease, and since when this process saw them."""

    holders: list[tuple[float, str]] = field(default_factory=list)

    def handle(self, delta: Delta[Lease]) -> None:
        holder = delta.new.spec.holder_identity if delta.new is not None else ""
        if holder and (not self.holders or self.holders[-1][1] != holder):
            self.holders.append((time.monotonic(), holder))


@dataclass(frozen=True, slots=True)
class Takeover:
    lease_s: float
    "From the end of the leader until the other one has the lease."
    binding_s: float
    "From then until a pod is bound."
    cpu_s: float
    "Of the other one, from the lease until then: what it takes on a machine with a free core."


async def _measure(report: Report, server: RunningServer, size: Size) -> None:
    async with Client(locate(str(server.kubeconfig))) as client, _leases(client) as leases, watching(client) as times:
        with ExitStack() as stack:
            first = _scheduler(stack, server)
            await _until(lambda: len(leases.holders) == 1)
            report.progress("the first scheduler leads; starting a second one")
            second = _scheduler(stack, server)
            trickle = asyncio.create_task(_trickle(Target(server.config)))
            try:
                await _until(lambda: bool(times.bound_s))
                report.progress("ending the leader")
                asked = await _ended(first, second, signal.SIGTERM, leases, times)
                report.progress("starting another one, and killing the leader")
                third = _scheduler(stack, server)
                killed = await _ended(second, third, signal.SIGKILL, leases, times)
            finally:
                trickle.cancel()
                with suppress(asyncio.CancelledError):
                    await trickle
    where = f"{size.nodes} nodes, {size.pods} pods"
    case = report.case(f"leader asked to end, {where}")
    case.add("until the other one has the lease", asked.lease_s, "s")
    case.add("until the other one binds a pod", asked.lease_s + asked.binding_s, "s", goal=GOAL_S)
    case.add("its CPU from the lease until then", asked.cpu_s, "s")
    case = report.case(f"leader killed, {where}")
    case.add("until the other one has the lease", killed.lease_s, "s")
    case.add("from the lease until it binds a pod", killed.binding_s, "s", goal=GOAL_S)
    case.add("its CPU from the lease until then", killed.cpu_s, "s")


async def _ended(
    leader: Process, standby: Process, how: signal.Signals, leases: LeaseHistory, times: PodTimes
) -> Takeover:
    terms, ended_s = len(leases.holders), time.monotonic()
    leader.send_signal(how)
    await _until(lambda: len(leases.holders) > terms)
    lease_s, cpu_before_s = leases.holders[terms][0], cpu_s(standby.pid)
    await _until(lambda: max(times.bound_s.values()) > lease_s)
    spent_s = cpu_s(standby.pid) - cpu_before_s
    bound_s = min(bound_s for bound_s in times.bound_s.values() if bound_s > lease_s)
    return Takeover(lease_s - ended_s, bound_s - lease_s, spent_s)


def _scheduler(stack: ExitStack, server: RunningServer) -> Process:
    """One that knows the cluster."""
    return stack.enter_context(koord_process(server, "scheduler", "--alone", "--leader-elect"))


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while True:
            if condition():
                return
            await asyncio.sleep(0.005)


@asynccontextmanager
async def _leases(client: Client) -> AsyncIterator[LeaseHistory]:
    history = LeaseHistory()
    only = f"metadata.name={names.LEASE_SCHEDULER}"
    informer: Informer[Lease] = Informer(client, LEASES, namespace=names.NAMESPACE_KOORDINATOR, fields=only)
    informer.add_handler(history.handle)
    task = asyncio.create_task(informer.run())
    try:
        yield history
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _trickle(target: Target) -> None:
    number = 0
    while True:
        await target.spread(1, [pod_request(f"new-{number}")], 201)
        number += 1
        await asyncio.sleep(EVERY_S)


async def _fill(server: RunningServer, size: Size) -> None:
    target = Target(server.config)
    async with Client(locate(str(server.kubeconfig))) as client:
        await make_namespace(client)
        await client.raw("POST", "/api/v1/namespaces", body=json.dumps({"metadata": {"name": OLD}}).encode())
    await target.spread(CLIENTS, list(_nodes(size.nodes)), 201)
    await target.spread(CLIENTS, list(_pods(size.pods, size.nodes)), 201)


def _nodes(number: int) -> Iterator[bytes]:
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "200"}
    for i in range(number):
        name = _node(i)
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{i % 3}"}
        status = {"allocatable": amounts, "capacity": amounts}
        yield encode(
            "POST",
            "/api/v1/nodes",
            json.dumps({"metadata": {"name": name, "labels": labels}, "status": status}).encode(),
        )


def _pods(number: int, nodes: int) -> Iterator[bytes]:
    """Pods of apps with 50 replicas each."""
    for i in range(number):
        app = f"app-{i // 50}"
        requests = {"cpu": f"{100 + i // 50 % 8 * 50}m", "memory": "256Mi"}
        body = {
            "metadata": {"name": f"{app}-{i % 50}", "labels": {"app": app}},
            "spec": {
                "nodeName": _node(i % nodes),
                "containers": [{"name": "app", "image": "app:1", "resources": {"requests": requests}}],
            },
        }
        yield encode("POST", f"/api/v1/namespaces/{OLD}/pods", json.dumps(body).encode())


def _node(i: int) -> str:
    return f"node-{i:05}"
