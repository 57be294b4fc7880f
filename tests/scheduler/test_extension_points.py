"""Three policies that the engine does not know, made with its public extension points alone."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, cast

import numpy as np
import pytest

from koord.api.kubernetes.pod import Pod
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells, Numbers
from koord.scheduler.framework.engine import Engine
from koord.scheduler.framework.exact_check import Door, ExactCheck, Objection
from koord.scheduler.framework.jobs import Jobs, Permit
from koord.scheduler.framework.judge import Judge
from koord.scheduler.framework.plugin import Plugin
from koord.scheduler.framework.remedy import Remedy
from koord.scheduler.framework.stand_ins import StandIns
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.notes import Notes
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Column, Reason, Row
from koord.scheduler.state.view import View
from tests.scheduler.builders import ROW_LOCAL, ask, engine, node

FREE_DEVICES = Column("free devices", np.int64, Reason.EXACT)


class HeldDevices(Notes):
    """Which devices of a node are free, and which pods hold some. A pod's annotation says so, too."""

    name = "PairsOfDevices"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.free: dict[Row, set[int]] = {}
        self.held: dict[str, tuple[int, int]] = {}

    def of(self, pod: Pod) -> tuple[int, int] | None:
        text = pod.metadata.annotations.get("devices")
        return None if text is None else (int(text), int(text) + 1)

    def moved(self, note: object, record: PodRecord, row: Row, sign: int) -> None:
        pair = cast(tuple[int, int], note)
        free = self.free.setdefault(row, set())
        if sign > 0:
            free -= set(pair)
            self.held[record.key] = pair
        else:
            free |= set(pair)
            del self.held[record.key]
        self.cluster.table.set("free devices", row, len(free))


class PairsOfDevices(Plugin):
    """Nodes have devices in a line; a pod needs two neighbours. The column knows how many are free, not which."""

    name = "PairsOfDevices"
    notes: type[Notes] | None = HeldDevices

    def attach(self, cluster: Cluster) -> None:
        cluster.table.declare(FREE_DEVICES)
        self.devices = cluster.notes(HeldDevices)

    def equip(self, cluster: Cluster, name: str, devices: set[int]) -> None:
        row = cluster.table.row_of[name]
        self.devices.free[row] = set(devices)
        cluster.table.set("free devices", row, len(devices))

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        return ask.meta.labels.get("devices")

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        return _Pair(self) if ask.meta.labels.get("devices") else None

    def pair(self, row: Row) -> tuple[int, int] | None:
        free = self.devices.free.get(row, set())
        return next(((each, each + 1) for each in sorted(free) if each + 1 in free), None)

    def reserve(self, ask: Ask, row: Row, cluster: Cluster, found: object) -> object:
        """What the check found."""
        return found

    def pre_bind(self, ask: Ask, row: Row, cluster: Cluster, note: object) -> Mapping[str, Any] | None:
        return None if note is None else {"metadata": {"annotations": {"devices": str(cast(tuple[int, int], note)[0])}}}


class _Pair(Judge):
    filters_on = Reason.NODE | Reason.EXACT

    def __init__(self, plugin: PairsOfDevices) -> None:
        self.exact = _PairCheck(plugin)

    def feasible(self, cells: Cells) -> Numbers:
        return (cells["free devices"] < 2) * 1

    def reasons(self, mask: int) -> list[str]:
        return ["Insufficient devices"]


class _PairCheck(ExactCheck):
    def __init__(self, plugin: PairsOfDevices) -> None:
        self._plugin = plugin

    def check(self, ask: Ask, row: Row, agreed: object = None, door: Door | None = None) -> object:
        return self._plugin.pair(row) or Objection("no two neighbouring devices")


def with_devices(**devices: set[int]) -> tuple[Engine, PairsOfDevices]:
    plugin = PairsOfDevices()
    found = engine(*(node(name) for name in devices), plugins=(*ROW_LOCAL, plugin))
    for name, numbers in devices.items():
        plugin.equip(found.cluster, name, numbers)
    return found, plugin


def test_a_node_that_fails_the_exact_check_is_passed_over() -> None:
    found, _ = with_devices(scattered={0, 2, 4, 6}, paired={0, 1})
    assert found.place(ask("p", labels={"devices": "2"})).node == "paired"
    assert found.place(ask("q", labels={"devices": "2"})).node is None


def test_however_many_fail_the_exact_check_the_one_that_passes_is_found() -> None:
    found, _ = with_devices(**{f"scattered-{i}": {0, 2, 4} for i in range(150)}, paired={0, 1})
    assert found.place(ask("p", labels={"devices": "2"})).node == "paired"
    placement = found.place(ask("q", labels={"devices": "2"}))
    assert placement.rejections == {"no two neighbouring devices": 150, "Insufficient devices": 1}


def test_a_node_that_failed_is_tried_again_once_it_changed() -> None:
    found, plugin = with_devices(a={0, 2})
    assert found.place(ask("p", labels={"devices": "2"})).node is None
    plugin.equip(found.cluster, "a", {0, 1, 2})
    assert found.place(ask("p", labels={"devices": "2"})).node == "a"


def test_devices_come_back_when_a_job_is_undone_and_when_a_pod_ends() -> None:
    found, plugin = with_devices(a={0, 1}, b={0, 1})
    placements = found.place_all([ask(f"p{i}", labels={"devices": "2"}) for i in range(3)])
    assert [placement.node for placement in placements] == [None] * 3
    assert all(free == {0, 1} for free in plugin.devices.free.values())
    placed = found.place(ask("p", labels={"devices": "2"}))
    found.cluster.remove_pod(placed.pod)
    assert all(free == {0, 1} for free in plugin.devices.free.values())
    assert len(found.place_all([ask(f"q{i}", labels={"devices": "2"}) for i in range(2)])) == 2


class RoomUse(Notes):
    """How much of a room each owner has taken. What lies inside a room is not requested twice."""

    name = "Reserved"
    from_pod = False

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.rooms: dict[Row, tuple[str, int]] = {}
        "Row -> (owner, milli-cores left)."
        self._views: dict[str, View] = {}

    def view(self, owner: str) -> View:
        return self._views.setdefault(owner, View(self.cluster))

    def hold(self, row: Row, owner: str, left: int) -> None:
        self.rooms[row] = (owner, left)
        self.view(owner).add(("requested", "cpu"), row, -left)

    def let_go(self, row: Row) -> None:
        if row in self.rooms:
            owner, left = self.rooms.pop(row)
            self.view(owner).add(("requested", "cpu"), row, left)

    def moved(self, note: object, record: PodRecord, row: Row, sign: int) -> None:
        amount = sign * cast(int, note)
        if row in self.rooms:
            owner, left = self.rooms[row]
            self.rooms[row] = (owner, left - amount)
            self.view(owner).add(("requested", "cpu"), row, amount)
        self.cluster.table.add(("requested", "cpu"), row, -amount)


class OwnersViews(StandIns):
    def __init__(self, taken: RoomUse) -> None:
        self._taken = taken

    def view(self, ask: Ask) -> View | None:
        owner = ask.meta.labels.get("owner")
        return self._taken.view(owner) if owner else None


class Reserved(Plugin):
    """Room held on a node by a stand-in pod; pods that own it see it as free, as far as others have not used it."""

    name = "Reserved"
    notes: type[Notes] | None = RoomUse

    def attach(self, cluster: Cluster) -> None:
        self.taken = cluster.notes(RoomUse)
        self.stand_ins = OwnersViews(self.taken)

    @property
    def rooms(self) -> dict[Row, tuple[str, int]]:
        return self.taken.rooms

    def hold(self, found: Engine, name: str, owner: str, cpu_milli: int) -> None:
        row = found.cluster.table.row_of[name]
        found.cluster.place(ask(f"hold-{name}", cpu=f"{cpu_milli}m", memory="0").record(), row)
        self.taken.hold(row, owner, cpu_milli)

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        return ask.meta.labels.get("owner")

    def reserve(self, ask: Ask, row: Row, cluster: Cluster, found: object) -> object:
        owner, left = self.rooms.get(row, ("", 0))
        mine = owner and owner == ask.meta.labels.get("owner")
        return (min(left, dict(ask.requests).get("cpu", 0)) or None) if mine else None


def test_reserved_room_is_free_for_its_owners_and_taken_for_others() -> None:
    plugin = Reserved()
    found = engine(node("a", cpu="4"), plugins=(*ROW_LOCAL, plugin))
    plugin.hold(found, "a", "team", 3000)
    assert found.place(ask("stranger", cpu="2")).node is None
    assert found.place(ask("owner", cpu="2", labels={"owner": "team"})).node == "a"
    assert found.place(ask("second", cpu="2", labels={"owner": "team"})).node == "a"
    assert found.place(ask("third", cpu="1", labels={"owner": "team"})).node is None
    requested = found.cluster.table.columns["requested", "cpu"]
    assert requested.sum() == 4000


def test_room_that_a_failed_job_took_is_whole_again() -> None:
    plugin = Reserved()
    found = engine(node("a", cpu="4"), plugins=(*ROW_LOCAL, plugin))
    plugin.hold(found, "a", "team", 3000)
    jobs = [ask(f"p{i}", cpu="2", labels={"owner": "team"}) for i in range(3)]
    assert [placement.node for placement in found.place_all(jobs)] == [None] * 3
    assert list(plugin.rooms.values()) == [("team", 3000)]
    assert found.place(ask("owner", cpu="3", labels={"owner": "team"})).node == "a"


class Members(Notes):
    name = "Gang"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.placed: dict[str, set[str]] = {}

    def of(self, pod: Pod) -> str | None:
        return pod.metadata.labels.get("gang")

    def moved(self, note: object, record: PodRecord, row: Row, sign: int) -> None:
        members = self.placed.setdefault(str(note), set())
        members.add(record.key) if sign > 0 else members.discard(record.key)


class GangsWait(Jobs):
    def __init__(self, members: Members, least: int) -> None:
        self._members, self._least = members, least

    def permit(self, ask: Ask, row: Row) -> Permit | None:
        gang = ask.meta.labels.get("gang")
        if gang is None:
            return None
        enough = len(self._members.placed[gang]) >= self._least
        return Permit(allows=(gang,)) if enough else Permit(gang, 600.0)


class Gang(Plugin):
    """Members wait after their placement until enough of them have one; then all go."""

    name = "Gang"
    notes: type[Notes] | None = Members

    def __init__(self, least: int) -> None:
        self.least = least

    def attach(self, cluster: Cluster) -> None:
        self.members = cluster.notes(Members)
        self.jobs = GangsWait(self.members, self.least)


def test_a_gang_below_its_minimum_waits_and_one_that_cannot_reach_it_holds_nothing() -> None:
    gang = Gang(2)
    found = engine(node("a", cpu="3"), plugins=(*ROW_LOCAL, gang))
    row = found.cluster.table.row_of["a"]
    first, second = (ask(f"m{i}", cpu="1", labels={"gang": "g"}) for i in range(2))
    found.place(first)
    assert found.permit(first, row) == Permit("g", 600.0)
    found.place(second)
    assert found.permit(second, row) == Permit(allows=("g",))
    late = [ask(f"l{i}", cpu="1", labels={"gang": "late"}) for i in range(2)]
    assert [placement.node for placement in found.place_all(late)] == [None, None]
    assert gang.members.placed["late"] == set()


class Writes(Plugin):
    """Writes something on pods before they are bound."""

    def __init__(self, name: str, patch: dict[str, Any]) -> None:
        self.name, self._patch = name, patch

    def pre_bind(self, ask: Ask, row: Row, cluster: Cluster, note: object) -> dict[str, Any]:
        return self._patch


def test_what_plugins_write_on_a_pod_is_one_patch() -> None:
    first = Writes("First", {"metadata": {"annotations": {"cpus": "0-3"}}})
    second = Writes("Second", {"metadata": {"annotations": {"devices": "1"}, "labels": {"on": "a"}}})
    found = engine(node("a"), plugins=(*ROW_LOCAL, first, second))
    pod = ask("p")
    found.place(pod)
    patch = found.plan(pod, found.cluster.table.row_of["a"]).patch
    assert patch is not None
    wanted = {"annotations": {"cpus": "0-3", "devices": "1"}, "labels": {"on": "a"}, "uid": pod.meta.uid}
    assert patch.body == {"metadata": wanted}


def test_plugins_that_write_different_things_in_one_place_are_named() -> None:
    plugins = [Writes(name, {"metadata": {"annotations": {"cpus": name}}}) for name in ("First", "Second")]
    found = engine(node("a"), plugins=(*ROW_LOCAL, *plugins))
    with pytest.raises(ValueError, match=r"Second wants 'Second' at metadata\.annotations\.cpus"):
        pod = ask("p")
        found.place(pod)
        found.plan(pod, found.cluster.table.row_of["a"])


class EvictsTheLeast(Plugin):
    """Makes room by removing one pod of a lower priority: the first on whose node the pod would then fit."""

    name = "EvictsTheLeast"

    def post_filter(self, ask: Ask, engine: Engine) -> Remedy | None:
        cluster, mine = engine.cluster, ask.spec.priority or 0
        lower = sorted(record.key for record, _ in cluster.pods.values() if record.priority < mine)
        for key in lower:
            _, row = cluster.pods[key]
            with cluster.transaction() as attempt:
                cluster.remove_pod(key)
                fits = row in engine.class_of(ask).feasible_rows()
                attempt.undo()
            if fits:
                return Remedy(cluster.table.names[row], (key,))
        return Remedy(message="no lower pod would make room.")


def test_a_remedy_is_tried_out_and_leaves_no_trace() -> None:
    found = engine(node("a", cpu="2"), node("b", cpu="4"), plugins=(*ROW_LOCAL, EvictsTheLeast()))
    for name, cpu, on in (("small", "2", "a"), ("large", "4", "b")):
        found.cluster.place(ask(name, cpu=cpu).record(), found.cluster.table.row_of[on])
    before = {name: column.tobytes() for name, column in found.cluster.table.columns.items()}
    important = ask("p", cpu="3", priority=10)
    assert found.place(important).node is None
    assert found.remedy(important) == Remedy("b", ("shop/large",))
    assert found.remedy(ask("q", cpu="8", priority=10)) == Remedy(message="no lower pod would make room.")
    assert {name: column.tobytes() for name, column in found.cluster.table.columns.items()} == before
    assert found.place(important).node is None


def test_what_was_taken_for_a_pod_is_given_back_when_its_node_goes() -> None:
    devices = PairsOfDevices()
    found = engine(node("a"), plugins=(*ROW_LOCAL, devices))
    devices.equip(found.cluster, "a", {0, 1})
    assert found.place(ask("p", labels={"devices": "2"})).node == "a"
    found.cluster.remove_node("a")
    assert devices.devices.held == {}


class Fails(Plugin):
    name = "Fails"

    def reserve(self, ask: Ask, row: Row, cluster: Cluster, found: object) -> object:
        raise RuntimeError("no")


def test_a_pod_for_which_a_plugin_cannot_reserve_does_not_count() -> None:
    devices = PairsOfDevices()
    found = engine(node("a"), plugins=(*ROW_LOCAL, devices, Fails()))
    devices.equip(found.cluster, "a", {0, 1})
    before = {name: column.tobytes() for name, column in found.cluster.table.columns.items()}
    with pytest.raises(RuntimeError, match="no"):
        found.place(ask("p", labels={"devices": "2"}))
    assert not found.cluster.pods
    assert devices.devices.held == {}
    assert {name: column.tobytes() for name, column in found.cluster.table.columns.items() if name in before} == before
