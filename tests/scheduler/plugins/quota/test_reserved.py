"""Reservations in quotas: they count in their template's quota, and what owners use of them not twice."""

from __future__ import annotations

from typing import Any

from koord.api.kinds import RESERVATIONS
from koord.scheduler.framework.writes import Patch
from tests.scheduler import reservations
from tests.scheduler.quotas import PREFIX, Teams, quota, team_pod

TEAM = {f"{PREFIX}name": "a"}


def holding(teams: Teams, cpu: str = "4", **more: Any) -> None:
    teams.core.put(RESERVATIONS, reservations.reservation(cpu=cpu, labels=TEAM, on="n0", **more))


def test_a_reservation_counts_in_its_quota_without_what_its_owners_use() -> None:
    teams = Teams(20)
    teams.put(quota("a", "10", "10"), quota("b", "10", "10"))
    holding(teams, allocateOnce=False)
    assert teams.status("a").used == {"cpu": 4000}
    mine = reservations.pod("mine", cpu="1", labels=TEAM, on="n0", inside="r")
    theirs = reservations.pod("theirs", cpu="2", labels={f"{PREFIX}name": "b"}, on="n0", inside="r")
    teams.put(mine, theirs)
    assert teams.status("a").used == {"cpu": 2000}
    assert teams.status("a").request == {"cpu": 2000}
    assert teams.status("b").used == {"cpu": 2000}
    # What goes beyond the reservation counts with the owner alone.
    teams.put(reservations.pod("more", cpu="5", labels=TEAM, on="n0", inside="r"))
    assert teams.status("a").used == {"cpu": 6000}
    teams.delete(mine, theirs)
    assert teams.status("a").used == {"cpu": 5000}
    assert teams.status("b").used == {}


def test_the_order_in_which_owners_and_reservations_come_does_not_matter() -> None:
    teams = Teams(20)
    teams.put(quota("a", "10", "10"), reservations.pod("mine", cpu="3", labels=TEAM, on="n0", inside="r"))
    assert teams.status("a").used == {"cpu": 3000}
    holding(teams, allocateOnce=False)
    assert teams.status("a").used == {"cpu": 4000}
    teams.core.removed(RESERVATIONS, reservations.reservation(labels=TEAM, on="n0", allocateOnce=False))
    assert teams.status("a").used == {"cpu": 3000}


def test_an_owner_gets_what_its_quota_holds_for_it_and_only_there() -> None:
    teams = Teams(20, 20)
    teams.put(quota("a", "4", "4"))
    holding(teams)
    teams.put(team_pod("stranger", "a", "1"))
    assert "quota a may use cpu 4 and uses 4" in teams.refusal()
    owner = reservations.pod("owner", cpu="4", labels=TEAM)
    teams.put(owner)
    assert teams.settle() == {"owner"}
    assert teams.known[next(key for key in teams.known if key[1] == "shop/owner")].spec.node_name == "n0"


def test_an_owner_that_waits_for_its_quota_goes_when_a_reservation_of_it_comes_or_has_more() -> None:
    teams = Teams(20)
    taken = team_pod("runs", "a", "4", on="n0")
    teams.put(quota("a", "4", "4"), taken)
    inside = reservations.pod("inside", cpu="4", labels=TEAM, on="n0", inside="r")
    teams.put(reservations.pod("first", cpu="4", labels=TEAM), reservations.pod("second", cpu="4", labels=TEAM))
    assert not teams.settle()
    teams.wait(20)
    teams.delete(taken)
    teams.put(inside)
    assert not teams.settle()
    holding(teams, allocateOnce=False)
    assert not teams.settle()
    teams.wait(20)
    teams.delete(inside)
    assert teams.settle() == {"first"}


def test_an_owner_goes_when_its_quota_has_the_part_that_a_reservation_lacks() -> None:
    teams = Teams(20)
    taken = team_pod("runs", "a", "1", on="n0")
    teams.put(quota("a", "4", "4"), taken)
    holding(teams, cpu="3", allocateOnce=False)
    teams.put(reservations.pod("owner", cpu="4", labels=TEAM))
    assert not teams.settle()
    teams.wait(20)
    teams.delete(taken)
    assert teams.settle() == {"owner"}


def test_an_owner_whose_quota_is_full_does_not_go_beside_its_reservation() -> None:
    """The quota has 1 left, and the reservation 3, and gives nothing to a pod that asks for more."""
    teams = Teams(20)
    teams.put(quota("a", "4", "4"))
    holding(teams, cpu="3", allocateOnce=False, allocatePolicy="Restricted")
    teams.put(reservations.pod("large", cpu="4", labels=TEAM))
    assert not teams.settle()
    assert teams.status("a").used == {"cpu": 3000}


def test_a_reservation_grows_no_further_than_its_quota_lets_it() -> None:
    teams = Teams(20)
    teams.put(quota("a", "6", "6"))

    def size_after(cpu: str) -> dict[str, str]:
        said = {f"{reservations.PREFIX}reservation-resize-allocatable": f'{{"resources": {{"cpu": "{cpu}"}}}}'}
        holding(teams, allocateOnce=False, annotations=said)
        patches = [
            write for write in teams.core.take_writes() if isinstance(write, Patch) and write.kind is RESERVATIONS
        ]
        return {key: str(value) for patch in patches for key, value in patch.body["status"].items()}

    assert "quota a may use cpu 6 and uses 0" in size_after("7")["conditions"]
    assert size_after("6")["allocatable"] == "{'cpu': '6'}"
    assert teams.status("a").used == {"cpu": 6000}
