"""`koord deschedule`: which pods the descheduler would move, why, in which order, and where they would go."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from koord.api.text.counted import counted
from koord.cli import structured
from koord.cli.inputs import configuration_of, moment, note, read_manifests, say_of, scheduler_configuration
from koord.cli.options import (
    config_option,
    descheduler_plugin_option,
    kube_options,
    manifest_option,
    offline_options,
    output_option,
)
from koord.cli.progress import Progress
from koord.cli.tables import table

if TYPE_CHECKING:
    from koord.offline.deschedule import Descheduled, NodeAssessment

BAR: Final = 12
MOST_MOVES: Final = 40
MOST_NODES: Final = 20
"""Rows shown for a large cluster, unless the user asks for more."""
_COLOURS: Final = {"high": "red", "prodHigh": "red", "low": "green", "bothLow": "green", "prodLow": "green"}
_SHOWN: Final = ("cpu", "memory")


@click.command(epilog="Example: koord deschedule --dry-run -f cluster.yaml --config descheduler.yaml")
@manifest_option
@config_option("descheduler", "DeschedulerConfiguration")
@descheduler_plugin_option
@click.option("--dry-run", is_flag=True, help="Only say what would move. The descheduler itself moves pods.")
@offline_options
@click.option("--live", is_flag=True, help="Look at the cluster; the manifests are changes to it.")
@kube_options
@output_option("table", "wide", "json", "yaml", "name")
def deschedule(
    paths: tuple[str, ...],
    config: Path | None,
    plugins: tuple[str, ...],
    dry_run: bool,
    namespace: str,
    now: str | None,
    live: bool,
    kubeconfig: str | None,
    context: str | None,
    output: str,
) -> int:
    """Say which pods the descheduler would move, why, in which order, and where they would go.

    Takes Nodes, NodeMetrics, Pods and their workloads, and the scheduler's configuration; a pod whose workload is not
    there is left alone. One round is simulated as if the load had been constant for long. Each move is tried with the
    scheduler's own rules, so that two pods are not promised the same room. Nothing is changed.

    With --live and without a configuration, the settings are those of the descheduler that runs on the cluster.
    """
    from koord.api.configuration.descheduler_config import SHIPPED, DeschedulerConfiguration
    from koord.api.configuration.scheduler_config import SHIPPED as SHIPPED_SCHEDULER
    from koord.api.kinds import POD_MIGRATION_JOBS
    from koord.descheduler.compiled import compiled
    from koord.descheduler.own_plugins import load
    from koord.descheduler.workloads import KINDS as WORKLOADS
    from koord.offline.deschedule import deschedule as decide
    from koord.offline.order import require_no_fight
    from koord.scheduler.profiles import profiles_of

    if not dry_run and not live:
        raise click.UsageError("say --dry-run: what moves pods is the descheduler itself")
    if not paths and not live:
        raise click.UsageError("give manifests with -f/--filename, or --live, or both")
    if (kubeconfig or context) and not live:
        raise click.UsageError("--kubeconfig and --context go with --live")
    now_s = moment(now)
    with Progress() as progress:
        manifests = read_manifests(paths, namespace=namespace, progress=progress)
        if live:
            from koord.offline.live import snapshot

            current = snapshot.live(
                kubeconfig, context, lambda kind: progress.say(f"listing {kind}"), more=(*WORKLOADS, POD_MIGRATION_JOBS)
            )
            manifests, now_s = snapshot.merged(manifests, current), time.time() if now is None else now_s
        manifests.require_valid()
        scales = snapshot.scales(kubeconfig, context, manifests) if live else {}
        given = configuration_of(DeschedulerConfiguration, "DeschedulerConfiguration", config, manifests)
        scheduler = scheduler_configuration(None, manifests) or SHIPPED_SCHEDULER
        warnings = require_no_fight(manifests, given, scheduler) if given is not None else ()
        running = None
        if live and given is None:
            running = snapshot.descheduler_settings(kubeconfig, context, time.time(), note)
        ready = compiled(given or running or SHIPPED, [load(plugin_path) for plugin_path in plugins])
        progress.say("looking at nodes and pods")
        decided = decide(manifests, ready, profiles_of(scheduler), now_s=now_s, scales=scales, has_all_pods=live)
    if running is not None:
        click.echo("note: with the settings of the descheduler that runs on the cluster", err=True)
    elif given is None:
        nobody = "no descheduler of koord's runs on the cluster, and " if live else ""
        click.echo(
            f"note: {nobody}no DeschedulerConfiguration is given: nodes above cpu 75% or memory 80% count as hot",
            err=True,
        )
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    say_of(manifests, decided.ignored)
    _print(decided, output)
    return 0


def _print(decided: Descheduled, output: str) -> None:
    if output in ("json", "yaml"):
        structured.say(decided, output)
        return
    if output == "name":
        for migration in decided.migrations:
            if migration.allowed:
                click.echo(f"pod/{migration.pod}")
        return
    if decided.skipped:
        click.echo(decided.skipped)
    if decided.migrations:
        rows = [
            (
                str(migration.order),
                migration.pod,
                migration.from_,
                migration.to or "-",
                "yes" if migration.allowed else "waits",
                migration.why or migration.reason,
            )
            for migration in decided.migrations
        ]
        most = len(rows) if output == "wide" else MOST_MOVES
        click.echo(table([("ORDER", "POD", "FROM", "TO", "NOW", "WHY"), *rows[:most]], right=frozenset({0})))
        if len(rows) > most:
            click.echo(f"and {len(rows) - most} more moves (all of them with -o wide)")
        click.echo()
    changed = {
        name: seen
        for name, seen in decided.nodes.items()
        if seen.usage != seen.after or seen.requested != seen.requested_after
    }
    shown = decided.nodes if output == "wide" else dict(islice(changed.items(), MOST_NODES))
    if shown:
        click.echo(table(list(_node_rows(shown)), colours=_COLOURS))
        if len(shown) < len(changed):
            click.echo(f"and {len(changed) - len(shown)} more nodes that would change (all nodes with -o wide)")
        click.echo()
    for name in decided.cordons:
        click.echo(f"{name} would be cordoned before its pods move")
    if decided.deletion_costs:
        costs = sorted(decided.deletion_costs.items(), key=lambda cost: (cost[1], cost[0]))
        click.echo(table([("POD", "DELETION COST"), *((pod, str(cost)) for pod, cost in costs)], right=frozenset({1})))
        click.echo()
    allowed = sum(migration.allowed for migration in decided.migrations)
    waiting = len(decided.migrations) - allowed
    hot = sum(seen.class_ in ("high", "prodHigh") for seen in decided.nodes.values())
    nodes, moves = counted(len(decided.nodes), "node"), counted(allowed, "pod")
    click.echo(f"{nodes}, {hot} hot; {moves} would move now, {waiting} must wait")


def _node_rows(nodes: Mapping[str, NodeAssessment]) -> Iterator[tuple[str, ...]]:
    yield ("NODE", "CLASS", *(heading for name in _SHOWN for heading in (f"{name.upper()} NOW", "THEN", "")))
    for name, seen in nodes.items():
        cells = []
        # Measured usage says more than requests, where it is available.
        now, then = (seen.usage, seen.after) if seen.usage else (seen.requested, seen.requested_after)
        for resource in _SHOWN:
            before, after = _percent(seen, now, resource), _percent(seen, then, resource)
            cells += [f"{before:.0f}%", f"{after:.0f}%", _bar(before, after)]
        yield (name, seen.class_ if seen.usage else "by requests", *cells)


def _percent(seen: NodeAssessment, usage: Mapping[str, str], resource: str) -> float:
    from koord.api.text.quantity import amount

    has = amount(resource, seen.allocatable.get(resource, "0"))
    return 100.0 * amount(resource, usage.get(resource, "0")) / has if has else 0.0


def _bar(before: float, after: float) -> str:
    """A bar: # is the part that stays, - and + the part that a move takes or adds."""
    stays = round(min(before, after) / 100 * BAR)
    most = min(BAR, round(max(before, after) / 100 * BAR))
    changing = "-" if after < before else "+"
    return "[" + "#" * min(stays, BAR) + changing * max(0, most - stays) + "." * (BAR - most) + "]"
