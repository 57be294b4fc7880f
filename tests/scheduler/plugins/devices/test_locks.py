"""Nodes whose device plugin takes one pod at a time: a pod locks its node before it is bound."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.configuration.features import SchedulerGate
from koord.api.text.timestamp import from_seconds
from koord.scheduler.core.queue import ClusterEvent
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Profile
from koord.scheduler.framework.writes import Patch
from koord.scheduler.plugins.devices.ledger import Devices
from koord.scheduler.plugins.devices.plugin import DeviceShare
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Reason
from tests.scheduler.build import node, pod
from tests.scheduler.builders import helps
from tests.scheduler.plugins.devices.machines import K, device, gpu

LOCK = {"cambricon": "cambricon.com/dsmlu.lock", "metax": "hami.io/mutex.lock"}


class Machines:
    """Nodes of a vendor; "a" has more left, so that pods go there first."""

    def __init__(self, *names: str, vendor: str = "metax", gate: bool = True) -> None:
        self.cluster = Cluster()
        self.cluster.now_s = 1_000_000.0
        self.plugin = DeviceShare(gates={SchedulerGate.DEVICE_PLUGIN_ADAPTION: gate})
        self.engine = Engine(self.cluster, Profile("s", (self.plugin,), {self.plugin.name: 1}))
        self.vendor = vendor
        for name in names or ("a",):
            self.says(name)
            labels = {"node.koordinator.sh/gpu-vendor": vendor}
            self.cluster.notes(Devices).put_device(device(name, [gpu(0), gpu(1)], labels=labels))
        self._number = 0

    def says(self, name: str, lock: str = "") -> None:
        self.cluster.put_node(node(name, annotations={LOCK[self.vendor]: lock} if lock else {}))

    def lock(self, name: str, pod: str, age_s: float = 0.0) -> None:
        self.says(name, f"{from_seconds(self.cluster.now_s - age_s)},default,{pod}")

    def place(self, name: str = "", **requests: Any) -> tuple[Ask, str | None]:
        self._number += 1
        asked = {f"{K}/gpu-core": 50, f"{K}/gpu-memory-ratio": 50} if not requests else requests["of"]
        ask = Ask(pod(name or f"p{self._number}", requests=asked))
        return ask, self.engine.place(ask).node

    def steps(self, ask: Ask) -> Any:
        return self.engine.plan(ask, self.cluster.pods[ask.key][1]).steps

    def why(self, requests: dict[str, Any]) -> str:
        placement = self.engine.place(Ask(pod("asks", requests=requests)), explain=True)
        return " ".join(placement.why_not["DeviceShare"])


@pytest.mark.parametrize("vendor", LOCK)
def test_a_pod_locks_its_node_before_it_is_bound(vendor: str) -> None:
    machines = Machines(vendor=vendor)
    ask, _ = machines.place("first")
    turn, take = machines.steps(ask)
    assert turn.writes() == ()
    assert turn.until.missing() == ""
    (patch,) = take.writes()
    assert isinstance(patch, Patch)
    assert (patch.kind.kind, patch.name) == ("Node", "a")
    assert patch.body["metadata"]["annotations"] == {LOCK[vendor]: "1970-01-12T13:46:40Z,default,first"}


def test_others_take_no_lock() -> None:
    for machines in (Machines(gate=False), Machines(vendor="nvidia")):
        ask, _ = machines.place()
        assert machines.steps(ask) == ()


def test_members_of_a_job_on_one_node_wait_for_their_turn() -> None:
    machines = Machines()
    first, second = (machines.place(name)[0] for name in ("first", "second"))
    (turn, take), (other_turn, _) = (machines.steps(ask) for ask in (first, second))
    assert (turn.until.missing(), other_turn.until.missing()) == ("", "")
    take.writes()
    assert "locked for default/first" in other_turn.until.missing()
    assert turn.until.missing() == ""
    machines.lock("a", "first")
    assert other_turn.until.missing()
    machines.says("a")
    assert other_turn.until.missing() == ""


def test_a_locked_node_is_passed_over_until_its_lock_is_gone() -> None:
    machines = Machines("a", "b")
    _, found = machines.place("first")
    machines.lock(found or "", "first")
    other = {"a": "b", "b": "a"}[found or ""]
    assert machines.place()[1] == other
    machines.lock(other, "p2")
    assert machines.place()[1] is None
    machines.says(other)
    assert machines.place()[1] == other


@pytest.mark.parametrize(
    ("holder", "age_s", "is_open"),
    [("first", 299, False), ("first", 301, True), ("nobody", 1, True)],
)
def test_a_lock_ends_with_its_pod_or_after_five_minutes(holder: str, age_s: float, is_open: bool) -> None:
    machines = Machines()
    machines.place("first")
    machines.lock("a", holder, age_s)
    assert (machines.place()[1] is not None) == is_open


def test_a_lock_that_grows_old_lets_pods_in_that_it_turned_away() -> None:
    machines = Machines()
    machines.place("first")
    machines.lock("a", "first")
    assert machines.place()[1] is None
    machines.cluster.now_s += 301
    list(machines.plugin.controller.writes())
    assert machines.place()[1] == "a"


def test_a_lock_that_cannot_be_read_is_none() -> None:
    machines = Machines()
    machines.place("first")
    machines.says("a", "now,first")
    assert machines.place()[1] == "a"


@pytest.mark.parametrize(
    ("vendor", "requests", "why"),
    [
        ("cambricon", {f"{K}/gpu": 200}, "one card"),
        ("cambricon", {f"{K}/gpu-memory-ratio": 50}, "needs koordinator.sh/gpu-core"),
        ("cambricon", {f"{K}/gpu-core": 1, f"{K}/gpu-memory": "200Mi"}, "at least 256Mi"),
        ("metax", {f"{K}/gpu-memory": "1Gi"}, "needs koordinator.sh/gpu-core"),
    ],
)
def test_what_a_vendors_plugin_cannot_give_is_turned_away(vendor: str, requests: dict[str, Any], why: str) -> None:
    assert why in Machines(vendor=vendor).why(requests)
    assert Machines(vendor=vendor, gate=False).place(of=requests)[1] == "a"


def test_a_pod_that_waits_for_a_lock_is_tried_again_when_its_node_says_something_else() -> None:
    machines = Machines()
    ask = Ask(pod("asks", requests={f"{K}/gpu": 50}))
    assert machines.plugin.wakes_on & Reason.LOAD
    for subject, expected in ((node("a"), True), ("a", False)):
        event = ClusterEvent(int(Reason.LOAD), subject, "NodeUpdateNodeAnnotation")
        assert helps(machines.plugin, ask, event, machines.cluster) == expected
    assert not DeviceShare.wakes_on & Reason.LOAD
