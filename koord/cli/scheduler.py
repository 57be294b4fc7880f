"""`koord scheduler`: decides where pods go, on any API server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from koord.cli.component import Ready, component_options, run_component

if TYPE_CHECKING:
    from koord.kube.client import Client


@click.command(
    epilog="""\b
Example: koord scheduler --config scheduler.yaml --leader-elect
A pod is scheduled by koord when its spec.schedulerName is one of the configuration's profiles."""
)
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A KubeSchedulerConfiguration. Without it, koord's own: the profile koord-scheduler.",
)
@click.option("--leader-elect", is_flag=True, help="Work only while holding a lease, so that several can run.")
@click.option("--namespace", default="kube-system", show_default=True, help="Namespace of the lease.")
@component_options
def scheduler(
    config: Path | None,
    leader_elect: bool,
    namespace: str,
    kubeconfig: str | None,
    context: str | None,
    metrics_address: str,
    log_format: str,
) -> int:
    """Schedule pods: the scheduler of koord, in place of or beside the one of Kubernetes."""
    from koord.api import config_file
    from koord.api.faults import Fault, Invalid
    from koord.api.scheduler_config import SHIPPED, SchedulerConfiguration

    configuration: SchedulerConfiguration = SHIPPED
    if config is not None:
        given = config_file.read(config.read_text(), str(config))
        if not isinstance(given, SchedulerConfiguration):
            raise Invalid(str(config), [Fault("kind", "must be KubeSchedulerConfiguration")])
        configuration = given

    async def work(client: Client, ready: Ready) -> None:
        from koord.scheduler.live.run import Options, run

        options = Options(elect=leader_elect, namespace=namespace)
        await run(client, configuration, options=options, on_ready=lambda: ready({}))

    return run_component(
        "scheduler",
        work,
        kubeconfig=kubeconfig,
        context=context,
        metrics_address=metrics_address,
        log_format=log_format,
    )
