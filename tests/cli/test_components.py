"""The commands that run a component: bad usage is told at once, in one message."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_main import koord

HEADER = "time_s,target,cpu,memory\n"


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("--node-cpu", "many"), "--node-cpu"),
        (("--node-memory", "-1"), "must be more than 0"),
        (("--prefix", "Not_A_Name"), "--prefix"),
        (("--nodes", "20000"), "--nodes"),
    ],
)
def test_bad_options_of_hollow_nodes_are_told(args: tuple[str, ...], told: str) -> None:
    done = koord("hollow", *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_bad_recording_is_told_with_its_line(tmp_path: Path) -> None:
    recording = tmp_path / "load.csv"
    recording.write_text(f"{HEADER}0,pod:a/b,1,1Gi\n60,pod:a/b,much,1Gi\n")
    done = koord("hollow", "--load", str(recording))
    assert done.returncode == 2
    assert f"{recording}: line 3: cpu is 'much'" in done.stderr


@pytest.mark.parametrize("command", ["hollow", "controllers", "scheduler", "manager", "descheduler"])
def test_a_component_without_a_cluster_says_so(command: str, tmp_path: Path) -> None:
    done = koord(command, KUBECONFIG="", HOME=str(tmp_path))
    assert done.returncode == 2
    assert "no cluster is configured" in done.stderr
    assert "Traceback" not in done.stderr
