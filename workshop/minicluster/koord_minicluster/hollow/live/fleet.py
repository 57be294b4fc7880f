"""A fleet of modelled nodes: everything that runs for them, in one process.

One pod informer serves the pods' lives, the reports and the kubelet endpoint.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from koord import __version__
from koord.api.kinds import NODES, PODS
from koord.api.kubernetes.node import Node
from koord.api.protocol.report_policy import ReportPolicy
from koord.kube.certificates.own import own_certificate_aside
from koord.kube.client import Client
from koord.kube.clock import Clock, SystemClock
from koord.kube.events import EventRecorder
from koord.kube.informers import Informers
from koord.kube.metrics import Metrics
from koord.kube.store import Delta
from koord_minicluster.hollow.live.devices import publish
from koord_minicluster.hollow.live.figures import Figures
from koord_minicluster.hollow.live.guard import Guard
from koord_minicluster.hollow.live.kubelet import HollowKubelet
from koord_minicluster.hollow.live.machines import FIELD_MANAGER, Machines
from koord_minicluster.hollow.live.pods import NODE_INDEX, PodRunner, by_node
from koord_minicluster.hollow.live.reports import Reporter
from koord_minicluster.hollow.load_model import Load, SeededLoad
from koord_minicluster.hollow.machine import LABEL_FLEET, Machine
from koord_minicluster.hollow.phases import Pace
from koord_minicluster.kubelet.live.pod_writes import PodWrites
from koord_minicluster.kubelet.live.server import KubeletServer
from koord_minicluster.kubelet.node_status import HOST_IP

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOptions:
    """The number of nodes, their size, and how they behave."""

    nodes: int
    prefix: str = "hollow"
    cpu_milli: int = 32_000
    memory_bytes: int = 128 * 1024**3
    pods: int = 110
    zones: int = 3
    gpus: int = 0
    "GPUs of each node, published for claims of devices."
    seed: int = 0
    load: Load = field(default_factory=SeededLoad)
    pace: Pace = field(default_factory=Pace)
    report: ReportPolicy = field(default_factory=ReportPolicy)
    kubelet_port: int = 0

    def machines(self) -> list[Machine]:
        return [
            Machine(index, self.prefix, self.cpu_milli, self.memory_bytes, self.pods, self.zones)
            for index in range(self.nodes)
        ]


async def run_fleet(
    client: Client,
    options: FleetOptions,
    *,
    clock: Clock | None = None,
    on_ready: Callable[[Mapping[str, str]], None] | None = None,
    metrics: Metrics | None = None,
) -> None:
    """Runs the fleet until cancelled. `on_ready` gets the endpoints once all nodes are registered."""
    clock = clock or SystemClock()
    informers = Informers(client, clock=clock)
    pods = informers.get(PODS, indexes={NODE_INDEX: by_node})
    nodes = informers.get(NODES, labels=f"{LABEL_FLEET}={options.prefix}")
    context = await own_certificate_aside("koord-hollow", HOST_IP)
    serving = HollowKubelet(pods, seed=options.seed, clock=clock)
    async with (
        KubeletServer(serving, client, context, clock, options.kubelet_port) as kubelet,
        informers,
        EventRecorder(client, controller="koord-hollow") as events,
    ):
        machines = Machines(
            client,
            options.machines(),
            kubelet_port=kubelet.port,
            version=__version__,
            seed=options.seed,
            clock=clock,
        )
        await machines.register()
        if options.gpus:
            await publish(client, options.prefix, options.gpus)
        machines.follow(nodes)
        writes = PodWrites(client, FIELD_MANAGER)
        runner = PodRunner(writes, pods, machines, events, pace=options.pace, clock=clock)
        reporter = Reporter(
            client,
            pods,
            machines,
            load=options.load,
            policy=options.report,
            seed=options.seed,
            clock=clock,
            guard=Guard(client, informers, events, metrics),
            figures=None if metrics is None else Figures(metrics),
        )
        nodes.add_handler(_waker(runner))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(machines.registry.keep_alive(), name="hollow/keep-alive")
            tasks.create_task(runner.controller.run(), name="hollow/pods")
            tasks.create_task(reporter.run(), name="hollow/reports")
            await informers.synced(freeze=True)
            log.info("running", extra={"nodes": options.nodes, "kubelet_port": kubelet.port})
            if on_ready is not None:
                on_ready({"kubelet": f"https://{HOST_IP}:{kubelet.port}"})


def _waker(runner: PodRunner) -> Callable[[Delta[Node]], None]:
    """Nodes that change have their pods looked at: one that was switched off may be back."""

    def hear(delta: Delta[Node]) -> None:
        old, new = delta.old, delta.new
        if old is not None and new is not None and old.metadata.annotations != new.metadata.annotations:
            runner.node_changed(delta.key)

    return hear
