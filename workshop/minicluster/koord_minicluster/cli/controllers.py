"""`koord controllers`: the controllers that users of a Kubernetes API expect, on any API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from koord.cli.component import Common, Ready, component_options, run_component

if TYPE_CHECKING:
    from koord.kube.client import Client


@click.command(epilog="Example: koord controllers --kubeconfig ./data/kubeconfig")
@click.option("--leader-elect", is_flag=True, help="Work only while holding the lease kube-system/koord-controllers.")
@component_options
def controllers(leader_elect: bool, common: Common) -> int:
    """Run the controllers of Deployments, Jobs and the like, for an API server that has none.

    Not for a cluster with a kube-controller-manager: both would do the same work.
    """

    async def work(client: Client, ready: Ready) -> None:
        from koord_minicluster.controllers.live.run import run

        await run(client, elect=leader_elect, on_ready=lambda: ready({}))

    return run_component("controllers", work, common)
