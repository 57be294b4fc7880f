"""koord's hooks for Koordinator's runtime proxy: its RuntimeHookService, answered by koord's agent.

A process of its own, and only where that proxy runs: the agent has no gRPC, and koord's proxy asks it directly.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import grpc
import grpc.aio

from koord.agent.announced import Asking, PodTold
from koord.api.machinery.messages import decode, encode
from koord.api.machinery.protobuf import MessageError
from koord.kube.unix_sockets import root_only
from koord.runtime.cri import PodSandboxMetadata
from koord.runtime.hook_service import (
    SERVICE,
    ContainerResourceHookRequest,
    ContainerResourceHookResponse,
    PodSandboxHookRequest,
    PodSandboxHookResponse,
)
from koord.runtime.live.agent import AgentClient, AgentError
from koord.runtime.live.hook_servers import of_adjustment
from koord.runtime.live.serving import until_cancelled
from koord.runtime.stages import Stage

log = logging.getLogger(__name__)

Context: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"

STAGES: Final = (
    Stage.PRE_RUN_POD_SANDBOX,
    Stage.POST_STOP_POD_SANDBOX,
    Stage.PRE_CREATE_CONTAINER,
    Stage.PRE_UPDATE_CONTAINER_RESOURCES,
)
"""Those at which koord's hooks want something."""
CDI_ANNOTATION: Final = "cdi.k8s.io/koord_devices"
"""Runtimes also take the names of CDI devices from annotations; the protocol has no other place for devices."""
_BY_METHOD: Final = {f"/{SERVICE}/{stage.method}": stage for stage in Stage}


@dataclass(frozen=True, slots=True)
class HookServiceOptions:
    listen: Path = Path("/var/run/koordlet/koordlet.sock")
    agent: str = "/var/run/koord/hooks.sock"
    register: Path | None = None
    "The folder in which the proxy looks for hook servers."
    failure_policy: str = "Ignore"


@dataclass(slots=True)
class HookService(grpc.GenericRpcHandler):
    agent: AgentClient

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        stage = _BY_METHOD.get(handler_call_details.method)
        if stage is None:
            return None
        return grpc.unary_unary_rpc_method_handler(partial(self._answer, stage))

    async def _answer(self, stage: Stage, request: bytes, context: Context) -> bytes:
        if stage not in STAGES:
            return b""
        try:
            if stage.is_of_sandbox:
                return await self._of_sandbox(stage, decode(PodSandboxHookRequest, request))
            return await self._of_container(stage, decode(ContainerResourceHookRequest, request))
        except (AgentError, MessageError) as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"koord's agent at {self.agent.socket}: {error}")
        raise AssertionError("abort raises")

    async def _of_sandbox(self, stage: Stage, request: PodSandboxHookRequest) -> bytes:
        pod = _pod_info(request.pod_meta, request.labels, request.annotations, request.cgroup_parent)
        asking = Asking(pod, "", "RuntimeHookService", is_over=stage is Stage.POST_STOP_POD_SANDBOX)
        answer = of_adjustment(await self.agent.ask(asking), is_pod=True)
        return encode(PodSandboxHookResponse(resources=answer.resources))

    async def _of_container(self, stage: Stage, request: ContainerResourceHookRequest) -> bytes:
        pod = _pod_info(request.pod_meta, request.pod_labels, request.pod_annotations, request.pod_cgroup_parent)
        name = request.container_meta.name if request.container_meta is not None else ""
        is_update = stage is Stage.PRE_UPDATE_CONTAINER_RESOURCES
        quota = request.container_resources.cpu_quota if request.container_resources is not None else 0
        asking = Asking(pod, name, "RuntimeHookService", is_update, cpu_quota_us=quota)
        answer = of_adjustment(await self.agent.ask(asking), is_pod=False)
        return encode(
            ContainerResourceHookResponse(
                {CDI_ANNOTATION: ",".join(answer.cdi)} if answer.cdi else {},
                answer.resources,
                container_envs=dict(answer.envs),
            )
        )


def _pod_info(
    meta: PodSandboxMetadata | None, labels: dict[str, str], annotations: dict[str, str], parent: str
) -> PodTold:
    meta = meta or PodSandboxMetadata()
    return PodTold(meta.uid, meta.name, meta.namespace, labels, annotations, parent)


def registration(options: HookServiceOptions) -> str:
    """What the proxy's folder says of it."""
    said = {
        "remote-endpoint": str(options.listen.absolute()),
        "failure-policy": options.failure_policy,
        "runtime-hooks": [str(stage) for stage in STAGES],
    }
    return json.dumps(said, indent=2) + "\n"


async def run(options: HookServiceOptions, *, on_ready: Callable[[], None] = lambda: None) -> None:
    """Until cancelled. Raises BadInput where it cannot listen."""
    agent = AgentClient(options.agent)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((HookService(agent),))
    with root_only(options.listen):
        server.add_insecure_port(f"unix:{options.listen}")
        await server.start()
    if options.register is not None:
        await asyncio.to_thread(_register, options.register, registration(options))
    try:
        on_ready()
        await until_cancelled(server)
    finally:
        await agent.close()


def _register(folder: Path, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / ".koordlet.json"
    new.write_text(text)
    new.replace(folder / "koordlet.json")
