"""`koord hollow`: modelled nodes, on any API server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from koord.cli.component import Common, Ready, component_options, run_component
from koord.cli.options import Number

if TYPE_CHECKING:
    from koord.kube.client import Client
    from koord.kube.metrics import Metrics
    from koord_minicluster.hollow.live.fleet import FleetOptions

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Fleet:
    """Modelled nodes as the command line describes them: their size and their load."""

    node_cpu: str
    node_memory: str
    node_pods: int
    node_gpus: int
    load: Path | None
    load_speed: float | None
    load_since: float | None
    seed: int

    def arguments(self) -> tuple[str, ...]:
        """The same options as command-line arguments."""
        return (
            *("--node-cpu", self.node_cpu, "--node-memory", self.node_memory, "--node-pods", str(self.node_pods)),
            *(("--node-gpus", str(self.node_gpus)) if self.node_gpus else ()),
            *("--seed", str(self.seed)),
            *(("--load-speed", f"{self.load_speed:g}") if self.load_speed is not None else ()),
            *(("--load", str(self.load.absolute())) if self.load is not None else ()),
            *(("--load-since", repr(self.load_since)) if self.load_since is not None else ()),
        )


def fleet_options(command: F) -> F:
    """--node-cpu, --load and so on: the command gets a `Fleet`."""

    @wraps(command)
    def with_fleet(**given: Any) -> Any:
        return command(fleet=Fleet(**{field.name: given.pop(field.name) for field in fields(Fleet)}), **given)

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
                "--node-gpus",
                default=0,
                show_default=True,
                type=click.IntRange(0, 64),
                help="GPUs of each node, published in ResourceSlices for claims of the class gpu.hollow.koord.sh.",
            ),
            click.option(
                "--load",
                metavar="FILE",
                type=click.Path(exists=True, dir_okay=False, path_type=Path),
                help="CSV to replay as usage, with the columns time_s,target,cpu,memory.",
            ),
            click.option(
                "--load-speed",
                metavar="N",
                show_default="1; in a demo 360, a day in four minutes",
                type=Number(0, 86400, min_open=True),
                help="Let the load's days and nights, or the recording, pass N times as fast. Pods run as long as"
                " ever.",
            ),
            click.option(
                "--load-since",
                metavar="SECONDS",
                type=Number(),
                hidden=True,
                help="When the load's first day began, in seconds since 1970: a restart goes on where the load is.",
            ),
            click.option("--seed", default=0, show_default=True, help="Seed of the load model."),
        )
    ):
        with_fleet = option(with_fleet)
    return cast(F, with_fleet)


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
def hollow(nodes: int, prefix: str, fleet: Fleet, common: Common) -> int:
    """Run nodes that are only modelled.

    They register, hold leases, run the pods bound to them through their phases and report usage. A pod's annotations
    say how it behaves: hollow.koord.sh/duration (90s) how long it runs, hollow.koord.sh/exit-code how it then ends,
    hollow.koord.sh/waiting (ImagePullBackOff) that it never starts. A node annotated hollow.koord.sh/down=true falls
    silent.
    """
    options = options_for(nodes, prefix, fleet)
    measured: list[Metrics] = []

    async def work(client: Client, ready: Ready) -> None:
        from koord_minicluster.hollow.live.fleet import run_fleet

        await run_fleet(client, options, on_ready=ready, metrics=measured[0] if measured else None)

    return run_component("hollow", work, common, measured=measured.append)


def options_for(nodes: int, prefix: str, fleet: Fleet) -> FleetOptions:
    """The options that the command line describes; raises a usage error for invalid values."""
    import time

    from koord.api.text.naming import dns_label_fault
    from koord_minicluster.hollow.live.fleet import FleetOptions
    from koord_minicluster.hollow.load_model import CLOCK, Course, Load, SeededLoad
    from koord_minicluster.hollow.load_replay import read_replay
    from koord_minicluster.hollow.phases import Pace

    fault = dns_label_fault(prefix)
    if fault or len(prefix) > 50:
        raise click.BadParameter(fault or "must have at most 50 characters", param_hint="--prefix")
    cpu_milli, memory_bytes = size_of(fleet)
    began = Course(time.time() if fleet.load_since is None else fleet.load_since, fleet.load_speed or 1.0)
    is_clock = fleet.load_speed in (None, 1) and fleet.load_since is None
    model: Load = SeededLoad(fleet.seed, CLOCK if is_clock else began)
    if fleet.load is not None:
        with fleet.load.open(encoding="utf-8") as lines:
            model = read_replay(lines, str(fleet.load), course=began, otherwise=model)
    return FleetOptions(
        nodes=nodes,
        prefix=prefix,
        cpu_milli=cpu_milli,
        memory_bytes=memory_bytes,
        pods=fleet.node_pods,
        gpus=fleet.node_gpus,
        seed=fleet.seed,
        load=model,
        pace=Pace(seed=fleet.seed),
    )


def size_of(fleet: Fleet) -> tuple[int, int]:
    """A node's milli-cores and bytes; raises a usage error for invalid values."""
    from koord.api.text.quantity import QuantityError, milli, value

    amounts = []
    for hint, text, parse in (("--node-cpu", fleet.node_cpu, milli), ("--node-memory", fleet.node_memory, value)):
        try:
            amount = parse(text)
        except QuantityError as error:
            raise click.BadParameter(str(error), param_hint=hint) from None
        if amount <= 0:
            raise click.BadParameter(f"must be more than 0, not {text}", param_hint=hint)
        amounts.append(amount)
    return amounts[0], amounts[1]
