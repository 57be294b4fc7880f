"""`koord nri`: a plugin of the node resource interface, which containerd 1.7 and CRI-O 1.26 introduced."""

from __future__ import annotations

import click

from koord.cli.component import agent_socket_option, log_format_option, run_on_node
from koord.cli.options import Number, SocketPath


@click.command(
    epilog="""\b
Example: koord nri --agent-socket /var/run/koord/hooks.sock

\b
The agent of the node runs with --hooks-socket. A runtime that is not there yet, or restarts, is waited for."""
)
@click.option(
    "--socket",
    type=SocketPath(),
    default="/var/run/nri/nri.sock",
    show_default=True,
    metavar="SOCKET",
    help="Where the runtime listens.",
)
@agent_socket_option
@click.option("--name", default="koord", show_default=True, help="The plugin's name.")
@click.option(
    "--index", default="00", show_default=True, metavar="NN", help="Two digits: plugins are asked in that order."
)
@click.option(
    "--failure-policy",
    type=click.Choice(["Ignore", "Fail"]),
    default="Ignore",
    show_default=True,
    help="Without an answer of the agent: make the container as it is, or refuse to.",
)
@click.option(
    "--agent-timeout",
    type=Number(min=0.01, max=60),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="How long the agent may take. Runtimes give a plugin two seconds.",
)
@log_format_option
def nri(
    socket: str, agent_socket: str, name: str, index: str, failure_policy: str, agent_timeout: float, log_format: str
) -> int:
    """Set up containers before they start, as a plugin of the container runtime."""
    from koord.runtime.live.nri import NriOptions, run

    if len(index) != 2 or not index.isdecimal():
        raise click.UsageError(f"--index is {index!r}: it must be two digits, as in 00")
    options = NriOptions(socket, agent_socket, name, index, failure_policy == "Fail", agent_timeout)
    return run_on_node("nri", lambda ready: run(options, on_ready=ready), log_format)
