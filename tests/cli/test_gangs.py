"""What people see of gangs: `koord explain podgroup/NAME`, and the figures of `koord top gangs`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from koord.cli.main import run
from koord.offline.gangs import gangs_of
from tests.scheduler.gangs import member, pod_group

NODES = "examples/plan/nodes.yaml"


def explained(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    assert run(["explain", *args, "-o", "json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


def job(folder: Path, cpu: str) -> str:
    text = Path("examples/jobs/job.yaml").read_text().replace('cpu: "1"', f'cpu: "{cpu}"')
    (folder / "job.yaml").write_text(text)
    return str(folder / "job.yaml")


def test_a_gang_that_fits_is_told_with_its_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    told = explained(capsys, "podgroup/train", "-f", NODES, "-f", "examples/jobs/job.yaml")
    assert (told["outcome"], told["minMember"], told["waiting"]) == ("fits", 8, 8)
    assert sum(told["nodes"].values()) == 8


def test_a_gang_that_does_not_fit_says_what_it_is_short_of_and_what_would_do(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = job(tmp_path, "3")
    told = explained(capsys, "podgroup/default/train", "-f", NODES, "-f", path)
    assert told["message"] == "gang default/train needs 8 pods at once, 4 fit; short of 4 x (cpu 3, memory 1Gi)"
    assert told["whyNot"] == {"Insufficient cpu": 2, "node(s) had untolerated taint(s)": 1}
    assert "a minimum of 4 instead of 8" in told["changes"]
    assert run(["explain", "podgroup/train", "-f", NODES, "-f", path]) == 0
    assert "WHAT WOULD LET IT IN   the smallest changes, each tried out" in capsys.readouterr().out


def test_a_gang_that_is_not_there_is_named_with_one_that_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "podgroup/trian", "-f", NODES, "-f", "examples/jobs/job.yaml"]) != 0
    assert "there is no gang default/trian" in capsys.readouterr().err


def test_gangs_are_counted_as_their_pods_are() -> None:
    pods = [
        member("a", "train", least=2, on="n1", phase="Running"),
        member("b", "train", least=2, made="2026-01-01T00:01:00Z"),
        member("c", "lost"),
        member("d", "crd", crd=True, on="n1", phase="Running"),
    ]
    own, lost, train = gangs_of(pods, [pod_group("crd", 1)], 1767225700.0)
    assert lost.gang == "shop/lost"
    assert "min-available" in lost.fault
    assert (own.gang, own.phase, own.bound, own.needs) == ("shop/crd", "Running", 1, 1)
    assert (train.phase, train.pods, train.bound, train.running, train.waiting) == ("Scheduling", 2, 1, 1, 1)
    assert train.waits_s == 40.0


def test_the_network_is_drawn_with_what_each_domain_could_take(capsys: pytest.CaptureFixture[str]) -> None:
    config = "examples/jobs/network-scheduler.yaml"
    args = ("podgroup/ring", "-f", "examples/jobs/network.yaml")
    told = explained(capsys, *args, "--config", config)
    assert told["nodes"] == {"n5": 4, "n6": 4}
    assert [line.strip() for line in told["network"]][:4] == [
        "the cluster: 20",
        "spine s1: 12",
        "block b1: 6",
        "n1 4, n2 2",
    ]
    assert "has no effect: awareNetworkTopology" in explained(capsys, *args)["network"][0]
