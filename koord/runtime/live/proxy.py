"""The proxy itself: a server of the container runtime interface that passes every call on, and looks into seven.

Calls pass as bytes, with their metadata, deadlines, errors and streams, whatever version of the interface they are of.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

import grpc
import grpc.aio
import msgspec

from koord.api.machinery.messages import decode, encode
from koord.api.machinery.protobuf import MessageError
from koord.runtime.cri import (
    RUNTIME,
    UNARY,
    ContainerConfig,
    ContainerId,
    Containers,
    CreateContainerRequest,
    PodSandboxConfig,
    PodSandboxes,
    RunPodSandboxRequest,
    SandboxId,
    UpdateContainerResourcesRequest,
)
from koord.runtime.intercept import Question, over, put_into_container, put_into_sandbox, put_into_update
from koord.runtime.live.hook_servers import MOST_BYTES, HookFailed, HookServers
from koord.runtime.live.keeping import Keeping
from koord.runtime.records import (
    SandboxRecord,
    brought_in_line,
    container_of,
    resources_of,
    sandbox_of,
)
from koord.runtime.stages import Stage

log = logging.getLogger(__name__)

Context: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"
Passing: TypeAlias = Callable[[bytes], Awaitable[bytes]]

OPTIONS: Final = [
    ("grpc.max_receive_message_length", MOST_BYTES),
    ("grpc.max_send_message_length", MOST_BYTES),
    # The runtime may be restarted: it is found again at once.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1000),
]
_OWN_METADATA: Final = frozenset({"user-agent", "content-type", "te", "grpc-timeout", "grpc-accept-encoding"})


@dataclass(slots=True)
class Proxy(grpc.GenericRpcHandler):
    channel: grpc.aio.Channel
    hooks: HookServers
    keeping: Keeping

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        method = handler_call_details.method
        looked_into = _INTERCEPTED.get(method)
        if looked_into is not None:
            return grpc.unary_unary_rpc_method_handler(partial(self._intercepted, method, looked_into))
        if method in UNARY:
            return grpc.unary_unary_rpc_method_handler(partial(self._passed, method))
        return grpc.unary_stream_rpc_method_handler(partial(self._streamed, method))

    async def learn(self) -> None:
        """What runs already, by the runtime's own lists. Raises AioRpcError."""
        pods = decode(PodSandboxes, await self._unary(f"/{RUNTIME}/ListPodSandbox")(b""))
        own = decode(Containers, await self._unary(f"/{RUNTIME}/ListContainers")(b""))
        self.keeping.bring_in_line(brought_in_line(self.keeping.records, pods.items, own.containers))

    async def _passed(self, method: str, request: bytes, context: Context) -> bytes:
        try:
            return await self._pass(method, context)(request)
        except grpc.aio.AioRpcError as error:
            return await _fail(context, error)

    def _pass(self, method: str, context: Context) -> Passing:
        async def ask(request: bytes) -> bytes:
            return await self._unary(method)(request, metadata=_metadata(context), timeout=context.time_remaining())

        return ask

    def _unary(self, method: str) -> grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]:
        return self.channel.unary_unary(method)

    async def _streamed(self, method: str, request: bytes, context: Context) -> AsyncIterator[bytes]:
        """One question, any number of answers. No call of the interface is of another shape."""
        stream: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self.channel.unary_stream(method)
        call = stream(request, metadata=_metadata(context), timeout=context.time_remaining())
        try:
            async for answer in call:
                yield answer
        except grpc.aio.AioRpcError as error:
            await _fail(context, error)
        finally:
            call.cancel()

    async def _intercepted(self, method: str, looked_into: _LookedInto, request: bytes, context: Context) -> bytes:
        try:
            return await looked_into(self, request, self._pass(method, context))
        except HookFailed as error:
            await context.abort(grpc.StatusCode.ABORTED, str(error))
        except MessageError as error:
            # The runtime itself will say what it thinks of it.
            log.warning("%s is passed on unchanged: %s", method, error)
            return await self._passed(method, request, context)
        except grpc.aio.AioRpcError as error:
            return await _fail(context, error)
        raise AssertionError("abort raises")

    async def _run_sandbox(self, data: bytes, ask: Passing) -> bytes:
        request = decode(RunPodSandboxRequest, data)
        asked = Question(Stage.PRE_RUN_POD_SANDBOX, sandbox_of(request.config, request.runtime_handler))
        answer = await self.hooks.ask(asked)
        request.config = request.config or PodSandboxConfig()
        put_into_sandbox(request.config, answer)
        given = await ask(encode(request))
        id = decode(SandboxId, given).pod_sandbox_id
        self.keeping.put(sandbox_of(request.config, request.runtime_handler, id))
        return given

    async def _stop_sandbox(self, data: bytes, ask: Passing) -> bytes:
        id = decode(SandboxId, data).pod_sandbox_id
        given = await ask(data)
        record = self.keeping.records.sandboxes.get(id)
        if record is not None:
            await self._after(Question(Stage.POST_STOP_POD_SANDBOX, record))
        return given

    async def _remove_sandbox(self, data: bytes, ask: Passing) -> bytes:
        given = await ask(data)
        self.keeping.drop_sandbox(decode(SandboxId, data).pod_sandbox_id)
        return given

    async def _create_container(self, data: bytes, ask: Passing) -> bytes:
        request = decode(CreateContainerRequest, data)
        sandbox = self._sandbox(request.pod_sandbox_id, request.sandbox_config)
        request.config = request.config or ContainerConfig()
        own = container_of(request.config, request.pod_sandbox_id)
        answer = await self.hooks.ask(Question(Stage.PRE_CREATE_CONTAINER, sandbox, own))
        put_into_container(request.config, request.sandbox_config, answer)
        given = await ask(encode(request))
        self.keeping.put(container_of(request.config, request.pod_sandbox_id, decode(ContainerId, given).container_id))
        return given

    async def _start_container(self, data: bytes, ask: Passing) -> bytes:
        id = decode(ContainerId, data).container_id
        before = self._question(Stage.PRE_START_CONTAINER, id)
        if before is not None:
            await self.hooks.ask(before)
        given = await ask(data)
        after = self._question(Stage.POST_START_CONTAINER, id)
        if after is not None:
            await self._after(after)
        return given

    async def _stop_container(self, data: bytes, ask: Passing) -> bytes:
        given = await ask(data)
        after = self._question(Stage.POST_STOP_CONTAINER, decode(ContainerId, data).container_id)
        if after is not None:
            await self._after(after)
        return given

    async def _remove_container(self, data: bytes, ask: Passing) -> bytes:
        given = await ask(data)
        self.keeping.drop_container(decode(ContainerId, data).container_id)
        return given

    async def _update_container(self, data: bytes, ask: Passing) -> bytes:
        request = decode(UpdateContainerResourcesRequest, data)
        question = self._question(Stage.PRE_UPDATE_CONTAINER_RESOURCES, request.container_id)
        if question is None or question.container is None:
            return await ask(data)
        wanted = resources_of(request.linux) or question.container.resources
        own = msgspec.structs.replace(question.container, resources=wanted)
        put_into_update(request, await self.hooks.ask(Question(question.stage, question.sandbox, own)))
        given = await ask(encode(request))
        if request.linux is not None:
            before = decode(type(request.linux), question.container.resources)
            self.keeping.put(msgspec.structs.replace(question.container, resources=encode(over(before, request.linux))))
        return given

    async def _after(self, question: Question) -> None:
        """What the runtime has done is done, whatever a hook server makes of it."""
        try:
            await self.hooks.ask(question)
        except HookFailed as error:
            log.warning("%s", error)

    def _sandbox(self, id: str, config: PodSandboxConfig | None) -> SandboxRecord:
        record = self.keeping.records.sandboxes.get(id)
        return record if record is not None and record.cgroup_parent else sandbox_of(config, id=id)

    def _question(self, stage: Stage, id: str) -> Question | None:
        own = self.keeping.records.containers.get(id)
        sandbox = self.keeping.records.sandboxes.get(own.sandbox) if own is not None else None
        return Question(stage, sandbox, own) if sandbox is not None else None


_LookedInto: TypeAlias = Callable[[Proxy, bytes, Passing], Awaitable[bytes]]

_INTERCEPTED: Final[dict[str, _LookedInto]] = {
    f"/{RUNTIME}/RunPodSandbox": Proxy._run_sandbox,
    f"/{RUNTIME}/StopPodSandbox": Proxy._stop_sandbox,
    f"/{RUNTIME}/RemovePodSandbox": Proxy._remove_sandbox,
    f"/{RUNTIME}/CreateContainer": Proxy._create_container,
    f"/{RUNTIME}/StartContainer": Proxy._start_container,
    f"/{RUNTIME}/StopContainer": Proxy._stop_container,
    f"/{RUNTIME}/RemoveContainer": Proxy._remove_container,
    f"/{RUNTIME}/UpdateContainerResources": Proxy._update_container,
}


def _metadata(context: Context) -> list[tuple[str, str | bytes]]:
    sent: Any = context.invocation_metadata() or ()
    return [(key, value) for key, value in sent if key not in _OWN_METADATA]


async def _fail(context: Context, error: grpc.aio.AioRpcError) -> bytes:
    """As the runtime said it, with all that it said."""
    trailing: Any = error.trailing_metadata()
    await context.abort(error.code(), error.details() or "", tuple(trailing))
    raise AssertionError("abort raises")
