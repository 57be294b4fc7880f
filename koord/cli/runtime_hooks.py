"""`koord runtime-hooks`: koord's hooks behind Koordinator's own runtime proxy."""

from __future__ import annotations

from pathlib import Path

import click


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
@click.option(
    "--agent-socket",
    default="/var/run/koord/hooks.sock",
    show_default=True,
    metavar="SOCKET",
    help="Where koord's agent answers.",
)
@click.option("--register-in", type=Path, metavar="DIR", help="Write koordlet.json there, so that the proxy finds it.")
@click.option(
    "--failure-policy",
    type=click.Choice(["Ignore", "Fail"]),
    default="Ignore",
    show_default=True,
    help="What the proxy does without an answer.",
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form of the logs."
)
def runtime_hooks(
    listen: Path, agent_socket: str, register_in: Path | None, failure_policy: str, log_format: str
) -> int:
    """Answer Koordinator's runtime proxy with what koord's hooks want."""
    from koord.cli.component import start
    from koord.kube import shell
    from koord.minicluster.up import tether

    try:
        from koord.runtime.live.hook_service import HookServiceOptions, run
    except ImportError as error:
        raise click.ClickException(f"{error}: install koord with its extra `runtime`") from None

    supervised = start(log_format)
    options = HookServiceOptions(listen, agent_socket, register_in, failure_policy)

    async def main() -> None:
        await run(options, on_ready=(lambda: tether.say_ready({})) if supervised else (lambda: None))

    return shell.run_component(main, name="runtime-hooks")
