"""Application probes: what a service says of itself, or how long it takes to answer, every few seconds.

A pod asks for it by an annotation. The answer counts like any other signal of suffering: by its own baseline. An
answer that does not come in time counts with the time until then; a pod that refuses to talk says nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

import aiohttp

from koord.agent.pods import AgentPod
from koord.api.protocol.annotations.pod_qos import LATENCY_PROBE, LatencyProbe
from koord.api.protocol.annotations.value import AnnotationError
from koord.kube.clock import Clock

log = logging.getLogger(__name__)

EVERY_S: Final = 5.0
WITHIN_S: Final = 2.0
LONGEST_ANSWER: Final = 64
"""Bytes of a number."""
AT_ONCE: Final = 16


class Prober:
    def __init__(
        self, pods: Callable[[], Iterable[AgentPod]], tell: Callable[[str, float], None], clock: Clock
    ) -> None:
        """`tell` is called with a pod's uid and its value; a larger value is worse."""
        self._pods, self._tell, self._clock = pods, tell, clock
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def run(self, every_s: float = EVERY_S) -> None:
        """Until it is cancelled."""
        timeout = aiohttp.ClientTimeout(total=WITHIN_S)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while True:
                asked = [(pod, probe) for pod in self._pods() if (probe := probe_of(pod)) is not None]
                async with asyncio.TaskGroup() as tasks:
                    for pod, probe in asked:
                        tasks.create_task(self._ask(session, pod, probe))
                await self._clock.sleep(every_s)

    async def _ask(self, session: aiohttp.ClientSession, pod: AgentPod, probe: LatencyProbe) -> None:
        host = f"[{pod.address}]" if ":" in pod.address else pod.address
        async with self._turns:
            began_s = self._clock.monotonic()
            try:
                # Where a pod would send us is not for it to say.
                async with session.get(f"http://{host}:{probe.port}{probe.path}", allow_redirects=False) as answer:
                    text = await answer.content.read(LONGEST_ANSWER)
                value = float(text) if probe.reads == "number" else (self._clock.monotonic() - began_s) * 1000
            except TimeoutError:
                value = WITHIN_S * 1000
            except (aiohttp.ClientError, OSError, ValueError) as error:
                log.debug("the probe of %s says nothing: %s", pod.key, error)
                return
        if 0 <= value < float("inf"):
            self._tell(pod.uid, value)


def probe_of(pod: AgentPod) -> LatencyProbe | None:
    """A malformed probe counts as none; the reader of annotations reports it."""
    if not pod.is_active or not pod.address:
        return None
    try:
        return LATENCY_PROBE.read(pod.meta)
    except AnnotationError:
        return None
