"""Starts the console: informers, sessions, HTTP. `koord console` and `koord up` call it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from koord.console.live.acts import Acts
from koord.console.live.commands import Commands
from koord.console.live.guard import COOKIE, Guard
from koord.console.live.history import History
from koord.console.live.pages import Pages
from koord.console.live.scheduler_reasons import follow_scheduler
from koord.console.live.server import Options, Server
from koord.console.live.viewers import Viewer, Viewers, who
from koord.console.live.world import World
from koord.kube.background_task import background_task
from koord.kube.client import Client
from koord.kube.health import Address
from koord.kube.listening import serving
from koord.kube.serving_tls import ServingTls
from koord.operate.live.prometheus import Prometheus

log = logging.getLogger(__name__)

STOP_WITHIN_S = 1.0


@dataclass(slots=True)
class ConsoleOptions:
    address: Address
    cluster: str = ""
    kubeconfig: str | None = None
    context: str | None = None
    tls: ServingTls | None = None
    by_token: bool = False
    "Viewers sign in with tokens, also on loopback. The link does not sign in as the user of the kubeconfig."
    data_dir: Path | None = None
    "Of a running koord up."
    scheduler_url: str = ""
    grafana_url: str = ""
    prometheus: Prometheus | None = None
    report_options: tuple[str, ...] = ()
    "Of koord report: how it reads the same Prometheus."
    recording: Path | None = None
    "Of koord sim record."
    link_file: Path | None = None
    "Where the current link is written, readable by its owner only."
    on_link: Callable[[str], None] = field(default=lambda link: None)


async def run(client: Client, options: ConsoleOptions, ready: Callable[[str], None]) -> None:
    """Serves until cancelled. `ready` is called with the link, or with the address if viewers sign in with tokens."""
    address, secure = options.address, options.tls is not None
    own_user = address.loopback and not options.by_token
    scheme = "https" if secure else "http"
    async with AsyncExitStack() as stack:
        viewers = Viewers(client.config)
        stack.push_async_callback(viewers.close)
        own = None
        if own_user:
            user = await who(client)
            own = Viewer(user.username, user.groups, client, "kubeconfig", f"kubeconfig/{user.username}")
        commands = Commands(options.kubeconfig, options.context, options.recording)
        world = World(client, options.cluster, options.data_dir, commands.status)
        base: list[str] = []

        def link(token: str) -> str:
            return f"{base[0]}/?token={token}" if own_user else base[0]

        def new_link(token: str) -> None:
            written = link(token)
            if options.link_file is not None:
                write_link(options.link_file, written)
            options.on_link(written)

        guard = Guard(viewers, own, secure=secure, new_link=new_link)
        history = History(options.prometheus) if options.prometheus is not None else None
        server = Server(world, guard, Options(grafana_url=options.grafana_url, history=history, secure=secure))
        Pages(server, world, commands, options.report_options)
        await stack.enter_async_context(Acts(server, world, commands))
        context = options.tls.context if options.tls is not None else None
        port = await stack.enter_async_context(
            serving(server.app(), address.host, address.port, context, stop_within_s=STOP_WITHIN_S)
        )
        if options.tls is not None:
            await stack.enter_async_context(background_task(options.tls.follow(), name="serving-certificate"))
        guard.cookie = f"{COOKIE}-{port}"
        host = f"[{address.host}]" if ":" in address.host else address.host
        base.append(f"{scheme}://{host}:{port}")
        if own_user:
            guard.hosts = frozenset(f"{name}:{port}" for name in (host, "127.0.0.1", "localhost", "[::1]"))
        if options.link_file is not None:
            write_link(options.link_file, link(guard.link_token))
        if options.data_dir is not None or options.scheduler_url:
            scheduler = follow_scheduler(world, options.scheduler_url)
            await stack.enter_async_context(background_task(scheduler, name="scheduler-reasons"))
        await world.run(lambda: ready(link(guard.link_token)))


def write_link(file: Path, link: str) -> None:
    """Replaces the file. Only its owner may read it: the link signs in."""
    part = file.with_name(file.name + ".new")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as written:
        written.write(link + "\n")
    part.replace(file)
