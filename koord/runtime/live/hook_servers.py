"""Hook servers, asked: Koordinator's over gRPC, koord's agent over its own socket. Files say who they are.

A server that hangs, answers nonsense or is gone costs a call no more than `timeout_s`; then its failure policy decides.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

import grpc
import grpc.aio

from koord.agent.adjustment import Adjustment
from koord.agent.announced import Asking, PodTold
from koord.api.machinery.protobuf import MessageError
from koord.kube.clock import Clock
from koord.kube.unix_sockets import trusted
from koord.runtime.cri import Device, LinuxContainerResources, Mount
from koord.runtime.hook_files import FailurePolicy, HookFile, HookFileError, Protocol, by_stage, parse
from koord.runtime.hook_service import SERVICE
from koord.runtime.intercept import Answer, Question, answered_by_koordinator, asked_by_koordinator
from koord.runtime.live.agent import AgentClient, AgentError
from koord.runtime.stages import Stage

log = logging.getLogger(__name__)

LOOK_S: Final = 1.0
MOST_BYTES: Final = 16 << 20
LARGEST_FILE: Final = 64 << 10
NOTHING: Final = Answer()


class HookFailed(Exception):
    """A hook server whose policy is Fail did not answer: the runtime is not asked."""


class HookServers:
    def __init__(self, folder: Path, clock: Clock, timeout_s: float) -> None:
        self._folder, self._clock, self._timeout_s = folder, clock, timeout_s
        self._seen: dict[str, tuple[int, int, HookFile | None]] = {}
        "By file, its time and size, and what it registers."
        self._by_stage: dict[Stage, HookFile] = {}
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._agents: dict[str, AgentClient] = {}
        self._complaints: dict[str, str] = {}
        self.failures = 0

    async def watch(self) -> None:
        """Runs until cancelled. Files come and go; a registered server may still be starting."""
        while True:
            self.look()
            await self._clock.sleep(LOOK_S)

    def look(self) -> None:
        files: dict[str, tuple[int, int, HookFile | None]] = {}
        for path in sorted(self._folder.glob("*.json")) if self._folder.is_dir() else ():
            stamp = 0, 0
            try:
                about = path.stat()
                stamp = about.st_mtime_ns, about.st_size
                seen = self._seen.get(path.name)
                if seen is None or seen[:2] != stamp:
                    seen = (*stamp, _read(path, about))
                    self._complaints.pop(path.name, None)
                files[path.name] = seen
            except (OSError, HookFileError) as error:
                files[path.name] = (*stamp, None)
                self._complain(path.name, f"{path} registers no hook server: {error}")
        if files != self._seen:
            self._seen = files
            self._by_stage = by_stage(
                {name: hook_file for name, (_, _, hook_file) in files.items() if hook_file is not None}
            )

    async def ask(self, question: Question) -> Answer:
        """Raises HookFailed where the failure policy says so."""
        server = self._by_stage.get(question.stage)
        if server is None or question.is_skipped:
            return NOTHING
        try:
            if problem := trusted(server.socket):
                raise OSError(problem)
            async with asyncio.timeout(self._timeout_s):
                answer = await self._asked(server, question)
        except TimeoutError:
            why = f"no answer within {self._timeout_s:g} s"
        except grpc.aio.AioRpcError as error:
            why = f"{error.code().name}: {error.details()}"
        except (OSError, AgentError, MessageError, ValueError) as error:
            why = str(error) or type(error).__name__
        else:
            self._complaints.pop(server.socket, None)
            return answer
        self.failures += 1
        text = f"the hook server at {server.socket} failed: {why[:500]}"
        if server.failure_policy is FailurePolicy.FAIL:
            raise HookFailed(f"{question}: {text}")
        self._complain(server.socket, f"{text}; containers are made without it")
        return NOTHING

    async def _asked(self, server: HookFile, question: Question) -> Answer:
        if server.protocol is Protocol.KOORD:
            return await self._asked_agent(server, question)
        channel = self._channels.get(server.socket)
        if channel is None:
            channel = self._channels[server.socket] = _channel(server.socket)
        asked = asked_by_koordinator(question)
        try:
            answer = await _call(channel, question.stage, asked)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            # The channel may still lead to a server that has been replaced, or rest after a failure.
            async with _channel(server.socket) as fresh:
                answer = await _call(fresh, question.stage, asked)
        return answered_by_koordinator(question.stage, answer)

    async def _asked_agent(self, server: HookFile, question: Question) -> Answer:
        agent = self._agents.get(server.socket)
        if agent is None:
            agent = self._agents[server.socket] = AgentClient(server.socket)
        pod, container = question.sandbox, question.container
        pod_info = PodTold(pod.uid, pod.name, pod.namespace, pod.labels, pod.annotations, pod.cgroup_parent)
        asking = Asking(
            pod_info,
            container.name if container is not None else "",
            "runtime-proxy",
            is_update=question.stage is Stage.PRE_UPDATE_CONTAINER_RESOURCES,
            cpu_quota_us=container.cpu_quota_us if container is not None else 0,
            is_over=question.stage is Stage.POST_STOP_POD_SANDBOX,
        )
        return of_adjustment(await agent.ask(asking), is_pod=container is None)

    def _complain(self, about: str, text: str) -> None:
        if self._complaints.get(about) != text:
            self._complaints[about] = text
            log.warning("%s", text)

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()
        for agent in self._agents.values():
            await agent.close()


def _channel(socket: str) -> grpc.aio.Channel:
    options = [("grpc.max_receive_message_length", MOST_BYTES), ("grpc.max_reconnect_backoff_ms", 1000)]
    return grpc.aio.insecure_channel(f"unix:{socket}", options)


async def _call(channel: grpc.aio.Channel, stage: Stage, asked: bytes) -> bytes:
    ask: Callable[..., grpc.aio.UnaryUnaryCall[bytes, bytes]] = channel.unary_unary(f"/{SERVICE}/{stage.method}")
    return await ask(asked)


def _read(path: Path, about: os.stat_result) -> HookFile:
    """Raises OSError and HookFileError. Others' programs write there: a pipe would never end."""
    if not stat.S_ISREG(about.st_mode):
        raise HookFileError("it must be a plain file")
    if about.st_size > LARGEST_FILE:
        raise HookFileError(f"it has {about.st_size} bytes, and at most {LARGEST_FILE} are read")
    return parse(path.read_bytes())


def of_adjustment(wanted: Adjustment, *, is_pod: bool) -> Answer:
    """What koord's agent wants, in the interface's words. A pod's own cgroup was set by the agent itself: its sandbox
    only follows with its CPUs."""
    if is_pod:
        return Answer(resources=LinuxContainerResources(cpuset_cpus=wanted.cpus) if wanted.cpus else None)
    resources = LinuxContainerResources(
        cpu_period=wanted.cpu_period_us or 0,
        cpu_quota=wanted.cpu_quota_us or 0,
        cpu_shares=wanted.cpu_shares or 0,
        memory_limit_in_bytes=wanted.memory_limit_bytes or 0,
        oom_score_adj=wanted.oom_score_adj or 0,
        cpuset_cpus=wanted.cpus or "",
    )
    return Answer(
        resources=resources if resources != LinuxContainerResources() else None,
        envs=wanted.env,
        devices=[Device(device.path, device.host_path, device.permissions) for device in wanted.devices],
        mounts=[Mount(mount.path, mount.host_path, mount.is_read_only) for mount in wanted.mounts],
        cdi=wanted.cdi,
    )
