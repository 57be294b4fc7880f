"""The one table of inputs: every kind is put and removed by way of it, one by one or many at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kinds import NODE_METRICS, NODES, POD_MIGRATION_JOBS, PODS
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.scheduler.core.core import Core
from koord.scheduler.core.decision import Bind, Nowhere
from koord.scheduler.core.inputs import INPUTS
from koord.scheduler.framework.plugin import Plugin, Taking
from koord.scheduler.live.sources import NAMED, OPTIONAL
from koord.scheduler.profiles import profiles_of
from tests.scheduler.build import metric
from tests.scheduler.core.build import node, pod


class Columns(Plugin):
    """Takes reports, many of them as columns."""

    name = "Columns"

    def __init__(self) -> None:
        self.cpu: dict[str, str] = {}
        self.at_once = 0

    def takes(self) -> Sequence[Taking]:
        return (Taking(NODE_METRICS, self._put, self._remove, self._put_many),)

    def _remove(self, report: NodeMetric) -> None:
        del self.cpu[report.metadata.name]

    def _put(self, report: NodeMetric) -> None:
        self._put_many([report])

    def _put_many(self, reports: Sequence[NodeMetric]) -> None:
        self.at_once = max(self.at_once, len(reports))
        for report in reports:
            assert report.status.node_metric is not None
            self.cpu[report.metadata.name] = str(report.status.node_metric.node_usage.resources["cpu"])


class TakesMoves(Plugin):
    """Looks at a kind that the scheduler does not receive."""

    name = "TakesMoves"

    def takes(self) -> Sequence[Taking]:
        return (Taking(PODS, lambda each: None, lambda each: None), Taking(POD_MIGRATION_JOBS, print, print))


def core_with(*plugins: Plugin) -> Core:
    profiles = profiles_of(SHIPPED)
    (profile,) = profiles.profiles.values()
    mine = replace(profile, plugins=(*profile.plugins, *plugins))
    return Core(replace(profiles, profiles={profile.name: mine}), alone=True)


@pytest.mark.parametrize("seed", range(3))
def test_many_at_once_come_to_the_same_as_one_by_one(seed: int) -> None:
    chance = Random(seed)
    reports = [metric(f"n{i}", usage={"cpu": str(chance.randrange(1, 64))}) for i in range(20)]
    one, many = core_with(first := Columns()), core_with(second := Columns())
    for core in (one, many):
        for i in range(20):
            core.put(NODES, node(f"n{i}", cpu="64"))
    for report in reports:
        one.put(NODE_METRICS, report)
    many.put_many(NODE_METRICS, reports)
    assert (first.cpu, first.at_once, second.at_once) == (second.cpu, 1, 20)
    for name, column in one.cluster.table.columns.items():
        assert column.tolist() == many.cluster.table.columns[name].tolist(), name


def test_many_at_once_wake_those_whom_one_would_wake() -> None:
    core = core_with()
    core.put(NODES, node("n1", cpu="4"))
    core.put_many(PODS, [pod("a", cpu="3"), pod("b", cpu="3")])
    assert {type(core.decide()), type(core.decide())} == {Bind, Nowhere}
    core.put_many(NODES, [node("n2", cpu="4"), node("n3", cpu="4")])
    assert isinstance(core.decide(), Bind)


def test_a_plugin_that_takes_a_kind_which_nobody_brings_is_refused() -> None:
    with pytest.raises(ValueError, match="TakesMoves takes PodMigrationJob, which is not among the inputs"):
        core_with(TakesMoves())


def test_every_kind_stands_in_the_table_once_and_pods_come_last() -> None:
    kinds = [source.kind for source in INPUTS]
    assert len(kinds) == len(set(kinds))
    assert kinds[-1] is PODS
    assert {source.kind for source in INPUTS if source.optional} == {*OPTIONAL, *NAMED}
