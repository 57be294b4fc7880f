"""Starts the operator against one API server, and keeps it until cancelled. Only the leader tells YARN anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from koord.api.protocol import names
from koord.kube.client import Client
from koord.kube.clock import Clock, SystemClock
from koord.kube.informers import Informers
from koord.kube.leader import LeaderElection, run_as_leader
from koord.kube.metrics import Metrics
from koord.yarn.hadoop.configuration import (
    CORE,
    FURTHER,
    SITE,
    HadoopConfigurationError,
    NodeManagerSite,
    YarnCluster,
    clusters,
    node_manager_site,
)
from koord.yarn.live.metrics import YarnMetrics
from koord.yarn.live.operator import LOOK_S, SOON_S, Operator, sources
from koord.yarn.live.resource_manager import ResourceManager, Way
from koord.yarn.split import Policy


@dataclass(frozen=True, slots=True)
class OperatorOptions:
    clusters: Mapping[str, YarnCluster]
    policy: Policy = field(default_factory=Policy)
    way: Way = "rpc"
    user: str = ""
    "The user for calls to YARN; empty: the process's own user."
    elect: bool = False
    namespace: str = names.NAMESPACE_KOORDINATOR
    look_s: float = LOOK_S
    soon_s: float = SOON_S


def read_clusters(directory: str) -> dict[str, YarnCluster]:
    """The clusters of a HADOOP_CONF_DIR. Raises HadoopConfigurationError."""
    return clusters(_files(directory), directory)


def node_manager_of(directory: str) -> NodeManagerSite:
    """What a HADOOP_CONF_DIR says of the NodeManager. Raises HadoopConfigurationError."""
    return node_manager_site(_files(directory), directory)


def _files(directory: str) -> dict[str, str]:
    path = Path(directory)
    if not path.is_dir():
        raise HadoopConfigurationError(f"{directory} is no directory: give the directory of Hadoop's configuration")
    texts: dict[str, str] = {}
    for file in path.iterdir():
        if file.name in (CORE, SITE) or file.name.endswith(FURTHER):
            if not file.is_file():
                raise HadoopConfigurationError(f"{file} is no file: it must be Hadoop's configuration")
            try:
                texts[file.name] = file.read_text(errors="replace")
            except OSError as error:
                raise HadoopConfigurationError(f"{file} cannot be read: {error.strerror}") from None
    return texts


async def run(
    client: Client,
    options: OperatorOptions,
    *,
    clock: Clock | None = None,
    metrics: Metrics | None = None,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Runs until cancelled."""
    time, measured = clock or SystemClock(), YarnMetrics(metrics or Metrics(process=False))
    managers = {
        name: ResourceManager(cluster, way=options.way, user=options.user) for name, cluster in options.clusters.items()
    }
    async with Informers(client, clock=time) as informers:
        sources(informers)
        await informers.synced(freeze=True)
        on_ready()

        async def work(own: Client) -> None:
            await Operator(
                own,
                informers,
                managers,
                options.policy,
                time,
                measured,
                look_s=options.look_s,
                soon_s=options.soon_s,
            ).run()

        if not options.elect:
            await work(client)
            return

        async def lead(leader: LeaderElection) -> None:
            await work(leader.client)

        await run_as_leader(client, lead, name=names.LEASE_YARN_OPERATOR, namespace=options.namespace)
