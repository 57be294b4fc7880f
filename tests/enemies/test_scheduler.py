"""Whatever is stored, the scheduler's core goes on, and decides about everybody else as if it were not there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from hypothesis import Phase, given, settings

from koord.api import kinds
from koord.scheduler.core.inputs import BY_KIND
from tests.enemies.cases import Enemy, enemies
from tests.enemies.checking import check, telling
from tests.enemies.honest import honest
from tests.enemies.scheduler_world import SchedulerWorld, story

KINDS: Final = tuple(BY_KIND)
REQUEST: Final = ("spec", "containers", 0, "resources", "requests")

FOUND: Final = (
    Enemy(kinds.RESERVATIONS, "bad-had", ("spec", "ttl"), "99999999999h"),
    Enemy(kinds.RESERVATIONS, "bad-had", ("spec", "expires"), "2026-02-31T00:00:00Z"),
    Enemy(kinds.RESERVATIONS, "bad-had", ("spec", "expires"), "0001-01-01T00:00:00+23:00"),
    Enemy(kinds.RESERVATIONS, "bad-was", ("status", "conditions", 0, "lastTransitionTime"), "2026-02-31T00:00:00Z"),
    Enemy(kinds.RESERVATIONS, "bad-had", ("status", "allocatable", "cpu"), "-9223372036854775808"),
    Enemy(kinds.PODS, "bad-runs", ("metadata", "name"), "bad-runs", filled=True),
    Enemy(kinds.PODS, "bad-waits", (*REQUEST, "memory"), -(2**62)),
    Enemy(kinds.PERSISTENT_VOLUMES, "bad-volume", ("spec", "capacity", "storage"), "-1e30"),
    Enemy(kinds.PERSISTENT_VOLUMES, "bad-volume", ("spec", "capacity", "storage"), "NaN"),
    Enemy(kinds.NODES, "bad-1", ("status", "allocatable", "cpu"), -(2**62)),
)
"""What a search has found: each of these ended a component, or kept others from their turn."""


@cache
def undisturbed() -> SchedulerWorld:
    return story(honest("good"), honest("bad"), [])


def test_innocents_get_their_places_and_statuses_in_the_first_place() -> None:
    scene = undisturbed()
    for each in ("good-waits", "good-member-0", "good-of-team", "good-of-had", "good-gpu", "good-pinned"):
        assert telling(scene, f"good/{each}: to good-"), each
    assert telling(scene, "reservation:good-room: to good-")
    assert any("Expired" in line for line in telling(scene, "Reservation good-had"))
    assert any("Scheduled" in line for line in telling(scene, "PodGroup good-gang"))


def test_what_was_found_once_disturbs_nobody() -> None:
    check(FOUND, story, undisturbed())


@settings(max_examples=4, phases=(Phase.explicit, Phase.generate))
@given(enemies(KINDS, 60))
def test_no_stored_value_ends_the_scheduler_or_changes_what_others_get(crowd: Sequence[Enemy]) -> None:
    check(crowd, story, undisturbed())
