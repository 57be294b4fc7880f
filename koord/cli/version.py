"""`koord version`: the versions of koord and of the cluster."""

from __future__ import annotations

import asyncio
import platform
import subprocess
from importlib.resources import files
from pathlib import Path

import click
import msgspec

from koord import __version__
from koord.cli import structured
from koord.cli.options import kube_options, output_option

SERVER_WITHIN_S = 5.0
GIT_WITHIN_S = 5.0


class Build(msgspec.Struct, frozen=True):
    """The commit of this build; empty if unknown."""

    commit: str = ""
    date: str = ""
    "Of the commit."


@click.command(epilog="Example: koord version -o json")
@click.option("--client", "client_only", is_flag=True, help="Do not ask a server.")
@kube_options
@output_option("table", "json", "yaml")
def version(client_only: bool, kubeconfig: str | None, context: str | None, output: str) -> None:
    """Print the version of koord and of the cluster, if one answers."""
    build = own_build()
    client = {"version": __version__, **msgspec.to_builtins(build), "python": platform.python_version()}
    versions: dict[str, object] = {"client": {name: value for name, value in client.items() if value}}
    if not client_only:
        versions["server"] = asyncio.run(_server(kubeconfig, context))
    if output != "table":
        structured.say(versions, output)
    else:
        commit, dash, more = build.commit.partition("-")
        details = [f"commit {commit[:12]}{dash}{more} of {build.date}"] if commit else []
        click.echo(f"koord   {__version__} ({', '.join([*details, f'Python {platform.python_version()}'])})")
        server = versions.get("server")
        if isinstance(server, dict):
            click.echo(f"server  {server.get('version') or server.get('error')}")


def own_build() -> Build:
    """Read from the wheel; in a checkout, from git."""
    root = files("koord")
    try:
        return msgspec.json.decode(root.joinpath("build.json").read_bytes(), type=Build)
    except (OSError, msgspec.DecodeError):
        pass
    checkout = Path(str(root)).parent
    if not (checkout / ".git").exists():
        return Build()
    command = ["git", "-C", str(checkout), "log", "-1", "--format=%H %cI"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=GIT_WITHIN_S).stdout
    except (OSError, subprocess.SubprocessError):
        return Build()
    commit, _, date = said.strip().partition(" ")
    return Build(commit, date)


async def _server(kubeconfig: str | None, context: str | None) -> dict[str, str]:
    """The server's version. A missing or silent server is a result to print, not a failure."""
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
