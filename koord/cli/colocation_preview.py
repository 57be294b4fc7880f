"""`koord colocation preview`: what a feature would do on the current cluster, without changing anything."""

from __future__ import annotations

import time
from pathlib import Path
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
ON_HISTORY: Final = {"lending": ("none", "usage"), "adaptive": ("usage", "adaptive")}
"""Features that can be tried on a recording: the policies of the simulator before and after."""


@click.command(
    epilog="""\b
Example: koord colocation preview lending -l pool=web --percent 10
         koord colocation preview adaptive --recording history"""
)
@click.argument("feature", required=False, metavar="[FEATURE]")
@pool_option
@click.option(
    "--percent",
    type=click.IntRange(1, 100),
    default=100,
    show_default=True,
    help="Only the share of nodes that a roll-out would begin with.",
)
@click.option(
    "--recording",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Try lending or adaptive on what koord sim record has recorded: gain, risk, and evictions over time.",
)
@kube_options
@output_option("table", "json", "yaml")
@click.pass_context
def preview(
    ctx: click.Context,
    feature: str | None,
    selector: str,
    percent: int,
    recording: Path | None,
    kubeconfig: str | None,
    context: str | None,
    output: str,
) -> int:
    """Show what a feature would lend, hold back, evict and move, from the nodes' current reports. Changes
    nothing.

    Without FEATURE: each of lending, suppress, cpu-burst, adaptive and memory-qos by itself. With descheduling: which
    pods the descheduler would move with its default configuration; koord deschedule --live accepts another one.
    """
    if recording is not None:
        if selector or percent != 100 or kubeconfig or context:
            raise click.UsageError(
                "--recording needs no cluster: -l, --percent, --kubeconfig and --context do not go with it"
            )
        return _on_history(ctx, feature, recording, output)
    if feature == DESCHEDULING:
        return _moves(ctx, selector, percent, kubeconfig, context, output)
    from koord.api.text.selector import parse_labels
    from koord.manager.rollout.features import FEATURES, feature_of
    from koord.offline.live import snapshot
    from koord.offline.rollout_preview import feature_preview

    wanted = (feature_of(feature),) if feature else FEATURES
    matcher = parse_labels(selector) if selector else None
    with Progress() as progress:
        manifests = snapshot.lending(kubeconfig, context, lambda kind: progress.say(f"listing {kind}"))
        now_s = time.time()
        previews = [feature_preview(manifests, chosen, matcher, percent, now_s) for chosen in wanted]
    if output == "table":
        for i, feature_previewed in enumerate(previews):
            click.echo("\n" * bool(i) + _tables(feature_previewed))
    else:
        structured.say(previews, output)
    click.echo("note: this was a preview: nothing was changed", err=True)
    return 0


def _on_history(ctx: click.Context, feature: str | None, recording: Path, output: str) -> int:
    """By the code of `koord sim what-if`."""
    from koord.cli.sim_what_if import what_if

    if feature not in ON_HISTORY:
        raise click.UsageError(f"--recording goes with {' or '.join(ON_HISTORY)}, not with {feature or 'all features'}")
    before, after = ON_HISTORY[feature]
    click.echo(f"note: policy {after} instead of {before}; koord sim what-if tries other settings", err=True)
    code = ctx.invoke(what_if, recording=recording, policy=before, settings=(f"policy={after}",), output=output)
    return code if isinstance(code, int) else 0


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


def _tables(previewed: FeaturePreview) -> str:
    lines = [f"{previewed.feature}: {previewed.about}"]
    if previewed.already:
        more = " ..." if len(previewed.already) > MOST_PODS else ""
        lines.append(f"on already: {', '.join(previewed.already[:MOST_PODS])}{more}")
    if not previewed.nodes:
        lines.append("no node would change")
    else:
        lines.append(_table(previewed))
        if len(previewed.nodes) > MOST_NODES:
            lines.append(f"and {len(previewed.nodes) - MOST_NODES} more nodes (all of them with -o json)")
        cpus, gib = previewed.batch_cpu_milli / 1000, previewed.batch_memory_bytes / GIB
        lent = f", {cpus:g} CPUs and {gib:.1f}Gi lent" if previewed.lends else ""
        evicted = (
            f", {counted(len(previewed.evictions), 'pod')} evicted" if previewed.lends or previewed.holds_back else ""
        )
        lines.append(f"in all: {counted(len(previewed.nodes), 'node')}{lent}{evicted}")
    lines += [
        f"  {eviction.pod} on {eviction.node} by {eviction.by}: {eviction.why}"
        for eviction in previewed.evictions[:MOST_PODS]
    ]
    lines += [f"note: {note}" for note in previewed.notes]
    return "\n".join(lines)


def _table(previewed: FeaturePreview) -> str:
    """Each feature with the columns that it has figures for."""
    nodes = dict(list(previewed.nodes.items())[:MOST_NODES])
    columns: list[tuple[str, list[str]]] = [("NODE", list(nodes))]
    if previewed.lends:
        lent = [
            f"{outlook.batch_cpu_milli / 1000:g} CPUs, {outlook.batch_memory_bytes / GIB:.1f}Gi"
            for outlook in nodes.values()
        ]
        columns.append(("WOULD LEND", lent))
    if previewed.holds_back:
        held = [
            f"{outlook.held_back_milli / 1000:g} CPUs" if outlook.held_back_milli else "-" for outlook in nodes.values()
        ]
        columns.append(("HELD BACK", held))
    columns.append(("SERVICES", [str(outlook.services) for outlook in nodes.values()]))
    columns.append(("BATCH PODS", [str(outlook.batch_pods) for outlook in nodes.values()]))
    if previewed.lends:
        columns.append(("WHY NOT", [outlook.why or "-" for outlook in nodes.values()]))
    return table([tuple(head for head, _ in columns), *zip(*(cells for _, cells in columns), strict=True)])
