"""`koord up --single-process`: all components in one event loop, so that a debugger sees all of them."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from koord_minicluster.hollow.live.fleet import FleetOptions
    from koord_minicluster.up.data_dir import DataDir
    from koord_minicluster.up.plan import UpOptions

log = logging.getLogger(__name__)


def run_single(options: UpOptions, data: DataDir, fleet: FleetOptions) -> int:
    """Runs until a signal; the exit code."""
    from koord import __version__
    from koord.api.configuration.descheduler_config import SHIPPED as BALANCED
    from koord.api.configuration.descheduler_config import DeschedulerConfiguration
    from koord.api.configuration.features import ManagerGate, parse_gates
    from koord.api.configuration.scheduler_config import SHIPPED
    from koord.api.text.timestamp import from_seconds
    from koord.cli.inputs import configuration_file
    from koord.descheduler.live.run import DeschedulerOptions
    from koord.descheduler.live.run import run as run_descheduler
    from koord.kube.client import Client
    from koord.kube.election import NotLeader
    from koord.kube.locate import locate
    from koord.kube.shell import run_component
    from koord.manager.live.run import ManagerOptions
    from koord.manager.live.run import run as run_manager
    from koord.manager.live.webhook_server import WebhookOptions, Webhooks
    from koord.operate.endpoints import Endpoints, Running
    from koord.scheduler.live.run import SchedulerOptions
    from koord.scheduler.live.run import run as run_scheduler
    from koord_minicluster.apiserver.server import ApiServer, ServeOptions
    from koord_minicluster.cli.up import say_ready
    from koord_minicluster.controllers.live.run import run as run_controllers
    from koord_minicluster.hollow.live.fleet import run_fleet
    from koord_minicluster.up.bootstrap import bootstrap, keep
    from koord_minicluster.up.plan import choose_port

    async def managing(client: Client, options: ManagerOptions, on_ready: Callable[[], None]) -> None:
        while True:
            try:
                await run_manager(client, options=options, on_ready=on_ready)
            except* NotLeader as error:
                # All share one core: where the machine has none to spare, its lease may not be renewed in time.
                log.warning("the manager starts again: %s", error.exceptions[0])

    started = from_seconds(time.time())

    def say_state(state: str) -> None:
        """For koord status, as a koord up of several processes says it."""
        running = {"up": Running(os.getpid(), state, "")}
        data.write_endpoints(Endpoints(os.getpid(), __version__, started, str(data.kubeconfig), running))

    async def first_objects(client: Client) -> None:
        await keep(client, await bootstrap(client))

    async def main() -> None:
        say_state("starting")
        port = choose_port(options.port, data.last_port())
        data.keep_port(port)
        serve = ServeOptions(data.path, port=port, durability=options.durability)
        async with ApiServer(serve), Client(locate(str(data.kubeconfig)), user_agent="koord-up") as client:
            serving = [asyncio.Event() for _ in range(5)]
            moving = DeschedulerOptions(alone=True, dry_run=options.descheduler != "on")
            balanced = BALANCED
            if options.descheduler_config is not None:
                balanced = configuration_file(
                    options.descheduler_config, DeschedulerConfiguration, "DeschedulerConfiguration"
                )
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(first_objects(client), name="first-objects")
                tasks.create_task(run_controllers(client, on_ready=serving[0].set), name="controllers")
                alone = SchedulerOptions(alone=True)
                tasks.create_task(
                    run_scheduler(client, SHIPPED, options=alone, on_ready=serving[2].set), name="scheduler"
                )
                admission = Webhooks(
                    parse_gates(ManagerGate),
                    "127.0.0.1:0",
                    WebhookOptions(host="127.0.0.1"),
                    on_ready=lambda _: serving[4].set(),
                )
                manager = ManagerOptions(elect=True, beside=(admission.run,))
                tasks.create_task(managing(client, manager, serving[3].set), name="manager")
                tasks.create_task(run_fleet(client, fleet, on_ready=lambda _: serving[1].set()), name="hollow")
                if options.descheduler != "off":
                    tasks.create_task(run_descheduler(client, balanced, options=moving), name="descheduler")
                for event in serving:
                    await event.wait()
                say_state("ready")
                say_ready(data)

    return run_component(main, name="up")
