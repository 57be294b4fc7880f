"""`koord runtime-proxy`: a server of the container runtime interface between kubelet and its runtime."""

from __future__ import annotations

from pathlib import Path

import click

from koord.cli.component import log_format_option, needs_extra, run_on_node
from koord.cli.options import Number, SocketPath


@click.command(
    epilog="""\b
Example: koord runtime-proxy --runtime-endpoint /run/containerd/containerd.sock

\b
Kubelet is pointed at --listen (containerRuntimeEndpoint). Every call passes to the runtime; before a sandbox or
container is made, hook servers that files in --hooks-dir register are asked what to change."""
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
    type=SocketPath(),
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
    type=Number(min=0.01, max=110),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a hook server may take. Kubelet waits for two minutes.",
)
@log_format_option
def runtime_proxy(
    listen: Path, runtime_endpoint: str, hooks_dir: Path, state_dir: Path, hook_timeout: float, log_format: str
) -> int:
    """Run between kubelet and its container runtime, and set up containers before they start."""
    with needs_extra("runtime"):
        from koord.runtime.live.run import ProxyOptions, run

    options = ProxyOptions(listen, Path(runtime_endpoint), hooks_dir, state_dir, hook_timeout)
    return run_on_node("runtime-proxy", lambda ready: run(options, on_ready=ready), log_format)
