"""`koord runtime-proxy`: a server of the container runtime interface between kubelet and its runtime."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(
    epilog="""\b
Example: koord runtime-proxy --runtime-endpoint /run/containerd/containerd.sock

\b
Kubelet is pointed at --listen (containerRuntimeEndpoint). Every call passes to the runtime; before a sandbox or
container is made, hook servers that files in --hooks-dir register are asked what it is to be made with."""
)
@click.option(
    "--listen",
    type=Path,
    default="/var/run/koord-runtimeproxy/runtimeproxy.sock",
    show_default=True,
    metavar="SOCKET",
    help="Where kubelet calls. Only root may.",
)
@click.option(
    "--runtime-endpoint",
    default="/run/containerd/containerd.sock",
    show_default=True,
    metavar="SOCKET",
    help="The runtime's socket: containerd's, or /run/crio/crio.sock.",
)
@click.option(
    "--hooks-dir",
    type=Path,
    default="/etc/runtime/hookserver.d",
    show_default=True,
    metavar="DIR",
    help="Hook servers, a JSON file each.",
)
@click.option(
    "--state-dir",
    type=Path,
    default="/var/lib/koord/runtime-proxy",
    show_default=True,
    metavar="DIR",
    help="Keeps what is known of sandboxes and containers.",
)
@click.option(
    "--hook-timeout",
    type=click.FloatRange(min=0.01, max=110),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a hook server may take. Kubelet waits for two minutes.",
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form of the logs."
)
def runtime_proxy(
    listen: Path, runtime_endpoint: str, hooks_dir: Path, state_dir: Path, hook_timeout: float, log_format: str
) -> int:
    """Stand between kubelet and its container runtime, and set containers up before they start."""
    from koord.cli.component import start
    from koord.kube import shell
    from koord.minicluster.up import tether

    try:
        from koord.runtime.live.run import ProxyOptions, run
    except ImportError as error:
        raise click.ClickException(f"{error}: install koord with its extra `runtime`") from None

    supervised = start(log_format)
    options = ProxyOptions(listen, Path(runtime_endpoint.removeprefix("unix://")), hooks_dir, state_dir, hook_timeout)

    async def main() -> None:
        await run(options, on_ready=(lambda: tether.say_ready({})) if supervised else (lambda: None))

    return shell.run_component(main, name="runtime-proxy")
