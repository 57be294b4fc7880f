"""Application probes: how long a pod takes to answer, or the number that it says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest
from aiohttp import web

from koord.agent.live import probing
from koord.agent.live.probing import Prober, probe_of
from koord.agent.pods import AgentPod
from koord.kube.clock import SystemClock
from tests.agent import states
from tests.waiting import eventually, forever

PROBE = "node.koord.sh/latency-probe"


@asynccontextmanager
async def application() -> AsyncIterator[int]:
    """One that answers at `/`, tells its p99 at `/p99`, is stuck at `/stuck` and sends callers away at `/away`."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/stuck":
            await forever()
        if request.path == "/away":
            return web.Response(status=302, headers={"Location": "/p99"})
        return web.Response(text="12.5\n" if request.path == "/p99" else "ok")

    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def asking(name: str, probe: str, address: str = "127.0.0.1") -> AgentPod:
    return replace(states.pod(name, "LS", annotations={PROBE: probe}), address=address)


async def test_pods_that_ask_for_it_are_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "WITHIN_S", 0.5)
    told: dict[str, float] = {}
    async with application() as port:
        pods = [
            asking("timed", f'{{"port": {port}}}'),
            asking("says", f'{{"port": {port}, "path": "/p99", "reads": "number"}}'),
            asking("stuck", f'{{"port": {port}, "path": "/stuck"}}'),
            asking("away", f'{{"port": {port}, "path": "/away", "reads": "number"}}'),
            asking("closed", '{"port": 1}'),
            states.pod("silent", "LS"),
        ]
        prober = Prober(lambda: pods, told.__setitem__, SystemClock())
        probes = asyncio.create_task(prober.run(60.0))
        await eventually(lambda: "stuck" in told)
        probes.cancel()
        with suppress(asyncio.CancelledError):
            await probes
    assert told.keys() == {"timed", "says", "stuck"}
    assert told["says"] == 12.5
    assert told["timed"] > 0
    assert told["stuck"] == 500.0


@pytest.mark.parametrize(
    "probe", ['{"port": 0}', '{"port": 70000}', '{"path": "/"}', '{"port": 80, "path": "x"}', "8080", '{"port": "80"}']
)
def test_a_malformed_probe_counts_as_none(probe: str) -> None:
    assert probe_of(asking("web", probe)) is None
    assert probe_of(asking("web", '{"port": 80}')) is not None
    assert probe_of(asking("web", '{"port": 80}', address="")) is None
