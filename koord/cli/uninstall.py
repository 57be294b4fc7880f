"""`koord uninstall`: takes koord off a cluster, and leaves nothing of it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from koord.cli.installation import on_cluster
from koord.cli.options import Number, kube_options
from koord.cli.progress import Progress

if TYPE_CHECKING:
    from koord.install.live.cluster import Cluster
    from koord.install.live.uninstalling import Leaving, Taken


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
def uninstall(
    namespace: str,
    dry_run: bool,
    delete_crds: bool,
    restore_s: float,
    yes: bool,
    kubeconfig: str | None,
    context: str | None,
) -> int:
    """Take koord off a cluster without a trace."""

    async def work(cluster: Cluster) -> int:
        from koord.install.live.uninstalling import look, take_away

        leaving = await look(cluster, namespace, delete_crds=delete_crds)
        _say(leaving, delete_crds)
        if dry_run:
            return 0
        if not yes:
            if not sys.stdin.isatty():
                raise click.UsageError("nobody is there to ask; say --yes, or --dry-run to only look")
            click.confirm("Take it away?", abort=True, err=True)
        with Progress() as progress:
            taken = await take_away(cluster, leaving, progress.say, restore_s=restore_s)
        return _told(taken)

    return on_cluster(kubeconfig, context, work)


def _say(leaving: Leaving, delete_crds: bool) -> None:
    settings, plan = leaving.record.settings, leaving.removal
    going = (*plan.early, *plan.late)
    click.echo(f"koord {settings.version} in namespace {settings.namespace}: {len(going)} objects go:")
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
        click.echo(f"{len(leaving.waiting)} pods wait for koord-scheduler, and nobody will place them: {shown}")


def _told(taken: Taken) -> int:
    reasons: dict[str, list[str]] = {}
    for each in taken.kept:
        reasons.setdefault(each.why, []).append(str(each.key))
    for why, kept in reasons.items():
        click.echo(f"kept, since {why}:\n  " + "\n  ".join(kept))
    click.echo(f"deleted {len(taken.deleted)} objects; {len(taken.nodes)} nodes are as before")
    if taken.cgroups_left:
        click.echo("cgroups of nodes are as agents left them; 'koord agent restore' on a node restores them")
    for problem in taken.problems:
        click.echo(f"problem: {problem}", err=True)
    return 1 if taken.problems else 0
