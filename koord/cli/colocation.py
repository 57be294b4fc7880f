"""`koord colocation off|on|status`: the switch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from koord.cli import structured
from koord.cli.options import kube_options, output_option
from koord.cli.progress import Progress
from koord.cli.tables import table

if TYPE_CHECKING:
    from koord.cli.colocation_live import NodeStanding, Scope, Told

F = TypeVar("F", bound=Callable[..., Any])
MOST_NAMED: Final = 5
MOST_NODES: Final = 50
GIB: Final = 1 << 30


def _scope_options(command: F) -> F:
    command = click.option(
        "-l", "--selector", metavar="SELECTOR", help="Only a pool: nodes with these labels, as in pool=batch."
    )(command)
    return click.option("--node", "nodes", multiple=True, metavar="NAME", help="Only this node; repeatable.")(command)


@click.group(epilog="Example: koord colocation off --node n1 --evict")
def colocation() -> None:
    """Turn co-location off or on: for the cluster, for a pool of nodes, or for single nodes.

    Off takes back what nodes lend at once, with or without a manager: new batch and mid pods wait. Those that run stay,
    unless they are evicted.
    """


@colocation.command(epilog="Example: koord colocation off -l pool=batch")
@_scope_options
@click.option("--evict", is_flag=True, help="Evict the pods that run on what was lent, as disruption budgets allow.")
@click.option(
    "--timeout",
    "within_s",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to ask for an eviction that a disruption budget refuses.",
)
@kube_options
@output_option("table", "json", "yaml")
def off(
    nodes: tuple[str, ...],
    selector: str | None,
    evict: bool,
    within_s: float,
    kubeconfig: str | None,
    context: str | None,
    output: str,
) -> int:
    """Lend nothing: what is lent is taken back at once.

    The exit code is 1 if a pod that was to be evicted is still there, or a node could not be written.
    """
    return _turn(_scope(nodes, selector), False, evict, within_s, kubeconfig, context, output)


@colocation.command(epilog="Example: koord colocation on --node n1")
@_scope_options
@kube_options
@output_option("table", "json", "yaml")
def on(nodes: tuple[str, ...], selector: str | None, kubeconfig: str | None, context: str | None, output: str) -> int:
    """Lend again, as the configuration says. The manager publishes how much.

    The exit code is 1 if one of the nodes is still off, for another reason.
    """
    return _turn(_scope(nodes, selector), True, False, 0.0, kubeconfig, context, output)


@colocation.command(epilog="Example: koord colocation status -l pool=batch -o json")
@_scope_options
@kube_options
@output_option("table", "json", "yaml")
def status(
    nodes: tuple[str, ...], selector: str | None, kubeconfig: str | None, context: str | None, output: str
) -> int:
    """Say where co-location is on or off, who switched it, what is lent, and how many pods run on it."""
    from koord.cli import colocation_live as live

    scope = _scope(nodes, selector)
    told = live.run(lambda client: live.look(client, scope), kubeconfig, context)
    if output == "table":
        _print(told)
    else:
        structured.say(told, output)
    return 0


def _scope(nodes: tuple[str, ...], selector: str | None) -> Scope:
    from koord.api.text.selector import parse_labels
    from koord.cli.colocation_live import Scope

    if nodes and selector:
        raise click.UsageError("give --node or -l/--selector, not both")
    return Scope(tuple(dict.fromkeys(nodes)), parse_labels(selector) if selector else None)


def _turn(
    scope: Scope,
    on: bool,
    evict: bool,
    within_s: float,
    kubeconfig: str | None,
    context: str | None,
    output: str,
) -> int:
    from koord.cli import colocation_live as live

    with Progress() as progress:
        told = live.run(
            lambda client: live.turn(client, scope, on=on, evict=evict, within_s=within_s, progress=progress.say),
            kubeconfig,
            context,
        )
    still_off = {name: each for name, each in told.nodes.items() if not each.on} if on else {}
    if output == "table":
        if still_off and len(still_off) == len(told.nodes):
            click.echo(f"co-location stays off for {scope}")
        else:
            click.echo(f"co-location is {'on' if on else 'off'} for {scope}")
            _say_what_follows(told, on, evict)
    else:
        structured.say(told, output)
    if not told.nodes:
        click.echo("note: there is no such node now", err=True)
    for name, each in list(still_off.items())[:MOST_NAMED]:
        click.echo(f"note: {name} still lends nothing: {each.why}", err=True)
    for what, why in list(told.refused.items())[:MOST_NAMED]:
        click.echo(f"note: {what}: {why}", err=True)
    return 1 if told.refused or still_off else 0


def _say_what_follows(told: Told, on: bool, evict: bool) -> None:
    if on:
        missing = f"; {told.manager}" if told.manager else ""
        click.echo(f"the manager publishes what nodes lend when it next looks{missing}")
        return
    if not told.nodes:
        return
    lending = [name for name, each in told.nodes.items() if each.lends]
    running = [pod for each in told.nodes.values() for pod in each.pods if pod not in told.evicted]
    idle = len(told.nodes) - len(lending)
    click.echo(f"{_number(idle, 'node')} {'lends' if idle == 1 else 'lend'} nothing: new batch and mid pods wait")
    if evict:
        click.echo(f"{_number(len(told.evicted), 'pod')} evicted: they end as gracefully as they were made to")
    elif running:
        shown = ", ".join(running[:MOST_NAMED]) + (" ..." if len(running) > MOST_NAMED else "")
        click.echo(f"{_number(len(running), 'pod')} still run on what was lent ({shown}); --evict ends them")


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _print(told: Told) -> None:
    click.echo(f"co-location is {'on' if told.cluster else 'off'} in the cluster")
    if told.manager:
        click.echo(f"note: {told.manager}", err=True)
    rows: list[tuple[str, ...]] = [
        ("NODE", "CO-LOCATION", "BATCH-CPU", "BATCH-MEMORY", "MID-CPU", "MID-MEMORY", "PODS", "WHY")
    ]
    for name, each in list(told.nodes.items())[:MOST_NODES]:
        rows.append((name, "on" if each.on else "off", *_lent(each), str(len(each.pods)), each.why or "-"))
    click.echo(table(rows, right=frozenset(range(2, 7)), colours={"on": "green", "off": "yellow"}))
    if len(told.nodes) > MOST_NODES:
        click.echo(f"and {len(told.nodes) - MOST_NODES} more nodes (all of them with -o json)")


def _lent(each: NodeStanding) -> list[str]:
    from koord.api.text.quantity import value

    found = []
    for band in ("batch", "mid"):
        cpu, memory = (each.lends.get(f"kubernetes.io/{band}-{what}") for what in ("cpu", "memory"))
        found.append("-" if cpu is None else f"{value(cpu) / 1000:g}")
        found.append("-" if memory is None else f"{value(memory) / GIB:.1f}Gi")
    return found
