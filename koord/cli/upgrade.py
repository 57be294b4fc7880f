"""`koord upgrade`: brings an installation to this version of koord, and keeps its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from koord.cli.installation import changed, on_cluster, print_diff, say_installed, settings_options
from koord.cli.options import kube_options, output_option, wait_option
from koord.cli.progress import Progress

if TYPE_CHECKING:
    from koord.operate.install.live.cluster import Cluster
    from koord.operate.install.settings import Settings


@click.command(
    epilog="""\b
Example: koord upgrade --diff
         koord upgrade --image my-registry/koord:0.2.0

\b
Kinds and rights come first, then manager, scheduler, descheduler and agents, each when the one before it is ready. A
roll-out that does not get ready ends the upgrade there; what was running goes on running."""
)
@settings_options
@click.option("--diff", "show_diff", is_flag=True, help="Show what would change on the cluster, and change nothing.")
@click.option("--allow-downgrade", is_flag=True, help="Go back to an older version.")
@wait_option("How long each workload may take until its pods are ready; 0 does not wait.")
@kube_options
@output_option("table", "json", "yaml")
def upgrade(
    show_diff: bool,
    allow_downgrade: bool,
    wait_s: float,
    kubeconfig: str | None,
    context: str | None,
    output: str,
    **given: Any,
) -> int:
    """Bring an installation to this version of koord; settings that are not given stay unchanged."""

    async def work(cluster: Cluster) -> int:
        from msgspec.structs import replace

        from koord import __version__
        from koord.operate.install.live.installing import Refused, carry_out, find_record, prepare
        from koord.operate.install.live.looking import has_old_kubelets

        record = await find_record(cluster, given.get("namespace") or "koordinator-system")
        if record is None:
            raise Refused("koord is not installed on this cluster", ["koord install installs it"])
        before = replace(record.settings, old_kubelets=await has_old_kubelets(cluster))
        settings = changed(_at(before, __version__), given)
        prepared = await prepare(cluster, settings, downgrade=allow_downgrade)
        if show_diff:
            await print_diff(cluster, prepared)
            return 0
        with Progress() as progress:
            await carry_out(cluster, prepared, progress.say, wait_s=wait_s)
        sentence = f"koord {record.settings.version} -> {settings.version}"
        say_installed(prepared.plan, settings, sentence, output)
        return 0

    return on_cluster(kubeconfig, context, work)


def _at(settings: Settings, version: str) -> Settings:
    """The settings with this version, and with its image if the image tag was the old version."""
    from msgspec.structs import replace

    name, colon, tag = settings.image.rpartition(":")
    image = f"{name}:{version}" if colon and tag == settings.version else settings.image
    return replace(settings, version=version, image=image)
