"""`koord install --with monitoring`: refused whole without the Prometheus operator's kinds, installed with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from koord.api import kinds
from koord.api.text.yaml import load_all
from koord.cli.main import run as koord
from koord.operate.alerts import ALERTS
from koord.operate.install.kinds import OF_OTHERS
from koord.operate.install.manifest import Key, key_of
from koord.operate.install.monitoring import objects
from koord.operate.install.settings import COMPONENTS, Settings
from tests.minicluster.apiserver.server_process import ServerProcess
from tests.operate.install.test_on_servers import Server

SETTINGS = Settings(image="koord:1", version="1.0.0", extras=("monitoring",))


@pytest.fixture
def server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Server]:
    with ServerProcess(tmp_path / "data", "--durability", "fast"):
        yield Server(tmp_path / "data" / "kubeconfig", capsys)


def definition(kind: Any) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "names": {"kind": kind.kind, "plural": kind.plural, "singular": kind.kind.lower()},
            "scope": "Namespaced",
            "versions": [
                {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }


def test_without_the_operators_kinds_nothing_is_installed_and_with_them_all_is(server: Server) -> None:
    code, _, err = server.koord("install", "--with", "monitoring")
    assert code == 2
    assert "servicemonitors.monitoring.coreos.com: install the Prometheus operator first" in err
    assert "prometheusrules.monitoring.coreos.com" in err
    assert server.get(kinds.NAMESPACES, "koordinator-system") is None
    for kind in OF_OTHERS:
        server.create(kinds.CUSTOM_RESOURCE_DEFINITIONS, definition(kind))
    assert server.koord("install", "--with", "monitoring")[0] == 0
    rule = Key("monitoring.coreos.com/v1", "PrometheusRule", "koord-scheduler", "koordinator-system")
    assert server.ask(lambda cluster: cluster.get(rule)) is not None
    assert server.koord("install", "--with", "monitoring", "--diff")[:2] == (0, "")
    assert server.koord("uninstall", "--yes", "--restore-timeout", "0")[0] == 0
    assert server.ask(lambda cluster: cluster.get(rule)) is None


def test_every_component_is_scraped_and_every_alert_is_in_a_rule() -> None:
    made: list[Any] = objects(SETTINGS)
    monitors = {each["metadata"]["name"] for each in made if each["kind"] == "ServiceMonitor"}
    assert monitors == {*(component.full_name for component in COMPONENTS), "koord-yarn-operator"}
    rules = [
        rule["alert"]
        for each in made
        if each["kind"] == "PrometheusRule"
        for group in each["spec"]["groups"]
        for rule in group["rules"]
    ]
    assert sorted(rules) == sorted(alert.name for alert in ALERTS)


def test_a_monitor_finds_the_service_of_its_component_by_label_and_port() -> None:
    made: list[Any] = objects(SETTINGS)
    services = {
        each["metadata"]["labels"]["app.kubernetes.io/name"]: each for each in made if each["kind"] == "Service"
    }
    for each in made:
        if each["kind"] == "ServiceMonitor":
            service = services[each["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"]]
            (endpoint,) = each["spec"]["endpoints"]
            assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
            assert each["spec"]["jobLabel"] == "app.kubernetes.io/name"


def test_what_is_not_installed_is_not_watched() -> None:
    made = objects(Settings(image="koord:1", version="1", components=("agent",), extras=("monitoring",)))
    named = {key_of(each).name for each in made}
    assert "koord-agent-metrics" in named
    assert "koord-scheduler" not in named


def test_files_for_a_prometheus_without_operator_have_the_same_alerts(tmp_path: Path) -> None:
    assert koord(["install", "--write-monitoring", str(tmp_path / "m")]) == 0
    rules: Any = load_all((tmp_path / "m" / "rules.yaml").read_text(), "rules.yaml")[0]
    found = [rule["alert"] for group in rules["groups"] for rule in group["rules"]]
    assert sorted(found) == sorted(alert.name for alert in ALERTS)
    assert {each.name for each in (tmp_path / "m" / "boards").iterdir()} >= {"koord-overview.json"}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "x").write_text("x")
    assert koord(["install", "--write-monitoring", str(tmp_path / "mine")]) == 2
