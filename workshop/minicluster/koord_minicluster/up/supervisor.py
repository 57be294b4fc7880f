"""Keeps the components running: starts them together, restarts one that dies, stops all at the end.

A component is a child process in its own session, so that a terminal's Ctrl-C reaches only the supervisor. Its standard
input is the tether: if the supervisor vanishes, even by SIGKILL, the component ends by itself. A component that dies is
restarted at once, then after growing delays. So is one that fails to start because the machine lacks processes or
descriptors. A component that keeps failing before it was ever ready stops the whole cluster. A component has ended when
its process has, even if another process still holds its output open.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from koord.api.machinery.faults import BadInput
from koord.kube.program import own_program
from koord.kube.tether import SUPERVISED
from koord_minicluster.up.data_dir import DataDir
from koord_minicluster.up.plan import Component

log = logging.getLogger(__name__)

State = Literal["starting", "ready", "waiting", "stopped"]

GIVE_UP_AFTER: Final = 3
"""A component that dies this often before it was ever ready is given up."""
BACKOFF_FIRST_S: Final = 0.5
BACKOFF_MOST_S: Final = 30.0
STEADY_S: Final = 60.0
"""One that ran this long is restarted as if it had never died."""
LAST_WORDS_S: Final = 0.5
LOOK_S: Final = 0.01


class Failed(BadInput):
    """A component cannot be started. The message has the component's own reason."""


@dataclass(slots=True)
class Child:
    """A component and how it is."""

    component: Component
    state: State = "starting"
    process: asyncio.subprocess.Process | None = None
    endpoints: dict[str, str] = field(default_factory=dict)
    restarts: int = 0
    since_s: float = 0.0
    ended: str = ""
    "How it ended the last time, if it did."
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    started: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def name(self) -> str:
        return self.component.name

    @property
    def pid(self) -> int:
        return self.process.pid if self.process is not None else 0


class Supervisor:
    """`run` keeps the children alive until it is cancelled, and returns when they are gone."""

    def __init__(
        self,
        components: Sequence[Component],
        data: DataDir,
        *,
        on_change: Callable[[], None] = lambda: None,
        command: Sequence[str] = own_program(),
        backoff_most_s: float = BACKOFF_MOST_S,
    ) -> None:
        self.children = {component.name: Child(component) for component in components}
        self._data, self._on_change, self._command = data, on_change, tuple(command)
        self._backoff_most_s = backoff_most_s
        self._stopping = False
        self.spawned = asyncio.Event()
        "Set when the process of every component that is not late has been started once."

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                for child in self.children.values():
                    tasks.create_task(self._keep(child), name=f"keep/{child.name}")
        finally:
            await self._stop()

    async def ready(self) -> None:
        """Returns when every component has reported that it is ready, and late components have been started."""
        await self._early_ones_are_ready()
        for child in self.children.values():
            await child.started.wait()

    async def _early_ones_are_ready(self) -> None:
        for child in self.children.values():
            if not child.component.late:
                await child.ready.wait()

    async def _keep(self, child: Child) -> None:
        """Starts the component, and starts it again whenever it ends."""
        failures = 0
        if child.component.late:
            await self._early_ones_are_ready()
        while True:
            started = time.monotonic()
            child.ended = await self._run_once(child)
            if self._stopping:
                return
            ran_s = time.monotonic() - started
            failures = 1 if child.state == "ready" and ran_s > STEADY_S else failures + 1
            if not child.ready.is_set() and failures >= GIVE_UP_AFTER:
                raise Failed(self._why(child))
            pause_s = 0.0 if failures == 1 else min(self._backoff_most_s, BACKOFF_FIRST_S * 2 ** (failures - 2))
            child.restarts += 1
            self._change(child, "waiting")
            log.warning(
                "%s %s: starting it again", child.name, child.ended, extra={"after_s": pause_s, "pid": child.pid}
            )
            await asyncio.sleep(pause_s)

    async def _run_once(self, child: Child) -> str:
        """Runs the component from start to end; returns how it ended."""
        try:
            process, read = await self._start(child)
        except OSError as error:
            return f"could not be started: {error.strerror}"
        said = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(said), os.fdopen(read, "rb")
        )
        listening = asyncio.create_task(self._listen(child, said), name=f"listen/{child.name}")
        try:
            code = await ended(process)
            # The last output may still be in the pipe.
            await asyncio.wait({listening}, timeout=LAST_WORDS_S)
            return _how_it_ended(code)
        finally:
            listening.cancel()
            transport.close()
            if process.returncode is not None and process.stdin is not None:
                process.stdin.close()

    async def _start(self, child: Child) -> tuple[asyncio.subprocess.Process, int]:
        """The process, and the descriptor to read its output from. Raises OSError if the system cannot provide them."""
        read, write = os.pipe()
        try:
            with self._data.open_log(child.name) as errors:
                process = child.process = await asyncio.create_subprocess_exec(
                    *(child.component.program or self._command),
                    *(child.component.command or (child.name,)),
                    *child.component.args,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=write,
                    stderr=errors,
                    env={**os.environ, **child.component.environment, SUPERVISED: "1"},
                    start_new_session=True,
                )
        except BaseException:
            os.close(read)
            raise
        finally:
            os.close(write)
        child.endpoints = {}
        self._change(child, "starting")
        child.started.set()
        if all(child.started.is_set() for child in self.children.values() if not child.component.late):
            self.spawned.set()
        log.debug("started %s", child.name, extra={"pid": child.pid})
        return process, read

    async def _listen(self, child: Child, output: asyncio.StreamReader) -> None:
        """Reads the component's output until it is closed."""
        async for line in output:
            try:
                said = msgspec.json.decode(line)
                child.endpoints = {str(name): str(address) for name, address in said["ready"].items()}
            except (msgspec.DecodeError, TypeError, KeyError, AttributeError):
                log.debug("%s said: %s", child.name, line.decode("utf-8", "replace").rstrip())
                continue
            self._change(child, "ready")
            child.ready.set()
            log.info("%s is ready", child.name, extra={"pid": child.pid})

    def _change(self, child: Child, state: State) -> None:
        child.state, child.since_s = state, time.time()
        self._on_change()

    async def _stop(self) -> None:
        """Ends all: first those that need the API server, then it."""
        self._stopping = True
        first, *others = self.children.values()
        await asyncio.gather(*(self._end(child) for child in others))
        await self._end(first)

    async def _end(self, child: Child) -> None:
        process = child.process
        if process is not None and process.returncode is None:
            _signal(process, signal.SIGTERM)
            try:
                await asyncio.wait_for(ended(process), child.component.stop_within_s)
            except TimeoutError:
                log.warning("%s did not stop in time and was killed", child.name, extra={"pid": process.pid})
                _signal(process, signal.SIGKILL)
                await ended(process)
        self._change(child, "stopped")

    def _why(self, child: Child) -> str:
        tail = "\n  ".join(self._data.log_tail(child.name)) or "its log is empty"
        return f"{child.name} {child.ended} {GIVE_UP_AFTER} times without ever being ready; its log ends:\n  {tail}"


async def ended(process: asyncio.subprocess.Process) -> int:
    """The exit code, when the process is gone. asyncio's own `wait` also waits for its pipes to be closed, which
    children of the process may hold."""
    if not hasattr(os, "pidfd_open"):
        return await process.wait()
    with suppress(OSError):  # it is gone already, or this process has no descriptor left to wait with
        fd = os.pidfd_open(process.pid)
        gone, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.add_reader(fd, gone.set)
        try:
            await gone.wait()
        finally:
            loop.remove_reader(fd)
            os.close(fd)
    while process.returncode is None:  # noqa: ASYNC110 - the loop reaps it by itself
        await asyncio.sleep(LOOK_S)
    return process.returncode


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(number)


def _how_it_ended(code: int) -> str:
    if code < 0:
        try:
            return f"was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"was ended by signal {-code}"
    return f"ended with code {code}"
