"""Prometheus and Grafana beside a running `koord up`: their configuration, as files by path.

D/monitoring/prometheus.yaml, rules.yaml    jobs, and koord's alert rules
D/monitoring/targets.json                   where components serve metrics; Prometheus follows changes
D/monitoring/token                          of the account that may only read metrics
D/monitoring/grafana.ini, provisioning/, boards/
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from koord.api.text.yaml import dump
from koord.operate.boards import ALL, json_of
from koord.operate.endpoints import Endpoints
from koord.operate.install.monitoring import files

TARGETS: Final = "targets.json"
TOKEN: Final = "token"
BOARDS: Final = "boards"
SCRAPED_EVERY: Final = "5s"
"""Short, since a user is watching."""
HOME: Final = "koord-overview"


def prometheus_files() -> dict[str, str]:
    job = {
        "job_name": "koord",
        # Metrics about a namespace or a node keep the label that names it.
        "honor_labels": True,
        "authorization": {"credentials_file": TOKEN},
        "file_sd_configs": [{"files": [TARGETS], "refresh_interval": SCRAPED_EVERY}],
    }
    config = {
        "global": {"scrape_interval": SCRAPED_EVERY, "evaluation_interval": SCRAPED_EVERY},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [job],
    }
    return {"prometheus.yaml": dump(config), "rules.yaml": files()["rules.yaml"]}


def targets(endpoints: Endpoints) -> str:
    """The components that serve metrics, each under the job's name that alerts and boards use."""
    groups = [
        {"targets": [urlsplit(running.endpoints["health"]).netloc], "labels": {"job": f"koord-{name}"}}
        for name, running in endpoints.components.items()
        if running.endpoints.get("health", "").startswith("http:")
    ]
    return msgspec.json.format(msgspec.json.encode(groups)).decode() + "\n"


def grafana_files(folder: Path, port: int, prometheus: str) -> dict[str, str]:
    """Grafana that everybody on this machine may read, and that asks nothing of the internet."""
    source = {
        "name": "koord",
        "uid": "koord",
        "type": "prometheus",
        "access": "proxy",
        "url": prometheus,
        "isDefault": True,
        "jsonData": {"timeInterval": SCRAPED_EVERY},
    }
    provider = {
        "name": "koord",
        "type": "file",
        "updateIntervalSeconds": 10,
        "options": {"path": str(folder / BOARDS)},
    }
    sections = {
        "server": {"http_addr": "127.0.0.1", "http_port": str(port)},
        "paths": {
            "data": str(folder / "grafana"),
            "logs": str(folder / "grafana" / "log"),
            "plugins": str(folder / "grafana" / "plugins"),
            "provisioning": str(folder / "provisioning"),
        },
        "auth.anonymous": {"enabled": "true", "org_role": "Viewer"},
        "analytics": {"reporting_enabled": "false", "check_for_updates": "false", "check_for_plugin_updates": "false"},
        "news": {"news_feed_enabled": "false"},
        "users": {"allow_sign_up": "false"},
        "dashboards": {"default_home_dashboard_path": str(folder / BOARDS / f"{HOME}.json")},
    }
    return {
        "grafana.ini": _ini(sections),
        "provisioning/datasources/koord.yaml": dump({"apiVersion": 1, "datasources": [source]}),
        "provisioning/dashboards/koord.yaml": dump({"apiVersion": 1, "providers": [provider]}),
    }


def board_files(console: str) -> dict[str, str]:
    """`console`: where the console is served."""
    return {f"{BOARDS}/{board.name}.json": json_of(board, console) for board in ALL}


def _ini(sections: Mapping[str, Mapping[str, str]]) -> str:
    lines: list[str] = []
    for name, settings in sections.items():
        lines += [f"[{name}]", *(f"{key} = {value}" for key, value in settings.items()), ""]
    return "\n".join(lines)
