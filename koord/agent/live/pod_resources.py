"""Keeps the process that serves kubelet's pod-resources socket, and the file that tells it what the scheduler gave.

A process that ends is started again, later each time. The agent goes on in the meantime. When the agent ends, so does
the process, whose input it holds.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from koord.agent.pod_resources import given_to_pods
from koord.agent.state import NodeState
from koord.api.protocol.pod_resources import GIVEN_FILE
from koord.kube.clock import Clock

log = logging.getLogger(__name__)

TOLD_S: Final = 1.0
"""How often it is looked whether something else was given."""
FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 300.0
STEADY_S: Final = 60.0
"""A process that lived for so long was well: the next wait is short again."""
ENDS_WITHIN_S: Final = 5.0


def next_wait_s(before_s: float, lived_s: float) -> float:
    return FIRST_WAIT_S if lived_s >= STEADY_S or not before_s else min(before_s * 2, LONGEST_WAIT_S)


def _text(state: NodeState) -> bytes:
    return msgspec.json.encode(given_to_pods(state))


@dataclass(slots=True)
class PodResources:
    kubelet_socket: Path
    socket: Path
    state_dir: Path
    state: Callable[[], NodeState | None]
    clock: Clock
    pid: int | None = None
    "Of the process, while it runs."
    _told: bytes = b""

    async def run(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._tell(), name="pod-resources-given")
            tasks.create_task(self._keep(), name="pod-resources-process")

    async def _tell(self) -> None:
        while True:
            state = self.state()
            if state is not None:
                self._write(state.once(_text))
            await self.clock.sleep(TOLD_S)

    def _write(self, text: bytes) -> None:
        if text == self._told:
            return
        file = self.state_dir / GIVEN_FILE
        new = file.with_suffix(".new")
        try:
            self.state_dir.mkdir(parents=True, exist_ok=True)
            with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
                out.write(text)
            os.replace(new, file)
        except OSError as error:
            log.warning("%s was not updated: %s", file, error)
            return
        self._told = text

    async def _keep(self) -> None:
        wait_s = 0.0
        while True:
            began_s = self.clock.monotonic()
            why = await self._serve()
            wait_s = next_wait_s(wait_s, self.clock.monotonic() - began_s)
            log.warning("the pod-resources process ended and starts again in %g s: %s", wait_s, why)
            await self.clock.sleep(wait_s)

    async def _serve(self) -> str:
        """Why it ended."""
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "koord.runtime.pod_resources.live"),
                *(str(self.kubelet_socket), str(self.socket), str(self.state_dir / GIVEN_FILE)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            return str(error)
        self.pid = process.pid
        last = ""
        try:
            assert process.stderr is not None
            async for line in process.stderr:
                last = line.decode(errors="replace").strip() or last
                log.info("pod-resources: %s", last)
            return f"exit status {await process.wait()}: {last}"
        finally:
            self.pid = None
            await _ended(process)


async def _ended(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.wait_for(asyncio.shield(process.wait()), ENDS_WITHIN_S)
    except TimeoutError:
        process.kill()
        await process.wait()
