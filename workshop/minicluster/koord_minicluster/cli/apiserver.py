"""`koord apiserver`: the embedded Kubernetes API on its own."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import click

log = logging.getLogger(__name__)


@click.command(epilog="Example: koord apiserver --data-dir ./data --port 6443")
@click.option(
    "--data-dir",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the store, the keys and the kubeconfig are kept.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=0, show_default="any free one", help="Port to listen on.")
@click.option(
    "--durability",
    type=click.Choice(["full", "fast"]),
    default="full",
    show_default=True,
    help="full: no answer before its write is on disk. fast: survives a crash of the process, not of the machine.",
)
@click.option(
    "--disable-admission-plugins",
    "disabled",
    metavar="NAME,...",
    default="",
    help="Leave out ServiceAccount, StorageObjectInUseProtection or TaintNodesByCondition, where no controllers run.",
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form of the logs."
)
def apiserver(data_dir: Path, host: str, port: int, durability: str, disabled: str, log_format: str) -> int:
    """Serve a Kubernetes API on this machine, with nothing else installed."""
    from koord.cli.component import start
    from koord.kube import (
        collector,
        lean,  # noqa: F401 - before anything else imports aiohttp
        tether,
    )
    from koord.kube.shell import run_component
    from koord_minicluster.apiserver.admission import PLUGINS
    from koord_minicluster.apiserver.server import ApiServer, ServeOptions

    supervised = start(log_format)
    without = frozenset(name for name in disabled.split(",") if name)
    if unknown := sorted(without - set(PLUGINS)):
        raise click.BadParameter(
            f"{', '.join(unknown)}: can be {', '.join(PLUGINS)}", param_hint="--disable-admission-plugins"
        )
    options = ServeOptions(data_dir, host, port, "full" if durability == "full" else "fast", disabled_admission=without)

    async def main() -> None:
        async with ApiServer(options) as server:
            collector.for_a_server()
            log.info("serving", extra={"url": server.url, "kubeconfig": str(server.kubeconfig)})
            if supervised:
                tether.say_ready({"api": server.url})
            await asyncio.Event().wait()

    return run_component(main, name="apiserver")
