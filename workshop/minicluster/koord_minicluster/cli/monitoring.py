"""`koord monitoring`: Prometheus and Grafana on a running koord up."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click


@click.command(epilog="Example: koord monitoring --data-dir ./data")
@click.option(
    "--data-dir",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of a running koord up.",
)
@click.option("--prometheus-port", default=9090, show_default=True, type=click.IntRange(1, 65535), help="Its port.")
@click.option("--grafana-port", default=3000, show_default=True, type=click.IntRange(1, 65535), help="Its port.")
def monitoring(data_dir: Path, prometheus_port: int, grafana_port: int) -> int:
    """Run Prometheus, and Grafana if it is installed, on a running koord up, with koord's alerts and dashboards.

    koord up --monitoring does the same from the start. Both listen on loopback, and end with this process.
    """
    from koord.cli.component import located, server_is_up, start
    from koord.kube import shell, tether
    from koord.operate.endpoints import read_endpoints
    from koord_minicluster.up.installed import installed_prometheus

    installed_prometheus()
    data = data_dir.absolute()
    if read_endpoints(data) is None:
        raise click.UsageError(f"no koord up runs on {data_dir}: start one with koord up --data-dir {data_dir}")
    supervised = start("text")

    async def main() -> None:
        from koord.kube.client import Client
        from koord_minicluster.up.monitored import run_monitoring

        def ready(urls: Mapping[str, str]) -> None:
            if supervised:
                tether.say_ready(urls)
            else:
                for name, url in urls.items():
                    click.echo(f"{name}: {url}")

        config = await located(str(data_dir / "kubeconfig"), None, wait=supervised)
        async with Client(config, user_agent="koord-monitoring") as client:
            await server_is_up(client)
            await run_monitoring(client, data, (prometheus_port, grafana_port), ready)

    return shell.run_component(main, name="monitoring")
