"""`koord uninstall`: removes koord from a cluster completely."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from koord.api.text.counted import counted
from koord.cli import structured
from koord.cli.installation import on_cluster
from koord.cli.options import Number, kube_options, output_option
from koord.cli.progress import Progress

if TYPE_CHECKING:
    from koord.operate.install.live.cluster import Cluster
    from koord.operate.install.live.uninstalling import UninstallPlan, UninstallReport


@click.command(
    epilog="""\b
Example: koord uninstall --dry-run
         koord uninstall --yes

\b
In this order: rights, webhooks and workloads; agents put back the cgroups of their nodes; batch and mid resources,
labels and annotations that koord wrote are taken off Nodes; then the rest. What stays is listed with the reason."""
)
@click.option("-n", "--namespace", default="koordinator-system", show_default=True, help="Where the workloads are.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--delete-crds", is_flag=True, help="Also delete koord's kinds, and with them all their objects.")
@click.option(
    "--restore-timeout",
    "restore_s",
    type=Number(min=0),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="How long agents may take to put back the cgroups of all nodes; 0 leaves the cgroups.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@kube_options
@output_option("table", "json", "yaml")
def uninstall(
    namespace: str,
    dry_run: bool,
    delete_crds: bool,
    restore_s: float,
    yes: bool,
    kubeconfig: str | None,
    context: str | None,
    output: str,
) -> int:
    """Remove koord from a cluster without a trace."""

    async def work(cluster: Cluster) -> int:
        from koord.operate.install.live.uninstalling import look, take_away

        leaving = await look(cluster, namespace, delete_crds=delete_crds)
        if output == "table":
            _say(leaving, delete_crds)
        if dry_run:
            if output != "table":
                structured.say(_would_go(leaving), output)
            return 0
        if not yes:
            if not sys.stdin.isatty():
                raise click.UsageError(
                    "uninstall asks before it deletes, and there is no terminal to ask on: add --yes to delete without "
                    "asking, or --dry-run to list the objects"
                )
            click.confirm("Take it away?", abort=True, err=True)
        with Progress() as progress:
            taken = await take_away(cluster, leaving, progress.say, restore_s=restore_s)
        if output == "table":
            return _told(taken)
        structured.say(_outcome(taken), output)
        return 1 if taken.problems else 0

    return on_cluster(kubeconfig, context, work)


def _would_go(leaving: UninstallPlan) -> dict[str, object]:
    settings, plan = leaving.record.settings, leaving.removal
    return {
        "version": settings.version,
        "namespace": settings.namespace,
        "delete": [str(key) for key in (*plan.early, *plan.late)],
        "customObjects": leaving.custom,
        "pausedComponents": list(leaving.paused),
        "waitingPods": list(leaving.waiting),
    }


def _outcome(taken: UninstallReport) -> dict[str, object]:
    return {
        "deleted": [str(key) for key in taken.deleted],
        "kept": [{"object": str(kept_object.key), "why": kept_object.why} for kept_object in taken.kept],
        "nodes": {name: list(removed) for name, removed in taken.nodes.items()},
        "cgroupsLeft": taken.cgroups_left,
        "problems": taken.problems,
    }


def _say(leaving: UninstallPlan, delete_crds: bool) -> None:
    settings, plan = leaving.record.settings, leaving.removal
    going = (*plan.early, *plan.late)
    click.echo(
        f"koord {settings.version} in namespace {settings.namespace}: {counted(len(going), 'object')} to delete:"
    )
    for key in going:
        click.echo(f"  {key}")
    if leaving.custom:
        listed = ", ".join(f"{number} {name}" for name, number in sorted(leaving.custom.items()))
        click.echo(f"{'LOST with their kinds' if delete_crds else 'kept, but for reports of nodes'}: {listed}")
    if leaving.paused:
        shown = ", ".join(leaving.paused)
        click.echo(f"Koordinator's {shown} stay paused: koord migrate COMPONENT --back first lets them run again")
    if leaving.waiting:
        shown = ", ".join(leaving.waiting[:5])
        click.echo(f"waiting for koord-scheduler, which will be gone: {counted(len(leaving.waiting), 'pod')}: {shown}")


def _told(taken: UninstallReport) -> int:
    reasons: dict[str, list[str]] = {}
    for kept_object in taken.kept:
        reasons.setdefault(kept_object.why, []).append(str(kept_object.key))
    for why, kept in reasons.items():
        click.echo(f"kept, since {why}:\n  " + "\n  ".join(kept))
    click.echo(f"deleted {counted(len(taken.deleted), 'object')}; restored {counted(len(taken.nodes), 'node')}")
    if taken.cgroups_left:
        click.echo("cgroups of nodes are as agents left them; 'koord agent restore' on a node restores them")
    for problem in taken.problems:
        click.echo(f"problem: {problem}", err=True)
    return 1 if taken.problems else 0
