"""`koord check`: whether a cluster and its kernels are ready, feature by feature."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from koord.cli import structured
from koord.cli.installation import on_cluster
from koord.cli.options import kube_options, output_option
from koord.cli.tables import table, terminal_columns

if TYPE_CHECKING:
    from koord.operate.install.live.cluster import Cluster
    from koord.operate.install.readiness import ClusterFacts, Finding

COLOURS = {"works": "green", "partly": "yellow", "off": "", "missing": "red", "broken": "red"}


@click.command(
    epilog="""\b
Example: koord check
         koord check --local -o json

\b
works: it does its work. off: nobody asked for it; the last column says how to. partly: not everywhere. missing, broken:
something is not there, or does not work; the exit code is then 1."""
)
@click.option("-n", "--namespace", default="koordinator-system", show_default=True, help="Where the workloads are.")
@click.option("--local", is_flag=True, help="Ask the kernel of this machine, and no cluster.")
@kube_options
@output_option("table", "json", "yaml")
def check(namespace: str, local: bool, kubeconfig: str | None, context: str | None, output: str) -> int:
    """Say what works on this cluster, what is off and why, and what is missing."""
    from koord.operate.install.readiness import findings, is_ready

    results: list[Finding] = (
        _kernel() if local else findings(on_cluster(kubeconfig, context, lambda c: _look(c, namespace)))
    )
    ready = is_ready(results)
    if output == "table":
        # A kernel has no fix to suggest, so its rows say what koord uses, and what it does without the feature.
        rows = [("AREA", "FEATURE", "STATE", "WHAT IS USED" if local else "WHY", "" if local else "WHAT TO DO")]
        rows += [(finding.area, finding.feature, finding.state, finding.why, finding.how) for finding in results]
        colours = {state: colour for state, colour in COLOURS.items() if colour} if sys.stdout.isatty() else None
        click.echo(table(rows, colours=colours, most=terminal_columns()))
        wrong = sum(finding.state in ("missing", "broken") for finding in results)
        click.echo(f"\n{'ready' if ready else f'not ready: {wrong} of {len(results)} checks fail'}")
    else:
        structured.say({"ready": ready, "checks": results}, output)
    return 0 if ready else 1


def _kernel() -> list[Finding]:
    """Findings about this machine's kernel, read from the kernel itself."""
    from koord.cli.agent import features_of
    from koord.operate.install.readiness import Finding

    return [
        Finding("this kernel", feature.name, "works" if feature.is_there else "off", feature.how)
        for feature in features_of("/", "")
    ]


async def _look(cluster: Cluster, namespace: str) -> ClusterFacts:
    from koord import __version__
    from koord.api.protocol import names
    from koord.kube.errors import ApiError
    from koord.manager.config_in_force import in_force, last_valid
    from koord.operate.health import booked_twice
    from koord.operate.install.live import looking
    from koord.operate.install.readiness import ClusterFacts
    from koord.operate.install.settings import Settings
    from koord.operate.live.survey import survey

    client = cluster.client
    version = await client.server_version()
    facts = await survey(client, client.config.server, None, None)
    seen = ClusterFacts(
        version.numbers,
        version.git_version,
        missing_kinds=facts.missing_kinds,
        missing_classes=facts.missing_priority_classes,
        missing_webhooks=facts.webhooks.missing,
        webhook_failure=facts.webhooks.failure,
        silent=facts.nodes.silent,
        unread=facts.unread,
        conflicts=[(problem.what, problem.how) for problem in booked_twice(facts)],
    )
    try:
        settings = await looking.settings_of(cluster, namespace)
        shape = settings or Settings(image="koord", version=__version__, namespace=namespace)
        own, others = await looking.workloads(cluster, shape)
        stored, published = await looking.configuration(
            cluster, (names.CONFIGMAP_SLO_CONTROLLER, names.CONFIGMAP_SLO_IN_FORCE)
        )
        held = in_force(last_valid(published), stored)
        topologies, devices = await looking.counted(cluster)
        return replace(
            seen,
            settings=settings,
            lacking=await looking.lacking(cluster, shape),
            agents=len(await looking.reporting_agents(cluster) - set(seen.silent)),
            leases=await looking.leases(cluster),
            workloads=own,
            others=others,
            nodes=await looking.nodes(cluster),
            config=held.config,
            config_problems=[str(problem) for problem in held.problems],
            topologies=topologies,
            devices=devices,
        )
    except ApiError as error:
        return replace(seen, unread=(*seen.unread, str(error)))
