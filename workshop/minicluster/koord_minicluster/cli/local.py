"""`koord local`: this machine as a node, on any API server."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from koord.cli.component import Common, Ready, component_options, run_component

if TYPE_CHECKING:
    from koord.kube.client import Client
    from koord.kube.metrics import Metrics


LEAST_MILLI: Final = 100
LEAST_BYTES: Final = 64 << 20


@click.command(
    epilog="""\b
Example: koord local --cpu 2 --memory 4Gi

\b
Pods run as plain processes of this machine, as the user that their spec names (else root), in cgroups below
--cgroup-root, which is made at the start and taken away at the end with all that runs in it. That cgroup is the node:
its limits are the node's capacity. Images are not pulled: a container needs a command; an image that is a directory of
this machine becomes the container's root. This is no sandbox: run only what you would run in a shell."""
)
@click.option("--node-name", default=lambda: socket.gethostname(), show_default="this host's name", help="The Node.")
@click.option("--cpu", metavar="QUANTITY", help="How much CPU the node has. Default: all of the machine.")
@click.option("--memory", metavar="QUANTITY", help="How much memory the node has. Default: all of the machine.")
@click.option("--cgroup-root", default="koord-local", show_default=True, metavar="NAME", help="The node's own cgroup.")
@click.option("--logs", default="/var/log/koord-pods", show_default=True, type=Path, help="Where pods' output goes.")
@component_options
def local(node_name: str, cpu: str | None, memory: str | None, cgroup_root: str, logs: Path, common: Common) -> int:
    """Make this machine a node: pods run as plain processes in real cgroups. No sandbox."""
    from koord_minicluster.local.live.run import LocalOptions

    cpu_milli, memory_bytes = size(cpu, memory)
    check_root()
    options = LocalOptions(node_name, cgroup_root, logs, cpu_milli, memory_bytes)

    measured: list[Metrics] = []

    async def work(client: Client, ready: Ready) -> None:
        from koord_minicluster.local.live.probes import ANSWERED, ANSWERED_BUCKETS
        from koord_minicluster.local.live.run import run

        answers = [
            metrics.histogram(ANSWERED, "Seconds until a container answered a probe", ANSWERED_BUCKETS, "qos")
            for metrics in measured
        ]

        def answered(qos: str, seconds: float) -> None:
            for histogram in answers:
                histogram.labels(qos).observe(seconds)

        def is_ready(port: int) -> None:
            ready({"kubelet": f"https://127.0.0.1:{port}"})

        await run(client, options, on_ready=is_ready, answered=answered)

    return run_component("local", work, common, measured=measured.append)


def check_root() -> None:
    if os.geteuid() != 0:
        raise click.UsageError("a local node needs root: it makes cgroups. Without root, hollow nodes are there.")


def size(cpu: str | None, memory: str | None, prefix: str = "--") -> tuple[int, int]:
    """Milli-cores and bytes; zero where nothing is said. `prefix`: how the options begin."""
    from koord.agent.host import proc
    from koord.agent.host.files import Files
    from koord.agent.host.topology import topology
    from koord.api.text.quantity import QuantityError, milli, render, value

    files = Files("/")
    machine_milli, machine_bytes = len(topology(files).cpus) * 1000, proc.memory(files).total
    files.close()
    try:
        cpu_milli = milli(cpu) if cpu else 0
        memory_bytes = value(memory) if memory else 0
    except QuantityError as error:
        raise click.UsageError(str(error)) from None
    if cpu and not LEAST_MILLI <= cpu_milli <= machine_milli:
        most = render("cpu", machine_milli)
        raise click.UsageError(f"{prefix}cpu {cpu}: must be from 100m to {most}, which is all that this machine has")
    if memory and not LEAST_BYTES <= memory_bytes <= machine_bytes:
        most = f"{machine_bytes >> 20}Mi"
        raise click.UsageError(
            f"{prefix}memory {memory}: must be from 64Mi to {most}, which is all that this machine has"
        )
    return cpu_milli, memory_bytes
