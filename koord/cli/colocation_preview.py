"""`koord colocation preview`: what a feature would do on the current cluster, without changing anything."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import click

from koord.api.text.counted import counted
from koord.cli import structured
from koord.cli.options import kube_options, output_option, pool_option
from koord.cli.progress import Progress
from koord.cli.tables import table

if TYPE_CHECKING:
    from koord.offline.rollout_preview import FeaturePreview

MOST_NODES: Final = 20
MOST_PODS: Final = 10
GIB: Final = 1 << 30
DESCHEDULING: Final = "descheduling"


@click.command(epilog="Example: koord colocation preview lending -l pool=web --percent 10")
@click.argument("feature", required=False, metavar="[FEATURE]")
@pool_option
@click.option(
    "--percent",
    type=click.IntRange(1, 100),
    default=100,
    show_default=True,
    help="Only the share of nodes that a roll-out would begin with.",
)
@kube_options
@output_option("table", "json", "yaml")
@click.pass_context
def preview(
    ctx: click.Context,
    feature: str | None,
    selector: str,
    percent: int,
    kubeconfig: str | None,
    context: str | None,
    output: str,
) -> int:
    """Show what a feature would lend, hold back, evict and move, from the nodes' current reports. Changes
    nothing.

    Without FEATURE: each of lending, suppress, cpu-burst and memory-qos by itself. With descheduling: which pods the
    descheduler would move with its default configuration; koord deschedule --live accepts another one.
    """
    if feature == DESCHEDULING:
        return _moves(ctx, selector, percent, kubeconfig, context, output)
    from koord.api.text.selector import parse_labels
    from koord.manager.rollout.features import FEATURES, feature_of
    from koord.offline.live import snapshot
    from koord.offline.rollout_preview import feature_preview

    wanted = (feature_of(feature),) if feature else FEATURES
    matcher = parse_labels(selector) if selector else None
    with Progress() as progress:
        found = snapshot.live(kubeconfig, context, lambda kind: progress.say(f"listing {kind}"), configuration=True)
        now_s = time.time()
        told = [feature_preview(found, each, matcher, percent, now_s) for each in wanted]
    if output == "table":
        for i, each in enumerate(told):
            click.echo("\n" * bool(i) + _tables(each))
    else:
        structured.say(told, output)
    click.echo("note: this was a preview: nothing was changed", err=True)
    return 0


def _moves(
    ctx: click.Context, selector: str, percent: int, kubeconfig: str | None, context: str | None, output: str
) -> int:
    from koord.cli.deschedule import deschedule

    if selector or percent != 100:
        raise click.UsageError(f"-l and --percent have no effect on {DESCHEDULING}: it moves pods between all nodes")
    nothing = {"paths": (), "config": None, "plugins": (), "namespace": "default", "now": None}
    code = ctx.invoke(
        deschedule, **nothing, dry_run=True, live=True, kubeconfig=kubeconfig, context=context, output=output
    )
    return code if isinstance(code, int) else 0


def _tables(told: FeaturePreview) -> str:
    lines = [f"{told.feature}: {told.about}"]
    if told.already:
        lines.append(
            f"on already: {', '.join(told.already[:MOST_PODS])}{' ...' if len(told.already) > MOST_PODS else ''}"
        )
    if not told.nodes:
        lines.append("no node would change")
    else:
        lines.append(_table(told))
        if len(told.nodes) > MOST_NODES:
            lines.append(f"and {len(told.nodes) - MOST_NODES} more nodes (all of them with -o json)")
        cpus, gib = told.batch_cpu_milli / 1000, told.batch_memory_bytes / GIB
        lent = f", {cpus:g} CPUs and {gib:.1f}Gi lent" if told.lends else ""
        evicted = f", {counted(len(told.evictions), 'pod')} evicted" if told.lends or told.holds_back else ""
        lines.append(f"in all: {counted(len(told.nodes), 'node')}{lent}{evicted}")
    lines += [f"  {each.pod} on {each.node} by {each.by}: {each.why}" for each in told.evictions[:MOST_PODS]]
    lines += [f"note: {note}" for note in told.notes]
    return "\n".join(lines)


def _table(told: FeaturePreview) -> str:
    """Each feature with the columns that it has figures for."""
    nodes = dict(list(told.nodes.items())[:MOST_NODES])
    columns: list[tuple[str, list[str]]] = [("NODE", list(nodes))]
    if told.lends:
        lent = [
            f"{each.batch_cpu_milli / 1000:g} CPUs, {each.batch_memory_bytes / GIB:.1f}Gi" for each in nodes.values()
        ]
        columns.append(("WOULD LEND", lent))
    if told.holds_back:
        held = [f"{each.held_back_milli / 1000:g} CPUs" if each.held_back_milli else "-" for each in nodes.values()]
        columns.append(("HELD BACK", held))
    columns.append(("SERVICES", [str(each.services) for each in nodes.values()]))
    columns.append(("BATCH PODS", [str(each.batch_pods) for each in nodes.values()]))
    if told.lends:
        columns.append(("WHY NOT", [each.why or "-" for each in nodes.values()]))
    return table([tuple(head for head, _ in columns), *zip(*(cells for _, cells in columns), strict=True)])
