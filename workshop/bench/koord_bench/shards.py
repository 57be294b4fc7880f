"""How many pods a second do several schedulers bind that share a cluster?

On kube-apiserver if it is installed, else on koord's own API server: 1, 2 and 4 schedulers with a shard each, and a
burst of pods. The server and the cores of the machine limit all of them together, so the CPU of a scheduler per pod
says what another scheduler on another machine would add.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from koord_bench import api_servers
from koord_bench.api_load import Target, encode
from koord_bench.api_servers import RunningServer
from koord_bench.bursts import CLIENTS, burst, koord_process, pod_request
from koord_bench.children import cpu_s, rss_mb
from koord_bench.harness import Report, Size

NUMBERS: Final = (1, 2, 4)


def add_rows(report: Report, size: Size) -> None:
    for number in NUMBERS:
        with _server() as (server, name):
            report.progress(f"{number} schedulers on {name}: {size.shard_nodes} nodes")
            asyncio.run(Target(server.config).spread(CLIENTS, list(_nodes(size.shard_nodes)), 201))
            _measure(report, server, f"{number} shards, {name}, {size.shard_nodes} nodes", number, size.shard_pods)


def _measure(report: Report, server: RunningServer, title: str, number: int, pods: int) -> None:
    with ExitStack() as stack:
        shards = [("--shard", f"{k}/{number}") if number > 1 else () for k in range(1, number + 1)]
        processes = [stack.enter_context(koord_process(server, "scheduler", "--alone", *shard)) for shard in shards]
        before_s = [cpu_s(process.pid) for process in processes]
        figures = asyncio.run(burst(server, processes[0], [pod_request(f"burst-{i}") for i in range(pods)]))
        spent_s = [cpu_s(process.pid) - before for process, before in zip(processes, before_s, strict=True)]
        case = report.case(title)
        case.add("bound pods", figures.pods_s, "pods/s", more_is_better=True)
        case.add("CPU of all schedulers", 1000 * sum(spent_s) / pods, "ms/pod")
        case.add("CPU of the busiest one", 1000 * max(spent_s) / pods, "ms/pod")
        case.add("memory of the largest one", max(rss_mb(process.pid) for process in processes), "MB")


@contextmanager
def _server() -> Iterator[tuple[RunningServer, str]]:
    with api_servers.real() as server:
        if server is not None:
            yield server, "kube-apiserver"
            return
    with api_servers.embedded() as own:
        yield own, "embedded API server"


def _nodes(number: int) -> Iterator[bytes]:
    amounts = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    for i in range(number):
        name = f"node-{i:05}"
        meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        body = {"metadata": meta, "status": {"allocatable": amounts, "capacity": amounts}}
        yield encode("POST", "/api/v1/nodes", json.dumps(body).encode())
