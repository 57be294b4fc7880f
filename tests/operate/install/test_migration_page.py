"""The commands of the page about moving from Koordinator, as they stand."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from koord.api.kinds import DAEMON_SETS, DEPLOYMENTS, Kind
from koord.api.protocol.lease_holders import identity
from koord.kube.client import Client
from koord.kube.errors import ApiError
from koord.kube.locate import locate
from koord.operate.install.live.cluster import Cluster
from koord.operate.install.manifest import key_of
from koord.operate.install.migration import THEIRS
from tests.docs.test_pages import commands, in_a_shell
from tests.minicluster.apiserver.server_process import ServerProcess
from tests.operate.install import koordinator
from tests.operate.install.test_migrate import HERE, THERE, apply, hold, install_koordinator

PAGE = "move-from-koordinator.md"


@contextmanager
def played(kubeconfig: Path) -> Iterator[None]:
    """Workloads that are ready at once, without pods; and the lease of each component is held by whose Deployment has
    replicas, as long as it has."""
    over = threading.Event()

    async def play() -> None:
        holders: dict[str, str] = {}
        async with Client(locate(str(kubeconfig))) as client:
            while not over.is_set():
                try:
                    await _played(Cluster(client), holders)
                except (ApiError, OSError, TimeoutError):
                    # Somebody deleted it in the meantime, or the server is busy.
                    continue
                await asyncio.sleep(0.1)

    playing = threading.Thread(target=lambda: asyncio.run(play()))
    playing.start()
    try:
        yield
    finally:
        over.set()
        playing.join()


async def _played(cluster: Cluster, holders: dict[str, str]) -> None:
    found: dict[tuple[str, str], int] = {}
    both: tuple[Kind[Any], ...] = (DEPLOYMENTS, DAEMON_SETS)
    for kind in both:
        async for each in cluster.all_of(kind):
            workload: Any = each
            key, replicas = key_of(each), workload["spec"].get("replicas", 0)
            found[key.namespace, key.name] = replicas
            counts = ("replicas", "updatedReplicas", "readyReplicas") if kind is DEPLOYMENTS else ()
            status = {"observedGeneration": workload["metadata"]["generation"], **dict.fromkeys(counts, replicas)}
            if any(workload.get("status", {}).get(name, 0) != value for name, value in status.items()):
                patch = {"status": status}
                await cluster.client.patch(kind, key.name, patch, namespace=key.namespace, subresource="status")
    for theirs in THEIRS:
        if not theirs.lease:
            continue
        able = [namespace for namespace in (THERE, HERE) if found.get((namespace, theirs.name))]
        if holders.get(theirs.lease) not in able and able:
            holders[theirs.lease] = able[0]
            who = f"{theirs.name}-7d_0b1c" if able[0] == THERE else identity(theirs.name, "1")
            await hold(cluster, theirs.lease, who)


@pytest.mark.kubectl
def test_the_page_about_moving_from_koordinator(tmp_path: Path) -> None:
    lines = commands(PAGE)
    begin = next(i for i, line in enumerate(lines) if "create role" in line)
    with ServerProcess(tmp_path / "data", "--durability", "fast"):
        kubeconfig = tmp_path / "data" / "kubeconfig"
        asyncio.run(_koordinator(kubeconfig))
        with played(kubeconfig):
            printed = in_a_shell(["set -ex", f"export KUBECONFIG={kubeconfig}", *lines[:begin]], tmp_path)
    assert "Nothing stands in the way" in printed
    assert "1. install koord's scheduler in namespace koord-system, beside Koordinator's" in printed
    for each in ("scheduler", "agent"):
        assert f"the {each} is koord's" in printed
        assert f"the {each} is Koordinator's" in printed
    assert "it was there before koord" in printed
    assert "koord has no component left here" in printed


@pytest.mark.kubectl
def test_the_page_about_moving_from_kube_scheduler_and_the_kubernetes_descheduler(tmp_path: Path) -> None:
    lines = commands(PAGE)
    begin = next(i for i, line in enumerate(lines) if "create role" in line)
    with ServerProcess(tmp_path / "data", "--durability", "fast"):
        kubeconfig = tmp_path / "data" / "kubeconfig"
        asyncio.run(_kubernetes_descheduler(kubeconfig))
        printed = in_a_shell(["set -ex", f"export KUBECONFIG={kubeconfig}", *lines[begin:]], tmp_path)
    assert "rolebinding.rbac.authorization.k8s.io/koord-scheduler-lease created" in printed
    assert "deployment.apps/descheduler scaled" in printed
    assert "is installed in namespace koordinator-system" in printed


async def _koordinator(kubeconfig: Path) -> None:
    async with Client(locate(str(kubeconfig))) as client:
        await install_koordinator(Cluster(client), "v1.8")


async def _kubernetes_descheduler(kubeconfig: Path) -> None:
    async with Client(locate(str(kubeconfig))) as client:
        descheduler = koordinator.workload("Deployment", "descheduler", replicas=1)
        descheduler["metadata"]["namespace"] = "kube-system"
        await apply(Cluster(client), descheduler)
