"""`koord deschedule --dry-run` on files, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from koord.cli.main import run

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "descheduler"


AT = ("--now", "2026-11-15T10:00:30Z")


def test_a_hot_node_is_cooled_down_and_services_stay_within_their_limits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["deschedule", "--dry-run", "-f", str(EXAMPLE), *AT, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    classes = {name: seen["class"] for name, seen in found["nodes"].items()}
    assert classes == {"cool": "low", "hot": "high", "mid": "normal"}
    moves = found["migrations"]
    assert [each["order"] for each in moves] == list(range(1, len(moves) + 1))
    allowed = [each for each in moves if each["allowed"]]
    assert allowed
    assert {each["to"] for each in allowed} == {"cool"}
    assert allowed[0]["pod"] == "jobs/encode-0", "batch work goes before services"
    assert all(each["why"] for each in moves if not each["allowed"])


def test_a_person_reads_who_moves_where_and_what_the_nodes_gain(capsys: pytest.CaptureFixture[str]) -> None:
    guide = (ROOT / "docs" / "cool-down-hot-nodes.md").read_text()
    assert run(["deschedule", "--dry-run", "-f", str(EXAMPLE), *AT]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert told.out in guide


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-f", str(EXAMPLE)), "--dry-run"),
        (("--dry-run",), "-f/--filename"),
        (("--dry-run", "-f", str(EXAMPLE), "--context", "x"), "--live"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["deschedule", *words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert told in said.err


def test_marks_that_would_fight_the_scheduler_are_refused_with_both_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scheduler = (EXAMPLE / "scheduler.yaml").read_text().replace("memory: 80", "memory: 90")
    (tmp_path / "scheduler.yaml").write_text(scheduler)
    files = [word for name in ("cluster.yaml", "config.yaml") for word in ("-f", str(EXAMPLE / name))]
    assert run(["deschedule", "--dry-run", *files, "-f", str(tmp_path), *AT]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "usageThresholds.memory: must not be above" in said.err
    assert "(80), not 90" in said.err


def test_the_page_about_large_jobs_tells_what_moves_and_the_job_fits_where_it_left(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    guide = (ROOT / "docs" / "defragment-for-a-large-job.md").read_text()
    folder = ROOT / "examples" / "defragment"
    cluster, job = folder / "cluster.yaml", folder / "job.yaml"
    assert run(["plan", "-f", str(cluster), "-f", str(job)]) == 0
    assert capsys.readouterr().out in guide
    words = ["deschedule", "--dry-run", "-f", str(cluster), "--config", str(folder / "config.yaml")]
    assert run(words) == 0
    assert capsys.readouterr().out in guide
    assert run([*words, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["nodes"]["d"]["requestedAfter"] == {}
    moved = {each["pod"].partition("/")[2]: each["to"] for each in found["migrations"]}
    documents = [each for each in yaml.safe_load_all(cluster.read_text()) if each]
    for each in documents:
        if each["kind"] == "Pod":
            each["spec"]["nodeName"] = moved.get(each["metadata"]["name"], each["spec"]["nodeName"])
    (tmp_path / "after.yaml").write_text(yaml.safe_dump_all(documents))
    assert run(["plan", "-f", str(tmp_path), "-f", str(job), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["pods"]["train/large"]["node"] == "d"


OWN = """
from koord.descheduler.plugin import Plugin


class KeepShops(Plugin):
    name = "KeepShops"

    def keeps(self, pod):
        return "shops are open" if pod.metadata.namespace == "shop" else None
"""


def test_a_plugin_of_ones_own_takes_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "shops.py").write_text(OWN)
    words = ["deschedule", "--dry-run", "-f", str(EXAMPLE), *AT, "-o", "name"]
    assert run([*words, "--plugin", f"{tmp_path / 'shops.py'}:KeepShops"]) == 0
    assert capsys.readouterr().out.split() == ["pod/jobs/encode-0"]
    assert run([*words, "--plugin", "shops"]) == 2
    assert "module:Class" in capsys.readouterr().err


def test_every_fault_of_a_configuration_is_named_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.yaml").write_text(
        """
apiVersion: descheduler/v1alpha2
kind: DeschedulerConfiguration
deschedulingInterval: -1s
profiles:
- plugins: {deschedule: {enabled: [{name: RemoveFailedPods}]}, balance: {enabled: [{name: LowNodeLoad}]}}
  pluginConfig:
  - {name: LowNodeLoad, args: {numberOfNodes: -1, highThreshold: {cpu: 5}}}
"""
    )
    words = ["deschedule", "--dry-run", "-f", str(EXAMPLE / "cluster.yaml"), "--config", str(tmp_path / "config.yaml")]
    assert run(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    for part in ("deschedulingInterval", "RemoveFailedPods", "PodLifeTime", "numberOfNodes", "highThreshold"):
        assert part in said.err
