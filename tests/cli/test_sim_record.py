"""`koord sim record` as a user runs it: a cluster with hollow nodes is recorded, and the recording simulated."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from koord.cli.main import run as koord
from koord.sim.live.traces import read_recording
from koord.sim.traces.table.batch import EARLY
from tests.minicluster.up.test_end_to_end import kubectl, up
from tests.waiting import until

PODS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      schedulerName: koord-scheduler
      containers: [{name: main, image: none, resources: {requests: {cpu: "2", memory: 1Gi}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: job, namespace: default, labels: {koordinator.sh/qosClass: BE}}
spec:
  schedulerName: koord-scheduler
  priorityClassName: koord-batch
  containers:
  - name: main
    image: none
    resources:
      requests: {kubernetes.io/batch-cpu: "1500", kubernetes.io/batch-memory: 256Mi}
      limits: {kubernetes.io/batch-cpu: "1500", kubernetes.io/batch-memory: 256Mi}
"""
EVERY_SECOND = {"data": {"colocation-config": json.dumps({"enable": True, "metricReportIntervalSeconds": 1})}}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cluster whose nodes report every second, with two pods of a service and a batch pod that were reported."""
    folder = tmp_path_factory.mktemp("up")
    with up(folder / "data", "--nodes", "2"):
        data = folder / "data"
        (folder / "pods.yaml").write_text(PODS)
        config = ("configmap", "slo-controller-config", "-n", "koordinator-system")
        kubectl(data, "patch", *config, "--type=merge", "-p", json.dumps(EVERY_SECOND))
        kubectl(data, "apply", "-f", str(folder / "pods.yaml"))
        reported = "jsonpath={.items[*].status.podsMetric[*].name}"
        until(lambda: len(kubectl(data, "get", "nodemetrics", "-o", reported).split()) == 3)
        yield data


def recorded(data: Path, folder: Path, *args: str) -> int:
    arguments = [str(folder), "--kubeconfig", str(data / "kubeconfig"), "--every", "1s", *args]
    return koord(["sim", "record", *arguments])


@pytest.mark.kubectl
def test_a_cluster_is_recorded_and_the_recording_simulated(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "history"
    assert recorded(data, folder, "--for", "2s") == 0
    out, err = capsys.readouterr()
    assert "with 3 pods in" in out
    assert f"simulate it: koord sim run {folder}" in err
    assert recorded(data, folder, "--for", "1s") == 0
    trace = read_recording(folder)
    assert trace.services is not None
    assert trace.services.request_cpu_milli is not None
    assert trace.tasks is not None
    assert trace.nodes is not None
    # The job was there before the recording.
    assert {repair.rule for repair in trace.repairs} <= {EARLY}
    assert len(trace.services.ids) == 2
    assert trace.services.request_cpu_milli.tolist() == [2000, 2000]
    assert trace.tasks.ids == ("default/job",)
    assert trace.tasks.request_cpu_milli.tolist() == [1500]
    assert set(trace.services.node or ()) <= set(trace.nodes.names)
    capsys.readouterr()
    assert koord(["sim", "run", f"{folder}/scenario.yaml", "--alone", "-o", "json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["totals"]["servicesPercent"] > 0
    assert [repair["rule"] for repair in run["repairs"]] in ([], [EARLY])


@pytest.mark.kubectl
def test_ctrl_c_ends_a_recording_and_keeps_it(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "history"
    arguments = ["sim", "record", str(folder), "--kubeconfig", str(data / "kubeconfig"), "--every", "1s"]
    process = subprocess.Popen([sys.executable, "-m", "koord", *arguments], stdout=subprocess.PIPE, text=True)
    try:
        until(lambda: (folder / "recording.json").exists())
        os.kill(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert out.startswith("recorded ")
    assert read_recording(folder).services is not None


@pytest.mark.kubectl
def test_a_recording_stops_at_its_size(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert recorded(data, tmp_path / "history", "--max-size", "300") == 0
    assert "stopped at --max-size" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--every", "0s"), "--every '0s': must be more than nothing"),
        (("--every", "soon"), "--every 'soon': must be numbers with w, d, h, m or s"),
        (("--for", "tomorrow"), "--for 'tomorrow': must be numbers"),
        (("--max-size", "big"), "--max-size "),
        (("--max-size", "0"), "--max-size 0: must be above 0, as in 1Gi"),
        (("--since", "1h"), "--since goes with --prometheus"),
        (("--prometheus", "http://127.0.0.1:9", "--for", "1h"), "--for records a running cluster"),
        (
            ("--prometheus", "http://127.0.0.1:9", "--kubeconfig", "none"),
            "Prometheus http://127.0.0.1:9 cannot be reached",
        ),
        (("--prometheus", "localhost"), "must be a URL, as in http://prometheus.monitoring:9090"),
    ],
)
def test_bad_options_are_refused_and_leave_no_folder(
    tmp_path: Path, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert koord(["sim", "record", str(tmp_path / "history"), *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "history").exists()
