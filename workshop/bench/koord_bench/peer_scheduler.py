"""How fast does the real kube-scheduler decide, on the same cluster and pods?

It runs against kube-apiserver and etcd, which are far slower than either scheduler, so how soon pods are bound says
nothing of it. Two figures do: its own metric of the time that its scheduling algorithm took, in which there is no
request (but which suffers when other processes want the cores), and the CPU time of its process, in which all is that
it does beside deciding. The better one counts. All nodes are scored, as by koord.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from koord_bench import api_servers, children
from koord_bench.api_load import Target, encode
from koord_bench.children import cpu_s, wait_until
from koord_bench.harness import Figures

CLIENTS = 16
WITHIN_S = 300.0
_SUM, _COUNT = (f"scheduler_scheduling_algorithm_duration_seconds_{part}" for part in ("sum", "count"))
NODES = 'scheduler_cache_size{type="nodes"}'
_PATHS = {
    "Namespace": "/api/v1/namespaces",
    "Node": "/api/v1/nodes",
    "Service": "/api/v1/namespaces/{}/services",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "Pod": "/api/v1/namespaces/{}/pods",
}
Object = dict[str, Any]


def pods_per_second(cluster: Sequence[Object], pods: Sequence[Object]) -> float | None:
    """How many of the pods it decides a second; None where it is not installed. The cluster is there before them."""
    binary = api_servers.find_binary("kube-scheduler")
    if binary is None:
        return None
    nodes = sum(obj["kind"] == "Node" for obj in cluster)
    with api_servers.real() as server, tempfile.TemporaryDirectory(prefix="koord-bench-") as folder:
        if server is None:
            return None
        target = Target(server.config)
        asyncio.run(_create(target, cluster))
        with running(binary, server, Path(folder)) as peer:
            peer.wait(NODES, nodes)
            cpu_before_s = cpu_s(peer.process.pid)
            asyncio.run(_create(target, pods))
            figures = peer.wait(_COUNT, len(pods))
            spent_s = cpu_s(peer.process.pid) - cpu_before_s
    return max(len(pods) / spent_s, figures[_COUNT] / figures[_SUM])


async def _create(target: Target, objects: Sequence[Object]) -> None:
    """Kind by kind, because a namespace must be there before what is in it."""
    for kind, path in _PATHS.items():
        requests = [
            encode("POST", path.format(obj["metadata"].get("namespace", "")), json.dumps(obj).encode())
            for obj in objects
            if obj["kind"] == kind
        ]
        if requests:
            await target.spread(CLIENTS, requests, 201)


@dataclass(frozen=True, slots=True)
class Peer:
    """A kube-scheduler that runs, or one that is made of it."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def wait(self, name: str, least: float) -> Figures:
        """All its metrics, once one of them has reached a value."""
        wait_until(
            lambda: self._metrics().get(name, 0) >= least, self.process, self.log, within_s=WITHIN_S, every_s=0.2
        )
        return self._metrics()

    def _metrics(self) -> Figures:
        """Empty before it serves. It signs its own certificate, on loopback."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            with urllib.request.urlopen(f"https://127.0.0.1:{self.port}/metrics", context=context, timeout=5) as answer:
                text = answer.read().decode()
        except OSError:
            return {}
        return {name: float(value) for name, value in re.findall(r"^(\w+(?:{[^}]*})?) (\S+)$", text, re.MULTILINE)}


@contextmanager
def running(
    binary: Path,
    server: api_servers.RunningServer,
    folder: Path,
    *,
    all_nodes: bool = True,
    configuration: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[Peer]:
    """A scheduler on a server, with no limit on its calls; it scores all nodes, or as many as it likes."""
    (port,) = api_servers.free_ports(1)
    config = folder / "config.json"
    settings = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        **configuration,
        "percentageOfNodesToScore": 100 if all_nodes else 0,
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(server.kubeconfig), "qps": 5000, "burst": 10000},
    }
    config.write_text(json.dumps(settings))
    command = [
        str(binary),
        f"--config={config}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder}",
        f"--authentication-kubeconfig={server.kubeconfig}",
        "--authorization-always-allow-paths=/metrics",
    ]
    with children.running(command, folder / "log", cwd=folder) as process:
        yield Peer(process, port, folder / "log")
