"""What programs read of a quota from a running scheduler."""

from __future__ import annotations

from typing import Any

from tests.scheduler.quotas import Teams, quota, team_pod


def answered(teams: Teams, service: str, name: str = "") -> Any:
    (plugin,) = (plugin for plugin in teams.core.profiles.plugins() if plugin.name == "ElasticQuota")
    assert plugin.controller is not None
    return plugin.controller.services[service](name)


def test_a_quota_has_the_originals_keys_with_what_is_its_own_and_what_is_below_it() -> None:
    teams = Teams(10)
    teams.put(quota("top", "8", "10", is_parent=True), quota("team", "8", "10", parent="top"))
    teams.put(quota("big", "12", "20"), team_pod("p", "team", "2", on="n0", fixed=True), team_pod("w", "team", "1"))
    top, team = (answered(teams, "quota/:name", name) for name in ("top", "team"))
    assert (top["isParent"], top["parentName"], team["parentName"]) == (True, "koordinator-root-quota", "top")
    assert (top["used"], top["selfUsed"]) == ({"cpu": "2"}, {})
    assert (team["selfUsed"], team["selfRequest"]) == ({"cpu": "2"}, {"cpu": "3"})
    assert team["selfNonPreemptibleUsed"] == {"cpu": "2"}
    # Guarantees of 8 and 12 have shrunk to what there is, 10.
    assert (top["min"], top["autoScaleMin"]) == ({"cpu": "8"}, {"cpu": "4"})
    assert "podCache" not in team
    assert set(answered(teams, "quotas")) >= {"top", "team", "big"}
    assert answered(teams, "quota/:name", "none") is None


def test_pods_of_a_quota_are_listed_on_demand() -> None:
    teams = Teams(10)
    teams.put(quota("team", "8", "10"), team_pod("p", "team", "2", on="n0"), team_pod("w", "team", "1"))
    teams.put(team_pod("other", "none", "1"))
    assert answered(teams, "quota/:name?includePods=true", "team")["podCache"] == {
        "shop/p": {"isAssigned": True, "resource": {"cpu": "2"}},
        "shop/w": {"isAssigned": False, "resource": {"cpu": "1"}},
    }
    assert "shop/other" in answered(teams, "quotas?includePods=true")["koordinator-default-quota"]["podCache"]
