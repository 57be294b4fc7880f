"""Jobs go through the queue, a decision, the binding and the telling as one entity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kinds import NODES, PODS
from koord.scheduler.core.core import Core
from koord.scheduler.core.decision import Bind, LetGo, Nowhere, Wait
from koord.scheduler.core.entity import Entity, Where
from koord.scheduler.core.moment import Moment
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Profile
from koord.scheduler.framework.jobs import JobNeed, Jobs, Permit
from koord.scheduler.framework.plugin import Plugin
from koord.scheduler.framework.queueing import Queueing
from koord.scheduler.framework.remedy import Remedy
from koord.scheduler.profiles import Profiles, profiles_of
from koord.scheduler.state.table import Row
from tests.scheduler.core.build import changed, node, placed, pod


class Labelled(Plugin):
    """Pods of one label are a job, which needs `least` members; it waits until all are there."""

    name = "Jobs"
    least: int | None = None
    size: int = 3
    reversed = False
    remedies: tuple[Remedy, ...] = ()

    def __init__(self) -> None:
        self.jobs, self.queueing = LabelledJobs(self), Queueing(blocks=self._blocks)

    def _blocks(self, entity: Entity) -> str | None:
        is_job = entity.key.startswith("job/")
        return f"{len(entity.pods)} of {self.size} are there" if is_job and len(entity.pods) < self.size else None


class LabelledJobs(Jobs):
    def __init__(self, plugin: Labelled) -> None:
        self._plugin = plugin

    def group(self, ask: Ask) -> str | None:
        job = ask.meta.labels.get("job")
        return None if job is None else f"job/{job}"

    def needs(self, asks: Sequence[Ask]) -> Sequence[JobNeed] | None:
        least = self._plugin.least
        return None if least is None else (JobNeed("job j", tuple(range(len(asks))), least),)

    def plan(self, asks: Sequence[Ask], engine: Engine) -> Sequence[Row | None] | None:
        if not self._plugin.reversed:
            return None
        rows = engine.cluster.table.row_of
        return [rows[name] for name in sorted(rows, reverse=True)][: len(asks)]

    def post_filter(self, asks: Sequence[Ask], engine: Engine) -> Remedy | None:
        return self._plugin.remedies[0] if self._plugin.remedies else None


class WaitsTogether(Jobs):
    enough = 2

    def __init__(self) -> None:
        self.there: dict[str, int] = {}

    def permit(self, ask: Ask, row: Row) -> Permit | None:
        group = ask.meta.labels.get("together")
        if group is None:
            return None
        self.there[group] = self.there.get(group, 0) + 1
        return Permit(allows=(group,)) if self.there[group] >= self.enough else Permit(group, 30.0)


class Waits(Plugin):
    """Pods of one label are bound together, once enough of them have a place."""

    name = "Waits"

    def __init__(self) -> None:
        self.jobs = WaitsTogether()


def core_with(plugin: Plugin) -> Core:
    profiles: Profiles = profiles_of(SHIPPED)
    (profile,) = profiles.profiles.values()
    mine: Profile = replace(profile, plugins=(*profile.plugins, plugin))
    return Core(replace(profiles, profiles={profile.name: mine}), alone=True)


def job(number: int, cpu: str = "1") -> list[Ask]:
    return [Ask(pod(f"m{i}", cpu=cpu, metadata={"labels": {"job": "j"}})) for i in range(number)]


def put(core: Core, asks: Sequence[Ask]) -> None:
    for ask in asks:
        core.put(PODS, ask.pod)


def test_a_job_waits_for_its_members_and_is_decided_as_one() -> None:
    core, members = core_with(Labelled()), job(3)
    core.put(NODES, node("n1", cpu="4"))
    put(core, members[:2])
    assert core.decide() is None
    assert [attempt.gate for attempt in core.queue] == ["2 of 3 are there"]
    put(core, members[2:])
    bind = core.decide()
    assert isinstance(bind, Bind)
    assert [member.ask.key for member in bind.members] == [ask.key for ask in members]
    assert core.decide() is None
    for ask in members:
        core.bound(bind, ask)
    assert not list(core.queue)


def test_a_job_that_does_not_fit_whole_takes_nothing_and_is_told_once() -> None:
    core = core_with(Labelled())
    core.put(NODES, node("n1", cpu="2"))
    put(core, job(3))
    found = core.decide()
    assert isinstance(found, Nowhere)
    assert len(found.asks) == 3
    assert "Insufficient cpu" in found.message
    assert placed(core.cluster) == {}
    assert core.queue.where("job/j") is Where.UNSCHEDULABLE
    core.put(NODES, node("n2", cpu="2"))
    core.at(Moment(20, 20))
    assert isinstance(core.decide(), Bind)


def test_a_job_that_needs_fewer_goes_ahead_and_the_rest_is_tried_again() -> None:
    plugin = Labelled()
    plugin.least = 2
    core, members = core_with(plugin), job(3)
    core.put(NODES, node("n1", cpu="2"))
    put(core, members)
    bind = core.decide()
    assert isinstance(bind, Bind)
    assert (len(bind.members), len(bind.unplaced)) == (2, 1)
    for member in bind.members:
        core.bound(bind, member.ask)
        core.put(PODS, changed(member.ask.pod, node_name=member.node), member.ask.pod)
    left = core.queue.entity("job/j")
    assert left is not None
    assert [ask.key for ask in left.pods] == [bind.unplaced[0].ask.key]


def test_members_go_where_the_jobs_planner_wants_them() -> None:
    plugin = Labelled()
    plugin.reversed = True
    core = core_with(plugin)
    for name in ("n1", "n2", "n3"):
        core.put(NODES, node(name, cpu="4"))
    put(core, job(3))
    bind = core.decide()
    assert isinstance(bind, Bind)
    assert [member.node for member in bind.members] == ["n3", "n2", "n1"]


def test_a_member_whose_binding_fails_comes_back_without_the_bound_ones() -> None:
    plugin = Labelled()
    plugin.size = 1
    core, members = core_with(plugin), job(3)
    core.put(NODES, node("n1", cpu="4"))
    put(core, members)
    bind = core.decide()
    assert isinstance(bind, Bind)
    core.bound(bind, bind.members[0].ask)
    assert core.failed(bind, bind.members[1].ask) == "failed"
    assert core.queue.where("job/j") is Where.IN_FLIGHT
    core.bound(bind, bind.members[2].ask)
    left = core.queue.entity("job/j")
    assert left is not None
    assert [ask.key for ask in left.pods] == [bind.members[1].ask.key]
    assert core.queue.where("job/j") is Where.BACKOFF
    assert len(placed(core.cluster)) == 2


def test_a_member_that_is_deleted_leaves_the_others_waiting() -> None:
    core, members = core_with(Labelled()), job(3)
    put(core, members)
    core.removed(PODS, members[1].pod)
    left = core.queue.entity("job/j")
    assert left is not None
    assert len(left.pods) == 2
    for ask in (members[0], members[2]):
        core.removed(PODS, ask.pod)
    assert not list(core.queue)


def test_those_who_wait_together_are_bound_together() -> None:
    core = core_with(Waits())
    core.put(NODES, node("n1", cpu="4"))
    first, second = (Ask(pod(name, metadata={"labels": {"together": "g"}})) for name in ("a", "b"))
    core.put(PODS, first.pod)
    waits = core.decide()
    assert isinstance(waits, Wait)
    assert (waits.group, waits.wait_s) == ("g", 30.0)
    assert len(placed(core.cluster)) == 1
    core.put(PODS, second.pod)
    decisions = [core.decide(), core.decide()]
    assert {decision.ask.key for decision in decisions if isinstance(decision, Bind)} == {first.key, second.key}
    assert core.waiting() == 0


@pytest.mark.parametrize("end", ["time", "deleted"])
def test_whoever_waits_in_vain_gives_its_place_back(end: str) -> None:
    core = core_with(Waits())
    core.put(NODES, node("n1", cpu="4"))
    ask = Ask(pod("a", metadata={"labels": {"together": "g"}}))
    core.put(PODS, ask.pod)
    assert isinstance(core.decide(), Wait)
    if end == "time":
        assert core.next_change_s() == 30.0
        core.at(Moment(31, 31))
    else:
        core.removed(PODS, ask.pod)
    let_go = core.decide()
    assert isinstance(let_go, LetGo)
    assert placed(core.cluster) == {}
    assert core.queue.where(ask.key) is (Where.BACKOFF if end == "time" else Where.GONE)


def test_a_node_that_goes_while_others_are_waited_for_is_not_bound_to() -> None:
    core = core_with(Waits())
    there = node("n1", cpu="4")
    core.put(NODES, there)
    first, second = (Ask(pod(name, metadata={"labels": {"together": "g"}})) for name in ("a", "b"))
    core.put(PODS, first.pod)
    assert isinstance(core.decide(), Wait)
    core.removed(NODES, there)
    core.put(NODES, node("n2", cpu="4"))
    core.put(PODS, second.pod)
    decisions = [core.decide(), core.decide()]
    assert {type(decision).__name__: decision.ask.key for decision in decisions if decision is not None} == {
        "Bind": second.key,
        "LetGo": first.key,
    }
