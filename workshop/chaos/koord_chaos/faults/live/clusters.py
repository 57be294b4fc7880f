"""Clusters whose components can be disturbed: what all have in common, and what a running `koord up` adds.

A cluster must be marked as a test cluster, by a label on koord's namespace. Nothing is disturbed without it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from koord.api.kinds import NAMESPACES, NODES, PODS
from koord.api.machinery.faults import BadInput
from koord.api.protocol import names
from koord.kube.client import Client
from koord.kube.errors import NotFound
from koord.operate.endpoints import Endpoints, read_endpoints
from koord_chaos.faults.kinds import Scope, Target

MARK: Final = "chaos.koord.sh/test-cluster"
LEASES_OF: Final[Mapping[str, str]] = {
    "scheduler": names.LEASE_SCHEDULER,
    "manager": names.LEASE_MANAGER,
    "descheduler": names.LEASE_DESCHEDULER,
}
NAME_LABEL: Final = "app.kubernetes.io/name"


class AnyCluster:
    """A cluster that is reached through its API alone."""

    scope = Scope.ANY

    def __init__(self, client: Client) -> None:
        self.client = client

    async def check_marked(self) -> None:
        """Raises BadInput unless this is a test cluster."""
        try:
            namespace = await self.client.get(NAMESPACES, names.NAMESPACE_KOORDINATOR)
        except NotFound:
            namespace = None
        if namespace is None or namespace.metadata.labels.get(MARK) != "true":
            raise BadInput(
                f"{self.client.config.server} is not marked as a test cluster. koord chaos kills components and makes"
                f" nodes lie; mark a cluster that may break: kubectl label namespace {names.NAMESPACE_KOORDINATOR}"
                f" {MARK}=true"
            )

    async def mark(self) -> None:
        await self.client.patch(NAMESPACES, names.NAMESPACE_KOORDINATOR, {"metadata": {"labels": {MARK: "true"}}})

    async def targets(self) -> Mapping[Target, Sequence[str]]:
        pods = await self._pods()
        nodes = [node.metadata.name for node in await self.client.list(NODES)]
        leaders = [name for name, lease in LEASES_OF.items() if await self._has_lease(lease)]
        return {Target.PROCESS: sorted(pods), Target.LEADER: leaders, Target.NODE: nodes}

    async def kill(self, target: str) -> None:
        """The pod is deleted at once; its workload makes another."""
        for pod in (await self._pods()).get(target, ())[:1]:
            with suppress(NotFound):
                await self.client.delete(PODS, pod, namespace=names.NAMESPACE_KOORDINATOR, grace_s=0)

    async def late(self) -> list[str]:
        """Components that are not ready."""
        pods = await self.client.list(PODS, namespace=names.NAMESPACE_KOORDINATOR)
        return [pod.metadata.name for pod in pods if not pod.is_finished and not is_ready(pod)]

    async def lost(self) -> list[str]:
        """Components that will not come back by themselves, each with the reason."""
        return []

    async def _pods(self) -> dict[str, list[str]]:
        pods: dict[str, list[str]] = {}
        for pod in await self.client.list(PODS, namespace=names.NAMESPACE_KOORDINATOR):
            if component := pod.metadata.labels.get(NAME_LABEL, "").removeprefix("koord-"):
                pods.setdefault(component, []).append(pod.metadata.name)
        return pods

    async def _has_lease(self, name: str) -> bool:
        try:
            return bool((await self.lease(name))["spec"].get("holderIdentity"))
        except NotFound:
            return False

    async def lease(self, name: str) -> dict[str, Any]:
        _, _, body = await self.client.raw("GET", lease_path(name))
        return dict(msgspec.json.decode(body))


class LocalCluster(AnyCluster):
    """A running `koord up`, whose processes can be paused and killed."""

    scope = Scope.LOCAL

    def __init__(self, client: Client, folder: Path) -> None:
        super().__init__(client)
        self.folder = folder

    def endpoints(self) -> Endpoints:
        if (endpoints := read_endpoints(self.folder)) is None:
            raise BadInput(f"no koord up runs on {self.folder}")
        return endpoints

    async def targets(self) -> Mapping[Target, Sequence[str]]:
        hollow = [
            node.metadata.name
            for node in await self.client.list(NODES)
            if node.metadata.name.startswith("hollow-")
        ]  # fmt: skip
        return {Target.PROCESS: sorted(self.endpoints().components), Target.LEADER: (), Target.NODE: hollow}

    def pid(self, target: str) -> int:
        """The process of a component; 0 if it does not run."""
        component = self.endpoints().components.get(target)
        return component.pid if component is not None and runs(component.pid, target) else 0

    async def kill(self, target: str) -> None:
        if pid := self.pid(target):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def late(self) -> list[str]:
        return [name for name, component in self.endpoints().components.items() if component.state != "ready"]


def runs(pid: int, component: str) -> bool:
    """Whether the process is that component of koord: its number may have gone to another program."""
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return False
    # scheduler-b is a second `koord scheduler`, and yarn-operator is `koord yarn operator`.
    return pid != os.getpid() and component.partition("-")[0] in arguments


def lease_path(name: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{names.NAMESPACE_KOORDINATOR}/leases/{name}"


def is_ready(pod: Any) -> bool:
    condition = pod.status.condition("Ready")
    return condition is not None and condition.status == "True"
