"""`koord yarn`: Hadoop YARN on reclaimed resources."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from koord.cli.component import Common, Ready, component_options, run_component

if TYPE_CHECKING:
    from koord.kube.client import Client
    from koord.kube.metrics import Metrics


@click.group(epilog="Example: koord yarn operator --hadoop-conf-dir /etc/hadoop/conf")
def yarn() -> None:
    """Run Hadoop YARN on reclaimed resources: an operator for the cluster, a copilot on each node."""


@yarn.command(
    epilog="""\b
Example: koord yarn operator --hadoop-conf-dir /etc/hadoop/conf --share 50

\b
NodeManagers are found by pods with the label app.kubernetes.io/component: node-manager, or by the annotation
yarn.hadoop.apache.org/node-id (host:port) of a node. What YARN may use and what Kubernetes is told together never
exceed what is reclaimed. Only simple authentication is supported, not Kerberos."""
)
@click.option(
    "--hadoop-conf-dir",
    envvar="HADOOP_CONF_DIR",
    required=True,
    metavar="DIR",
    help="Has yarn-site.xml, core-site.xml, and <cluster>.yarn-site.xml for each further YARN cluster; also"
    " $HADOOP_CONF_DIR.",
)
@click.option(
    "--via",
    type=click.Choice(["rpc", "rest"]),
    default="rpc",
    show_default=True,
    help="How ResourceManagers are told: Hadoop's RPC, or their web services where administrators allow it.",
)
@click.option("--user", default="", metavar="NAME", help="Call YARN as this user; the process's own unless given.")
@click.option(
    "--share", default=50, show_default=True, metavar="PERCENT", help="YARN's part where both sides want more."
)
@click.option("--yarn-least", default=10, show_default=True, metavar="PERCENT", help="Guaranteed to YARN.")
@click.option("--kubernetes-least", default=10, show_default=True, metavar="PERCENT", help="Guaranteed to batch pods.")
@click.option(
    "--hysteresis", default=10, show_default=True, metavar="PERCENT", help="Smaller changes do not disturb YARN."
)
@click.option(
    "--shrink-timeout",
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="When less is reclaimed, YARN ends containers above its part within this time.",
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Decide only while holding the lease koordinator-yarn-operator, so that several can run.",
)
@click.option("--namespace", default="koordinator-system", show_default=True, help="Namespace of the lease.")
@component_options
def operator(
    hadoop_conf_dir: str,
    via: str,
    user: str,
    share: int,
    yarn_least: int,
    kubernetes_least: int,
    hysteresis: int,
    shrink_timeout: float,
    leader_elect: bool,
    namespace: str,
    common: Common,
) -> int:
    """Tell YARN's ResourceManagers how much of each node's reclaimed resources its NodeManager may use."""
    from koord.yarn.live.run import OperatorOptions, read_clusters
    from koord.yarn.split import Policy

    policy = Policy(
        share_percent=share,
        yarn_least_percent=yarn_least,
        kubernetes_least_percent=kubernetes_least,
        hysteresis_percent=hysteresis,
        shrink_s=shrink_timeout,
    ).check()
    options = OperatorOptions(
        clusters=read_clusters(hadoop_conf_dir),
        policy=policy,
        way="rest" if via == "rest" else "rpc",
        user=user,
        elect=leader_elect,
        namespace=namespace,
    )
    measured: list[Metrics] = []

    async def work(client: Client, ready: Ready) -> None:
        from koord.yarn.live.run import run

        metrics = measured[0] if measured else None
        await run(client, options, metrics=metrics, on_ready=lambda: ready({}))

    return run_component("yarn-operator", work, common, measured=measured.append)
