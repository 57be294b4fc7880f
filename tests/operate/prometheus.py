"""A real Prometheus on loopback for tests: Debian's package, with its data in a folder of the test's."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError

from koord.api.text.yaml import dump
from tests.control_plane import free_port
from tests.waiting import until

WITHIN_S = 60.0


class Prometheus:
    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, path: str, **parameters: str) -> Any:
        """What the API answers."""
        with urllib.request.urlopen(f"{self.url}{path}?{urllib.parse.urlencode(parameters)}", timeout=60) as answer:
            found = json.load(answer)
        assert found["status"] == "success", found
        return found["data"]

    def query(self, expr: str) -> list[Any]:
        found: list[Any] = self.ask("/api/v1/query", query=expr)["result"]
        return found

    def firing(self) -> dict[str, Any]:
        """The alerts that fire, by name."""
        alerts = self.ask("/api/v1/alerts")["alerts"]
        return {alert["labels"]["alertname"]: alert for alert in alerts if alert["state"] == "firing"}

    def until(self, holds: Callable[[], Any]) -> Any:
        return until(holds, WITHIN_S)


@contextmanager
def prometheus(
    folder: Path, *, rules: str = "", targets: Mapping[str, str] | None = None, token: str = ""
) -> Iterator[Prometheus]:
    """`targets`: host and port by job. A scrape a second; what waits in `rules` waits no longer."""
    folder.mkdir(exist_ok=True)
    without_waiting = "\n".join(
        "    for: 0s" if line.strip().startswith("for:") else line for line in rules.split("\n")
    )
    (folder / "rules.yaml").write_text(without_waiting)
    (folder / "token").write_text(token)
    jobs = [
        {
            "job_name": job,
            "honor_labels": True,
            "authorization": {"credentials_file": str(folder / "token")},
            "static_configs": [{"targets": [target]}],
        }
        for job, target in (targets or {}).items()
    ]
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(folder / "rules.yaml")],
        "scrape_configs": jobs,
    }
    (folder / "prometheus.yaml").write_text(dump(config))
    port = free_port()
    arguments = ["--config.file", "prometheus.yaml", "--storage.tsdb.path", "data", "--log.level", "warn"]
    arguments += ["--web.listen-address", f"127.0.0.1:{port}"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(["prometheus", *arguments], cwd=folder, stdout=log, stderr=log)
    try:
        found = Prometheus(f"http://127.0.0.1:{port}")
        found.until(lambda: process.poll() is not None or _is_ready(found.url))
        assert process.poll() is None, (folder / "log").read_text()
        yield found
    finally:
        process.terminate()
        process.wait(60)


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
