"""The NRI plugin as a process: registers with the runtime, answers its calls, and comes back when the runtime does.

A container is set up when it is made. What runs already is brought in line when the plugin connects, and again
whenever the agent wants something else of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from koord.agent.adjustment import Adjustment
from koord.agent.announced import Asking
from koord.api.machinery.messages import Message, decode, encode
from koord.api.machinery.protobuf import MessageError
from koord.kube.clock import Clock, SystemClock
from koord.kube.shell import causes
from koord.runtime import nri
from koord.runtime.live.agent import AgentClient, AgentError, UnknownPod
from koord.runtime.ttrpc import (
    OK,
    PLUGIN,
    REQUEST,
    RESPONSE,
    RUNTIME,
    UNIMPLEMENTED,
    UNKNOWN,
    Frame,
    Pieces,
    Request,
    Response,
    Status,
    piece,
)

log = logging.getLogger(__name__)

SOCKET: Final = "/var/run/nri/nri.sock"
LOOK_S: Final = 10.0
CALL_S: Final = 10.0
FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 30.0
UNKNOWN_LOOKS: Final = 6
"""How often in a row the agent must not know a container's pod before it counts as gone. containerd does not report the
end of pods that are older than itself, and an agent that has just started knows no pods."""


@dataclass(frozen=True, slots=True)
class NriOptions:
    socket: str = SOCKET
    agent: str = "/var/run/koord/hooks.sock"
    name: str = "koord"
    index: str = "00"
    fails: bool = False
    "Whether a container is not made when the agent does not answer."
    agent_s: float = 1.0
    "How long the agent may take; runtimes give a plugin two seconds."
    look_s: float = LOOK_S


@dataclass(slots=True)
class _RunningContainer:
    """A container of the runtime's, with what it was last given."""

    pod: nri.PodSandbox
    name: str
    given: Adjustment | None = None
    unknown_looks: int = 0


class Refused(Exception):
    """What the runtime is answered instead of a change."""


@dataclass(slots=True)
class Plugin:
    options: NriOptions
    agent: AgentClient
    clock: Clock
    on_ready: Callable[[], None] = lambda: None
    containers: dict[str, _RunningContainer] = field(default_factory=dict)
    "By id."
    is_in_line: bool = False
    "Whether the runtime has listed its containers."
    _told: str = ""
    "Of the agent, once as long as it stays so."
    _synchronizing: nri.SynchronizeRequest = field(default_factory=nri.SynchronizeRequest)

    async def answer(self, method: str, payload: bytes) -> Message | None:
        """None: the method does not exist. Raises MessageError and Refused."""
        handle = _METHODS.get(method)
        return await handle(self, payload) if handle is not None else None

    async def _configure(self, payload: bytes) -> Message:
        about = decode(nri.ConfigureRequest, payload)
        log.info("registered with %s %s", about.runtime_name, about.runtime_version)
        return nri.ConfigureResponse(nri.EVENTS)

    async def _synchronize(self, payload: bytes) -> Message:
        """Updates the running containers. A runtime may list them in several parts."""
        part, whole = decode(nri.SynchronizeRequest, payload), self._synchronizing
        whole.pods += part.pods
        whole.containers += part.containers
        if part.more:
            return nri.SynchronizeResponse(more=True)
        self._synchronizing = nri.SynchronizeRequest()
        pods = {pod.id: pod for pod in whole.pods}
        self.containers = {}
        updates: list[nri.ContainerUpdate] = []
        is_silent = False
        for container in whole.containers:
            pod = pods.get(container.pod_sandbox_id)
            if pod is None or container.state not in (nri.CREATED, nri.RUNNING):
                continue
            self.containers[container.id] = running = _RunningContainer(pod, container.name)
            # The runtime waits, and not for long: an agent that does not answer is asked about one container alone.
            wanted = None if is_silent else await self._looked(running)
            is_silent = bool(self._told)
            has = container.linux.resources if container.linux is not None else None
            if wanted is not None and nri.differs(has, wanted):
                updates += await self._changed(container.id, running) or []
            running.given = running.given or wanted
        log.info("%d containers run here, %d of them are changed", len(self.containers), len(updates))
        self.is_in_line = True
        self.on_ready()
        return nri.SynchronizeResponse(updates)

    async def _run_sandbox(self, payload: bytes) -> Message:
        await self._pod_runs(decode(nri.PodAndContainer, payload).pod)
        return Message()

    async def _pod_runs(self, pod: nri.PodSandbox | None) -> None:
        if pod is not None:
            await self._ask(nri.asking(pod))

    async def _remove_sandbox(self, payload: bytes) -> Message:
        await self._pod_goes(decode(nri.PodAndContainer, payload).pod)
        return Message()

    async def _pod_goes(self, pod: nri.PodSandbox | None) -> None:
        if pod is not None:
            for id in [id for id, running in self.containers.items() if running.pod.id == pod.id]:
                del self.containers[id]
            await self._ask(replace(nri.asking(pod), is_over=True), may_fail=True)

    async def _create_container(self, payload: bytes) -> Message:
        about = decode(nri.PodAndContainer, payload)
        if about.pod is None or about.container is None:
            return nri.CreateContainerResponse()
        wanted = await self._ask(nri.asking(about.pod, about.container.name))
        self.containers[about.container.id] = _RunningContainer(about.pod, about.container.name, wanted)
        return nri.CreateContainerResponse(nri.adjustment(wanted) if wanted is not None else None)

    async def _update_container(self, payload: bytes) -> Message:
        about = decode(nri.UpdateContainerRequest, payload)
        if about.pod is None or about.container is None:
            return nri.UpdateContainerResponse()
        asking = nri.asking(about.pod, about.container.name)
        wanted = await self._ask(replace(asking, is_update=True, cpu_quota_us=about.cpu_quota_us))
        change = nri.update(about.container.id, wanted) if wanted is not None else None
        return nri.UpdateContainerResponse([change] if change is not None else [])

    async def _stop_container(self, payload: bytes) -> Message:
        about = decode(nri.PodAndContainer, payload)
        if about.container is not None:
            self.containers.pop(about.container.id, None)
        return Message()

    async def _state_change(self, payload: bytes) -> Message:
        """Events that cannot be answered with changes, in the form of runtimes before NRI 0.11."""
        about = decode(nri.StateChangeEvent, payload)
        if about.event == nri.RUN_POD_SANDBOX:
            await self._pod_runs(about.pod)
        elif about.event == nri.REMOVE_POD_SANDBOX:
            await self._pod_goes(about.pod)
        return Message()

    async def outdated(self) -> list[tuple[str, _RunningContainer]]:
        """Running containers for which the agent wants other settings by now. It may be slow: the runtime's calls do
        not wait for it, since they do not depend on it."""
        behind = []
        for id, running in list(self.containers.items()):
            try:
                wanted = await self._ask(replace(nri.asking(running.pod, running.name), is_look=True), may_fail=True)
            except UnknownPod:
                running.unknown_looks += 1
                if running.unknown_looks >= UNKNOWN_LOOKS and self.containers.get(id) is running:
                    del self.containers[id]
                continue
            if wanted is None:
                break
            running.unknown_looks = 0
            if running.given is None or nri.is_news(wanted, running.given):
                behind.append((id, running))
            else:
                running.given = wanted
        return behind

    async def changes(self, outdated: list[tuple[str, _RunningContainer]]) -> list[nri.ContainerUpdate]:
        """The updates of those that still exist, for the runtime."""
        updates: list[nri.ContainerUpdate] = []
        for id, running in outdated:
            if self.containers.get(id) is running:
                changed = await self._changed(id, running)
                if changed is None:
                    break
                updates += changed
        return updates

    async def _looked(self, running: _RunningContainer) -> Adjustment | None:
        """The settings of a running container. The agent may not know its pod yet."""
        look = replace(nri.asking(running.pod, running.name), is_look=True)
        try:
            return await self._ask(look, may_fail=True)
        except UnknownPod:
            await self._ask(nri.asking(running.pod), may_fail=True)
        try:
            return await self._ask(look, may_fail=True)
        except UnknownPod:
            return None

    async def _changed(self, id: str, running: _RunningContainer) -> list[nri.ContainerUpdate] | None:
        """The settings at delivery, which the agent records. None: it did not answer."""
        wanted = await self._ask(replace(nri.asking(running.pod, running.name), is_running=True), may_fail=True)
        if wanted is None:
            return None
        running.given = wanted
        change = nri.update(id, wanted)
        return [change] if change is not None else []

    async def _ask(self, asking: Asking, *, may_fail: bool = False) -> Adjustment | None:
        """None where the agent does not answer, and that is no reason to refuse. Raises UnknownPod for a look."""
        try:
            async with asyncio.timeout(self.options.agent_s):
                wanted = await self.agent.ask(asking)
            self._told = ""
            return wanted
        except UnknownPod:
            self._told = ""
            raise
        except TimeoutError:
            why = f"no answer within {self.options.agent_s:g} s"
        except AgentError as error:
            why = str(error)
        about = f"pod {asking.pod.namespace}/{asking.pod.name}, container {asking.container or '-'}"
        text = f"the agent at {self.agent.socket} failed: {why[:500]}"
        if self.options.fails and not may_fail:
            raise Refused(f"{about}: {text}")
        if text != self._told:
            log.warning("%s; containers are made without it", text)
            self._told = text
        return None


_METHODS: Final[dict[str, Callable[[Plugin, bytes], Awaitable[Message]]]] = {
    "Configure": Plugin._configure,
    "Synchronize": Plugin._synchronize,
    "RunPodSandbox": Plugin._run_sandbox,
    "RemovePodSandbox": Plugin._remove_sandbox,
    "CreateContainer": Plugin._create_container,
    "UpdateContainer": Plugin._update_container,
    "StopContainer": Plugin._stop_container,
    "StateChange": Plugin._state_change,
}


class Connection:
    """One life of the connection with the runtime."""

    def __init__(self, plugin: Plugin, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._plugin, self._reader, self._writer = plugin, reader, writer
        self._waiting: dict[int, asyncio.Future[Response]] = {}
        self._stream = -1
        self._answering = asyncio.Lock()

    async def run(self) -> None:
        """Until the runtime goes. Raises OSError and MessageError."""
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(self._read(tasks))
            await self._register()
            following = tasks.create_task(self._follow())
            await asyncio.wait([reading])
            following.cancel()

    async def _register(self) -> None:
        options = self._plugin.options
        said = nri.RegisterPluginRequest(options.name, options.index)
        await self._call("RegisterPlugin", said)

    async def _follow(self) -> None:
        """Decisions change while containers run."""
        while True:
            await self._plugin.clock.sleep(self._plugin.options.look_s)
            outdated = await self._plugin.outdated()
            if not outdated:
                continue
            async with self._answering:
                changes = await self._plugin.changes(outdated)
            if changes:
                given = await self._call("UpdateContainers", nri.UpdateContainersRequest(changes))
                failed = decode(nri.UpdateContainersResponse, given).failed
                for update in failed:
                    log.warning("the runtime could not update container %s", update.container_id)

    async def _call(self, method: str, said: Message) -> bytes:
        self._stream += 2
        stream = self._stream
        waiting: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._waiting[stream] = waiting
        request = Request(nri.RUNTIME_SERVICE, method, encode(said))
        await self._write(RUNTIME, Frame(stream, REQUEST, encode(request)))
        try:
            async with asyncio.timeout(CALL_S):
                response = await waiting
        except TimeoutError:
            raise OSError(f"the runtime does not answer {method}") from None
        finally:
            self._waiting.pop(stream, None)
        if response.status is not None and response.status.code != OK:
            raise OSError(f"the runtime refuses {method}: {response.status.message}")
        return response.payload

    async def _read(self, tasks: asyncio.TaskGroup) -> None:
        pieces = Pieces()
        while data := await self._reader.read(1 << 16):
            for connection, frame in pieces.feed(data):
                if connection == PLUGIN and frame.type == REQUEST:
                    tasks.create_task(self._answer(frame))
                elif connection == RUNTIME and frame.type == RESPONSE:
                    waiting = self._waiting.get(frame.stream)
                    if waiting is not None and not waiting.done():
                        waiting.set_result(decode(Response, frame.body))
        raise ConnectionResetError("the runtime has closed the connection")

    async def _answer(self, frame: Frame) -> None:
        request = decode(Request, frame.body)
        status, payload = Status(OK), b""
        try:
            # One after the other: what is known of containers changes with each.
            async with self._answering:
                message = await self._plugin.answer(request.method, request.payload)
            if message is None:
                status = Status(UNIMPLEMENTED, f"koord has no {request.method}")
            else:
                payload = encode(message)
        except (MessageError, Refused) as error:
            status = Status(UNKNOWN, str(error))
        response = Response(status if status.code != OK else None, payload)
        await self._write(PLUGIN, Frame(frame.stream, RESPONSE, encode(response)))

    async def _write(self, connection: int, frame: Frame) -> None:
        self._writer.write(piece(connection, frame.encoded()))
        await self._writer.drain()


async def run(options: NriOptions, *, clock: Clock | None = None, on_ready: Callable[[], None] = lambda: None) -> None:
    """Until cancelled. A runtime that is not there, or goes, is waited for."""
    clock = clock or SystemClock()
    agent = AgentClient(options.agent)
    wait_s, reported = FIRST_WAIT_S, ""
    try:
        while True:
            plugin = Plugin(options, agent, clock, on_ready)
            try:
                reader, writer = await asyncio.open_unix_connection(options.socket)
                try:
                    await Connection(plugin, reader, writer).run()
                finally:
                    writer.close()
            except* (OSError, MessageError) as errors:
                why = "; ".join(dict.fromkeys(map(_said, causes(errors))))
            if plugin.is_in_line:
                wait_s, reported = FIRST_WAIT_S, ""
            if why != reported:
                log.warning("NRI at %s: %s; it is tried again", options.socket, why)
                reported = why
            await clock.sleep(wait_s)
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)
    finally:
        await agent.close()


def _said(error: BaseException) -> str:
    if isinstance(error, FileNotFoundError):
        return "the socket does not exist (containerd 2 has NRI on; `koord node setup --way nri` turns it on elsewhere)"
    return str(error) or type(error).__name__
