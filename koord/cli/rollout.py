"""`koord colocation rollout`: enables a feature on some nodes first, then on more, and stops when services suffer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

import click

from koord.cli import structured
from koord.cli.groups import Group
from koord.cli.options import kube_options, output_option, pool_option
from koord.cli.tables import table

if TYPE_CHECKING:
    from koord.kube.client import Client
    from koord.operate.live.rollouts import RolloutResult, RolloutShown

T = TypeVar("T")
MOST_NAMED: Final = 5

_feature = click.argument("feature", metavar="FEATURE")


@click.group(cls=Group, epilog="Example: koord colocation rollout start lending --steps 5,25,50,100 --every 30m")
def rollout() -> None:
    """Roll out a feature gradually: lending, suppress, cpu-burst, adaptive, memory-qos.

    Nodes are chosen by a hash of their names: the nodes of a small share are part of every larger one. The manager
    goes from step to step, and stops when services become unready, when agents report that batch pods slow them down,
    or when too many pods are evicted.
    """


@rollout.command(epilog="Example: koord colocation rollout start lending -l pool=web --steps 10,50,100 --every 1h")
@_feature
@pool_option
@click.option("--steps", default="5,25,50,100", show_default=True, metavar="LIST", help="Shares of nodes, in percent.")
@click.option("--every", default="30m", show_default=True, metavar="DURATION", help="How long a step lasts.")
@click.option("--max-unready", default=0, show_default=True, metavar="N", help="Service pods that may turn unready.")
@click.option("--max-slowed", default=0, show_default=True, metavar="N", help="Services that may be slowed down.")
@click.option("--max-evictions", default=20, show_default=True, metavar="N", help="Pods that may be evicted in a step.")
@click.option(
    "--on-stop",
    type=click.Choice(["back", "hold"]),
    default="back",
    show_default=True,
    help="back: nodes where services suffer leave the roll-out. hold: all nodes stay as they are.",
)
@click.option("--dry-run", is_flag=True, help="Only say which nodes would be first; nothing is written.")
@kube_options
@output_option("table", "json", "yaml")
def start(
    feature: str,
    selector: str,
    steps: str,
    every: str,
    max_unready: int,
    max_slowed: int,
    max_evictions: int,
    on_stop: str,
    dry_run: bool,
    kubeconfig: str | None,
    context: str | None,
    output: str,
) -> int:
    """Start: the first share of nodes gets the feature at the manager's next round."""
    from koord.api.machinery.faults import BadInput
    from koord.api.text.duration import parse_ns
    from koord.api.text.selector import parse_labels
    from koord.manager.rollout.features import feature_of
    from koord.manager.rollout.state import Limits, Rollout, parse_steps
    from koord.operate.live import rollouts as live

    for given, flag in (
        (max_unready, "--max-unready"),
        (max_slowed, "--max-slowed"),
        (max_evictions, "--max-evictions"),
    ):
        if given < 0:
            raise click.UsageError(f"{flag} must be 0 or more, not {given}")
    try:
        every_s = parse_ns(every) / 1e9
    except BadInput as error:
        raise click.UsageError(f"--every: {error}") from None
    if every_s <= 0:
        raise click.UsageError(f"--every must be longer than 0, as in 30m, not {every}")
    if selector:
        parse_labels(selector)
    wanted = Rollout(
        selector=selector,
        steps=parse_steps(steps),
        every_seconds=every_s,
        limits=Limits(max_unready, max_slowed, max_evictions),
        on_stop="back" if on_stop == "back" else "hold",
    )
    feature_chosen = feature_of(feature)
    result = _run(lambda client: live.start(client, feature_chosen, wanted, dry_run=dry_run), kubeconfig, context)
    _print(result, output)
    if dry_run:
        click.echo("note: this was a dry run: nothing was changed", err=True)
    return 0


@rollout.command(epilog="Example: koord colocation rollout status -o json")
@kube_options
@output_option("table", "json", "yaml")
def status(kubeconfig: str | None, context: str | None, output: str) -> int:
    """Show the progress of roll-outs, and why one stopped."""
    from koord.operate.live import rollouts as live

    _print(_run(live.look, kubeconfig, context), output)
    return 0


@rollout.command(epilog="Example: koord colocation rollout stop lending --reason 'a release is on its way'")
@_feature
@click.option("--reason", default="", metavar="TEXT", help="Why, for those who look at it.")
@kube_options
def stop(feature: str, reason: str, kubeconfig: str | None, context: str | None) -> int:
    """Stop growing. Nodes that have the feature keep it."""
    from koord.manager.rollout.features import feature_of
    from koord.operate.live import rollouts as live

    feature_chosen = feature_of(feature)
    _print(_run(lambda client: live.stop(client, feature_chosen, reason), kubeconfig, context), "table")
    return 0


@rollout.command(epilog="Example: koord colocation rollout resume lending")
@_feature
@click.option("--again", is_flag=True, help="Also on nodes that were taken back.")
@kube_options
def resume(feature: str, again: bool, kubeconfig: str | None, context: str | None) -> int:
    """Continue after a stop. The interrupted step starts again."""
    from koord.manager.rollout.features import feature_of
    from koord.operate.live import rollouts as live

    feature_chosen = feature_of(feature)
    _print(_run(lambda client: live.resume(client, feature_chosen, again=again), kubeconfig, context), "table")
    return 0


@rollout.command(epilog="Example: koord colocation rollout undo lending")
@_feature
@kube_options
def undo(feature: str, kubeconfig: str | None, context: str | None) -> int:
    """Switch the feature off on all nodes, as before the roll-out. Works with the manager down.

    The exit code is 1 if a node could not be written.
    """
    return _end(feature, False, False, kubeconfig, context)


@rollout.command(epilog="Example: koord colocation rollout finish lending")
@_feature
@click.option("--force", is_flag=True, help="Also where the roll-out is not complete.")
@kube_options
def finish(feature: str, force: bool, kubeconfig: str | None, context: str | None) -> int:
    """Switch the feature on for the whole cluster, and remove the roll-out's labels and entries."""
    return _end(feature, True, force, kubeconfig, context)


def _end(feature: str, on: bool, force: bool, kubeconfig: str | None, context: str | None) -> int:
    from koord.manager.rollout.features import feature_of
    from koord.operate.live import rollouts as live

    feature_chosen = feature_of(feature)
    refused = _run(lambda client: live.end(client, feature_chosen, on=on, force=force), kubeconfig, context)
    if refused is None:
        click.echo(f"there is no roll-out of {feature}: nothing was changed")
        return 0
    click.echo(f"{feature} is {'on for the whole cluster' if on else 'off on all nodes, as before'}")
    for what, why in list(refused.items())[:MOST_NAMED]:
        click.echo(f"note: {what}: {why}", err=True)
    return 1 if refused else 0


def _run(work: Callable[[Client], Awaitable[T]], kubeconfig: str | None, context: str | None) -> T:
    from koord.kube.client import Client

    async def go() -> T:
        async with Client.from_config(kubeconfig, context) as client:
            return await work(client)

    return asyncio.run(go())


def _print(result: RolloutResult, output: str) -> None:
    if output != "table":
        structured.say(result, output)
        return
    for line in result.faults:
        click.echo(f"note: {line}", err=True)
    if not result.rollouts:
        click.echo("there is no roll-out")
        return
    click.echo(rollout_table(result.rollouts))
    if result.manager:
        click.echo(f"note: {result.manager}: no roll-out goes on", err=True)


def rollout_table(shown: tuple[RolloutShown, ...]) -> str:
    rows = [("ROLL-OUT", "STATE", "STEP", "NODES", "UNREADY", "SLOWED", "EVICTED", "WHY")]
    for shown_rollout in shown:
        steps = ",".join(map(str, shown_rollout.steps))
        counts = (str(len(shown_rollout.unready)), str(len(shown_rollout.slowed)), str(shown_rollout.evictions))
        where = f"{len(shown_rollout.nodes)} of {shown_rollout.pool}"
        rows.append(
            (
                shown_rollout.feature,
                shown_rollout.state,
                f"{shown_rollout.percent}% of {steps}",
                where,
                *counts,
                shown_rollout.reason or "-",
            )
        )
    return table(rows, colours={"stopped": "red", "complete": "green"})
