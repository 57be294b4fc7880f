"""What becomes of a job if some members could not be bound."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.kinds import NODES
from koord.scheduler.core.decision import Bind
from koord.scheduler.core.entity import Where
from tests.scheduler.builders import node
from tests.scheduler.gangs import World, member

JOB = "gang/shop/train"


def decided(world: World, number: int = 3, **more: Any) -> Bind:
    world.put(*(member(f"p{i}", least=number, **more) for i in range(number)))
    [bind] = world.decide()
    assert isinstance(bind, Bind)
    return bind


def test_once_one_is_bound_the_others_keep_their_places_until_they_are() -> None:
    world = World(3)
    bind = decided(world)
    first, second, third = (member.ask for member in bind.members)
    assert world.core.failed(bind, second) == "again", "another one may be bound"
    world.core.bound(bind, first)
    world.hear_bound(first.key, "n0")
    assert world.core.failed(bind, third) == "again"
    assert len(world.core.cluster.pods) == 3
    world.wait(599)
    assert world.core.again(bind, second)
    assert world.core.failed(bind, second) == "again"
    world.wait(1)
    assert world.core.again(bind, second)
    assert world.core.failed(bind, second) == "failed", "the wait time is over"
    assert second.key not in world.core.cluster.pods
    assert world.core.again(bind, third)
    world.core.bound(bind, third)
    world.hear_bound(third.key, "n0")
    world.wait(11)
    assert world.settle() == {"p1": "n0"}


def test_where_none_can_be_bound_all_give_their_places_back_together() -> None:
    world = World(3)
    bind = decided(world)
    asks = [member.ask for member in bind.members]
    assert [world.core.failed(bind, ask) for ask in asks] == ["again", "again", "failed"]
    assert not world.core.cluster.pods
    assert not any(world.core.again(bind, ask) for ask in asks)
    assert world.core.queue.where(JOB) is Where.BACKOFF
    world.wait(3)
    assert len(world.settle()) == 3


def test_one_that_is_being_tried_again_keeps_the_hope_of_the_others() -> None:
    world = World(2)
    bind = decided(world, 2)
    first, second = (member.ask for member in bind.members)
    world.core.failed(bind, first)
    assert world.core.again(bind, first)
    assert world.core.failed(bind, second) == "again"
    world.core.bound(bind, first)
    assert second.key in world.core.cluster.pods


def test_members_of_a_gang_that_is_not_strict_go_their_own_way() -> None:
    world = World(2)
    bind = decided(world, 2, mode="NonStrict")
    first, second = (member.ask for member in bind.members)
    assert world.core.failed(bind, first) == "failed"
    assert first.key not in world.core.cluster.pods
    world.core.bound(bind, second)
    world.hear_bound(second.key, "n0")
    world.wait(3)
    assert world.settle() == {"p0": "n0"}


def test_a_place_whose_node_is_gone_is_not_kept() -> None:
    world = World(1, 1)
    bind = decided(world, 2)
    first, second = bind.members
    world.core.removed(NODES, node(second.node, cpu="1"))
    assert world.core.failed(bind, second.ask) == "failed"
    world.core.bound(bind, first.ask)
    world.hear_bound(first.ask.key, first.node)
    world.core.put(NODES, node("other", cpu="1"))
    world.wait(3)
    assert world.settle() == {second.ask.meta.name: "other"}


@pytest.mark.parametrize("when", ["in flight", "resting"])
def test_a_member_that_is_deleted_meanwhile_is_waited_for_by_nobody(when: str) -> None:
    world = World(2)
    bind = decided(world, 2)
    first, second = (member.ask for member in bind.members)
    if when == "resting":
        world.core.failed(bind, second)
    world.delete(second.pod)
    world.core.bound(bind, first)
    assert world.core.again(bind, second) is (when == "resting")
    assert world.core.failed(bind, second) == "refused"
    assert not list(world.core.queue)
    assert set(world.core.cluster.pods) == {first.key}


def test_whoever_joins_a_job_while_it_is_bound_is_decided_about_afterwards() -> None:
    world = World(3)
    bind = decided(world, 2)
    world.put(member("late", least=2))
    assert world.decide() == []
    world.bind(bind)
    assert world.settle() == {"late": "n0"}


def test_a_scheduler_that_ends_keeps_no_place() -> None:
    world = World(2)
    bind = decided(world, 2)
    first, second = (member.ask for member in bind.members)
    world.core.bound(bind, first)
    assert world.core.failed(bind, second, last=True) == "failed"
    assert second.key not in world.core.assumed
