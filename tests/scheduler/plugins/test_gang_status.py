"""What PodGroups say of their gangs: equal to the truth, whatever happened."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.api.kinds import POD_GROUPS
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.pod_group import PodGroupStatus
from koord.scheduler.framework.writes import Patch
from tests.scheduler.gangs import World, member, pod_group


class GangWorld(World):
    """A world with an API server that keeps what PodGroups are told to say."""

    def __init__(self, *cpus: int, group: Any = None) -> None:
        super().__init__(*cpus)
        self.group = group or pod_group(least=2)
        self.put(self.group)
        self.writes = 0

    def say(self) -> PodGroupStatus:
        """What it says a second later."""
        self.wait(1)
        return self.hear()

    def hear(self) -> PodGroupStatus:
        for write in self._about_groups():
            assert write.body["metadata"]["uid"] == self.group.metadata.uid
            self.writes += 1
            self.group = replace(self.group, status=convert(PodGroupStatus, dict(write.body["status"])))
            self.put(self.group)
            assert self._about_groups() == [], "once it is heard, there is nothing to say"
        return self.group.status

    def _about_groups(self) -> list[Patch]:
        return [write for write in self.core.take_writes() if isinstance(write, Patch) and write.kind is POD_GROUPS]


def shown(status: PodGroupStatus) -> tuple[str, int, int, int, int]:
    return str(status.phase), status.scheduled, status.running, status.succeeded, status.failed


@pytest.mark.parametrize(
    ("members", "wanted"),
    [
        ([], ("Pending", 0, 0, 0, 0)),
        (["Pending"], ("Pending", 0, 0, 0, 0)),
        (["Pending", "Pending"], ("Scheduling", 0, 0, 0, 0)),
        (["n0", "Pending"], ("Scheduling", 1, 0, 0, 0)),
        (["n0", "n0"], ("Scheduled", 2, 0, 0, 0)),
        (["n0", "Running"], ("Scheduled", 2, 1, 0, 0)),
        (["Running", "Running", "Pending"], ("Running", 2, 2, 0, 0)),
        (["Running", "Succeeded"], ("Running", 2, 1, 1, 0)),
        (["Running", "Failed"], ("Failed", 2, 1, 0, 1)),
        (["Succeeded", "Succeeded"], ("Finished", 2, 0, 2, 0)),
        (["Succeeded", "Succeeded", "Failed"], ("Finished", 3, 0, 2, 1)),
    ],
)
def test_phases_follow_from_the_pods(members: list[str], wanted: tuple[Any, ...]) -> None:
    world = GangWorld()
    for i, each in enumerate(members):
        on = "" if each == "Pending" else "n0"
        world.put(member(f"p{i}", crd=True, on=on, phase="Pending" if each == "n0" else each))
    assert shown(world.say()) == wanted
    assert (world.group.status.schedule_start_time is not None) == (wanted[0] == "Scheduling")


def test_what_is_said_is_counted_down_again_and_the_first_start_stays() -> None:
    world = GangWorld(2)
    pods = [member(f"p{i}", crd=True) for i in range(2)]
    world.put(*pods)
    started = world.say().schedule_start_time
    world.wait(60)
    world.settle()
    assert shown(world.say()) == ("Scheduled", 2, 0, 0, 0)
    world.delete(*pods)
    assert shown(world.say()) == ("Pending", 0, 0, 0, 0)
    assert world.group.status.schedule_start_time == started


def test_the_end_of_a_group_is_the_end() -> None:
    world = GangWorld()
    world.put(*(member(f"p{i}", crd=True, on="n0", phase="Succeeded") for i in range(2)))
    assert world.say().phase == "Finished"
    world.put(member("late", crd=True))
    assert world.say().phase == "Finished"


def test_a_gang_that_is_scaled_down_before_anybody_wrote_of_it_is_not_pending() -> None:
    world = GangWorld(8, group=pod_group(least=4))
    pods = [member(f"p{i}", crd=True) for i in range(4)]
    world.hear()
    world.put(*pods)
    world.settle()
    world.delete(*pods[:2])
    assert shown(world.say()) == ("Scheduling", 2, 0, 0, 0)


@pytest.mark.parametrize("least", [0, -3])
def test_a_group_without_a_minimum_is_not_finished_before_a_pod_is(least: int) -> None:
    world = GangWorld(8, group=pod_group(least=least))
    world.put(member("p", crd=True, on="n0", phase="Running"))
    assert shown(world.say()) == ("Running", 1, 1, 0, 0)
    world.put(member("p", crd=True, on="n0", phase="Succeeded"))
    assert shown(world.say()) == ("Finished", 1, 0, 1, 0)


def test_the_owner_of_the_pods_is_told() -> None:
    world = GangWorld()
    pods = [member(f"p{i}", crd=True) for i in range(2)]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u"}
    for pod in pods:
        meta = convert(type(pod.metadata), {"name": pod.metadata.name, "namespace": "shop", "ownerReferences": [owner]})
        world.put(replace(pod, metadata=replace(pod.metadata, owner_references=meta.owner_references)))
    assert world.say().occupied_by == "shop/train"


def test_what_somebody_else_made_it_say_is_put_right() -> None:
    world = GangWorld()
    world.put(member("p", crd=True, on="n0"))
    world.say()
    world.group = replace(world.group, status=replace(world.group.status, scheduled=9))
    world.put(world.group)
    assert world.say().scheduled == 1


def test_a_large_gang_is_written_twice_a_second_while_its_pods_get_their_nodes_and_the_last_word_is_true() -> None:
    world = GangWorld(64, group=pod_group(least=40))
    world.put(*(member(f"p{i}", crd=True) for i in range(40)))
    world.say()
    began, before = world.now_s, world.writes
    world.wait(1)
    for i in range(40):
        world.hear_bound(f"shop/p{i}", "n0")
        world.hear()
        world.wait(0.025)
    assert world.writes - before <= 4
    assert world.core.writes_in_s() <= 0.5
    world.wait(0.5)
    world.hear()
    assert shown(world.group.status) == ("Scheduled", 40, 0, 0, 0)
    assert world.now_s - began < 1 + 40 * 0.025 + 0.51


EVENT = st.tuples(st.integers(0, 4), st.sampled_from(["gone", "Pending", "n0", "Running", "Succeeded", "Failed"]))


@given(st.lists(EVENT, max_size=25), st.integers(1, 3))
def test_after_any_history_the_counts_are_a_recount(events: list[tuple[int, str]], least: int) -> None:
    world = GangWorld(2, group=pod_group(least=least))
    for i, what in events:
        name = f"p{i}"
        if what == "gone":
            if f"shop/{name}" in world.pods:
                world.delete(world.pods[f"shop/{name}"])
        else:
            on = "" if what == "Pending" else "n0"
            world.put(member(name, crd=True, on=on, phase="Pending" if what == "n0" else what))
        status = world.say()
        if status.phase in ("Finished", "Failed"):
            return
        pods = list(world.pods.values())
        assert status.scheduled == sum(1 for pod in pods if pod.spec.node_name)
        assert status.running == sum(1 for pod in pods if pod.status.phase == "Running")
