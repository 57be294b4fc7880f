"""`koord yarn`: Hadoop YARN on reclaimed resources."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from koord.cli.component import Common, Ready, component_options, log_format_option, run_component, run_on_node
from koord.cli.groups import Group
from koord.cli.options import Number, kube_options

if TYPE_CHECKING:
    from koord.kube.client import Client
    from koord.kube.metrics import Metrics
    from koord.yarn.live.java import Daemon


@click.group(cls=Group, epilog="Example: koord yarn operator --hadoop-conf-dir /etc/hadoop/conf")
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
    type=Number(),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="When less is reclaimed, YARN ends containers above its part within this time.",
)
@click.option(
    "--pace",
    default=60.0,
    show_default=True,
    type=Number(min=0),
    metavar="SECONDS",
    help="Between two changes of the same NodeManager, unless less is reclaimed.",
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
    pace: float,
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
        pace_s=pace,
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
    show_default="what the configuration says, else 127.0.0.1:8042",
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
@click.option(
    "--hadoop-conf-dir",
    metavar="DIR",
    help="Has the NodeManager's yarn-site.xml: then its web address and local-dirs are found there.",
)
@click.option("--socket", default="", metavar="PATH", help="Serve there; /var/run/yarn-copilot/yarn-copilot.sock.")
@click.option("--cgroup-root", default="", metavar="DIR", help="The node's root in the cgroup tree, as kubelet's.")
@click.option("--cgroup-driver", type=click.Choice(["systemd", "cgroupfs"]), help="Kubelet's; found unless given.")
@click.option(
    "--sync-memory-cgroup",
    is_flag=True,
    help="For Hadoop 2 on version 1 of cgroups: give containers that are in CPU cgroups alone memory cgroups, too.",
)
@click.option("--host-root", default="/", show_default=True, metavar="DIR", help="Where the host's files are.")
@log_format_option
def copilot(
    node_manager: str | None,
    local_dirs: tuple[str, ...],
    hadoop_conf_dir: str | None,
    socket: str,
    cgroup_root: str,
    cgroup_driver: str | None,
    sync_memory_cgroup: bool,
    host_root: str,
    log_format: str,
) -> int:
    """Watch a NodeManager's containers on this node, and stop them when the node needs resources back."""
    from koord.agent.host.cgroups import Cgroups
    from koord.agent.host.files import Files
    from koord.agent.view import driver_in
    from koord.api.protocol.copilot import SOCKET
    from koord.kube.clock import SystemClock
    from koord.yarn.hadoop.configuration import NodeManagerSite
    from koord.yarn.live.copilot import Copilot, serve
    from koord.yarn.live.placing import Placing
    from koord.yarn.live.run import node_manager_of

    said = node_manager_of(hadoop_conf_dir) if hadoop_conf_dir else NodeManagerSite()
    node_manager = node_manager or said.web
    host, separator, port = node_manager.rpartition(":")
    if not separator or not host or not port.isdigit():
        raise click.UsageError(f"--node-manager is {node_manager!r}: it must be HOST:PORT")
    cgroups = Cgroups.of(Files(host_root), cgroup_root)
    placing = Placing(
        cgroups, driver_in(cgroups, cgroup_driver or ""), local_dirs or said.local_dirs, sync_memory=sync_memory_cgroup
    )

    def work(ready: Callable[[], None]) -> Awaitable[None]:
        return serve(Copilot(node_manager, placing, SystemClock()), socket or SOCKET, ready)

    return run_on_node("yarn-copilot", work, log_format)


_hadoop_option = click.option(
    "--hadoop",
    envvar="KOORD_HADOOP",
    default="",
    metavar="DIR",
    help="An unpacked Hadoop, or a folder with its jars; also $KOORD_HADOOP.",
)
_conf_option = click.option(
    "--hadoop-conf-dir",
    envvar="HADOOP_CONF_DIR",
    required=True,
    metavar="DIR",
    help="Hadoop's configuration; also $HADOOP_CONF_DIR.",
)


@yarn.command(epilog="Example: koord yarn resourcemanager --hadoop /opt/hadoop --hadoop-conf-dir /etc/hadoop/conf")
@_hadoop_option
@_conf_option
def resourcemanager(hadoop: str, hadoop_conf_dir: str) -> int:
    """Run Hadoop's own ResourceManager, as koord up --yarn does. It ends with this process."""
    return _daemon("resourcemanager", hadoop, hadoop_conf_dir)


@yarn.command(
    epilog="Example: koord yarn nodemanager --hadoop /opt/hadoop --hadoop-conf-dir /etc/hadoop/conf --node n1"
)
@_hadoop_option
@_conf_option
@click.option("--node", default="", metavar="NAME", help="Say on this Node that it has this NodeManager.")
@kube_options
def nodemanager(hadoop: str, hadoop_conf_dir: str, node: str, kubeconfig: str | None, context: str | None) -> int:
    """Run Hadoop's own NodeManager, as koord up --yarn does. It ends with this process."""
    return _daemon("nodemanager", hadoop, hadoop_conf_dir, node, kubeconfig, context)


def _daemon(
    daemon: Daemon,
    hadoop: str,
    conf: str,
    node: str = "",
    kubeconfig: str | None = None,
    context: str | None = None,
) -> int:
    from koord.cli.component import start
    from koord.kube import shell, tether
    from koord.yarn.live.java import DaemonInfo, installed, run_daemon

    installation = installed(hadoop)
    supervised = start("text")

    async def main() -> None:
        import asyncio

        async with asyncio.TaskGroup() as tasks:

            def ready(info: DaemonInfo) -> None:
                if supervised:
                    tether.say_ready({"web": info.web})
                if node:
                    tasks.create_task(_declare(node, info.node_id, kubeconfig, context), name="declare")

            await run_daemon(daemon, installation, Path(conf), ready)

    return shell.run_component(main, name=f"yarn-{daemon}")


async def _declare(node: str, node_id: str, kubeconfig: str | None, context: str | None) -> None:
    from koord import __version__
    from koord.kube.client import Client
    from koord.kube.clock import SystemClock
    from koord.kube.locate import locate
    from koord.yarn.live.declaring import keep_declared

    config = locate(kubeconfig, context)
    async with Client(config, user_agent=f"koord-yarn-nodemanager/{__version__}") as client:
        await keep_declared(client, node, node_id, SystemClock())
