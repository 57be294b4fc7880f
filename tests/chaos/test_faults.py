"""`koord chaos faults` as a user runs it: on a cluster of its own, and on a running `koord up`."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from koord.cli.main import run
from koord.kube.client import Client
from koord.kube.locate import locate
from koord_chaos.faults.live.clusters import AnyCluster
from koord_chaos.faults.live.load import Notes
from tests.minicluster.up.test_end_to_end import up

KINDS = "kill,pause,partition,too-many,lost-answers,silent-watches,gone,duplicated,lease,silent-node,lying-node"


def koord(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
    return subprocess.run(
        [sys.executable, "-m", "koord", *args],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        cwd=folder,
        env={**environment, "HOME": str(folder)},
    )


def test_faults_on_a_cluster_of_its_own_break_no_promise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = koord(
        tmp_path,
        *("chaos", "faults", "--seed", "7", "--rounds", "2", "--at-once", "6", "--longest", "3", "--nodes", "2"),
        *("--only", KINDS, "--record", "run.jsonl"),
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[0].split() == ["FAULT", "TIMES", "RECOVERY", "P50", "P99", "NEVER"]
    assert result.stdout.endswith("2 rounds, 0 with a broken promise\n")
    outcomes = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert [outcome["number"] for outcome in outcomes] == [0, 1]
    assert all(recovery["seconds"] is not None for outcome in outcomes for recovery in outcome["recoveries"])
    assert run(["chaos", "recoveries", str(tmp_path / "run.jsonl")]) == 0
    assert capsys.readouterr().out == result.stdout


def test_a_running_cluster_is_disturbed_only_if_it_is_marked(tmp_path: Path) -> None:
    with up(tmp_path / "data", "--nodes", "2") as cluster:
        asked = ("chaos", "faults", "--data-dir", "data", "--rounds", "1", "--longest", "2", "--target", "scheduler")
        before = pid_of(cluster.data)
        refused = koord(tmp_path, *asked, "--only", "kill")
        assert refused.returncode == 2
        assert "is not marked as a test cluster" in refused.stderr
        assert "kubectl label namespace koordinator-system chaos.koord.sh/test-cluster=true" in refused.stderr
        assert pid_of(cluster.data) == before
        asyncio.run(mark(cluster.data))
        planned = koord(tmp_path, *asked, "--only", "kill", "--dry-run")
        assert planned.stdout.startswith("round 0: kill of scheduler, at ")
        assert pid_of(cluster.data) == before
        result = koord(tmp_path, *asked, "--only", "kill")
        assert result.returncode == 0, result.stdout + result.stderr
        assert pid_of(cluster.data) != before
        impossible = koord(tmp_path, *asked, "--only", "partition")
        assert impossible.returncode == 2
        assert "partition: needs a cluster that koord chaos starts" in impossible.stderr


async def mark(data: Path) -> None:
    async with Client(locate(str(data / "kubeconfig"))) as client:
        await AnyCluster(client).mark()


def pid_of(data: Path) -> int:
    return int(json.loads((data / "endpoints.json").read_text())["components"]["scheduler"]["pid"])


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (("--only", "flood"), "'flood' must be one of kill, pause"),
        (("--target", "etcd"), "etcd: can be apiserver, controllers"),
        (("--only", "lease", "--target", "hollow"), "no fault is possible"),
        (("--longest", "0"), "0"),
        (("--kubeconfig", "missing"), "missing"),
        (("--kubeconfig", "x", "--data-dir", "."), "not both"),
        (("--repeat", "rounds.json"), "the target can be"),
        (("--shrink", "--data-dir", "."), "--shrink needs clusters of its own"),
    ],
)
def test_bad_input_names_the_option_and_what_is_valid(
    args: tuple[str, ...],
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rounds.json").write_text('[[{"kind": "kill", "target": "etcd"}]]')
    assert run(["chaos", "faults", "--dry-run", *args]) == 2
    assert reason in capsys.readouterr().err


def test_a_lost_acknowledged_write_is_a_violation_and_an_unsure_one_is_not() -> None:
    notes = Notes({"a": 3, "b": 1}, {"b": {2}})
    assert notes.lost({"a": 3, "b": 1}) == []
    assert notes.lost({"a": 3, "b": 2}) == []
    assert notes.lost({"a": 2, "b": 1}) == ["acknowledged write a=3 is lost: the cluster has 2"]
    assert notes.lost({"b": 1}) == ["acknowledged write a=3 is lost: the cluster has None"]
