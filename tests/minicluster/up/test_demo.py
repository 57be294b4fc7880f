"""`koord up --demo` as a newcomer runs it: in an empty directory, watched for a while, ended with Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.crowd import crowd
from tests.waiting import until


def test_the_demo_places_batch_pods_on_what_is_lent_and_ends_cleanly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "koord", "up", "--demo", "--nodes", "10", "--report", "out.html"]
    said = tmp_path / "said"
    with said.open("wb") as out, (tmp_path / "errors").open("wb") as errors:
        process = subprocess.Popen(
            command, cwd=tmp_path, stdout=out, stderr=errors, env={**os.environ, "PYTHONPATH": str(Path.cwd())}
        )
    try:

        def runs() -> bool:
            assert process.poll() is None, (tmp_path / "errors").read_text()
            return _batch_runs(said.read_text())

        until(runs, what=lambda: said.read_text() + (tmp_path / "errors").read_text())
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60 * crowd()) == 130
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    text, errors_told = said.read_text(), (tmp_path / "errors").read_text()
    assert text.startswith("ready: KUBECONFIG=")
    assert "Traceback" not in errors_told
    # Whether services ran long enough by then depends on the machine.
    is_summed_up = "WITH CO-LOCATION" in text
    assert is_summed_up != ("too soon for a summary" in errors_told)
    assert (tmp_path / "out.html").exists() == is_summed_up


def _batch_runs(text: str) -> bool:
    """Whether a line tells of batch pods that have been placed on what nodes lend."""
    return re.search(r"  batch [1-9]\d* run", text) is not None
