"""A local node on an API server, for the tests of one module."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from koord.agent.host.cgroups import Cgroups, Version
from koord.agent.host.files import Files
from koord.api.kinds import PODS
from koord.kube.client import Client
from koord.kube.errors import NotFound
from koord_minicluster.local.live.run import LocalOptions, run
from tests.minicluster.apiserver.server_process import ServerProcess
from tests.minicluster.local.running import NAME, ROOT, left_behind


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    data = tmp_path_factory.mktemp("server") / "data"
    process = ServerProcess(data, "--durability", "fast", "--disable-admission-plugins", "ServiceAccount")
    process.start()
    yield data / "kubeconfig"
    process.kill()


@pytest.fixture
async def client(server: Path, tmp_path: Path) -> AsyncIterator[Client]:
    """With a local node of half a core and 256 MiB, which is gone afterwards with all that ran there."""
    if Cgroups.of(Files("/")).version is not Version.V1 and not os.access("/sys/fs/cgroup", os.W_OK):
        pytest.skip("cgroups cannot be made here")
    ready = asyncio.Event()
    options = LocalOptions(NAME, ROOT, tmp_path / "logs", cpu_milli=500, memory_bytes=256 << 20)
    async with Client.from_config(str(server)) as client:
        task = asyncio.create_task(run(client, options, on_ready=lambda port: ready.set()))
        done, _ = await asyncio.wait({task, asyncio.create_task(ready.wait())}, return_when=asyncio.FIRST_COMPLETED)
        if task in done:
            task.result()
        try:
            yield client
        finally:
            for pod in await client.list(PODS):
                with suppress(NotFound):
                    await client.delete(PODS, pod.metadata.name, namespace=pod.metadata.namespace, grace_s=0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            assert not left_behind(), "cgroups of the node are left behind"
