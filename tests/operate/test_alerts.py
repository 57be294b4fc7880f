"""Alerts fire when they should and only then, as Prometheus' own engine evaluates them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from koord.api.text.yaml import dump
from koord.operate.alerts import ALERTS
from koord.operate.install.monitoring import files
from tests.operate.series import ILL, MINUTES, WELL, values

NAMES = sorted({alert.name for alert in ALERTS})
LOOK_AT = f"{MINUTES - 1}m"


def promtool(folder: Path, cases: Iterable[Mapping[str, Any]]) -> str:
    """What promtool finds wrong."""
    (folder / "rules.yaml").write_text(files()["rules.yaml"])
    (folder / "tests.yaml").write_text(
        dump({"rule_files": ["rules.yaml"], "evaluation_interval": "5m", "tests": list(cases)})
    )
    done = subprocess.run(
        ["promtool", "test", "rules", "tests.yaml"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def case(name: str, series: Mapping[str, str], firing: Iterable[str]) -> dict[str, Any]:
    """`firing`: the alerts that fire at the end, and no others."""
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": each, "values": text} for each, text in series.items()],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": LOOK_AT,
                "exp_samples": [{"labels": f'{{alertname="{each}"}}', "value": 1} for each in firing],
            }
        ],
    }


@pytest.mark.prometheus
def test_no_alert_fires_where_all_is_well(tmp_path: Path) -> None:
    assert promtool(tmp_path, [case("well", WELL, [])]) == ""


@pytest.mark.prometheus
def test_every_alert_fires_for_its_cause_and_alone(tmp_path: Path) -> None:
    assert promtool(tmp_path, [case(name, {**WELL, **ill}, [name]) for name, ill in ILL.items()]) == ""


@pytest.mark.prometheus
def test_a_component_without_any_pod_is_down_too(tmp_path: Path) -> None:
    gone = {name: text for name, text in WELL.items() if "koord-descheduler" not in name}
    assert promtool(tmp_path, [case("gone", gone, ["KoordComponentDown"])]) == ""


def test_there_are_series_for_every_alert() -> None:
    assert sorted(ILL) == NAMES


def test_what_is_said_of_the_notation() -> None:
    assert [*values("0+2x3")] == [0, 2, 4, 6]
    assert [*values("5x1 2x0")] == [5, 5, 2]


@pytest.mark.parametrize("alert", ALERTS, ids=lambda each: each.name)
def test_an_alert_says_what_is_wrong_and_where_to_read_on(alert: Any) -> None:
    rule = alert.rule()
    assert rule["annotations"]["runbook"] == f"docs/runbooks/{alert.name}.md"
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert re.fullmatch(r"Koord[A-Za-z]+", alert.name)
