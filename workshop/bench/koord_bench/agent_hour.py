"""The agent's daemon with a clock that goes several times as fast: what it does in an hour, in minutes.

All of its rounds, looks, trainings and reports come at that pace: everything in it takes its time from that clock.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from koord.agent.live.run import AgentOptions, run
from koord.api.configuration.features import AgentGate, parse_gates
from koord.kube.client import Client
from koord.kube.cluster_config import ClusterConfig
from koord.kube.kubeconfig import parse, resolve


class FastClock:
    """The machine's time, `times` as fast since this clock was made."""

    def __init__(self, times: float) -> None:
        self._times = times
        self._now_s, self._monotonic_s = time.time(), time.monotonic()

    def now(self) -> float:
        return self._now_s + (time.time() - self._now_s) * self._times

    def monotonic(self) -> float:
        return self._monotonic_s + (time.monotonic() - self._monotonic_s) * self._times

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._times)


async def main(
    times: float, config: ClusterConfig, node: str, host_root: str, state: str, kubelet: str, gates: str
) -> None:
    options = AgentOptions(
        node=node,
        host_root=host_root,
        state_dir=Path(state),
        kubelet_address=kubelet,
        gates=parse_gates(AgentGate, gates),
        pod_resources_dir=f"{state}/pod-resources",
    )
    async with Client(config) as client:
        await run(client, options, clock=FastClock(times))


if __name__ == "__main__":
    config = resolve(parse(Path(sys.argv[2]).read_text(), sys.argv[2]))
    asyncio.run(main(float(sys.argv[1]), config, *sys.argv[3:8]))
