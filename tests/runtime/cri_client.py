"""A client of the container runtime interface, as kubelet is one. Sandboxes are in the host's network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import grpc
import grpc.aio

from koord.api.machinery.messages import Message, decode, encode
from koord.api.machinery.protobuf import integer, message, text
from koord.runtime.cri import (
    RUNTIME,
    ContainerConfig,
    ContainerId,
    ContainerMetadata,
    Containers,
    CreateContainerRequest,
    LinuxContainerConfig,
    LinuxContainerResources,
    LinuxPodSandboxConfig,
    PodSandboxConfig,
    PodSandboxes,
    PodSandboxMetadata,
    RunPodSandboxRequest,
    SandboxId,
    UpdateContainerResourcesRequest,
)
from tests.runtime.containerd import BUSYBOX
from tests.waiting import eventually

M = TypeVar("M", bound=Message)

_HOST: int = 2
HOST_NETWORK = message(2, message(1, integer(1, _HOST)))
"""Of a sandbox's security context."""
LOG_DIRECTORY, IMAGE, COMMAND, LOG_PATH = 3, 2, 3, 11


def sandbox_config(
    name: str,
    parent: str,
    logs: Path,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> PodSandboxConfig:
    return PodSandboxConfig(
        PodSandboxMetadata(name, f"uid-{name}", "default"),
        dict(labels or {}),
        dict(annotations or {}),
        LinuxPodSandboxConfig(f"{parent}/besteffort/poduid-{name}", unknown=HOST_NETWORK),
        unknown=text(LOG_DIRECTORY, str(logs)),
    )


class CriClient:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    async def call(self, method: str, request: Message | bytes = b"", timeout: float = 60) -> bytes:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(f"/{RUNTIME}/{method}")
        return await call(request if isinstance(request, bytes) else encode(request), timeout=timeout)

    async def run_sandbox(
        self,
        name: str,
        parent: str,
        logs: Path,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> tuple[str, PodSandboxConfig]:
        config = sandbox_config(name, parent, logs, labels, annotations)
        given = decode(SandboxId, await self.call("RunPodSandbox", RunPodSandboxRequest(config)))
        return given.pod_sandbox_id, config

    async def create(
        self,
        sandbox: tuple[str, PodSandboxConfig],
        name: str,
        command: Sequence[str],
        resources: LinuxContainerResources | None = None,
    ) -> str:
        image = message(IMAGE, text(1, BUSYBOX))
        said = b"".join(text(COMMAND, word) for word in command)
        config = ContainerConfig(
            ContainerMetadata(name),
            linux=LinuxContainerConfig(resources or LinuxContainerResources(cpu_shares=2)),
            unknown=image + said + text(LOG_PATH, f"{name}.log"),
        )
        request = CreateContainerRequest(sandbox[0], config, sandbox[1])
        return decode(ContainerId, await self.call("CreateContainer", request)).container_id

    async def start(self, container: str) -> None:
        await self.call("StartContainer", ContainerId(container))

    async def update(self, container: str, resources: LinuxContainerResources) -> None:
        await self.call("UpdateContainerResources", UpdateContainerResourcesRequest(container, resources))

    async def end(self, sandbox: str) -> None:
        """As kubelet does, again and again: a container that is just starting cannot be removed yet."""

        async def is_removed() -> bool:
            await self.call("StopPodSandbox", SandboxId(sandbox))
            await self.call("RemovePodSandbox", SandboxId(sandbox))
            return True

        await eventually(is_removed, retry_on=grpc.aio.AioRpcError)

    async def sandboxes(self) -> list[str]:
        return [item.id for item in decode(PodSandboxes, await self.call("ListPodSandbox")).items]

    async def containers(self) -> list[str]:
        return [container.id for container in decode(Containers, await self.call("ListContainers")).containers]


@asynccontextmanager
async def client(socket: Path) -> AsyncIterator[CriClient]:
    async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        yield CriClient(channel)


async def printed(path: Path, lines: int, within_s: float = 30) -> list[str]:
    """What a container wrote, without what the runtime adds to each line."""

    def written() -> list[str]:
        return path.read_text().splitlines() if path.exists() else []

    await eventually(lambda: len(written()) >= lines, within_s, what=lambda: str(written()))
    return [line.split(" ", 3)[3] for line in written()]
