"""`koord deschedule --dry-run` on files, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
    assert [move["order"] for move in moves] == list(range(1, len(moves) + 1))
    allowed = [move for move in moves if move["allowed"]]
    assert allowed
    assert {each["to"] for each in allowed} == {"cool"}
    assert allowed[0]["pod"] == "jobs/encode-0", "batch work goes before services"
    assert all(move["why"] for move in moves if not move["allowed"])


def test_a_person_reads_who_moves_where_and_what_the_nodes_gain(capsys: pytest.CaptureFixture[str]) -> None:
    guide = (ROOT / "docs" / "cool-down-hot-nodes.md").read_text()
    assert run(["deschedule", "--dry-run", "-f", str(EXAMPLE), *AT]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out in guide


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
    moved = {migration["pod"].partition("/")[2]: migration["to"] for migration in found["migrations"]}
    documents = [each for each in yaml.safe_load_all(cluster.read_text()) if each]
    for document in documents:
        if document["kind"] == "Pod":
            document["spec"]["nodeName"] = moved.get(document["metadata"]["name"], document["spec"]["nodeName"])
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


def custom(tmp_path: Path, replicas: int | None) -> list[str]:
    """A hot node whose only evictable pods belong to a CloneSet; its object has N replicas, or is not there."""
    hot = yaml.safe_dump_all(_hot_with_clones())
    (tmp_path / "cluster.yaml").write_text(hot)
    if replicas is not None:
        spec = {"replicas": replicas, "template": {}}
        meta = {"name": "web", "namespace": "default"}
        body = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": meta, "spec": spec}
        (tmp_path / "cloneset.yaml").write_text(yaml.safe_dump(body))
    return ["deschedule", "--dry-run", "-f", str(tmp_path), *AT, "-o", "json"]


def _hot_with_clones() -> list[dict[str, Any]]:
    room = {"cpu": "10", "memory": "32Gi", "pods": "110"}
    owner = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web", "uid": "c1", "controller": True}
    made: list[dict[str, Any]] = []
    for node in ("hot", "cool"):
        status = {"allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
        made.append({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}, "status": status})
    used = []
    for number in range(4):
        name = f"web-{number}"
        meta = {"name": name, "namespace": "default", "uid": name, "ownerReferences": [owner]}
        container = {"name": "c", "resources": {"requests": {"cpu": "2"}}}
        spec = {"nodeName": "hot", "schedulerName": "koord-scheduler", "containers": [container]}
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        made.append({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": ready})
        used.append(
            {"namespace": "default", "name": name, "podUsage": {"resources": {"cpu": "2200m", "memory": "1Gi"}}}
        )
    for node, cpu, pods in (("hot", "8800m", used), ("cool", "100m", [])):
        usage = {"nodeUsage": {"resources": {"cpu": cpu, "memory": "4Gi"}}, "systemUsage": {"resources": {"cpu": "0"}}}
        status = {"updateTime": "2026-11-15T10:00:00Z", "nodeMetric": usage, "podsMetric": pods}
        head = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": node}}
        made.append({**head, "status": status})
    return made


@pytest.mark.parametrize(("replicas", "moves"), [(None, False), (1, False), (4, True)])
def test_pods_of_a_custom_kind_move_if_its_object_says_how_many_there_are(
    replicas: int | None, moves: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(custom(tmp_path, replicas)) == 0
    found = json.loads(capsys.readouterr().out)["migrations"]
    assert bool([each for each in found if each["allowed"]]) is moves


def test_explaining_a_pod_of_files_tells_what_a_descheduler_would_do_and_who_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ["explain", "jobs/encode-0", "-f", str(EXAMPLE), *AT]
    assert run(told) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "the descheduler (LowNodeLoad) would move it from hot to cool, now" in said
    assert "node is overutilized" in said
    reason = {"koordinator.sh/evict-reason": "make room", "koordinator.sh/evict-trigger": "LowNodeLoad"}
    asked = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "PodMigrationJob",
        "metadata": {"name": "by-hand", "annotations": reason},
        "spec": {"podRef": {"namespace": "jobs", "name": "encode-0"}},
    }
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(asked))
    assert run([*told, "-f", str(tmp_path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "PodMigrationJob by-hand" in said
    assert "make room" in said


def test_a_large_answer_is_cut_short_unless_all_of_it_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["deschedule", "--dry-run", "-f", str(EXAMPLE), *AT]
    assert run([*words, "-o", "wide"]) == 0
    whole = capsys.readouterr().out
    monkeypatch.setattr("koord.cli.deschedule.MOST_MOVES", 1)
    monkeypatch.setattr("koord.cli.deschedule.MOST_NODES", 1)
    assert run([*words, "-o", "wide"]) == 0
    assert capsys.readouterr().out == whole
    assert run(words) == 0
    told = capsys.readouterr().out
    assert "and 2 more moves (all of them with -o wide)" in told
    assert "and 1 more nodes that would change (all nodes with -o wide)" in told
    assert told.count("overutilized") == 1


def test_moves_that_are_under_way_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "PodMigrationJob",
        "metadata": {"name": "move-encode"},
        "spec": {"podRef": {"namespace": "jobs", "name": "encode-0"}},
        "status": {"phase": "Running"},
    }
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    assert run(["deschedule", "--dry-run", "-f", str(EXAMPLE), "-f", str(tmp_path), *AT, "-o", "json"]) == 0
    said = capsys.readouterr()
    moves = {migration["pod"]: migration for migration in json.loads(said.out)["migrations"]}
    assert "jobs/encode-0" not in {pod for pod, move in moves.items() if move["allowed"]}
    assert "of Job jobs/encode, 1 pod is moving already" in moves["jobs/encode-1"]["why"]
    assert said.err == "", "nothing is ignored"
