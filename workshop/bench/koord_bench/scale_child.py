"""One component at one size: `python -m koord_bench.scale_child COMPONENT NODES PODS` prints its figures as JSON.

A process of its own, so that memory belongs to this case, and caches are as cold as after a restart.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from koord.api.configuration.descheduler_config import SHIPPED as DESCHEDULER
from koord.api.configuration.scheduler_config import SHIPPED as SCHEDULER
from koord.api.kinds import NODES, PODS
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import decode, encode
from koord.descheduler.compiled import compiled
from koord.kube.client import Client
from koord.kube.cluster_config import ClusterConfig
from koord.kube.informer import Informer
from koord.kube.store import Delta
from koord.scheduler.core.core import Core
from koord.scheduler.profiles import profiles_of
from koord_bench import descheduler, manager, scheduler_memory
from koord_bench.children import running_module, status_kb
from koord_bench.harness import Figures


def engine(nodes: int, pods: int) -> Figures:
    """The scheduler's state and decisions; see `scheduler_memory`."""
    figures = scheduler_memory.measure(nodes, pods)
    micros = {f"us_{kind}": 1e6 / figures[f"pods_s_{kind}"] for kind in ("alike", "mixed")}
    start_s = figures["nodes_s"] + figures["decoding_s"] + figures["feeding_s"]
    return {**figures, **micros, "start_s": start_s}


def restart(nodes: int, pods: int) -> Figures:
    """A scheduler that starts: it lists all pods over TLS, keeps them, and feeds them to its core."""
    return asyncio.run(_restart(nodes, pods))


async def _restart(nodes: int, pods: int) -> Figures:
    core = Core(profiles_of(SCHEDULER))
    for i in range(nodes):
        core.put(NODES, decode(Node, encode(scheduler_memory.node(i))))

    def feed(delta: Delta[Pod]) -> None:
        core.put(PODS, delta.new, delta.old)

    with running_module("koord_bench.pod_server", "--pods", str(pods), "--events", "0") as (_, address):
        config = ClusterConfig(server=f"https://127.0.0.1:{address['port']}", ca_data=address["certificate"].encode())
        async with Client(config) as client:
            informer: Informer[Pod] = Informer(client, PODS, watch_list=False)
            began_s = time.process_time()
            task = asyncio.create_task(informer.run())
            await informer.synced()
            informer.add_handler(feed)
            spent_s = time.process_time() - began_s
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    if len(core.cluster.pods) != pods:
        raise RuntimeError(f"{len(core.cluster.pods)} of {pods} pods count: the figures would mean nothing")
    return {"cpu_s": spent_s, "peak_mb": status_kb("VmHWM") / 1024}


def manager_round(nodes: int, pods: int) -> Figures:
    """All nodes calculated once more."""
    return {"cpu_s": manager.calculated_s(nodes, pods // nodes)}


def descheduler_round(nodes: int, pods: int) -> Figures:
    """A round with new reports of all nodes."""
    best_s, grown_mb, moves = descheduler.rounds(descheduler.Fleet(nodes, pods // nodes), compiled(DESCHEDULER))
    return {"cpu_s": best_s, "grown_mb": grown_mb, "moves": float(moves)}


MEASURES: Final[Mapping[str, Callable[[int, int], Figures]]] = {
    "scheduler engine": engine,
    "restart": restart,
    "manager": manager_round,
    "descheduler": descheduler_round,
}


def main(arguments: list[str]) -> None:
    component, nodes, pods = arguments
    sys.stdout.write(json.dumps(MEASURES[component](int(nodes), int(pods))) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
