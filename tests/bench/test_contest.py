"""The contest with Koordinator's scheduler: every plugin takes part, and every pod of every workload can be bound."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from koord.api.configuration.scheduler_config import parse
from koord.api.kinds import PODS, RESERVATIONS, Kind
from koord.api.machinery.codec import convert
from koord.api.protocol import names
from koord.scheduler.core.core import Core
from koord.scheduler.core.decision import Bind
from koord.scheduler.profiles import profiles_of
from koord_bench import contest, every_plugin
from koord_bench.bursts import Burst, Goals, compare
from koord_bench.contest import Workload
from koord_bench.harness import Report, Result

NODES = 20
KOORDINATORS = {
    "SchedulingHint",
    "LoadAwareScheduling",
    "NodeNUMAResource",
    "DeviceShare",
    "Reservation",
    "Coscheduling",
    "ElasticQuota",
    "DefaultPreBind",
    "NodeResourcesFitPlus",
    "ScarceResourceAvoidance",
}


def scheduler() -> Core:
    core = Core(profiles_of(parse(every_plugin.configuration())))
    for kind, obj in every_plugin.objects(NODES):
        put(core, kind, obj)
    return core


def put(core: Core, kind: Kind[Any], obj: dict[str, Any], **more: Any) -> None:
    metadata = {"namespace": every_plugin.NAMESPACE if kind.namespaced else "", **obj["metadata"]}
    core.put(kind, convert(kind.type, {**obj, **more, "metadata": {**metadata, "uid": metadata["name"]}}))


def bound(core: Core, workload: Workload) -> list[str]:
    """Names of pods that get a node; reservations are there already."""
    for i, (kind, obj) in enumerate(workload.before):
        more = {}
        if kind is RESERVATIONS:
            (container,) = obj["spec"]["template"]["spec"]["containers"]
            has = container["resources"]["requests"]
            more = {"status": {"phase": "Available", "nodeName": f"node-{i:05}", "allocatable": has}}
        put(core, kind, obj, **more)
    for pod in workload.pods:
        put(core, PODS, pod)
    placed = []
    while (decision := core.decide()) is not None:
        assert isinstance(decision, Bind), decision
        placed += [member.ask.pod.metadata.name for member in decision.members]
        for member in decision.members:
            core.bound(decision, member.ask)
    return placed


def test_the_configuration_has_every_plugin_on() -> None:
    (profile,) = parse(every_plugin.configuration()).profiles
    assert profile.resolved().names >= KOORDINATORS


@pytest.mark.parametrize("make", [contest.plain, contest.mixed, contest.gangs])
def test_every_pod_gets_a_node(make: Any) -> None:
    workload = make(128)
    assert sorted(bound(scheduler(), workload)) == sorted(pod["metadata"]["name"] for pod in workload.pods)


def test_mixed_pods_use_what_the_plugins_are_for() -> None:
    workload = contest.mixed(40)
    asked = Counter(
        resource for pod in workload.pods for resource in pod["spec"]["containers"][0]["resources"]["requests"]
    )
    assert asked[names.RESOURCE_GPU_CORE] == 4
    assert asked[names.RESOURCE_BATCH_CPU] == 8
    labels = [pod["metadata"]["labels"] for pod in workload.pods]
    assert sum(label.get(names.LABEL_QOS_CLASS) == "LSR" for label in labels) == 8
    owners = sum(label["app"] == "owner" for label in labels)
    assert owners == contest.OWNERS * len(workload.before)


def test_without_the_other_scheduler_figures_stand_alone() -> None:
    ours, theirs = Burst(100, 50.0, 1.0, 2.0, 0.1, 80.0), Burst(100, 20.0, 2.0, 4.0, 0.5, 100.0)

    def compared(baseline: Burst | None) -> list[Result]:
        report = Report("b")
        compare(report.case("c", "p"), ours, baseline, Goals(faster=2.5, cheaper=6.0))
        return report.rows

    assert {(row.baseline, row.met, row.peer) for row in compared(None)} == {(None, None, "")}
    rate, *_, cpu, _memory = compared(theirs)
    assert (rate.ratio, rate.met, cpu.value, cpu.ratio, cpu.met) == (2.5, True, 1.0, 5.0, False)
