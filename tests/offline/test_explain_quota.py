"""`koord explain quota/NAME` on manifests: the figures, the pods that use it, and those that wait and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from koord.cli.main import run as koord

TEAMS = str(Path(__file__).parents[2] / "examples" / "quotas")


def explained(name: str, capsys: pytest.CaptureFixture[str], *paths: str) -> Any:
    files = [part for path in (paths or (TEAMS,)) for part in ("-f", path)]
    assert koord(["explain", name, *files, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_quota_that_borrowed_says_how_much_who_uses_it_and_who_waits(capsys: pytest.CaptureFixture[str]) -> None:
    found = explained("quota/research", capsys)
    own, company = found["path"]
    # Guaranteed 8 cores, used 14; the company's 20 less the 8 that web requests leave it 12.
    assert (own["used"]["cpu"], own["min"]["cpu"], own["runtime"]["cpu"], own["max"]["cpu"]) == ("14", "8", "12", "16")
    assert (company["name"], found["borrowed"]) == ("company", {"cpu": "6"})
    assert [(each["pod"], each["node"], each["requests"]["cpu"]) for each in found["usedBy"]] == [
        ("lab/training", "big", "14")
    ]
    (waits,) = found["waiting"]
    assert waits["pod"] == "lab/more-training"
    assert "quota research may use cpu 12 and uses 14; the pod asks for 4" in waits["why"]
    assert found["frees"] == ["pods of quota research that request cpu 6 end"]


def test_it_says_of_a_waiting_pod_what_explain_of_the_pod_says(capsys: pytest.CaptureFixture[str]) -> None:
    (waits,) = explained("quota/research", capsys)["waiting"]
    pod = explained("lab/more-training", capsys)["explanation"]["quota"]
    assert waits["why"] == pod["short"]
    assert explained("quota/research", capsys)["frees"] == pod["frees"]


def test_a_quota_whose_pods_fit_says_so_and_who_borrowed_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    found = explained("quota/web", capsys)
    assert found["usedBy"] == []
    assert {each["pod"] for each in found["waiting"]} == {"shop/front", "shop/back"}
    assert all(each["why"].startswith("its quota has room; ") for each in found["waiting"])
    assert [(borrower["quota"], borrower["resource"], borrower["borrowed"]) for borrower in found["borrowers"]] == [
        ("research", "cpu", "6")
    ]
    assert found["lends"]["cpu"] == "8"


def test_a_parent_has_the_pods_of_all_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    found = explained("elasticquota/company", capsys)
    assert [each["name"] for each in found["below"]] == ["research", "web"]
    assert len(found["usedBy"]) + len(found["waiting"]) == 4
    # It is alone at the top: it can lend to no other quota.
    assert found["lends"] == {}


def test_a_quota_that_is_not_there_is_told_with_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert koord(["explain", "quota/reserch", "-f", TEAMS]) == 2
    assert "there is no quota reserch; there is research" in capsys.readouterr().err


def test_a_quota_that_cannot_be_used_is_told_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    orphan = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {
            "name": "orphan",
            "namespace": "lab",
            "labels": {"quota.scheduling.koordinator.sh/parent": "nobody"},
        },
        "spec": {"max": {"cpu": "4"}},
    }
    (tmp_path / "orphan.json").write_text(json.dumps(orphan))
    found = explained("quota/orphan", capsys, TEAMS, str(tmp_path / "orphan.json"))
    assert found["problem"] == "its parent nobody does not exist"
