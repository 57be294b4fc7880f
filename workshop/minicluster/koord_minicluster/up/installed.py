"""Prometheus and Grafana as this machine has them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from koord.api.machinery.faults import BadInput

GRAFANA: Final = ("grafana", "grafana-server")
GRAFANA_HOMES: Final = (Path("/usr/share/grafana"), Path("/usr/local/share/grafana"))


class MonitoringFailed(BadInput):
    """Prometheus or Grafana cannot be run."""


def installed_prometheus() -> str:
    """Raises `MonitoringFailed` with the way to get it."""
    if (program := shutil.which("prometheus")) is None:
        raise MonitoringFailed("prometheus is not installed: on Debian, apt-get install prometheus")
    return program


def grafana_command(config: Path) -> list[str] | None:
    """None: Grafana is not installed."""
    for name in GRAFANA:
        if (program := shutil.which(name)) is not None:
            homes = [home for home in (*GRAFANA_HOMES, Path(program).resolve().parents[1]) if (home / "conf").is_dir()]
            subcommand = ["server"] if name == "grafana" else []
            home = [f"--homepath={homes[0]}"] if homes else []
            return [program, *subcommand, f"--config={config}", *home]
    return None
