"""`koord hollow`: modelled nodes, on any API server."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from koord.cli.component import Common, Ready, component_options, run_component

if TYPE_CHECKING:
    from koord.kube.client import Client
    from koord.minicluster.hollow.live.fleet import FleetOptions

F = TypeVar("F", bound=Callable[..., Any])


def fleet_options(command: F) -> F:
    """How many nodes, of which size, under which load."""
    for option in reversed(
        (
            click.option("--node-cpu", default="32", show_default=True, metavar="QUANTITY", help="CPU of each node."),
            click.option(
                "--node-memory", default="128Gi", show_default=True, metavar="QUANTITY", help="Memory of each node."
            ),
            click.option(
                "--node-pods", default=110, show_default=True, type=click.IntRange(1, 1000), help="Pods of each node."
            ),
            click.option(
                "--load",
                metavar="FILE",
                type=click.File("r", encoding="utf-8"),
                help="CSV to replay as usage, with the columns time_s,target,cpu,memory.",
            ),
            click.option("--seed", default=0, show_default=True, help="Seed of the load model."),
        )
    ):
        command = option(command)
    return command


@click.command(
    epilog="""\b
Example: koord hollow --nodes 100 --node-cpu 64 --node-memory 256Gi

\b
A recording for --load, times in seconds from the start, amounts as quantities or in percent of the request:
  time_s,target,cpu,memory
  0,app:shop/web,60%,1Gi
  300,app:shop/web,2500m,1.5Gi
  0,node:hollow-0001,500m,2Gi"""
)
@click.option("--nodes", default=5, show_default=True, type=click.IntRange(0, 16384), help="Number of nodes.")
@click.option("--prefix", default="hollow", show_default=True, help="Names are PREFIX-0001, PREFIX-0002, ...")
@fleet_options
@component_options
def hollow(
    nodes: int,
    prefix: str,
    node_cpu: str,
    node_memory: str,
    node_pods: int,
    load: IO[str] | None,
    seed: int,
    common: Common,
) -> int:
    """Run nodes that are only modelled.

    They register, hold leases, run the pods bound to them through their phases and report usage. A pod's annotations
    say how it behaves: hollow.koord.sh/duration (90s) how long it runs, hollow.koord.sh/exit-code how it then ends,
    hollow.koord.sh/waiting (ImagePullBackOff) that it never starts. A node annotated hollow.koord.sh/down=true falls
    silent.
    """
    options = options_for(nodes, prefix, node_cpu, node_memory, node_pods, load, seed)

    async def work(client: Client, ready: Ready) -> None:
        from koord.minicluster.hollow.live.fleet import run_fleet

        await run_fleet(client, options, on_ready=ready)

    return run_component(
        "hollow",
        work,
        common,
    )


def options_for(
    nodes: int,
    prefix: str,
    node_cpu: str,
    node_memory: str,
    node_pods: int,
    load: IO[str] | None,
    seed: int,
) -> FleetOptions:
    """What the command line means; a fault in it is bad usage."""
    import time

    from koord.api.text.naming import dns_label_fault
    from koord.minicluster.hollow.live.fleet import FleetOptions
    from koord.minicluster.hollow.load_model import Load, SeededLoad
    from koord.minicluster.hollow.load_replay import read_replay
    from koord.minicluster.hollow.phases import Pace

    fault = dns_label_fault(prefix)
    if fault or len(prefix) > 50:
        raise click.BadParameter(fault or "must have at most 50 characters", param_hint="--prefix")
    cpu_milli, memory_bytes = size_of(node_cpu, node_memory)
    model: Load = SeededLoad(seed)
    if load is not None:
        model = read_replay(load, load.name, start_s=time.time(), otherwise=model)
    return FleetOptions(
        nodes=nodes,
        prefix=prefix,
        cpu_milli=cpu_milli,
        memory_bytes=memory_bytes,
        pods=node_pods,
        seed=seed,
        load=model,
        pace=Pace(seed=seed),
    )


def size_of(node_cpu: str, node_memory: str) -> tuple[int, int]:
    """A node's milli-cores and bytes; a fault in them is bad usage."""
    from koord.api.text.quantity import QuantityError, milli, value

    amounts = []
    for hint, text, parse in (("--node-cpu", node_cpu, milli), ("--node-memory", node_memory, value)):
        try:
            amount = parse(text)
        except QuantityError as error:
            raise click.BadParameter(str(error), param_hint=hint) from None
        if amount <= 0:
            raise click.BadParameter(f"must be more than 0, not {text}", param_hint=hint)
        amounts.append(amount)
    return amounts[0], amounts[1]
