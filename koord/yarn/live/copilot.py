"""The copilot on a node: knows the NodeManager's containers, keeps them below best effort, and ends them on request.

Each second it asks the NodeManager, and puts containers where they belong. Containers that must end count until they
are gone. Processes that outlive their container, or a NodeManager that was killed, use what YARN gives to others by
then: after a while they are ended.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web
from msgspec.structs import replace

from koord.api.machinery.codec import DecodeError, decode, encode
from koord.api.machinery.faults import BadInput
from koord.api.protocol.copilot import CopilotInformation, KillInfo, KillRequest
from koord.api.text.quantity import QuantityError, milli, value
from koord.kube.clock import Clock
from koord.kube.unix_sockets import root_only
from koord.yarn.amount import NOTHING, Amount
from koord.yarn.containers import NotListed, YarnContainer, info, listed, release_order, to_release
from koord.yarn.live.placing import Placing
from koord.yarn.live.rpc import YarnUnreachable
from koord.yarn.live.web import ask, decoded

log = logging.getLogger(__name__)

ROUND_S: Final = 1.0
LEFT_S: Final = 30.0
"""A NodeManager ends the processes of a container within this time, and after a restart it knows those that run."""
ANSWER_S: Final = 5.0


class UnknownContainer(BadInput):
    """A container that the NodeManager does not run."""


class Copilot:
    def __init__(self, node_manager: str, placing: Placing, clock: Clock, *, left_s: float = LEFT_S) -> None:
        """`node_manager` is host:port of its web services."""
        self._left_s = left_s
        self._left_since_s: dict[str, float] = {}
        self._node_manager, self._placing, self._clock = node_manager, placing, clock
        self._containers: list[YarnContainer] = []
        self._leaving: set[str] = set()
        self._problem = "the NodeManager was not asked yet"

    @property
    def containers(self) -> list[YarnContainer]:
        """In the order in which they go."""
        return release_order(self._containers)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.round()
            except YarnUnreachable as error:
                self._complain(str(error))
            except OSError as error:
                self._complain(f"containers cannot be placed: {error}")
            except Exception:
                # Whatever fails in one round: without the next one, no process would limit the containers.
                self._complain("a look at the containers failed")
                log.exception("a look at the containers failed and is repeated")
            await self._clock.sleep(ROUND_S)

    async def round(self) -> None:
        containers = await _containers_of(self._node_manager)
        started = self._placing.place(containers)
        self._containers = [replace(container, started_s=started.get(container.id, 0.0)) for container in containers]
        living = {container.id for container in containers}
        self._leaving &= living
        self._placing.tidy(living)
        self._end_left(living)
        if self._problem:
            log.info("the NodeManager at %s has %d containers", self._node_manager, len(containers))
            self._problem = ""

    def _end_left(self, living: set[str]) -> None:
        now_s = self._clock.monotonic()
        self._left_since_s = {
            container_id: self._left_since_s.get(container_id, now_s) for container_id in self._placing.left(living)
        }
        for left_id, since_s in self._left_since_s.items():
            if now_s - since_s >= self._left_s:
                killed = self._placing.kill(left_id)
                log.warning("ended %d processes of %s, which the NodeManager does not run any more", killed, left_id)

    def kill(self, container_id: str) -> YarnContainer:
        victim = next((container for container in self._containers if container.id == container_id), None)
        if victim is None:
            raise UnknownContainer(f"there is no container {container_id!r}; /v1/containers lists those that there are")
        self._end(victim, "asked for by name")
        return victim

    def release(self, amount: Amount) -> list[YarnContainer]:
        """Those that go for it, with those that are on their way out."""
        bytes_ = self._placing.used(self._containers)
        used = {
            container.id: Amount(container.needs.cpu_milli, bytes_[container.id])
            for container in self._containers
            if container.id in bytes_
        }
        by_id = {container.id: container for container in self._containers}
        for container_id in to_release(self._containers, amount, used, self._leaving):
            self._end(by_id[container_id], f"{amount.cpu_milli}m CPU and {amount.memory_bytes} bytes must be released")
        return [container for container in self._containers if container.id in self._leaving]

    def _end(self, container: YarnContainer, why: str) -> None:
        killed = self._placing.kill(container.id)
        self._leaving.add(container.id)
        log.warning("ended %d processes of %s: %s", killed, container.id, why)

    def _complain(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            log.error("%s", problem)

    # The API.

    def application(self) -> web.Application:
        app = web.Application(middlewares=[_errors])
        app.router.add_get("/health", self._health)
        app.router.add_get("/information", self._information)
        app.router.add_get("/v1/containers", self._list)
        app.router.add_get("/v1/container", self._get)
        app.router.add_post("/v1/killContainer", self._kill)
        app.router.add_post("/v1/killContainersByResource", self._release)
        return app

    async def _health(self, _: web.Request) -> web.Response:
        return _json("ok") if not self._problem else _json(self._problem, status=503)

    async def _information(self, _: web.Request) -> web.Response:
        return _json(CopilotInformation())

    async def _list(self, _: web.Request) -> web.Response:
        if self._problem:
            return _json(self._problem, status=400)
        return _json([info(container, self._placing.directory) for container in self.containers])

    async def _get(self, request: web.Request) -> web.Response:
        wanted = request.query.get("containerID", "")
        match = next((container for container in self._containers if container.id == wanted), None)
        if match is None:
            raise UnknownContainer(f"there is no container {wanted[:80]!r}; /v1/containers lists those that there are")
        return _json(info(match, self._placing.directory))

    async def _kill(self, request: web.Request) -> web.Response:
        asked = decode(KillRequest, await request.read())
        return _json(KillInfo((info(self.kill(asked.container_id), self._placing.directory),)))

    async def _release(self, request: web.Request) -> web.Response:
        asked = decode(KillRequest, await request.read())
        amount = Amount(milli(asked.resources.get("cpu", 0)), value(asked.resources.get("memory", 0)))
        if amount.most(NOTHING) == NOTHING:
            raise QuantityError("resources: must name cpu or memory with an amount above 0")
        return _json(KillInfo(tuple(info(container, self._placing.directory) for container in self.release(amount))))


@web.middleware
async def _errors(request: web.Request, handler: Any) -> web.StreamResponse:
    try:
        answer: web.StreamResponse = await handler(request)
    except (BadInput, DecodeError) as error:
        return _json(str(error), status=400)
    return answer


def _json(body: object, status: int = 200) -> web.Response:
    return web.Response(body=encode(body), content_type="application/json", status=status)


async def _containers_of(address: str) -> list[YarnContainer]:
    """Raises YarnUnreachable."""
    url = f"http://{address}/ws/v1/node/containers"
    try:
        status, data = await ask("GET", url, ANSWER_S)
    except TimeoutError:
        raise YarnUnreachable(f"the NodeManager at {address} does not answer within {ANSWER_S:g} s") from None
    except (OSError, aiohttp.ClientError) as error:
        raise YarnUnreachable(f"the NodeManager at {address} cannot be reached: {error}") from None
    if status == 200:
        with suppress(NotListed):
            return listed(decoded(data))
    raise YarnUnreachable(
        f"{address} answers {status} and no list of containers: is it a NodeManager's web address (--node-manager)?"
    )


async def serve(copilot: Copilot, socket: str, on_ready: Callable[[], None] = lambda: None) -> None:
    """Serves the API on a unix socket that only root may use, beside the copilot's rounds, until cancelled."""
    path = Path(socket)
    runner = web.AppRunner(copilot.application(), access_log=None)
    await runner.setup()
    try:
        site = web.UnixSite(runner, socket)
        with root_only(path):
            await site.start()
        try:
            on_ready()
            await copilot.run()
        finally:
            # Only here: until then it may be the socket of another copilot.
            path.unlink(missing_ok=True)  # noqa: ASYNC240 - instant
    finally:
        await runner.cleanup()
