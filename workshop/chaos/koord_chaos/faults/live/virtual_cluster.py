"""A whole cluster in one process and in virtual time: the API server, controllers, nodes, and two of each component.

The components are those that run as processes elsewhere, each with a client and a way to the API server of its own. A
kill cuts that way first, so that nothing that the component does while it ends has an effect, as after SIGKILL.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from koord.api.configuration.descheduler_config import SHIPPED as SHIPPED_DESCHEDULER
from koord.api.configuration.features import ManagerGate
from koord.api.configuration.scheduler_config import SHIPPED as SHIPPED_SCHEDULER
from koord.api.kinds import NODES
from koord.descheduler.live import run as descheduler
from koord.kube.background_task import background_task
from koord.kube.client import Client
from koord.kube.clock import Clock, SystemClock
from koord.kube.locate import locate
from koord.manager.live import run as manager
from koord.manager.live.webhook_server import WebhookOptions, Webhooks
from koord.scheduler.live import run as scheduler
from koord_chaos.faults.kinds import Target
from koord_chaos.faults.live.api_path import SOUND, ApiPath, Manner
from koord_chaos.faults.live.ledger import Ledger
from koord_chaos.faults.live.own_cluster import OwnCluster, OwnOptions, own_targets
from koord_minicluster.apiserver.server import ApiServer, ServeOptions
from koord_minicluster.controllers.live import run as controllers
from koord_minicluster.hollow.live.fleet import FleetOptions, run_fleet
from koord_minicluster.up.bootstrap import bootstrap, keep

log = logging.getLogger(__name__)

LOGS: Final = "logs"
AGAIN_S: Final = 1.0
"""After how long a component that ended starts again."""
MISSING: Final = dict.fromkeys(
    ("pause", "memory", "upgrade", "disk-full", "disk-slow"), "needs processes: leave --virtual out"
)
"""Kinds of faults that tasks cannot have, with the reason."""
Work = Callable[[Client, Clock, Callable[[], None]], Awaitable[None]]


class JumpingClock(SystemClock):
    """The clock of one component, which can jump."""

    ahead_s = 0.0

    def now(self) -> float:
        return super().now() + self.ahead_s

    def jump(self, seconds: float) -> None:
        self.ahead_s = seconds

    def slow(self, seconds: float) -> None:
        raise NotImplementedError("this clock's component has no disk")


@dataclass(slots=True)
class Part:
    """One component: it starts again whenever it ends."""

    name: str
    work: Work
    kubeconfig: Path
    clock: JumpingClock
    ready: bool = False
    running: asyncio.Task[None] | None = None
    starts: int = 0

    async def run(self) -> None:
        while True:
            self.starts += 1
            self.running = asyncio.create_task(self._once(), name=self.name)
            await asyncio.wait({self.running})
            self.ready = False
            if not self.running.cancelled() and (error := self.running.exception()) is not None:
                log.warning("%s ended: %r", self.name, error)
            await asyncio.sleep(AGAIN_S)

    async def _once(self) -> None:
        async with Client(locate(str(self.kubeconfig)), user_agent=f"koord-{self.name}") as client:
            await self.work(client, self.clock, self._is_ready)

    def _is_ready(self) -> None:
        self.ready = True


def virtual_targets(options: OwnOptions) -> Mapping[Target, Sequence[str]]:
    return {**own_targets(options), Target.PROCESS: list(_works(options)), Target.SERVER: ()}


class VirtualCluster(OwnCluster):
    def __init__(
        self, client: Client, parts: Mapping[str, Part], paths: Mapping[str, ApiPath], options: OwnOptions
    ) -> None:
        clocks = {name: part.clock for name, part in parts.items()}
        super().__init__(client, options.folder, virtual_targets(options), paths, clocks)
        self.parts = parts

    @property
    def logs(self) -> Path:
        return self.folder / LOGS

    def missing(self) -> Mapping[str, str]:
        return MISSING

    def pid(self, target: str) -> int:
        """There are no processes."""
        return 0

    async def late(self) -> list[str]:
        return [name for name, part in self.parts.items() if not part.ready]

    async def answers(self, name: str) -> bool:
        return self.parts[name].ready

    async def kill(self, target: str) -> None:
        part, path = self.parts[target], self.paths[target]
        if part.running is None:
            return
        path.manner = Manner(refuses=True)
        part.ready = False
        part.running.cancel()
        await asyncio.wait({part.running})
        path.manner = SOUND


@asynccontextmanager
async def virtual_cluster(options: OwnOptions) -> AsyncIterator[VirtualCluster]:
    """A cluster that runs, with its nodes and first objects. The event loop must be one of `virtual_time`."""
    async with AsyncExitStack() as stack:
        data = options.folder / "data"
        stack.enter_context(_logs_in(options.folder / LOGS))
        server = await stack.enter_async_context(ApiServer(ServeOptions(data, durability="fast")))
        config = locate(str(server.kubeconfig))
        client = await stack.enter_async_context(Client(config, user_agent="koord-chaos"))
        uid = await bootstrap(client)
        await stack.enter_async_context(background_task(keep(client, uid), name="first-objects"))
        paths: dict[str, ApiPath] = {}
        ledger = Ledger()
        parts: dict[str, Part] = {}
        for number, (name, work) in enumerate(_works(options).items()):
            path = ApiPath(config, options.seed + number, component=name, ledger=ledger)
            paths[name] = await stack.enter_async_context(path)
            kubeconfig = options.folder / f"{name}.kubeconfig"
            paths[name].write_kubeconfig(kubeconfig)
            parts[name] = Part(name, work, kubeconfig, JumpingClock())
            await stack.enter_async_context(background_task(parts[name].run(), name=name))
            stack.push_async_callback(_ended, parts[name])
        cluster = VirtualCluster(client, parts, paths, options)
        cluster.ledger = ledger
        await cluster.mark()
        async with asyncio.timeout(120):
            while await cluster.late() or len(await client.list(NODES)) < options.nodes:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        yield cluster


@contextmanager
def _logs_in(folder: Path) -> Iterator[None]:
    """What all components log goes into one file."""
    folder.mkdir()
    handler, root = logging.FileHandler(folder / "components.log"), logging.getLogger()
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    before, root.handlers = root.handlers, [handler]
    level = root.level
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.handlers = before
        root.setLevel(level)
        handler.close()


async def _ended(part: Part) -> None:
    if part.running is not None:
        part.running.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.wait({part.running})


def _works(options: OwnOptions) -> dict[str, Work]:
    return {
        "controllers": _controllers,
        "scheduler-a": _scheduler,
        "scheduler-b": _scheduler,
        "manager-a": partial(_manager, serves=True),
        "manager-b": partial(_manager, serves=False),
        "descheduler-a": _descheduler,
        "descheduler-b": _descheduler,
        "hollow": partial(_hollow, options),
    }


async def _controllers(client: Client, clock: Clock, ready: Callable[[], None]) -> None:
    await controllers.run(client, clock=clock, on_ready=ready)


async def _scheduler(client: Client, clock: Clock, ready: Callable[[], None]) -> None:
    options = scheduler.SchedulerOptions(elect=True, alone=True)
    await scheduler.run(client, SHIPPED_SCHEDULER, options=options, clock=clock, on_ready=ready)


async def _manager(client: Client, clock: Clock, ready: Callable[[], None], *, serves: bool) -> None:
    gates = {gate: gate.default for gate in ManagerGate}
    host = "127.0.0.1"
    webhooks = Webhooks(gates, f"{host}:0", WebhookOptions(host=host)) if serves else None
    options = manager.ManagerOptions(elect=True, beside=(webhooks.run,) if webhooks is not None else ())
    await manager.run(client, options=options, clock=clock, on_ready=ready)


async def _descheduler(client: Client, clock: Clock, ready: Callable[[], None]) -> None:
    options = descheduler.DeschedulerOptions(elect=True, alone=True)
    await descheduler.run(client, SHIPPED_DESCHEDULER, options=options, clock=clock, on_ready=ready)


async def _hollow(options: OwnOptions, client: Client, clock: Clock, ready: Callable[[], None]) -> None:
    fleet = FleetOptions(nodes=options.nodes, seed=options.seed)
    await run_fleet(client, fleet, clock=clock, on_ready=lambda endpoints: ready())
