"""The proxy as a process, until it is cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc
import grpc.aio

from koord.api.machinery.faults import BadInput
from koord.api.machinery.protobuf import MessageError
from koord.kube.clock import Clock, SystemClock
from koord.kube.unix_sockets import root_only
from koord.runtime.live.hook_servers import HookServers
from koord.runtime.live.keeping import Keeping
from koord.runtime.live.proxy import OPTIONS, Proxy
from koord.runtime.live.serving import until_cancelled

log = logging.getLogger(__name__)

LISTEN: Final = Path("/var/run/koord-runtimeproxy/runtimeproxy.sock")
RUNTIME: Final = Path("/run/containerd/containerd.sock")
HOOKS: Final = Path("/etc/runtime/hookserver.d")
STATE: Final = Path("/var/lib/koord/runtime-proxy")
AGAIN_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class ProxyOptions:
    listen: Path = LISTEN
    runtime: Path = RUNTIME
    hooks: Path = HOOKS
    state: Path = STATE
    hook_timeout_s: float = 5.0


async def run(
    options: ProxyOptions,
    *,
    clock: Clock | None = None,
    on_start: Callable[[Proxy], None] = lambda proxy: None,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Raises BadInput where it cannot listen."""
    clock = clock or SystemClock()
    hooks = HookServers(options.hooks, clock, options.hook_timeout_s)
    hooks.look()
    async with grpc.aio.insecure_channel(f"unix:{options.runtime}", OPTIONS) as channel:
        proxy = Proxy(channel, hooks, Keeping(options.state))
        on_start(proxy)
        server = grpc.aio.server(options=OPTIONS)
        server.add_generic_rpc_handlers((proxy,))
        with root_only(options.listen):
            try:
                server.add_insecure_port(f"unix:{options.listen}")
            except RuntimeError as error:
                raise BadInput(f"cannot listen on {options.listen}: {error}") from None
            await server.start()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(hooks.watch())
                tasks.create_task(_learn(proxy, options.runtime, clock))
                on_ready()
                await until_cancelled(server)
        finally:
            await hooks.close()


async def _learn(proxy: Proxy, runtime: Path, clock: Clock) -> None:
    reported = ""
    while True:
        try:
            await proxy.learn()
            return
        except grpc.aio.AioRpcError as error:
            why = f"does not answer: {error.code().name}: {error.details()}"
        except MessageError as error:
            why = f"answers what cannot be understood: {error}"
        if reported != why:
            log.warning("the runtime at %s %s", runtime, why)
            reported = why
        await clock.sleep(AGAIN_S)
