"""The agent in a process of its own, with short rounds: a test can kill it as a node's kernel would."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from koord.agent.live.run import AgentOptions, run
from koord.kube.client import Client
from koord.kube.locate import locate

READY = b"ready\n"


class Arguments(msgspec.Struct, frozen=True):
    kubeconfig: str
    node: str
    host_root: str
    cgroup_root: str
    state_dir: str
    kubelet_address: str
    round_s: float
    kubelet_s: float


@asynccontextmanager
async def agent_process(
    kubeconfig: Path, options: AgentOptions, *, until_ready: bool = True
) -> AsyncIterator[asyncio.subprocess.Process]:
    """An agent that is ready, killed (-9) at the end of the block."""
    arguments = Arguments(
        str(kubeconfig),
        options.node,
        options.host_root,
        options.cgroup_root,
        str(options.state_dir),
        options.kubelet_address,
        options.round_s,
        options.kubelet_s,
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.agent.agent_process", msgspec.json.encode(arguments).decode()),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        if until_ready:
            async with asyncio.timeout(60):
                assert await process.stdout.readline() == READY
        yield process
    finally:
        process.kill()
        await process.wait()


async def _run(given: Arguments) -> None:
    options = AgentOptions(
        given.node,
        given.host_root,
        given.cgroup_root,
        Path(given.state_dir),
        given.kubelet_address,
        round_s=given.round_s,
        kubelet_s=given.kubelet_s,
    )

    def ready() -> None:
        sys.stdout.buffer.write(READY)
        sys.stdout.flush()

    async with Client(locate(given.kubeconfig)) as client:
        await run(client, options, on_ready=ready)


if __name__ == "__main__":
    asyncio.run(_run(msgspec.json.decode(sys.argv[1], type=Arguments)))
