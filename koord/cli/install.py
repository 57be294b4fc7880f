"""`koord install`: koord on any Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from koord.cli.installation import (
    changed,
    on_cluster,
    print_diff,
    print_manifests,
    say_installed,
    settings_options,
)
from koord.cli.options import kube_options, output_option, wait_option
from koord.cli.progress import Progress

if TYPE_CHECKING:
    from koord.operate.install.live.cluster import Cluster


@click.command(
    epilog="""\b
Example: koord install --dry-run > koord.yaml
         koord install --image my-registry/koord:0.1.0 --diff
         koord install --image my-registry/koord:0.1.0

\b
Nothing is written unless everything can be: missing rights, objects of others under the same names and whatever else
the API server refuses are told first, all at once. A second run changes nothing."""
)
@settings_options
@click.option("--dry-run", is_flag=True, help="Print the objects as YAML. Needs no cluster.")
@click.option("--diff", "show_diff", is_flag=True, help="Show what would change on the cluster, and change nothing.")
@click.option(
    "--write-chart",
    "chart_dir",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write a Helm chart of the same objects into DIR. Needs no cluster.",
)
@click.option(
    "--write-monitoring",
    "monitoring_dir",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write alert rules, scrape configuration and Grafana boards into DIR. Needs no cluster.",
)
@click.option("--adopt", is_flag=True, help="Take over objects of others that have koord's names.")
@wait_option("Wait until all pods are ready.", default=0.0)
@kube_options
@output_option("table", "json", "yaml")
def install(
    dry_run: bool,
    show_diff: bool,
    chart_dir: Path | None,
    monitoring_dir: Path | None,
    adopt: bool,
    wait_s: float,
    kubeconfig: str | None,
    context: str | None,
    output: str,
    **given: Any,
) -> int:
    """Install koord on a cluster, or change an installation."""
    from msgspec.structs import replace

    from koord import __version__
    from koord.operate.install.objects import desired
    from koord.operate.install.settings import Settings

    fresh = Settings(image=f"koord:{__version__}", version=__version__)
    if chart_dir is not None:
        _write_chart(chart_dir, __version__)
        return 0
    if monitoring_dir is not None:
        _write_monitoring(monitoring_dir)
        return 0
    if dry_run:
        print_manifests(desired(changed(fresh, given)))
        return 0

    async def work(cluster: Cluster) -> int:
        from koord.operate.install.live.installing import carry_out, prepare
        from koord.operate.install.live.looking import has_old_kubelets

        settings = changed(replace(fresh, old_kubelets=await has_old_kubelets(cluster)), given)
        prepared = await prepare(cluster, settings, adopt=adopt)
        if show_diff:
            await print_diff(cluster, prepared)
            return 0
        with Progress() as progress:
            await carry_out(cluster, prepared, progress.say, wait_s=wait_s)
        sentence = f"koord {settings.version} is installed in namespace {settings.namespace}"
        say_installed(prepared.plan, settings, sentence, output)
        if prepared.before is None and not settings.colocation:
            click.echo("Nothing is lent yet. Next: koord check, then koord colocation on.", err=True)
        return 0

    return on_cluster(kubeconfig, context, work)


def _write_chart(folder: Path, version: str) -> None:
    from koord.operate.install.chart import chart

    _write("--write-chart", folder, chart(version), known_by="Chart.yaml")
    click.echo(f"wrote a Helm chart to {folder}: helm install koord {folder} -n koordinator-system --create-namespace")


def _write_monitoring(folder: Path) -> None:
    from koord.operate.install.monitoring import files

    _write("--write-monitoring", folder, files(), known_by="rules.yaml")
    click.echo(f"wrote {folder}/rules.yaml, {folder}/scrape.yaml for Prometheus and {folder}/boards for Grafana")


def _write(option: str, folder: Path, files: Mapping[str, str], *, known_by: str) -> None:
    """Writes files into a new folder, or into one that an earlier run wrote, recognized by the file `known_by`."""
    if folder.exists() and any(folder.iterdir()) and not (folder / known_by).exists():
        raise click.UsageError(f"{option} {folder}: it has other files in it; name a new folder")
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
