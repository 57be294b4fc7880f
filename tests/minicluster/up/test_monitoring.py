"""`koord up --monitoring`: a real Prometheus scrapes all components by koord's rules, and fills its dashboards."""

from __future__ import annotations

import configparser
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from koord.cli.main import run as koord
from koord.operate.boards import ALL
from koord.operate.endpoints import Endpoints, Running
from koord_minicluster.up.monitoring import board_files, grafana_files, targets
from tests.control_plane import find_binary
from tests.minicluster.up.test_end_to_end import COMPONENTS, RunningUp, up
from tests.operate.prometheus import Prometheus
from tests.waiting import until

STAND_IN = """#!{python}
import configparser, http.server, pathlib, sys
config = configparser.RawConfigParser()
config.read(next(word for word in sys.argv if word.startswith("--config=")).partition("=")[2])
assert sys.argv[1] == "server"
assert list(pathlib.Path(config["paths"]["provisioning"]).glob("*/koord.yaml"))
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
server = config["server"]
http.server.HTTPServer((server["http_addr"], int(server["http_port"])), Health).serve_forever()
"""
"""Grafana is in no distribution that tests can rely on: this reads the same configuration, and answers."""


def monitored(running: RunningUp) -> dict[str, str]:
    """Where Prometheus and Grafana listen, when they do."""

    def endpoints() -> dict[str, str]:
        component = running.endpoints()["components"].get("monitoring", {})
        addresses: dict[str, str] = component.get("endpoints", {})
        return addresses

    return until(endpoints, 60)


@pytest.mark.kubectl
@pytest.mark.prometheus
def test_dashboards_have_figures_and_grafana_is_started_where_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    grafana = tmp_path / "bin" / "grafana"
    grafana.write_text(STAND_IN.format(python=sys.executable))
    grafana.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    with up(tmp_path / "data", "--nodes", "2", "--monitoring") as running:
        urls = monitored(running)
        assert set(urls) == {"prometheus", "grafana"}
        kubeconfig = ["--kubeconfig", str(tmp_path / "data" / "kubeconfig")]
        create = ["create", "deployment", "web", "--image=web", "--replicas=2"]
        subprocess.run([str(find_binary("kubectl")), *kubeconfig, *create], check=True, capture_output=True)
        prometheus = Prometheus(urls["prometheus"])

        def is_filled() -> bool:
            scraped = {series["metric"]["job"] for series in prometheus.query("up == 1")}
            wanted = {f"koord-{name}" for name in COMPONENTS - {"apiserver", "console"}}
            by_pod = prometheus.query('koordlet_pod_usage{pod_namespace="default",resource="cpu"} > 0')
            return wanted <= scraped and len(by_pod) == 2 and bool(prometheus.query("koordlet_node_usage > 0"))

        until(is_filled, 90)
        rules = prometheus.ask("/api/v1/rules")["groups"]
        assert {rule["name"] for group in rules for rule in group["rules"]} > {"KoordNoLeader", "KoordWebhookBroken"}
        console = running.component("console")
        assert set(urls.values()) <= set(Path(f"/proc/{console['pid']}/cmdline").read_text().split("\0"))
        board = json.loads((tmp_path / "data" / "monitoring" / "boards" / "koord-nodes.json").read_text())
        assert link_of(board) == f"{console['endpoints']['console']}/nodes"


def link_of(board: dict[str, Any]) -> str:
    """Where a board's link leads, its variable filled in as Grafana does."""
    (link,) = board["links"]
    value = next(one["query"] for one in board["templating"]["list"] if one["name"] == "console")
    url: str = link["url"].replace("${console}", value)
    return url


def test_each_component_is_a_job_of_its_own_at_its_present_address() -> None:
    components = {
        "scheduler": Running(1, "ready", "log", {"health": "http://127.0.0.1:1234"}),
        "console": Running(2, "ready", "log", {"console": "http://127.0.0.1:1235"}),
        "hollow": Running(3, "starting", "log"),
    }
    listed = json.loads(targets(Endpoints(1, "1", "", "", components)))
    assert listed == [{"targets": ["127.0.0.1:1234"], "labels": {"job": "koord-scheduler"}}]


def test_grafana_listens_on_loopback_finds_its_boards_and_asks_nothing_of_the_internet(tmp_path: Path) -> None:
    files = grafana_files(tmp_path, 3001, "http://127.0.0.1:9090")
    config = configparser.RawConfigParser()
    config.read_string(files["grafana.ini"])
    assert (config["server"]["http_addr"], config["server"]["http_port"]) == ("127.0.0.1", "3001")
    assert set(config["analytics"].values()) == {"false"}
    assert config["auth.anonymous"]["org_role"] == "Viewer"
    (provider,) = yaml.safe_load(files["provisioning/dashboards/koord.yaml"])["providers"]
    assert {f"{provider['options']['path']}/{board.name}.json" for board in ALL} == {
        str(tmp_path / name) for name in board_files("http://127.0.0.1:1")
    }
    (source,) = yaml.safe_load(files["provisioning/datasources/koord.yaml"])["datasources"]
    assert source["url"] == "http://127.0.0.1:9090"


@pytest.mark.prometheus
def test_without_a_cluster_the_command_says_how_to_start_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert koord(["monitoring", "--data-dir", str(tmp_path)]) == 2
    assert f"no koord up runs on {tmp_path}: start one with koord up --data-dir" in capsys.readouterr().err


def test_without_prometheus_the_command_says_how_to_get_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "koord", "up", "--monitoring"],
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "prometheus is not installed: on Debian, apt-get install prometheus" in done.stderr
