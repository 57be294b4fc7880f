"""`koord colocation thresholds`: shows the thresholds of nodes, and changes them after a preview."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from koord.cli import structured
from koord.cli.colocation_policy import outlook_table
from koord.cli.options import kube_options, output_option, pool_option
from koord.cli.progress import Progress
from koord.cli.tables import table

if TYPE_CHECKING:
    from koord.api.text.selector import LabelMatcher
    from koord.offline.policy_preview import PolicyPreview
    from koord.operate.live.thresholds import ThresholdResult


@click.command(
    epilog="""\b
Example: koord colocation thresholds -l pool=batch
         koord colocation thresholds -l pool=batch --set cpuReclaimThresholdPercent=70 --dry-run
         koord colocation thresholds -l pool=batch --set cpuReclaimThresholdPercent= --yes"""
)
@pool_option
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A new value; repeatable. Without VALUE, the cluster's or the pool's own value is removed.",
)
@click.option("--dry-run", is_flag=True, help="Only show what nodes would lend; nothing is written.")
@click.option("--yes", is_flag=True, help="Change without asking; needed where there is no terminal.")
@kube_options
@output_option("table", "json", "yaml")
def thresholds(
    selector: str,
    settings: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    kubeconfig: str | None,
    context: str | None,
    output: str,
) -> int:
    """Show at which usage nodes stop lending, hold batch pods back and evict them, or change that.

    Before the change it shows what each node lends now and would lend, and asks. Nothing restarts. koord sim what-if
    tries the same on recorded load.

    The exit code is 1 if the user answered no to the question.
    """
    from koord.api.text.selector import parse_labels
    from koord.manager.threshold_switch import checked
    from koord.operate.live import colocation
    from koord.operate.live import thresholds as live

    pool = parse_labels(selector) if selector else None
    if not settings:
        for given, flag in ((dry_run, "--dry-run"), (yes, "--yes")):
            if given:
                raise click.UsageError(f"{flag} goes with --set NAME=VALUE")
        _say(colocation.run(lambda client: live.look(client, pool), kubeconfig, context), output)
        return 0
    values = checked(dict(_pair(setting) for setting in settings))
    outlook, seen = _preview(values, pool, kubeconfig, context)
    if not dry_run and not yes and not sys.stdin.isatty():
        raise click.UsageError(
            "it asks before it changes something, and there is no terminal to ask on: add --yes, or --dry-run to see"
            " what would change"
        )
    if output == "table" or not (dry_run or yes):
        click.echo(outlook_table(outlook), err=output != "table")
    if dry_run:
        if output != "table":
            structured.say(outlook, output)
        click.echo("note: this was a dry run: nothing was changed", err=True)
        return 0
    if not yes and not _agreed(settings, colocation.Scope(pool=pool)):
        click.echo("nothing was changed", err=True)
        return 1
    colocation.run(lambda client: live.change(client, pool, values, seen), kubeconfig, context)
    result = colocation.run(lambda client: live.look(client, pool), kubeconfig, context)
    _say(result, output)
    if output == "table" and not outlook.nodes:
        click.echo("note: there is no matching node now", err=True)
    return 0


def _pair(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"--set {text}: must be NAME=VALUE, or NAME= to remove a value")
    value = value.strip().removesuffix("%")
    if not value:
        return name.strip(), None
    return name.strip(), int(value) if value.lstrip("-").isdecimal() and len(value) < 10 else value


def _preview(
    values: dict[str, int | None], pool: LabelMatcher | None, kubeconfig: str | None, context: str | None
) -> tuple[PolicyPreview, dict[str, str]]:
    """What nodes would lend, and the sections that it was calculated from."""
    from koord.api.kinds import NODES
    from koord.api.text.manifest import Manifests
    from koord.offline.live import snapshot
    from koord.offline.policy_preview import policy_preview
    from koord.operate.live import colocation, policies
    from koord.operate.live import thresholds as live

    data = dict(colocation.run(policies.stored, kubeconfig, context))
    with Progress() as progress:
        manifests = snapshot.lending(kubeconfig, context, lambda kind: progress.say(f"listing {kind}"))
    nodes = [
        node
        for node in Manifests(tuple(manifests), (), (), {}).of(NODES)
        if pool is None or pool.matches(node.metadata.labels)
    ]
    texts = live.changed_sections(data, values, pool, nodes)
    return policy_preview(manifests, texts, pool, time.time()), data


def _agreed(settings: tuple[str, ...], scope: object) -> bool:
    click.echo(f"Set {', '.join(settings)} for {scope}? [y/N] ", err=True, nl=False)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _say(result: ThresholdResult, output: str) -> None:
    if output != "table":
        structured.say(result, output)
        return
    rows = [("THRESHOLD", "VALUE", "OWN", "SET IN")]
    for line in result.thresholds:
        value, own = ("-" if number is None else str(number) for number in (line.value, line.own))
        rows.append((line.name, value, own, line.set_in))
    click.echo(table(rows, right=frozenset((1, 2))))
    for fault in result.configuration:
        click.echo(f"note: {fault}", err=True)
