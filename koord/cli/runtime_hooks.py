"""`koord runtime-hooks`: koord's hooks behind Koordinator's own runtime proxy."""

from __future__ import annotations

from pathlib import Path

import click

from koord.cli.component import agent_socket_option, log_format_option, needs_extra, run_on_node


@click.command(
    epilog="""\b
Example: koord runtime-hooks --register-in /etc/runtime/hookserver.d

\b
Only for nodes with Koordinator's own runtime proxy: koord runtime-proxy asks the agent itself."""
)
@click.option(
    "--listen",
    type=Path,
    default="/var/run/koordlet/koordlet.sock",
    show_default=True,
    metavar="SOCKET",
    help="Where the proxy asks. Only root may.",
)
@agent_socket_option
@click.option("--register-in", type=Path, metavar="DIR", help="Write koordlet.json there, so that the proxy finds it.")
@click.option(
    "--failure-policy",
    type=click.Choice(["Ignore", "Fail"]),
    default="Ignore",
    show_default=True,
    help="What the proxy does without an answer.",
)
@log_format_option
def runtime_hooks(
    listen: Path, agent_socket: str, register_in: Path | None, failure_policy: str, log_format: str
) -> int:
    """Answer Koordinator's runtime proxy with the changes of koord's hooks."""
    with needs_extra("runtime"):
        from koord.runtime.live.hook_service import HookServiceOptions, run

    options = HookServiceOptions(listen, agent_socket, register_in, failure_policy)
    return run_on_node("runtime-hooks", lambda ready: run(options, on_ready=ready), log_format)
