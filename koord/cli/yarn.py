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


@yarn.command(
    epilog="""\b
Example: koord yarn copilot --node-manager 127.0.0.1:8042 --local-dir /data/yarn/local

\b
koord agent asks it over the unix socket: YARN's containers then count as best effort, and go when the node needs their
memory or CPU: opportunistic ones first, then the youngest, an application's master last."""
)
@click.option(
    "--node-manager",
    default="127.0.0.1:8042",
    show_default=True,
    metavar="HOST:PORT",
    help="The NodeManager's web address (yarn.nodemanager.webapp.address).",
)
@click.option(
    "--local-dir",
    "local_dirs",
    multiple=True,
    metavar="DIR",
    help="Of yarn.nodemanager.local-dirs; repeatable. The default executor's containers are found there.",
)
@click.option("--socket", default="", metavar="PATH", help="Serve there; /var/run/yarn-copilot/yarn-copilot.sock.")
@click.option("--cgroup-root", default="", metavar="DIR", help="The node's root in the cgroup tree, as kubelet's.")
@click.option("--cgroup-driver", type=click.Choice(["systemd", "cgroupfs"]), help="Kubelet's; found unless given.")
@click.option("--host-root", default="/", show_default=True, metavar="DIR", help="Where the host's files are.")
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form of the logs."
)
def copilot(
    node_manager: str,
    local_dirs: tuple[str, ...],
    socket: str,
    cgroup_root: str,
    cgroup_driver: str | None,
    host_root: str,
    log_format: str,
) -> int:
    """Watch a NodeManager's containers on this node, and end them when the node needs something back."""
    from koord.agent.host.cgroups import Cgroups
    from koord.agent.host.files import Files
    from koord.agent.view import driver_in
    from koord.api.protocol.copilot import SOCKET
    from koord.cli.component import start
    from koord.kube import shell
    from koord.kube.clock import SystemClock
    from koord.minicluster.up import tether
    from koord.yarn.live.copilot import Copilot, serve
    from koord.yarn.live.placing import Placing

    host, separator, port = node_manager.rpartition(":")
    if not separator or not host or not port.isdigit():
        raise click.UsageError(f"--node-manager is {node_manager!r}: it must be HOST:PORT")
    supervised = start(log_format)
    cgroups = Cgroups.of(Files(host_root), cgroup_root)
    placing = Placing(cgroups, driver_in(cgroups, cgroup_driver or ""), local_dirs)

    async def main() -> None:
        ready = (lambda: tether.say_ready({})) if supervised else (lambda: None)
        await serve(Copilot(node_manager, placing, SystemClock()), socket or SOCKET, ready)

    return shell.run_component(main, name="yarn-copilot")
