"""Quotas for people: plans, explanations and `koord top quotas`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from koord.cli.main import run
from koord.cli.quota_tables import quota_table
from koord.offline.quotas import quotas_of
from tests.scheduler.quotas import PREFIX, Teams, quota, team_pod

EXAMPLE = Path(__file__).parents[2] / "examples" / "quotas"


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def call(*arguments: str) -> str:
        assert run(list(arguments)) in (0, 1)
        return capsys.readouterr().out

    return call


def test_a_plan_says_what_quotas_would_come_to(said: Callable[..., str]) -> None:
    plan = json.loads(said("plan", "-f", str(EXAMPLE), "-o", "json"))
    assert plan["quotas"]["web"]["used"] == {"cpu": "6", "memory": "4Gi"}
    assert plan["quotas"]["research"]["runtime"]["cpu"] == "12"
    assert "Insufficient quotas" in plan["pods"]["lab/more-training"]["reason"]
    assert "would fit" not in plan["pods"]["lab/more-training"]["reason"]


def test_an_explanation_shows_the_way_to_the_root_and_what_would_give_room(said: Callable[..., str]) -> None:
    text = said("explain", "lab/more-training", "-f", str(EXAMPLE))
    assert "quota research may use cpu 12 and uses 14; the pod asks for 4" in text
    assert "company" in text
    assert "pods of quota research that request cpu 6 end" in text
    told = json.loads(said("explain", "lab/more-training", "-f", str(EXAMPLE), "-o", "json"))["explanation"]["quota"]
    assert [each["name"] for each in told["path"]] == ["research", "company"]
    assert told["path"][0]["runtime"] == {"cpu": "12", "memory": "16Gi"}


def test_an_explanation_says_who_borrowed_what() -> None:
    from koord.scheduler.framework.ask import Ask
    from koord.scheduler.plugins.quota.figures import path_of

    teams = Teams(20)
    teams.put(quota("a", "10", "20"), quota("b", "8", "20"), team_pod("lent", "b", "14", on="n0"))
    waits = team_pod("waits", "a", "12")
    teams.put(waits)
    quota_path = path_of(teams.quotas, Ask(waits))
    assert quota_path is not None
    assert [(borrower.quota, borrower.borrowed) for borrower in quota_path.borrowers] == [("b", "6")]
    assert "quota b requests cpu 6 less than it does" in quota_path.frees
    assert "spec.min.cpu of quota a is raised from 10 to 12" in quota_path.frees
    assert teams.runtime("a", "b") == [11_000, 9_000]


def test_quotas_are_drawn_below_their_parents() -> None:
    objects = [
        quota("b", "2", "8", parent="top", annotations={f"{PREFIX}runtime": '{"cpu":"4"}'}),
        quota("a", "2", "8", parent="top"),
        quota("top", "4", "8", is_parent=True),
        quota("lost", parent="nobody"),
        quota("x", parent="y"),
        quota("y", parent="x"),
    ]
    quota_tops = quotas_of(objects)
    assert [(quota_top.quota, quota_top.depth) for quota_top in quota_tops] == [
        ("lost", 0), ("top", 0), ("a", 1), ("b", 1), ("x", 0), ("y", 1),
    ]  # fmt: skip
    table = quota_table(quota_tops, drawn=True)
    assert "  b" in table
    assert "............|..........." in table


def test_quotas_of_what_is_lent_show_batch_resources() -> None:
    lent = quota("lab")
    batch = {"kubernetes.io/batch-cpu": "8000", "kubernetes.io/batch-memory": "16Gi"}
    lent = replace(lent, spec=replace(lent.spec, min=batch, max=batch), status=replace(lent.status, used=batch))
    head, first, second = quota_table(quotas_of([quota("web", "2", "8"), lent]), drawn=False).splitlines()
    assert head.split()[:4] == ["QUOTA", "BAND", "CPU", "USED"]
    assert first.split()[:3] == ["lab", "batch", "8"]
    assert second.split()[:2] == ["web", "-"]
    assert "BAND" not in quota_table(quotas_of([quota("web", "2", "8")]), drawn=False)


def test_a_plan_denies_pods_of_a_quota_that_has_others_below_it(said: Callable[..., str], tmp_path: Path) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "lab", "labels": {f"{PREFIX}name": "company"}},
        "spec": {"containers": [{"name": "c", "image": "c:1"}]},
    }
    (tmp_path / "pod.yaml").write_text(json.dumps(pod))
    plan = json.loads(said("plan", "-f", str(EXAMPLE), "-f", str(tmp_path), "-o", "json"))
    assert plan["pods"]["lab/p"]["outcome"] == "denied"
    assert "quota company is the parent of others" in plan["pods"]["lab/p"]["reason"]
