"""`koord sim` as a user runs it, and what it says to input that is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from koord.cli.main import run as koord

TINY = """\
name: tiny
duration: 30m
warmUp: 5m
cluster: {nodes: 3}
services: {trace: shipped}
batch: {trace: shipped, arrivals: saturate, pending: 5, cores: [1, 2], longest: 1h}
"""


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    file = tmp_path / "tiny.yaml"
    file.write_text(TINY)
    return str(file)


def refused(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """The message about input that is wrong: exit code 2, and nothing on standard output."""
    assert koord(["sim", *args]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Traceback" not in printed.err
    return printed.err


def test_run_shows_the_policy_beside_the_others(tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "out.html"
    assert koord(["sim", "run", tiny, "--processes", "1", "--report", str(report)]) == 0
    printed = capsys.readouterr()
    head, *rows = printed.out.splitlines()
    assert head.split() == ["policy", "adaptive", "none", "usage", "oracle"]
    assert any(row.startswith("batch work, core-hours") for row in rows)
    assert printed.err == f"report: {report}\n"
    assert "<svg" in report.read_text()


def test_json_of_a_run_is_the_same_each_time_and_with_worker_processes(
    tiny: str, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = []
    for processes in ("1", "2"):
        assert koord(["sim", "run", tiny, "--processes", processes, "-o", "json"]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    runs = json.loads(texts[0])["runs"]
    assert [run["name"] for run in runs] == ["adaptive", "none", "usage", "oracle"]
    assert 0 < runs[1]["workCoreHours"] < runs[0]["workCoreHours"]


def test_compare_has_intervals_and_scenarios_beside_policies(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["sim", "compare", "usage", tiny, "--scenario", tiny, "--seeds", "2", "--processes", "1"]
    assert koord(args) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[0].split() == ["target", "usage", tiny]
    assert "±" in rows[1]
    assert rows[2].startswith("  against usage")


def test_sweep_marks_the_front(tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "out.html"
    args = ["sim", "sweep", tiny, "--policy", "usage", "--over", "cpuReclaimThresholdPercent=40:60:20"]
    assert koord([*args, "--processes", "1", "--report", str(report)]) == 0
    rows = [row.split() for row in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == ["cpuReclaimThresholdPercent", "40", "60"]
    assert rows[2][-1] == "*"
    assert "Pareto" not in report.read_text()
    assert "worth considering" in report.read_text()


def test_a_checkpoint_continues_to_the_same_result(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["sim", "run", tiny, "--alone", "--set", "restart=10m", "-o", "json", "--checkpoint", str(tmp_path / "at")]
    texts = []
    for _ in range(2):
        assert koord(args) == 0
        texts.append(capsys.readouterr().out)
        assert [file.name for file in (tmp_path / "at").iterdir()] == ["adaptive.checkpoint"]
    assert texts[0] == texts[1]
    message = refused(capsys, *args[1:], "--seed", "7")
    assert "adaptive.checkpoint" in message


def test_policies_are_listed_with_what_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert koord(["sim", "policies", "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert {"none", "usage", "adaptive", "oracle"} <= {policy["name"] for policy in answer}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["run", "TINY", "--policy", "adaptve"], "--policy: must be one of none, usage"),
        (["run", "TINY", "--set", "cpuReclaimTresholdPercent=70"], "did you mean cpuReclaimThresholdPercent?"),
        (["run", "TINY", "--set", "batch.arrivals=recorded"], "needs arrivals: saturate"),
        (["run", "TINY", "--set", "70"], "must be KEY=VALUE"),
        (["run", "TINY", "--pool", "web"], "--pool goes with --policy or --set"),
        (["run", "TINY", "--pool", "web", "--policy", "usage"], "is not a pool of the scenario (valid: none, the"),
        (["run", "TINY", "--set", "services.trace=nonsense"], "services.trace: must be one of synthetic, bitbrains"),
        (["run", "EMPTY"], "must be a scenario"),
        (["run", "HUGE"], "has more than 4 MiB: is it a scenario?"),
        (["run", "TINY", "--alone", "--set", "manifests=[gone.yaml]"], "gone.yaml: cannot be read"),
        (["run", "TINY", "--alone", "--set", "manifests=[quota.yaml]"], "spec.mox: unknown field (valid: max, min)"),
        (["run", "TINY", "--alone", "--set", "services={trace: table, path: bad}"], "bad/services.csv:1: column cpu_x"),
        (["run", "TINY", "--report", "TINY"], "exists already"),
        (["run", "TINY", "--report", "no/such/folder/out.html"], "there is no folder no/such/folder"),
        (["run", "gone.yaml"], "gone.yaml"),
        (["compare", "adaptive", "adaptive"], "adaptive is given twice"),
        (["compare", "gone.yaml"], "gone.yaml: is neither a policy (none, usage"),
        (["run", "TINY", "--alone", "--policy", "FGD"], "packing: FGD packs GPUs, and trace shipped has none"),
        (["sweep", "TINY", "--over", "markPercent"], "must be KEY=FROM:TO:STEP"),
        (["sweep", "TINY", "--over", "markPercent=90:200:50"], "must be a number above 0 to 100"),
        (["sweep", "TINY", "--over", "policy=usage,nope"], "--over: policy: must be one of none, usage"),
        (["sweep", "TINY", "--over", "markPercent=80,90", "--set", "markPercent=85"], "also given once"),
        (["sweep", "TINY", "--over", "markPercent=80,90", "--dask", "tcp://127.0.0.1:1", "--processes", "2"], "--dask"),
    ],
)
def test_bad_input_is_refused_with_what_would_be_valid(
    args: list[str], message: str, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text("")
    with (tmp_path / "huge.yaml").open("wb") as huge:
        huge.truncate(1 << 30)
    (tmp_path / "quota.yaml").write_text(
        "apiVersion: scheduling.sigs.k8s.io/v1alpha1\nkind: ElasticQuota\nmetadata: {name: q}\nspec: {mox: {cpu: 1}}\n"
    )
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "services.csv").write_text("time_s,pod,cpu_x\n300,a,1\n")
    named = {"TINY": tiny, "EMPTY": str(empty), "HUGE": str(tmp_path / "huge.yaml")}
    assert message in refused(capsys, *(named.get(arg, arg) for arg in args))
    assert (tmp_path / "tiny.yaml").read_text() == TINY


def test_what_if_says_gain_and_risk_on_a_recording(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "out.html"
    args = ["sim", "what-if", tiny, "--policy", "usage", "--processes", "1"]
    assert koord([*args, "--set", "cpuReclaimThresholdPercent=80", "--report", str(report)]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[0].split() == ["figure", "unchanged", "with", "the", "change", "difference"]
    assert "gain: " in printed.out
    assert "what if cpuReclaimThresholdPercent=80" in report.read_text()
    assert koord([*args, "--set", "cpuReclaimThresholdPercent=80", "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["gainCoreHours"] >= 0
    assert answer["evictedMore"] == []


def test_what_if_says_that_a_setting_has_no_effect(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["--policy", "none", "--set", "cpuReclaimThresholdPercent=80", "--processes", "1"]
    assert koord(["sim", "what-if", tiny, *args]) == 0
    assert "cpuReclaimThresholdPercent=80 has no effect on this history with policy none" in capsys.readouterr().err


def test_a_feature_is_previewed_on_a_recording_by_the_same_code(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "history"
    folder.mkdir()
    (folder / "scenario.yaml").write_text(TINY)
    assert koord(["colocation", "preview", "adaptive", "--recording", str(folder), "-o", "json"]) == 0
    previewed = capsys.readouterr().out
    args = ["what-if", str(folder), "--policy", "usage", "--set", "policy=adaptive", "--processes", "1", "-o", "json"]
    assert koord(["sim", *args]) == 0
    assert capsys.readouterr().out == previewed


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["sim", "what-if", "TINY"], "--set KEY=VALUE is missing"),
        (["sim", "what-if", "TINY", "--set", "duration=1h"], "the load must stay the same"),
        (["sim", "what-if", "FOLDER", "--set", "markPercent=80"], "has no scenario.yaml"),
        (["colocation", "preview", "suppress", "--recording", "FOLDER"], "goes with lending or adaptive"),
        (["colocation", "preview", "adaptive", "-l", "a=b", "--recording", "FOLDER"], "needs no cluster"),
    ],
)
def test_a_what_if_that_answers_nothing_is_refused(
    args: list[str], message: str, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = {"TINY": tiny, "FOLDER": str(tmp_path)}
    assert koord([named.get(arg, arg) for arg in args]) == 2
    assert message in capsys.readouterr().err
