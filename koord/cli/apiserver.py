"""`koord apiserver`: the embedded Kubernetes API on its own."""

from __future__ import annotations

from pathlib import Path

import click


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
def apiserver(data_dir: Path, host: str, port: int, durability: str) -> int:
    """Serve a Kubernetes API on this machine, with nothing else installed."""
    from koord.apiserver.server import ServeOptions, serve
    from koord.kube.logs import setup_logging
    from koord.kube.shell import run_component

    setup_logging()
    options = ServeOptions(data_dir, host, port, "full" if durability == "full" else "fast")
    return run_component(lambda: serve(options), name="apiserver")
