"""When the objects of quotas say how they do: within two seconds, and without a look at all of them each time."""

from __future__ import annotations

import json

import pytest

from koord.api.protocol.annotations.quota import RUNTIME
from koord.scheduler.framework.writes import Create, Patch
from koord.scheduler.plugins.quota import telling
from koord.scheduler.plugins.quota.quotas import Quotas
from koord.scheduler.plugins.quota.status import QuotaStatus, status_of
from tests.scheduler.quotas import Teams, quota, team_pod

LONGEST_REST_S = 1.0
"""As long the scheduler's loop rests where nothing happens."""


def written(teams: Teams, seconds: float) -> dict[str, dict[str, str]]:
    """The annotations of each quota that are written in some time in which nothing happens."""
    until_s, found = teams.now_s + seconds, dict[str, dict[str, str]]()
    for _ in range(1000):
        for write in teams.core.take_writes():
            if isinstance(write, Patch):
                found.setdefault(write.name, {}).update(write.body["metadata"].get("annotations", {}))
        rest_s = max(1e-3, min(LONGEST_REST_S, teams.core.writes_in_s()))
        if teams.now_s + rest_s > until_s:
            return found
        teams.wait(rest_s)
    raise AssertionError("it is never done")


def test_the_share_of_an_idle_quota_is_written_within_two_seconds_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(telling, "AT_ONCE", 5)
    teams = Teams(100)
    teams.put(*(quota(f"idle{i}", "1", "100") for i in range(50)))
    teams.put(quota("busy", "0", "100"), quota("zz", "0", "100"), team_pod("asks", "zz", "100"))
    written(teams, 10)
    # Both ask for all there is: each gets half, and nothing happened to the pods of the other one.
    teams.put(team_pod("asks-too", "busy", "100"))
    said = written(teams, 1.9)
    assert json.loads(said["zz"][RUNTIME.key]) == {"cpu": "50"}


def test_a_round_in_which_no_share_changed_computes_no_status(monkeypatch: pytest.MonkeyPatch) -> None:
    teams = Teams(100)
    teams.put(*(quota(f"idle{i}", "1", "100") for i in range(20)))
    written(teams, 10)
    looked: list[str] = []

    def noted(quotas: Quotas, key: str, name: str) -> QuotaStatus:
        looked.append(name)
        return status_of(quotas, key, name)

    monkeypatch.setattr(telling, "status_of", noted)
    teams.put(team_pod("one", "idle3", "1"))
    written(teams, 3)
    assert set(looked) <= {"idle3", "koordinator-root-quota", "koordinator-default-quota", "koordinator-system-quota"}
    assert "idle3" in looked


def test_quotas_that_are_always_there_are_made_with_the_max_of_the_configuration() -> None:
    made = {write.name: write.body for write in Teams(1).core.take_writes() if isinstance(write, Create)}
    most = str((2**63 - 1) // 5)
    assert made["koordinator-default-quota"]["spec"] == {"max": {"cpu": most, "memory": most}}
    assert "spec" not in made["koordinator-root-quota"]


def test_a_quota_that_is_always_there_gets_its_object_again_though_nothing_happens() -> None:
    def created(teams: Teams) -> set[str]:
        return {write.name for write in teams.core.take_writes() if isinstance(write, Create)}

    built_in = {f"koordinator-{each}-quota" for each in ("root", "system", "default")}
    teams = Teams(1)
    assert created(teams) == built_in
    there = quota("koordinator-default-quota", "0", "100")
    teams.put(there, quota("koordinator-system-quota", "0", "100"), quota("koordinator-root-quota", "0", "100"))
    for _ in range(5):
        assert created(teams) == set()
        teams.wait(telling.LONGEST_CREATED_AGAIN_S)
    # As with its namespace.
    teams.delete(there)
    assert created(teams) == {"koordinator-default-quota"}
    for wait_s in (telling.FIRST_CREATED_AGAIN_S, 4.0, 8.0, 16.0, 32.0, telling.LONGEST_CREATED_AGAIN_S, 60.0):
        teams.wait(wait_s - 1)
        assert created(teams) == set()
        assert teams.core.writes_in_s() <= 1
        teams.wait(1)
        assert created(teams) == {"koordinator-default-quota"}
    # Back, and gone again: the first wait is short.
    teams.put(there)
    assert created(teams) == set()
    teams.wait(telling.EVERY_S)
    teams.delete(there)
    assert created(teams) == {"koordinator-default-quota"}
    teams.wait(telling.FIRST_CREATED_AGAIN_S)
    assert created(teams) == {"koordinator-default-quota"}
