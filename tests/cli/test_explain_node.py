"""`koord explain node/NAME` on files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from koord.cli.main import run
from koord.offline.live.node_snapshot import clock_remarks, last_written_s

NOW = "2026-11-15T10:01:00Z"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put(
        tmp_path,
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "slo-controller-config", "namespace": "koordinator-system"},
            "data": {"colocation-config": '{"enable": true}'},
        },
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n1"},
            "status": {
                "capacity": {"cpu": "64", "memory": "256Gi", "kubernetes.io/batch-cpu": "26k"},
                "allocatable": {"cpu": "64", "memory": "256Gi", "kubernetes.io/batch-cpu": "26k"},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {
                "nodeName": "n1",
                "priority": 9500,
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "16", "memory": "32Gi"}}}],
            },
            "status": {"phase": "Running"},
        },
        {
            "apiVersion": "slo.koordinator.sh/v1alpha1",
            "kind": "NodeMetric",
            "metadata": {"name": "n1"},
            "status": {
                "updateTime": "2026-11-15T10:00:00Z",
                "nodeMetric": {"systemUsage": {"resources": {"cpu": "2.5", "memory": "6Gi"}}},
                "podsMetric": [
                    {
                        "name": "web",
                        "namespace": "shop",
                        "podUsage": {"resources": {"cpu": "9.2", "memory": "32Gi"}},
                        "priority": "koord-prod",
                    }
                ],
            },
        },
    )
    return tmp_path


def put(folder: Path, *objects: Any) -> None:
    for object_ in objects:
        (folder / f"{object_['kind']}.json").write_text(json.dumps(object_))


def test_the_text_has_every_number_that_was_used(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "node/n1", "-f", str(folder), "--now", NOW]) == 0
    said = capsys.readouterr().out
    for words in ("64 000", "25 600", "2 500", "9 200", "26 700", "26.7 cores", "shop/web", "2.7%", "measured 1m ago"):
        assert words in said


def test_the_json_is_complete(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "node/n1", "-f", str(folder), "--now", NOW, "-o", "json"]) == 0
    explanation = json.loads(capsys.readouterr().out)
    resources = {resource["resource"]: resource for resource in explanation["resources"]}
    assert resources["kubernetes.io/batch-cpu"]["recomputed"] == 26700
    assert resources["kubernetes.io/batch-cpu"]["published"] == 26000
    assert resources["kubernetes.io/batch-memory"]["recomputed"] == 137868450202
    assert explanation["pods"][0]["pod"] == "shop/web"


@pytest.mark.parametrize(
    ("requests", "remark"),
    [
        ({}, "not counted: 1 batch or free pod without a request for it"),
        ({"kubernetes.io/batch-cpu": "1000"}, "not counted: 1 pod on what is lent"),
    ],
)
def test_pods_that_do_not_count_are_counted_by_what_they_request(
    folder: Path, capsys: pytest.CaptureFixture[str], requests: dict[str, str], remark: str
) -> None:
    pod = json.loads((folder / "Pod.json").read_text())
    job = {"metadata": {"name": "job", "namespace": "shop"}, "status": pod["status"]}
    spec = {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": requests}}]}
    (folder / "Job.json").write_text(json.dumps({**pod, **job, "spec": spec}))
    assert run(["explain", "node/n1", "-f", str(folder), "--now", NOW]) == 0
    assert remark in capsys.readouterr().out


def test_stale_is_the_first_thing_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "node/n1", "-f", str(folder), "--now", "2026-11-15T10:15:01Z"]) == 0
    assert "lends nothing" in capsys.readouterr().out.splitlines()[0]


def test_without_a_configuration_the_defaults_hold_and_that_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "ConfigMap.json").unlink()
    assert run(["explain", "node/n1", "-f", str(folder), "--now", NOW]) == 0
    said = capsys.readouterr()
    assert "co-location is off in the cluster" in said.out
    assert "slo-controller-config" in said.err


def test_a_configuration_that_cannot_be_read_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(
        folder,
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "slo-controller-config", "namespace": "koordinator-system"},
            "data": {"colocation-config": "{"},
        },
    )
    assert run(["explain", "node/n1", "-f", str(folder), "--now", NOW]) == 0
    assert "colocation-config" in capsys.readouterr().err


def test_a_node_that_is_not_there_names_those_that_are(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "node/n11", "-f", str(folder)]) == 2
    assert "n1" in capsys.readouterr().err


def test_the_managed_fields_tell_when_the_manager_wrote() -> None:
    fields = [
        {"manager": "koord-manager", "subresource": "status", "time": "1970-01-01T00:01:40Z"},
        {"manager": "koord-manager", "time": "1970-01-01T01:00:00Z"},
        {"manager": "kubelet", "subresource": "status", "time": "1970-01-01T02:00:00Z"},
    ]
    assert last_written_s(json.dumps({"metadata": {"managedFields": fields}}).encode(), "koord-manager") == 100
    assert last_written_s(b'{"metadata":{}}') is None


@pytest.mark.parametrize(
    ("reported", "words"),
    [("1970-01-01T10:00:30Z", ""), ("1970-01-01T09:40:00Z", "20m behind"), ("1970-01-01T11:00:00Z", "1h0m ahead of")],
)
def test_a_clock_that_is_off_is_told(reported: str, words: str) -> None:
    fields = [{"manager": "agent", "subresource": "status", "time": "1970-01-01T10:00:00Z"}]
    data = {"metadata": {"name": "n1", "managedFields": fields}, "status": {"updateTime": reported}}
    found = clock_remarks(json.dumps(data).encode())
    assert bool(found) == bool(words)
    assert not words or words in found[0]
