"""`koord colocation off|on|status`: the switch."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from koord.api.text.counted import counted
from koord.cli import structured
from koord.cli.break_glass import break_glass
from koord.cli.cluster_names import nodes as node_names
from koord.cli.colocation_policy import policy
from koord.cli.colocation_preview import preview
from koord.cli.colocation_thresholds import thresholds
from koord.cli.groups import Group
from koord.cli.options import Number, kube_options, not_empty, output_option
from koord.cli.progress import Progress
from koord.cli.rollout import rollout, rollout_table
from koord.cli.tables import table

if TYPE_CHECKING:
    from koord.kube.client import Client
    from koord.operate.live.colocation import Evict, NodeStanding, Scope, SwitchResult

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
MOST_NAMED: Final = 5
MOST_NODES: Final = 50
GIB: Final = 1 << 30


def _scope_options(command: F) -> F:
    command = click.option(
        "-l",
        "--selector",
        metavar="SELECTOR",
        callback=not_empty,
        help="Only a pool: nodes with these labels, as in pool=batch.",
    )(command)
    return click.option(
        "--node",
        "nodes",
        multiple=True,
        metavar="NAME",
        callback=not_empty,
        shell_complete=node_names,
        help="Only this node; repeatable.",
    )(command)


@click.group(cls=Group, epilog="Example: koord colocation off --node n1 --evict --dry-run")
def colocation() -> None:
    """Turn co-location off or on: for the cluster, for a pool of nodes, or for single nodes; or gradually (rollout).

    Off takes back what nodes lend at once, with or without a manager: new batch and mid pods stay pending. Running ones
    stay, unless they are evicted (off --evict).
    """


for command in (preview, policy, thresholds, rollout, break_glass):
    colocation.add_command(command)

_dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Only say what would change; nothing is written and no pod is evicted."
)


@colocation.command(epilog="Example: koord colocation off -l pool=batch --evict --dry-run")
@_scope_options
@click.option(
    "--evict",
    is_flag=True,
    help="Evict the pods that request batch or mid resources or carry the priority class koord-batch or koord-mid, as"
    " disruption budgets allow. Lists them and asks first.",
)
@click.option("--yes", is_flag=True, help="Evict without asking; needed where there is no terminal.")
@click.option(
    "--system-namespaces",
    is_flag=True,
    help="Evict also from kube-system, kube-public, kube-node-lease and koordinator-system.",
)
@click.option(
    "--timeout",
    "within_s",
    type=Number(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for pods that ask for notice, and for evictions that a disruption budget refuses.",
)
@_dry_run_option
@kube_options
@output_option("table", "json", "yaml")
def off(
    nodes: tuple[str, ...],
    selector: str | None,
    evict: bool,
    yes: bool,
    system_namespaces: bool,
    within_s: float,
    dry_run: bool,
    kubeconfig: str | None,
    context: str | None,
    output: str,
) -> int:
    """Stop lending: nodes take back their lent resources at once.

    The exit code is 1 if a pod could not be evicted, if a node could not be written, or if the user answered no to
    the question.
    """
    from koord.operate.live import colocation as live

    for given, flag in ((yes, "--yes"), (system_namespaces, "--system-namespaces")):
        if given and not evict:
            raise click.UsageError(f"{flag} goes with --evict")
    scope = _scope(nodes, selector)
    wanted = live.Evict(within_s, system_namespaces) if evict else None
    if wanted is not None and not yes and not dry_run:
        if not sys.stdin.isatty():
            raise click.UsageError(
                "--evict asks before it evicts, and there is no terminal to ask on: add --yes to evict without asking,"
                " or --dry-run to list the pods"
            )
        planned = _run(lambda client: live.plan(client, scope, on=False, evict=wanted), kubeconfig, context)
        if not _agreed(planned, scope):
            click.echo("nothing was changed", err=True)
            return 1
        wanted = replace(wanted, agreed=frozenset(pod.uid for pod in planned.to_evict))
    return _turn(scope, False, wanted, dry_run, kubeconfig, context, output)


@colocation.command(epilog="Example: koord colocation on --node n1")
@_scope_options
@_dry_run_option
@kube_options
@output_option("table", "json", "yaml")
def on(
    nodes: tuple[str, ...],
    selector: str | None,
    dry_run: bool,
    kubeconfig: str | None,
    context: str | None,
    output: str,
) -> int:
    """Lend again, as configured. The manager publishes the amounts.

    The exit code is 1 if co-location stays off on one of the nodes for another reason.
    """
    return _turn(_scope(nodes, selector), True, None, dry_run, kubeconfig, context, output)


@colocation.command(epilog="Example: koord colocation status -l pool=batch -o json")
@_scope_options
@kube_options
@output_option("table", "json", "yaml")
def status(
    nodes: tuple[str, ...], selector: str | None, kubeconfig: str | None, context: str | None, output: str
) -> int:
    """Show where co-location is on or off and what switched it, the lent resources, the number of pods that use them,
    and the progress of roll-outs."""
    from koord.operate.live import rollouts

    scope = _scope(nodes, selector)
    result = _run(lambda client: rollouts.status(client, scope), kubeconfig, context)
    if output == "table":
        _print(result)
        if result.rollouts:
            click.echo()
            click.echo(rollout_table(result.rollouts))
        for line in result.rollout_faults:
            click.echo(f"note: {line}", err=True)
    else:
        structured.say(result, output)
    return 0


def _scope(nodes: tuple[str, ...], selector: str | None) -> Scope:
    from koord.api.text.selector import parse_labels
    from koord.operate.live.colocation import Scope

    if nodes and selector:
        raise click.UsageError("give --node or -l/--selector, not both")
    return Scope(tuple(dict.fromkeys(nodes)), parse_labels(selector) if selector else None)


def _run(work: Callable[[Client], Awaitable[T]], kubeconfig: str | None, context: str | None) -> T:
    from koord.operate.live import colocation as live

    return live.run(work, kubeconfig, context)


def _turn(
    scope: Scope,
    on: bool,
    evict: Evict | None,
    dry_run: bool,
    kubeconfig: str | None,
    context: str | None,
    output: str,
) -> int:
    from koord.operate.live import colocation as live

    with Progress() as progress:

        async def work(client: Client) -> SwitchResult:
            if dry_run:
                return await live.plan(client, scope, on=on, evict=evict)
            return await live.turn(client, scope, on=on, evict=evict, progress=progress.say)

        result = _run(work, kubeconfig, context)
    still_off = {name: standing for name, standing in result.nodes.items() if not standing.on} if on else {}
    if output == "table":
        word = "would be" if dry_run else "is"
        if still_off and len(still_off) == len(result.nodes):
            click.echo(f"co-location {'would stay' if dry_run else 'stays'} off for {scope}")
        else:
            click.echo(f"co-location {word} {'on' if on else 'off'} for {scope}")
            if dry_run:
                _say_what_would_follow(result, on, evict)
            else:
                _say_what_follows(result, on, evict)
    else:
        structured.say(result, output)
    if dry_run:
        click.echo("note: this was a dry run: nothing was changed", err=True)
    if not result.nodes:
        click.echo("note: there is no such node now", err=True)
    for name, standing in list(still_off.items())[:MOST_NAMED]:
        click.echo(f"note: {name} still lends nothing: {standing.why}", err=True)
    for what, why in list(result.refused.items())[:MOST_NAMED]:
        click.echo(f"note: {what}: {why}", err=True)
    _say_spared(result)
    return 1 if result.refused or still_off else 0


def _agreed(planned: SwitchResult, scope: Scope) -> bool:
    """Lists the pods and asks for confirmation. Does not ask if there are no pods to evict."""
    if not planned.to_evict:
        return True
    click.echo(_to_evict(planned), err=True)
    _say_spared(planned)
    count = counted(len(planned.to_evict), "pod")
    click.echo(f"Turn co-location off for {scope} and evict {count}? [y/N] ", err=True, nl=False)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _to_evict(planned: SwitchResult) -> str:
    rows = [("POD", "NODE", "PRIORITY CLASS")]
    rows += [(pod.pod, pod.node, pod.priority_class or "-") for pod in planned.to_evict]
    return table(rows)


def _say_spared(result: SwitchResult) -> None:
    if result.spared:
        keep = "keeps" if len(result.spared) == 1 else "keep"
        click.echo(
            f"note: {counted(len(result.spared), 'pod')} in the cluster's own namespaces {keep} running"
            f" ({_some(result.spared)}); --system-namespaces evicts them too",
            err=True,
        )


def _some(pods: Sequence[str]) -> str:
    return ", ".join(pods[:MOST_NAMED]) + (" ..." if len(pods) > MOST_NAMED else "")


def _say_what_would_follow(result: SwitchResult, on: bool, evict: Evict | None) -> None:
    if on:
        return
    lending = [name for name, standing in result.nodes.items() if standing.lends and not standing.on]
    click.echo(f"{counted(len(lending), 'node')} would stop lending: new batch and mid pods would wait")
    if evict is None:
        return
    click.echo(f"{counted(len(result.to_evict), 'pod')} would be evicted")
    if result.to_evict:
        click.echo(_to_evict(result))


def _say_what_follows(result: SwitchResult, on: bool, evict: Evict | None) -> None:
    if on:
        missing = f"; {result.manager}" if result.manager else ""
        click.echo(f"the manager publishes what nodes lend when it next looks{missing}")
        return
    if not result.nodes:
        return
    lending = [name for name, standing in result.nodes.items() if standing.lends]
    gone = {*result.evicted, *result.spared, *result.refused}
    running = [pod for standing in result.nodes.values() for pod in standing.pods if pod not in gone]
    idle = len(result.nodes) - len(lending)
    click.echo(f"{counted(idle, 'node')} {'lends' if idle == 1 else 'lend'} nothing: new batch and mid pods wait")
    if evict is not None:
        click.echo(f"{counted(len(result.evicted), 'pod')} evicted, with the grace period of each")
    if running:
        run = "runs" if len(running) == 1 else "run"
        click.echo(f"{counted(len(running), 'pod')} still {run} on what was lent ({_some(running)}); see --evict")


def _print(result: SwitchResult) -> None:
    click.echo(f"co-location is {'on' if result.cluster else 'off'} in the cluster")
    for said in result.configuration:
        click.echo(f"note: {said}", err=True)
    if result.manager:
        click.echo(f"note: {result.manager}", err=True)
    if result.admission:
        click.echo(
            f"note: admission is off {result.admission}; koord colocation break-glass off puts it back", err=True
        )
    rows: list[tuple[str, ...]] = [
        ("NODE", "CO-LOCATION", "BATCH-CPU", "BATCH-MEMORY", "MID-CPU", "MID-MEMORY", "PODS", "WHY")
    ]
    for name, standing in list(result.nodes.items())[:MOST_NODES]:
        rows.append(
            (name, "on" if standing.on else "off", *_lent(standing), str(len(standing.pods)), standing.why or "-")
        )
    click.echo(table(rows, right=frozenset(range(2, 7)), colours={"on": "green", "off": "yellow"}))
    if len(result.nodes) > MOST_NODES:
        click.echo(f"and {counted(len(result.nodes) - MOST_NODES, 'more node')} (all of them with -o json)")


def _lent(standing: NodeStanding) -> list[str]:
    from koord.api.text.quantity import value

    cells = []
    for band in ("batch", "mid"):
        cpu, memory = (standing.lends.get(f"kubernetes.io/{band}-{what}") for what in ("cpu", "memory"))
        cells.append("-" if cpu is None else f"{value(cpu) / 1000:g}")
        cells.append("-" if memory is None else f"{value(memory) / GIB:.1f}Gi")
    return cells
