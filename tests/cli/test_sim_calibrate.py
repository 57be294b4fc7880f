"""`koord sim calibrate` as a user has it: constants from a recording, and what stops it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from koord.api.machinery.faults import BadInput
from koord.cli.main import run as koord
from koord.cli.sim_calibrate import calibrate
from koord.sim.latency import parse
from tests.sim.queues import recording

RECORDING = recording(2000)


def run(*args: str) -> Result:
    return CliRunner().invoke(calibrate, args)


@pytest.fixture
def points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "points.json"
    file.write_bytes(msgspec.json.encode(RECORDING))
    return file


def test_it_shows_errors_and_neighbours_and_writes_constants_that_can_be_read(points: Path) -> None:
    answer = run("points.json", "--constants", "latency.json")
    assert answer.exit_code == 0, answer.output
    assert "measured on: a made-up CPU, 2 CPUs, kernel 6.1, cgroup v2, 2026-01-01" in answer.output
    assert "MEDIAN ERROR" in answer.output
    assert [line.split()[:2] for line in answer.output.splitlines()[-6:-4]] == [["cache", "yes"], ["cache", "no"]]
    model = parse(Path("latency.json").read_bytes(), "latency.json")
    assert json.loads(run("points.json", "-o", "json").stdout) == json.loads(msgspec.json.encode(model))


def test_constants_are_never_overwritten(points: Path) -> None:
    Path("latency.json").write_text("mine")
    answer = run("points.json", "--constants", "latency.json")
    assert answer.exit_code == 2
    assert "latency.json: exists already" in answer.output
    assert Path("latency.json").read_text() == "mine"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("none.json",), "there is no recording none.json: add --record"),
        (("points.json", "--minutes", "5"), "--minutes goes with --record"),
        (("points.json", "--constants", "no/latency.json"), "there is no folder no"),
        ((), "Missing argument 'RECORDING'"),
    ],
)
def test_bad_usage_says_what_would_be_valid_and_writes_nothing(
    points: Path, args: tuple[str, ...], message: str
) -> None:
    answer = run(*args)
    assert answer.exit_code == 2
    assert message in answer.output
    assert list(points.parent.iterdir()) == [points]


def test_recording_without_root_is_refused_before_anything_is_written(
    points: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    answer = run("new.json", "--record")
    assert answer.exit_code == 2
    assert "--record needs root" in answer.output
    assert not Path("new.json").exists()


@pytest.mark.root
def test_a_recording_that_cannot_be_made_is_no_recording(points: Path) -> None:
    """The time is up before the first point."""
    answer = run("new.json", "--record", "--minutes", "1", "--constants", "latency.json")
    assert answer.exit_code != 0
    assert not Path("latency.json").exists()


def test_a_recording_that_is_not_enough_leaves_no_constants(points: Path) -> None:
    points.write_bytes(msgspec.json.encode(replace(RECORDING, points=RECORDING.points[:5])))
    answer = run("points.json", "--constants", "latency.json")
    assert isinstance(answer.exception, BadInput), "which koord shows as one line"
    assert "record again" in str(answer.exception)
    assert not Path("latency.json").exists()


SCENARIO = """\
name: tiny
duration: 20m
cluster: {nodes: 2}
services: {trace: shipped}
batch: {trace: shipped, arrivals: saturate, pending: 5, cores: [1, 2], longest: 1h}
"""


def simulated(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = koord(["sim", "run", "tiny.yaml", "--alone", "--processes", "1", *args])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_a_run_uses_constants_of_an_option_or_of_the_scenario(points: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("tiny.yaml").write_text(SCENARIO)
    assert run("points.json", "--constants", "latency.json").exit_code == 0
    code, by_option, _ = simulated(capsys, "--latency", "latency.json")
    assert code == 0
    assert "service samples over their limit" in by_option
    Path("tiny.yaml").write_text(SCENARIO + "latency: {constants: latency.json}\n")
    assert simulated(capsys)[1] == by_option
    without = simulated(capsys, "--set", "latency.protected=false")[1]
    assert without != by_option


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("latency: {constants: none.json}", "latency.constants: none.json: No"),
        ("latency: {constants: points.json}", "points.json: format: must be koord.sim/latency/v1"),
        ("latency: {constants: latency.json, neighbour: gpu}", "must be one of cache, cpu, mixed, not gpu"),
        ("latency: {limit: 0}", "latency.limit"),
    ],
)
def test_a_run_refuses_constants_that_it_cannot_use(
    points: Path, capsys: pytest.CaptureFixture[str], given: str, message: str
) -> None:
    Path("tiny.yaml").write_text(f"{SCENARIO}{given}\n")
    assert run("points.json", "--constants", "latency.json").exit_code == 0
    code, out, err = simulated(capsys)
    assert (code, out) == (2, "")
    assert message in err
