"""`koord descheduler`: moves pods that sit badly, on any API server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from koord.cli.component import Common, component_options, election_options, led_in, run_configured
from koord.cli.options import descheduler_plugin_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.kube.client import Client
    from koord.kube.metrics import Metrics


@click.command(
    epilog="""\b
Example: koord descheduler --config descheduler.yaml --dry-run

\b
'koord deschedule --live' shows once what would move. The file is followed: a change takes effect within seconds; if it
is faulty, the last valid configuration stays in force."""
)
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A DeschedulerConfiguration. Without it, koord's own: nodes above cpu 75% or memory 80% are relieved.",
)
@click.option(
    "--scheduler-config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The configuration of the scheduler, by whose rules places for pods are looked for.",
)
@election_options("yes")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Rounds only say which pods they would move: in logs, metrics and events. PodMigrationJobs are carried out.",
)
@click.option(
    "--alone",
    is_flag=True,
    help="No other scheduler than koord's is there: it also finds places for pods that name none.",
)
@click.option("--feature-gates", default="", metavar="LIST", help="As in DisablePVCReservation=true.")
@descheduler_plugin_option
@component_options
def descheduler(
    config: Path | None,
    scheduler_config: Path | None,
    leader_elect: bool | None,
    namespace: str | None,
    dry_run: bool,
    alone: bool,
    feature_gates: str,
    plugins: tuple[str, ...],
    common: Common,
) -> int:
    """Move pods that sit badly to better places, and carry out PodMigrationJobs: room first, then the eviction."""
    from koord.api.configuration.descheduler_config import SHIPPED, DeschedulerConfiguration
    from koord.api.configuration.descheduler_order import of_descheduler
    from koord.api.configuration.features import DeschedulerGate, parse_gates
    from koord.api.configuration.idle_gates import gates_warning
    from koord.api.configuration.scheduler_config import SHIPPED as SHIPPED_SCHEDULER
    from koord.api.configuration.scheduler_config import SchedulerConfiguration
    from koord.api.configuration.threshold_order import Findings, load_limits
    from koord.api.configuration.without_effect import descheduler_warning
    from koord.api.machinery.faults import Invalid
    from koord.cli.inputs import configuration_file
    from koord.descheduler.compiled import compiled
    from koord.descheduler.own_plugins import load
    from koord.kube import lean  # noqa: F401 - before anything else imports aiohttp
    from koord.kube.settings_paths import SettingsPaths

    def read() -> DeschedulerConfiguration:
        read_config = SHIPPED
        if config is not None:
            read_config = configuration_file(config, DeschedulerConfiguration, "DeschedulerConfiguration")
        findings = of_descheduler(read_config, load_limits(scheduler)) if config is not None else Findings()
        if findings.faults:
            raise Invalid("thresholds of usage", findings.faults)
        for warning in findings.warnings:
            click.echo(f"warning: {warning}", err=True)
        return led_in(read_config, namespace)

    scheduler = SHIPPED_SCHEDULER
    if scheduler_config is not None:
        scheduler = configuration_file(scheduler_config, SchedulerConfiguration, "KubeSchedulerConfiguration")
    configuration = read()
    own = tuple(load(plugin_path) for plugin_path in plugins)
    compiled(configuration, own)
    gates = parse_gates(DeschedulerGate, feature_gates)
    elect = configuration.leader_election.leader_elect if leader_elect is None else leader_elect
    settings = SettingsPaths()
    settings.in_force(configuration)

    async def work(client: Client, metrics: Metrics | None, on_ready: Callable[[], None]) -> None:
        from koord.descheduler.live.run import DeschedulerOptions, run

        options = DeschedulerOptions(
            elect=elect,
            dry_run=dry_run,
            alone=alone,
            reload=read if config is not None else None,
            gates=gates,
            scheduler=scheduler,
            plugins=own,
            in_force=settings.in_force,
        )
        await run(client, configuration, options=options, metrics=metrics, on_ready=on_ready)

    return run_configured(
        "descheduler", work, common, settings, warnings=(gates_warning(gates), descheduler_warning(configuration))
    )
