"""`koord up --demo` as a newcomer runs it: in an empty directory, watched for a while, ended with Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.crowd import crowd

pytestmark = pytest.mark.timeout(120)


def test_the_demo_fills_gaps_with_batch_work_and_ends_with_a_summary_and_a_page(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "koord", "up", "--demo", "--nodes", "10", "--report", "out.html"]
    said = tmp_path / "said"
    with said.open("wb") as out, (tmp_path / "errors").open("wb") as errors:
        process = subprocess.Popen(
            command, cwd=tmp_path, stdout=out, stderr=errors, env={**os.environ, "PYTHONPATH": str(Path.cwd())}
        )
    try:
        deadline = time.monotonic() + 60 * crowd()
        while not _batch_runs(said.read_text()):
            assert process.poll() is None, (tmp_path / "errors").read_text()
            assert time.monotonic() < deadline, said.read_text() + (tmp_path / "errors").read_text()
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60 * crowd()) == 130
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    text = said.read_text()
    assert text.startswith("ready: KUBECONFIG=")
    assert "WITH CO-LOCATION" in text
    assert "violations" in text
    page = (tmp_path / "out.html").read_text()
    assert page.count("<svg") == 2
    assert sorted(each.name for each in tmp_path.iterdir()) == ["errors", "out.html", "said"]


def _batch_runs(text: str) -> bool:
    """Whether a line tells of CPU that batch pods use, which nodes measured and reported."""
    return any("batch" in line and ", batch 0%" not in line for line in text.splitlines() if "  cpu " in line)
