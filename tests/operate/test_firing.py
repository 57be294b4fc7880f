"""Every alert fires once in a real Prometheus, whose past is written beforehand."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from koord.operate.install.monitoring import files
from tests.operate.prometheus import prometheus
from tests.operate.series import ILL, WELL, values

APART = ("KoordSchedulerStuck", "KoordQuotaBelowMin")
"""Their causes are the opposite of others'."""


def past(folder: Path, alerts: Iterable[str], now_s: int) -> None:
    """Writes what leads to these alerts, a sample a minute up to now, as blocks of Prometheus' storage."""
    series = dict(WELL)
    for name in alerts:
        series |= ILL[name]
    lines = []
    for each, notation in sorted(series.items()):
        points = [*values(notation)]
        for at, value in enumerate(points):
            lines.append(f"{each} {value} {now_s - 60 * (len(points) - 1 - at)}")
    by_family = sorted(lines, key=lambda line: re.split(r"[{ ]", line, maxsplit=1)[0])
    text = folder / "past.txt"
    text.write_text("\n".join([*by_family, "# EOF", ""]))
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(folder / "data")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.prometheus
@pytest.mark.parametrize("alerts", [[name for name in ILL if name not in APART], list(APART)], ids=["most", "the-rest"])
def test_every_alert_fires_in_a_real_prometheus_with_its_words(tmp_path: Path, alerts: list[str]) -> None:
    past(tmp_path, alerts, int(time.time()))
    with prometheus(tmp_path, rules=files()["rules.yaml"]) as watching:
        found = watching.until(lambda: firing if set(firing := watching.firing()) >= set(alerts) else None)
    assert set(found) == set(alerts)
    for name, alert in found.items():
        told = " ".join(alert["annotations"].values())
        assert not re.search(r"<no value>|<error|\{\{", told), f"{name}: {told}"
        assert alert["annotations"]["runbook"].endswith(f"/{name}.md")
    if "KoordQuotaExhausted" in found:
        assert found["KoordQuotaExhausted"]["annotations"]["summary"].startswith("quota team has no cpu left")
