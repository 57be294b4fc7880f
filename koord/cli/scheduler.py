"""`koord scheduler`: decides where pods go, on any API server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from koord.cli.component import Common, component_options, election_options, led_in, run_configured
from koord.cli.options import plugin_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.kube.client import Client
    from koord.kube.metrics import Metrics


@click.command(
    epilog="""\b
Example: koord scheduler --config scheduler.yaml --leader-elect --metrics-address 127.0.0.1:10251

\b
A pod is scheduled by koord when its spec.schedulerName is the name of a profile. The file is followed: a change of
profiles, plugins, arguments and backoffs takes effect within seconds, and one that is faulty not at all."""
)
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A KubeSchedulerConfiguration. Without it, koord's own: the profile koord-scheduler.",
)
@election_options("no")
@click.option(
    "--alone",
    is_flag=True,
    help="No other scheduler is there: pods that name none are scheduled by the first profile, unless one is theirs.",
)
@click.option(
    "--shard",
    metavar="K/N",
    help="Several schedulers share the cluster: this one has the nodes of the K-th of N shards, and the pods that are"
    " in it. A pod without a place there goes to the next shard.",
)
@click.option(
    "--shard-label",
    default="",
    metavar="LABEL",
    help="With --shard: the label of nodes that names their pool. A pool is in one shard. Without it, each node is a"
    " pool.",
)
@click.option(
    "--enable-workload-auditor",
    "audit",
    is_flag=True,
    help="Log an alert for pods whose victims do not go, or to whom nothing happens for long; and measure both.",
)
@click.option("--feature-gates", default="", metavar="LIST", help="As in MultiQuotaTree=true.")
@plugin_option
@component_options
def scheduler(
    config: Path | None,
    leader_elect: bool | None,
    namespace: str | None,
    alone: bool,
    shard: str | None,
    shard_label: str,
    audit: bool,
    feature_gates: str,
    plugins: tuple[str, ...],
    common: Common,
) -> int:
    """Schedule pods: koord's scheduler, instead of or alongside kube-scheduler."""
    from koord.api.configuration.features import SchedulerGate, parse_gates
    from koord.api.configuration.idle_gates import gates_warning
    from koord.api.configuration.scheduler_config import SHIPPED, SchedulerConfiguration
    from koord.cli.inputs import configuration_file
    from koord.kube import lean  # noqa: F401 - before anything else imports aiohttp
    from koord.kube.settings_paths import SettingsPaths
    from koord.scheduler.auditor import AuditLimits
    from koord.scheduler.live.diagnosis import Inspection
    from koord.scheduler.own_plugins import load
    from koord.scheduler.shards import parse

    def read() -> SchedulerConfiguration:
        read_config = SHIPPED
        if config is not None:
            read_config = configuration_file(config, SchedulerConfiguration, "KubeSchedulerConfiguration")
        return led_in(read_config, namespace)

    configuration = read()
    gates = parse_gates(SchedulerGate, feature_gates)
    own = tuple(load(plugin_path) for plugin_path in plugins)
    if shard_label and not shard:
        raise click.UsageError("--shard-label needs --shard K/N")
    own_shard = parse(shard, shard_label) if shard else None
    inspection = Inspection()
    settings = SettingsPaths(inspection.handle)
    settings.in_force(configuration)

    async def work(client: Client, metrics: Metrics | None, on_ready: Callable[[], None]) -> None:
        from koord.scheduler.live.run import SchedulerOptions, run

        elect = config is not None and configuration.leader_election.leader_elect
        if leader_elect is not None:
            elect = leader_elect
        options = SchedulerOptions(
            elect=elect,
            alone=alone,
            shard=own_shard,
            reload=read if config is not None else None,
            plugins=own,
            gates=gates,
            inspection=inspection,
            in_force=settings.in_force,
            audit=AuditLimits() if audit else None,
        )
        await run(client, configuration, options=options, metrics=metrics, on_ready=on_ready)

    return run_configured("scheduler", work, common, settings, warnings=(gates_warning(gates),))
