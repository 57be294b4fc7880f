"""Whatever is stored, hollow nodes run their other pods, and report what these use."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final, cast

import msgspec
from hypothesis import Phase, given, settings

from koord.api import kinds
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.faults import BadInput
from koord.api.machinery.shield import Failure, Shield
from koord.api.protocol.report_policy import ReportPolicy, policy_of
from koord.kube.client import Client
from koord.kube.events import EventRecorder
from koord.kube.informer import Informer
from koord.kube.informers import Informers
from koord_minicluster.hollow.live.guard import Guard
from koord_minicluster.hollow.live.machines import Machines
from koord_minicluster.hollow.live.reports import Reporter
from koord_minicluster.hollow.load_model import SeededLoad
from koord_minicluster.hollow.machine import Machine
from koord_minicluster.hollow.phases import Pace
from koord_minicluster.hollow.pod_status import Addresses, step
from tests.enemies.cases import Enemy, enemies
from tests.enemies.checking import check, telling
from tests.enemies.honest import NOW_S, Thing, honest
from tests.kube.manual_clock import ManualClock

KINDS: Final = (kinds.PODS, kinds.NODE_METRICS)
MACHINE: Final = Machine(0, "hollow", 32_000, 128 << 30, 110, 3)
FOUND: Final = (
    Enemy(
        kinds.NODE_METRICS,
        "bad-0",
        ("spec", "metricCollectPolicy", "nodeAggregatePolicy"),
        {"durations": ["99999999999h"]},
    ),
    Enemy(kinds.NODE_METRICS, "bad-0", ("spec", "metricCollectPolicy", "reportIntervalSeconds"), -(2**31)),
    Enemy(kinds.PODS, "bad-runs", ("spec", "containers", 0, "resources", "limits", "memory"), "1e999999999"),
)


class HollowWorld:
    """All running pods are on one machine."""

    def __init__(self, things: Sequence[Thing]) -> None:
        self.told: set[str] = set()
        self.defects: list[Failure] = []
        self.pods = [thing for kind, thing in things if kind is kinds.PODS]
        self.metrics = [thing for kind, thing in things if kind is kinds.NODE_METRICS]
        self._reporter = Reporter(
            cast(Client, self),
            cast(Informer[Pod], self),
            cast(Machines, None),
            load=SeededLoad(),
            policy=ReportPolicy(),
            seed=0,
            clock=ManualClock(NOW_S),
            guard=Guard(cast(Client, self), cast(Informers, None), cast(EventRecorder, None), None),
        )
        self._reporter._shield = Shield(self._failed)

    def limited(self, **_: Any) -> HollowWorld:
        return self

    def add_handler(self, handler: Any) -> None:
        return None

    def by_index(self, name: str, key: str) -> list[Pod]:
        return [pod for pod in self.pods if pod.spec.node_name]

    def look(self) -> None:
        for pod in self.pods:
            with Shield(self._failed).about("run it", kinds.PODS, pod.metadata):
                for later_s in (0.0, 30.0, 1e6, 1e10):
                    taken = step(pod, NOW_S + later_s, Pace(), Addresses("127.0.0.1", "10.0.0.1"))
                    self._tell(pod.metadata.name, f"{later_s} {taken}")
        for metric in self.metrics:
            with Shield(self._failed).about("learn how to report", kinds.NODE_METRICS, metric.metadata):
                policy = policy_of(metric.spec.metric_collect_policy, ReportPolicy())
                assert 0 < policy.report_s <= 86400
                self._reporter._status(MACHINE, policy, NOW_S)
        status = msgspec.to_builtins(self._reporter._status(MACHINE, ReportPolicy(), NOW_S + 60))
        for each in status["podsMetric"]:
            self._tell(each["name"], "reported")

    def _tell(self, who: str, what: str) -> None:
        if "good" in who:
            self.told.add(f"{who}: {what}")

    def _failed(self, failure: Failure) -> None:
        if not isinstance(failure.error, BadInput) or failure.kind is kinds.NODE_METRICS:
            self.defects.append(failure)


def story(innocents: Sequence[Thing], bad: Sequence[Thing], crowd: Sequence[Thing]) -> HollowWorld:
    scene = HollowWorld([*bad, *innocents, *crowd])
    scene.look()
    return scene


@cache
def undisturbed() -> HollowWorld:
    return story(honest("good"), honest("bad"), [])


def test_innocents_run_and_are_reported_in_the_first_place() -> None:
    assert telling(undisturbed(), "good-runs: reported")
    assert telling(undisturbed(), "good-runs: 30.0")


def test_what_was_found_once_disturbs_nobody() -> None:
    check(FOUND, story, undisturbed())


@settings(max_examples=3, phases=(Phase.explicit, Phase.generate))
@given(enemies(KINDS, 60))
def test_no_stored_value_ends_a_hollow_node_or_changes_what_becomes_of_others(crowd: Sequence[Enemy]) -> None:
    check(crowd, story, undisturbed())
