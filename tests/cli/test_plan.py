"""`koord plan`, as a user runs it."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from koord.api.text.yaml import load
from koord.cli.main import run

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "plan"

NODE = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: 2, memory: 4Gi, pods: 10}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "node.yaml").write_text(NODE)
    (tmp_path / "pod.yaml").write_text(POD)
    return tmp_path


def test_the_guide_shows_what_the_example_prints(capsys: pytest.CaptureFixture[str]) -> None:
    guide = (ROOT / "docs" / "plan.md").read_text()
    shown = re.findall(r"```(?:json)?\n(.*?)```", guide, re.DOTALL)
    assert run(["plan", "-f", str(EXAMPLE)]) == 0
    assert capsys.readouterr().out == shown[0]
    assert run(["plan", "-f", str(EXAMPLE), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["pods"]["shop/report"]["nodesRejected"] == json.loads(shown[1])


def test_json_has_the_keys_that_programs_count_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "-f", str(EXAMPLE), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    planned = {"pods", "nodes", "quotas", "podGroups", "reservations", "events", "ignored"}
    assert set(found) == {*planned, "colocation", "evictions"}
    keys = {"node", "outcome", "reason", "hint", "nodesRejected", "nominatedNode", "victims", "annotations", "labels"}
    assert all(set(pod) == {*keys, "score", "scores"} for pod in found["pods"].values())
    assert all(set(node) == {"allocatable", "requested", "annotations", "labels"} for node in found["nodes"].values())
    assert found["nodes"]["west-1"]["requested"] == {"cpu": "6", "memory": "12Gi", "pods": "2"}
    assert found["pods"]["shop/web"]["node"] == "west-1"


def test_yaml_says_the_same_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    run(["plan", "-f", str(EXAMPLE), "-o", "json"])
    as_json = json.loads(capsys.readouterr().out)
    run(["plan", "-f", str(EXAMPLE), "-o", "yaml"])
    assert load(capsys.readouterr().out, "output") == as_json


def test_wide_shows_nodes_and_scores(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "-f", str(EXAMPLE), "-o", "wide"]) == 0
    told = capsys.readouterr().out
    assert "NodeResourcesFit=" in told
    assert "office/mail" in told
    assert "10/16" in told


TYPO = POD.replace("resources", "resorces")
SAID = "pod.yaml, document 1, Pod default/web: spec.containers[0].resorces: unknown field (did you mean resources?)"


@pytest.mark.parametrize(
    "command",
    [
        ["plan"],
        ["plan", "--strict"],
        ["admit"],
        ["explain", "web"],
        ["explain", "node/n1"],
        ["deschedule", "--dry-run"],
        ["recommend"],
        ["agent", "--once", "--dry-run"],
    ],
    ids=" ".join,
)
def test_a_misspelt_field_is_refused_by_every_command_that_reads_manifests(
    command: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "pod.yaml").write_text(TYPO)
    assert run([*command, "-f", str(folder)]) == 2
    captured = capsys.readouterr()
    assert SAID in captured.err
    assert not captured.out


def test_an_unknown_field_in_a_copy_of_a_cluster_may_be_newer_than_koord(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "pod.yaml").write_text(TYPO.replace("name: web", "name: web, uid: u"))
    assert run(["plan", "-f", str(folder)]) == 0
    captured = capsys.readouterr()
    assert f"{SAID}\n" in captured.err
    assert "warning:" in captured.err
    assert "1 scheduled" in captured.out
    assert run(["plan", "-f", str(folder), "--strict"]) == 2
    assert SAID in capsys.readouterr().err


def test_strict_answers_by_exit_code(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "-f", str(folder), "--strict"]) == 0
    assert run(["plan", "-f", str(EXAMPLE), "--strict"]) == 1
    assert run(["plan", "-f", str(EXAMPLE)]) == 0
    assert capsys.readouterr().out


def test_manifests_may_come_from_standard_input_and_several_places(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(POD))
    assert run(["plan", "-f", str(folder / "node.yaml"), "-f", "-", "-n", "shop", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["pods"]["shop/web"]["node"] == "n1"


def test_bad_input_is_told_whole_and_nothing_is_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bad.yaml").write_text(NODE.replace("cpu: 2", "cpu: lots").replace("n1", "n2"))
    (folder / "worse.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: 3}\n")
    (folder / "torn.yaml").write_text("{apiVersion: v1")
    assert run(["plan", "-f", str(folder), "-f", str(folder / "nowhere.yaml")]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    for told in ("bad.yaml", "status.allocatable.cpu", "worse.yaml", "spec.containers", "torn.yaml", "nowhere.yaml"):
        assert told in printed.err
    assert "Traceback" not in printed.err


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--now", "yesterday"], "2026-11-15T04:25:02Z"),
        (["--rounds", "0"], "--rounds"),
        (["--seed", "x"], "--seed"),
        (["-o", "xml"], "json"),
        (["--config", "nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_bad_usage_is_told(folder: Path, args: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "-f", str(folder), *args]) == 2
    printed = capsys.readouterr()
    assert (printed.out, told in printed.err) == ("", True)


def test_without_manifests_it_says_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan"]) == 2
    assert "--filename" in capsys.readouterr().err


CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint: {disabled: [{name: NodeResourcesFit}]}
"""


@pytest.mark.parametrize("among_manifests", [False, True])
def test_a_configuration_is_heeded(folder: Path, among_manifests: bool, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "pod.yaml").write_text(POD.replace("cpu: 1", "cpu: 100"))
    config = folder / ("config.yaml" if among_manifests else "config.txt")
    config.write_text(CONFIG)
    args = [] if among_manifests else ["--config", str(config)]
    assert run(["plan", "-f", str(folder), *args, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["pods"]["default/web"]["node"] == "n1"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (CONFIG.replace("NodeResourcesFit", "NodeResourcesFat"), "NodeResourcesFat"),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {name: slo-controller-config}, data: {}}", "KubeScheduler"),
        ("nothing", "apiVersion"),
    ],
)
def test_a_faulty_configuration_is_bad_input(
    folder: Path, text: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = folder / "config.txt"
    config.write_text(text)
    assert run(["plan", "-f", str(folder / "pod.yaml"), "--config", str(config)]) == 2
    printed = capsys.readouterr()
    assert (printed.out, told in printed.err) == ("", True)


def test_two_configurations_are_one_too_many(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.yaml").write_text(CONFIG)
    (folder / "b.yaml").write_text(CONFIG)
    assert run(["plan", "-f", str(folder)]) == 2
    told = capsys.readouterr().err
    assert "a.yaml" in told
    assert "b.yaml" in told


def test_what_is_ignored_is_named_beside_the_data(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "more.yaml").write_text("{apiVersion: v1, kind: Secret, metadata: {name: s}}")
    assert run(["plan", "-f", str(folder), "-o", "json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["ignored"] == {"Secret": 1}
    assert "1 Secret" in printed.err


def test_it_runs_without_the_wire_and_prints_plainly_into_a_pipe() -> None:
    code = f"import sys; from koord.cli.main import run; run(['plan', '-f', {str(EXAMPLE)!r}]); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "\x1b" not in done.stdout
    assert {"aiohttp", "asyncio", "ssl", "cryptography", "rich", "koord.kube"} & set(done.stdout.split()) == set()


def test_progress_shows_on_a_terminal_when_it_takes_long(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from koord.cli import progress as module

    assert run(["plan", "-f", str(folder)]) == 0
    assert "reading" not in capsys.readouterr().err, "not into a pipe"
    monkeypatch.setattr(module, "SILENT_S", 0.0)
    monkeypatch.setattr(module, "REFRESH_S", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert run(["plan", "-f", str(folder)]) == 0
    printed = capsys.readouterr()
    assert "reading" in printed.err
    assert "placing pods: 1 of 1" in printed.err
    assert "placing" not in printed.out


def test_warnings_do_not_flood_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = tmp_path / "nodes.yaml"
    nodes.write_text("---".join(NODE.replace("n1", f"n{i}") for i in range(30)))
    assert run(["plan", "-f", str(nodes), "-f", str(nodes)]) == 0
    told = capsys.readouterr().err.splitlines()
    assert [line for line in told if line.startswith("warning")][10:] == ["warning: and 20 more like these"]


def test_a_configuration_is_previewed(capsys: pytest.CaptureFixture[str]) -> None:
    example = str(Path(__file__).parents[2] / "examples" / "colocation" / "offline")
    assert run(["plan", "-f", example, "--now", "2026-11-15T12:01:00Z"]) == 0
    printed = capsys.readouterr().out
    assert "none -> 13.2" in printed
    assert "jobs/crunch   n1     BEMemoryEvict   the node's memory usage is 75%, at or above 72%" in printed
    assert run(["plan", "-f", example, "--now", "2026-11-15T12:01:00Z", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    change = found["colocation"]["n1"]["resources"]["kubernetes.io/batch-cpu"]
    assert change == {"before": None, "after": "13200"}
    assert found["evictions"][0]["by"] == "BEMemoryEvict"


def test_thresholds_out_of_order_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = Path(__file__).parents[2] / "examples" / "colocation" / "offline"
    text = (example / "slo-controller-config.yaml").read_text()
    bad = tmp_path / "config.yaml"
    bad.write_text(text.replace('"memoryReclaimThresholdPercent": 65', '"memoryReclaimThresholdPercent": 80'))
    assert run(["plan", "-f", str(example / "cluster.yaml"), "-f", str(bad)]) == 2
    said = capsys.readouterr().err
    assert "colocation-config.memoryReclaimThresholdPercent" in said
    assert "resource-threshold-config.clusterStrategy.memoryEvictLowerPercent (68)" in said


def test_where_no_node_would_lend_more_or_less_no_further_nodes_are_counted() -> None:
    from types import SimpleNamespace
    from typing import cast

    from koord.cli.plan_preview import previewed_tables
    from koord.offline.plan import Plan

    plan = cast("Plan", SimpleNamespace(colocation={}, evictions=()))
    assert "more node" not in previewed_tables(plan, wide=False)
    assert "more node" not in previewed_tables(plan, wide=True)


WITH_OVERHEAD = """
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: team, namespace: default}
spec: {min: {cpu: 1}, max: {cpu: 1}}
---
apiVersion: v1
kind: Pod
metadata: {name: boxed, labels: {quota.scheduling.koordinator.sh/name: team}}
spec: {overhead: {cpu: 500m}, containers: [{name: c, resources: {requests: {cpu: 1}}}]}
"""


def test_feature_gates_of_the_scheduler_count_in_plans_and_explanations(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "boxed.yaml").write_text(WITH_OVERHEAD)
    for gates, node in (((), None), (("--feature-gates", "ElasticQuotaIgnorePodOverhead=true"), "n1")):
        assert run(["plan", "-f", str(folder), "-o", "json", *gates]) == 0
        assert json.loads(capsys.readouterr().out)["pods"]["default/boxed"]["node"] == node
        assert run(["explain", "boxed", "-f", str(folder), "-o", "json", *gates]) == 0
        assert json.loads(capsys.readouterr().out)["outcome"] == ("unschedulable" if node is None else "fits")


def test_a_feature_gate_that_does_not_exist_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "-f", str(folder), "--feature-gates", "MultiQuotaTrees=true"]) == 2
    said = capsys.readouterr().err
    assert "MultiQuotaTrees" in said
    assert "MultiQuotaTree" in said
