"""Gates that are switched while a pod is held back: no pod stays held, and old suspicions do not come back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as changed

from koord.agent.core import Agent
from koord.agent.executor.executor import Executor
from koord.agent.executor.ledger import Ledger
from koord.agent.host.cgroups import Version
from koord.agent.host.knobs import CPU_QUOTA
from koord.agent.qos.interference import WINDOW_S, standing_of, strategy_of
from koord.agent.qos.strategy import Departures, Sight
from koord.agent.series import names
from koord.agent.series.samples import Samples
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.meta import OwnerReference
from koord.api.kubernetes.words import KubeQoS
from tests.agent import states
from tests.agent.trees import Tree

BUILD = "kubepods/besteffort/podbuild"


class Host:
    """A service that says its own latency, and a job that makes it worse."""

    def __init__(self, root: Path) -> None:
        self.tree = Tree(root, Version.V1, CgroupDriver.CGROUPFS)
        self.tree.pod("web", KubeQoS.BURSTABLE, "web-main")
        self.tree.pod("build", KubeQoS.BEST_EFFORT, "build-main")
        web, build = states.pod("web", "LS", requests={"cpu": "1"}), states.pod("build", "BE")
        self.state, self.now_s = states.node(web, build, slo={}), 1000.0
        self.switch(detects=True, controls=True)
        self.agent = Agent(self.tree.cgroups, Executor(self.tree.cgroups, Ledger()), strategies=(strategy_of(),))

    def switch(self, *, detects: bool, controls: bool) -> None:
        gates = {AgentGate.INTERFERENCE_DETECTION: detects, AgentGate.INTERFERENCE_CONTROL: controls}
        self.state = replace(self.state, gates={**self.state.gates, **gates})

    def round(self, after_s: float, probe: float, build: float) -> None:
        self.now_s += after_s
        self.agent.samples.add(names.pod_probe("web"), self.now_s, probe)
        self.agent.samples.add(names.pod_cpu("build"), self.now_s, build)
        self.agent.decide(self.state, self.now_s)

    def hold(self) -> None:
        for _ in range(9):
            self.round(WINDOW_S, 3.0, 10.0)
        for _ in range(3):
            self.round(WINDOW_S, 9.0, 1900.0)

    def quota_us(self) -> object:
        return self.tree.cgroups.get(CPU_QUOTA, BUILD)


@pytest.mark.parametrize("is_told_still", [True, False])
def test_who_is_held_back_is_let_go_in_the_round_that_finds_the_gate_off(tmp_path: Path, is_told_still: bool) -> None:
    host = Host(tmp_path)
    host.hold()
    assert host.quota_us() == 1000, "10m"
    host.switch(detects=is_told_still, controls=False)
    host.round(1.0, 9.0, 1900.0)
    assert host.quota_us() == -1


def test_a_hold_does_not_come_back_with_the_gate(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.hold()
    host.switch(detects=False, controls=False)
    host.round(1.0, 9.0, 1900.0)
    host.switch(detects=False, controls=True)
    for _ in range(3):
        host.round(3600.0, 3.0, 10.0)
        assert host.quota_us() == -1, "an hour later no pod is suspected"


@pytest.mark.parametrize(
    ("kind", "goes"),
    [("", (True, False)), ("Job", (True, True)), ("DaemonSet", (False, False)), ("Node", (False, False))],
)
def test_who_would_be_made_anew_on_the_same_node_is_neither_evicted_nor_moved(
    kind: str, goes: tuple[bool, bool]
) -> None:
    """A static pod's owner is its node."""
    pod = states.pod("build", "BE")
    owners = (OwnerReference("v1", kind, "made-by", "1", controller=True),) if kind else ()
    pod = replace(pod, meta=changed(pod.meta, owner_references=owners))
    standing = standing_of(pod, Sight(states.node(pod), Samples(), 0.0))
    assert (standing.can_be_evicted, standing.can_move) == goes


def test_who_is_held_back_is_let_go_when_colocation_is_switched_off(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.hold()
    host.state = replace(host.state, is_colocation_off=True)
    host.round(1.0, 9.0, 1900.0)
    assert host.quota_us() == -1
    for _ in range(3):
        host.round(WINDOW_S, 9.0, 1900.0)
        assert host.quota_us() == -1


@pytest.mark.parametrize(
    ("departures", "expected"),
    [
        (Departures(), (True, False, False, False)),
        (Departures(evicted={"build"}), (False, True, False, False)),
        (Departures(under_notice={"build"}), (True, False, True, False)),
        (Departures(refused={"build"}), (False, False, False, True)),
        (Departures(unmoved={"build"}), (True, False, False, True)),
    ],
    ids=["nothing", "evicted", "has notice", "refused", "its move was refused"],
)
def test_what_came_of_evictions_and_moves_reaches_who_decides(
    departures: Departures, expected: tuple[bool, ...]
) -> None:
    pod = states.pod("build", "BE")
    standing = standing_of(pod, Sight(states.node(pod), Samples(), 0.0, departures))
    assert (standing.can_be_evicted, standing.is_leaving, standing.has_notice, standing.was_refused) == expected
