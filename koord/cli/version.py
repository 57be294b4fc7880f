"""`koord version`: what runs here, and what answers there."""

from __future__ import annotations

import asyncio
import platform

import click

from koord import __version__
from koord.cli import structured
from koord.cli.options import kube_options, output_option

SERVER_WITHIN_S = 5.0


@click.command(epilog="Example: koord version -o json")
@click.option("--client", "client_only", is_flag=True, help="Do not ask a server.")
@kube_options
@output_option("table", "json", "yaml")
def version(client_only: bool, kubeconfig: str | None, context: str | None, output: str) -> None:
    """Print the version of koord and of the cluster, if one answers."""
    found: dict[str, object] = {"client": {"version": __version__, "python": platform.python_version()}}
    if not client_only:
        found["server"] = asyncio.run(_server(kubeconfig, context))
    if output != "table":
        structured.say(found, output)
    else:
        click.echo(f"koord   {__version__} (Python {platform.python_version()})")
        server = found.get("server")
        if isinstance(server, dict):
            click.echo(f"server  {server.get('version') or server.get('error')}")


async def _server(kubeconfig: str | None, context: str | None) -> dict[str, str]:
    """What the server says; where none is configured or none answers, that is a fact to print, not a failure."""
    from koord.kube.client import Client
    from koord.kube.cluster_config import ConfigError
    from koord.kube.errors import ApiError

    try:
        async with Client.from_config(kubeconfig, context) as client:
            answer = await client.limited(timeout_s=SERVER_WITHIN_S, attempts=1).server_version()
    except (ApiError, ConfigError) as error:
        if isinstance(error, ConfigError) and (kubeconfig or context):
            raise
        return {"error": str(error)}
    return {"version": answer.git_version, "platform": answer.platform}
