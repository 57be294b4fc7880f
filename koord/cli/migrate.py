"""`koord migrate`: from Koordinator's components to koord's and back, one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from koord.cli import structured
from koord.cli.installation import changed, on_cluster
from koord.cli.options import kube_options, output_option, wait_option
from koord.cli.progress import Progress
from koord.cli.tables import table, terminal_columns

if TYPE_CHECKING:
    from koord.operate.install.live.cluster import Cluster
    from koord.operate.install.live.migrating import MigrationState
    from koord.operate.install.migration import Side, Standing
    from koord.operate.install.settings import Settings

COMPONENTS = ("manager", "scheduler", "descheduler", "agent")


@click.command(
    epilog="""\b
Example: koord migrate
         koord migrate scheduler --image my-registry/koord:0.1.0 --dry-run
         koord migrate scheduler --image my-registry/koord:0.1.0
         koord migrate scheduler --back

\b
Without a COMPONENT it changes nothing: it says whose each component is, and what stands in the way. Koordinator's
workloads are paused, never deleted; its configuration, kinds and objects stay. Whatever stops it on the way, the same
command goes on from there, and --back leads back."""
)
@click.argument("component", required=False, type=click.Choice(COMPONENTS))
@click.option("--back", is_flag=True, help="Give the component back to Koordinator.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--image", metavar="IMAGE", help="Of koord; koord:VERSION, or the one that is installed, unless given.")
@click.option("-n", "--namespace", metavar="NAME", help="Of koord's workloads; koord-system unless given.")
@click.option("--replicas", type=int, metavar="N", help="Of koord's Deployments; 2 unless given.")
@wait_option("How long pods may take in each step to be ready, or gone; with 0, nothing is waited for or restored.")
@kube_options
@output_option("table", "json", "yaml")
def migrate(
    component: str | None,
    back: bool,
    dry_run: bool,
    wait_s: float,
    kubeconfig: str | None,
    context: str | None,
    output: str,
    **given: Any,
) -> int:
    """Show which project runs each component of a cluster, or move one from Koordinator to koord."""
    if component is None and back:
        raise click.UsageError(f"--back needs a COMPONENT: {', '.join(COMPONENTS)}")

    async def work(cluster: Cluster) -> int:
        from koord.operate.install.live.migrating import look

        looked = await look(cluster, given["namespace"] or _namespace())
        settings = _settings(looked, given)
        if component is None:
            return await _say(cluster, looked, settings, output)
        return await _move(cluster, looked, settings, component, back=back, dry_run=dry_run, wait_s=wait_s)

    return on_cluster(kubeconfig, context, work)


def _namespace() -> str:
    from koord.operate.install.migration import NAMESPACE

    return NAMESPACE


def _settings(looked: MigrationState, given: dict[str, Any]) -> Settings:
    from koord import __version__
    from koord.operate.install.settings import Settings

    fresh = Settings(image=f"koord:{__version__}", version=__version__, namespace=_namespace(), components=())
    return changed(looked.record.settings if looked.record is not None else fresh, given)


async def _move(
    cluster: Cluster,
    looked: MigrationState,
    settings: Settings,
    component: str,
    *,
    back: bool,
    dry_run: bool,
    wait_s: float,
) -> int:
    from koord.operate.install.live.migrating import migrate as carry_out
    from koord.operate.install.live.migrating import prepare_migration
    from koord.operate.install.migration import of_component

    migration = await prepare_migration(cluster, looked, of_component(component), settings, back=back)
    if dry_run:
        for number, step in enumerate(migration.sentences(), 1):
            click.echo(f"{number}. {step}")
        return 0
    with Progress() as progress:
        await carry_out(cluster, migration, progress.say, wait_s=wait_s)
    click.echo(f"the {component} is {'Koordinator' if back else 'koord'}'s")
    if back and not migration.settings.components:
        click.echo("koord has no component left here: koord uninstall takes the rest away", err=True)
    return 0


async def _say(cluster: Cluster, looked: MigrationState, settings: Settings, output: str) -> int:
    from koord.operate.install.live.migrating import obstacles
    from koord.operate.install.migration import conflicts

    problems = [*conflicts(looked.standings), *await obstacles(cluster, looked, settings)]
    if output != "table":
        listed = [_record(standing) for standing in looked.standings]
        structured.say({"components": listed, "problems": problems}, output)
        return 1 if problems else 0
    rows = [("COMPONENT", "KOORDINATOR'S", "KOORD'S", "ACTS", "LEASE HELD BY")]
    for standing in looked.standings:
        rows.append(
            (
                standing.theirs.component.name,
                _side(standing.there),
                _side(standing.here),
                standing.acts,
                standing.holder or "-",
            )
        )
    click.echo(table(rows, most=terminal_columns()))
    for problem in problems:
        click.echo(f"problem: {problem}", err=True)
    if not problems and any(standing.there is not None for standing in looked.standings):
        click.echo("\nNothing stands in the way. Next: koord migrate COMPONENT --dry-run")
    return 1 if problems else 0


def _side(side: Side | None) -> str:
    if side is None:
        return "none"
    pods = f"{side.pods} pod{'' if side.pods == 1 else 's'}"
    return f"paused, {pods}" if side.paused else pods


def _record(standing: Standing) -> dict[str, Any]:
    def side(of: Side | None) -> dict[str, Any] | None:
        return None if of is None else {"namespace": of.key.namespace, "paused": of.paused, "pods": of.pods}

    return {
        "component": standing.theirs.component.name,
        "koordinator": side(standing.there),
        "koord": side(standing.here),
        "acts": standing.acts,
        "holder": standing.holder,
    }
