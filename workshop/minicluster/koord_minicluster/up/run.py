"""One `koord up`, from the first process to the last: start, put the first objects in, say that it is ready, supervise.

Everything starts at once: components wait for the kubeconfig and for the server by themselves, so that their start-up
runs while the server starts.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from koord import __version__
from koord.api.protocol.names import NAMESPACE_KOORDINATOR
from koord.api.text.timestamp import from_seconds
from koord.operate.endpoints import Endpoints, Running
from koord_minicluster.up.bootstrap import MONITOR
from koord_minicluster.up.data_dir import DataDir
from koord_minicluster.up.plan import UpOptions, choose_port, components
from koord_minicluster.up.supervisor import Supervisor

if TYPE_CHECKING:
    from koord.kube.client import Client

log = logging.getLogger(__name__)

RETRY_S: Final = 1.0
"How often a disk that refused the file of endpoints is tried again."


class Up:
    """What runs, for the views that show it."""

    def __init__(self, options: UpOptions, data: DataDir) -> None:
        self.options, self.data = options, data
        self.started_s = time.time()
        port = choose_port(options.port, data.last_port())
        data.keep_port(port)
        plan = components(options, data.path, port)
        self.supervisor = Supervisor(plan, data, on_change=self._write_endpoints)
        self._retry: asyncio.TimerHandle | None = None
        "Set while `endpoints.json` could not be written."

    async def run(self, when_ready: Callable[[Up, Client], Awaitable[None]]) -> None:
        """Runs until cancelled. `when_ready` is awaited, beside the supervision, once everything serves."""
        try:
            await self._run(when_ready)
        finally:
            if self._retry is not None:
                self._retry.cancel()

    async def _run(self, when_ready: Callable[[Up, Client], Awaitable[None]]) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.supervisor.run(), name="supervisor")
            await self.supervisor.spawned.wait()
            # What takes long to import is imported while the children start.
            from koord.kube.background_task import background_task
            from koord.kube.client import Client
            from koord.kube.locate import locate
            from koord_minicluster.up.bootstrap import bootstrap, keep

            await self.supervisor.children["apiserver"].ready.wait()
            async with Client(locate(str(self.data.kubeconfig)), user_agent=f"koord-up/{__version__}") as client:
                protected, config = self.options.local_args is not None, self.options.colocation
                uid = await bootstrap(client, protected=protected, config=config)
                async with background_task(
                    keep(client, uid, protected=protected, config=config), name="up/first-objects"
                ):
                    await self.supervisor.ready()
                    await when_ready(self, client)

    def _write_endpoints(self) -> None:
        """Writes the file through which other commands find the cluster. If the disk refuses it, the cluster runs
        without it until a retry succeeds."""
        retried, self._retry = self._retry, None
        if retried is not None:
            retried.cancel()
        try:
            self.data.write_endpoints(self._endpoints())
        except OSError as error:
            if retried is None:
                log.warning("%s cannot be written: %s; retrying", self.data.endpoints_file, error.strerror)
            self._retry = asyncio.get_running_loop().call_later(RETRY_S, self._write_endpoints)
        else:
            if retried is not None:
                log.info("%s is written again", self.data.endpoints_file)

    def _endpoints(self) -> Endpoints:
        return Endpoints(
            pid=os.getpid(),
            version=__version__,
            started=from_seconds(self.started_s),
            kubeconfig=str(self.data.kubeconfig),
            components={
                child.name: Running(
                    child.pid,
                    child.state,
                    str(self.data.log_file(child.name)),
                    dict(child.endpoints),
                    child.restarts,
                )
                for child in self.supervisor.children.values()
            },
            monitor=f"{NAMESPACE_KOORDINATOR}/{MONITOR}",
        )
