"""Pods with a view decide as the same pods without one do where what they see is really so.

A plugin of the test keeps stand-ins: pods that hold amounts, ports, terms and labels for an owner. To pods of that
owner they are not there. It also lends them CPUs that a node does not have for others.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.api.kubernetes.core import Service
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.storage import CSINode, PersistentVolume, PersistentVolumeClaim
from koord.api.machinery.codec import convert
from koord.scheduler.framework import panels, pod_class
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Profile
from koord.scheduler.framework.plugin import Plugin
from koord.scheduler.framework.stand_ins import StandIns
from koord.scheduler.plugins.default_preemption import DefaultPreemption
from koord.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from koord.scheduler.plugins.node_ports import NodePorts
from koord.scheduler.plugins.node_volume_limits import NodeVolumeLimits
from koord.scheduler.plugins.pod_topology_spread import PodTopologySpread
from koord.scheduler.plugins.volume_restrictions import VolumeRestrictions
from koord.scheduler.state import counts, domains, table, view
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.nominations import Nomination
from koord.scheduler.state.notes import Notes
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Row
from koord.scheduler.state.view import View
from koord_chaos.stories.dice import Dice
from tests.scheduler import generate, generate_pod
from tests.scheduler.build import node, pod
from tests.scheduler.builders import ROW_LOCAL, WEIGHTS, recorded
from tests.scheduler.generate_pod import APPS, NAMESPACES

OWNERS = ("x", "y")
CPU: Hashable = ("allocatable", "cpu")
OTHERS: tuple[Plugin, ...] = (
    NodePorts(),
    VolumeRestrictions(),
    NodeVolumeLimits(),
    PodTopologySpread(),
    InterPodAffinity(),
    DefaultPreemption(),
)
DISK = [{"name": "disk", "gcePersistentDisk": {"pdName": "d"}}]
SEEDS = st.integers(0, 2**32)


class Standing(Notes):
    """Whose stand-ins are where, and who sees them."""

    name = "StandIns"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.views = {owner: View(cluster) for owner in OWNERS}

    def of(self, pod: Pod) -> str | None:
        return pod.metadata.labels.get("stands-in-for")

    def moved(self, note: object, record: PodRecord, row: Row, sign: int) -> None:
        seen = self.views[str(note)]
        (seen.hide if sign > 0 else seen.show)(record, row)
        for column, amount in record.shape.gains:
            seen.add(column, row, -sign * amount)

    def node_removed(self, row: Row) -> None:
        for seen in self.views.values():
            seen.add(CPU, row, -seen.added(CPU, row))


class Views(StandIns):
    def __init__(self, standing: Standing) -> None:
        self._standing = standing

    def view(self, ask: Ask) -> View | None:
        return self._standing.views.get(ask.meta.labels.get("owner", ""))


class HidesStandIns(Plugin):
    name = "StandIns"
    notes: type[Notes] | None = Standing

    def attach(self, cluster: Cluster) -> None:
        self.standing = cluster.notes(Standing)
        self.stand_ins = Views(self.standing)

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        return ask.meta.labels.get("owner")


def engine_with(*plugins: Plugin, seed: int = 0) -> Engine:
    weights = {**WEIGHTS, "PodTopologySpread": 2, "InterPodAffinity": 2}
    # Which class a pod is of has no say in ties: a class with a view has another key.
    return Engine(Cluster(seed), Profile("default-scheduler", (*ROW_LOCAL, *OTHERS, *plugins), weights, ties="fixed"))


class World:
    def __init__(self, dice: Dice, seed: int) -> None:
        self.dice, self.plugin = dice, HidesStandIns()
        self.engine = engine_with(self.plugin, seed=seed)
        self.cluster = self.engine.cluster
        self.number = 0
        self.gone: list[tuple[Node, list[PodRecord]]] = []
        for service in services():
            self.cluster.put_service(service)
        for _ in range(dice.integer(2, 5)):
            self.node_comes()
        self.asked = [Ask(self.pod(owner)) for owner in OWNERS for _ in range(3)]

    def pod(self, owner: str = "", stands_in_for: str = "") -> Pod:
        self.number += 1
        name, dice = f"p{self.number}", self.dice
        manifest = generate_pod.pod(dice, name, sorted(self.cluster.table.row_of) or ["none"], [], pending=True)
        generate_pod.importance(dice, manifest)
        meta, spec = manifest["metadata"], manifest["spec"]
        meta["uid"] = name
        meta["labels"] |= {"owner": owner} if owner else {}
        meta["labels"] |= {"stands-in-for": stands_in_for} if stands_in_for else {}
        if dice.chance(0.3):
            spec["containers"][0]["ports"] = [{"containerPort": 1, "hostPort": 8080, "protocol": "TCP"}]
        if dice.chance(0.2):
            spec["volumes"] = DISK
        return convert(Pod, manifest)

    def record(self, pod: Pod) -> PodRecord:
        return recorded(self.cluster, Ask(pod))

    def row(self) -> Row:
        return self.dice.one(sorted(self.cluster.table.row_of.values()))

    def node_comes(self) -> None:
        self.number += 1
        self.cluster.put_node(convert(Node, generate._node(self.dice, f"n{self.number}")))

    def node_goes(self) -> None:
        name = self.cluster.table.names[self.row()]
        row = self.cluster.table.row_of[name]
        self.gone.append((self.cluster.nodes[row], list(self.cluster.pods_on[row].values())))
        self.cluster.remove_node(name)

    def node_comes_back(self) -> None:
        old, pods = self.gone.pop()
        row = self.cluster.put_node(old)
        for record in pods:
            self.cluster.place(record, row)

    def pods_move(self) -> None:
        dice, cluster = self.dice, self.cluster
        match dice.integer(0, 5):
            case 0 | 1:
                cluster.place(self.record(self.pod(stands_in_for=dice.one(OWNERS))), self.row())
            case 2:
                cluster.place(self.record(self.pod()), self.row())
            case 3 if cluster.pods:
                cluster.remove_pod(dice.one(sorted(cluster.pods)))
            case 4:
                self.engine.place_all([Ask(self.pod(dice.one((*OWNERS, "")))) for _ in range(dice.integer(1, 4))])
            case _:
                self.engine.place(Ask(self.pod(dice.one((*OWNERS, "")))))

    def event(self) -> None:
        dice, cluster = self.dice, self.cluster
        match dice.integer(0, 9):
            case 0:
                self.node_comes()
            case 1 if len(cluster.table) > 1:
                self.node_goes()
            case 2 if self.gone:
                self.node_comes_back()
            case 3:
                view = self.plugin.standing.views[dice.one(OWNERS)]
                view.add(CPU, self.row(), dice.one((500, 2000)))
            case 4:
                with cluster.transaction() as attempt:
                    for _ in range(dice.integer(1, 5)):
                        self.pods_move()
                    attempt.undo()
            case 5:
                self.promise(dice.one(self.asked))
            case _:
                self.pods_move()

    def promise(self, ask: Ask) -> None:
        remedy = self.engine.remedy(ask)
        if remedy.node is not None:
            self.engine.nominate(ask, remedy)

    def as_seen_by(self, owner: str) -> Engine:
        """A cluster in which everything is as the owner sees it, made from scratch."""
        engine, seen = engine_with(seed=self.cluster.seed), self.plugin.standing.views[owner]
        for service in services():
            engine.cluster.put_service(service)
        rows: dict[Row, Row] = {}
        for row, old in self.cluster.nodes.items():
            has = dict(old.status.allocatable)
            if seen.added(CPU, row):
                has["cpu"] = f"{self.cluster.table.columns[CPU].item(row) + seen.added(CPU, row)}m"
            rows[row] = engine.cluster.put_node(replace(old, status=replace(old.status, allocatable=has)))
        for record, row in self.cluster.pods.values():
            if record.note("StandIns") != owner:
                notes = tuple(note for note in record.notes if note[0] != "StandIns")
                engine.cluster.place(replace(record, notes=notes), rows[row])
        for nomination in self.cluster.nominations:
            engine.cluster.nominations.put(Nomination(nomination.record, rows[nomination.row], nomination.victims))
        return engine

    def check(self) -> None:
        for ask in self.asked:
            assert says(self.engine, ask) == says(self.as_seen_by(ask.meta.labels["owner"]), ask)


def services() -> list[Service]:
    return [
        convert(Service, {"metadata": {"name": app, "namespace": where}, "spec": {"selector": {"app": app}}})
        for app in APPS[:2]
        for where in NAMESPACES
    ]


def says(engine: Engine, ask: Ask) -> Any:
    """Everything that an engine has to say of a pod, by names of nodes."""
    names, found = engine.cluster.table.names, engine.class_of(ask)
    verdicts = {names[row]: (part.plugin.name, words) for row, (part, words) in found.rejections().items()}
    scores = {
        names[row]: {plugin: score for plugin, score in found.scores(row).items() if score}
        for row in found.feasible_rows().tolist()
    }
    room = {names[row]: number for row, number in enumerate(engine.room_for(ask).tolist()) if number}
    helpful = sorted(names[row] for row in found.resolvable().tolist())
    remedy = engine.remedy(ask)
    with engine.cluster.transaction() as attempt:
        placement = engine.place(ask, explain=True)
        attempt.undo()
    return verdicts, scores, room, found.why_not(), helpful, remedy, (placement.node, placement.total)


@pytest.fixture(params=["", "short"])
def kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small clusters also reach what otherwise only large ones do: short logs, arrays of rows, classes asked together,
    tables that grow."""
    if request.param:
        for module, name, value in (
            (pod_class, "FEW", 1),
            (pod_class, "FEW_SEATED", 0),
            (panels, "WINDOW", 8),
            (panels, "FEW_CHANGES", 1),
            (panels, "PATIENCE", 1),
            (domains, "FEW_ROWS", 1),
            (table, "FIRST_ROWS", 4),
            (table, "LONGEST_LOG", 12),
            (counts, "LONGEST_LOG", 4),
            (view, "FEW_ROWS", 1),
        ):
            monkeypatch.setattr(module, name, value)


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(seed=SEEDS)
def test_a_class_with_a_view_decides_as_if_what_it_sees_were_so(kept: None, seed: int) -> None:
    world = World(Dice(seed), seed & 0xFF)
    for _ in range(7):
        for _ in range(world.dice.integer(1, 4)):
            world.event()
        world.check()


def reserved(found: Engine, owner: str, name: str, on: str, **more: Any) -> None:
    """A stand-in for an owner on a node."""
    stand_in = pod(name, labels={"stands-in-for": owner, **more.pop("labels", {})}, **more)
    found.cluster.place(recorded(found.cluster, Ask(stand_in)), found.cluster.table.row_of[on])


def with_stand_ins(*nodes: Node) -> Engine:
    engine = engine_with(HidesStandIns())
    for each in nodes:
        engine.cluster.put_node(each)
    return engine


PORT = [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}]
MINE, OTHER = {"owner": "x"}, {"owner": "y"}
WEB = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
APART: dict[str, Any] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [WEB]}}
BESIDE: dict[str, Any] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [WEB]}}


def test_a_stand_ins_port_is_free_for_its_owner_alone() -> None:
    engine = with_stand_ins(node("a"))
    reserved(engine, "x", "stand-in", "a", ports=PORT)
    assert engine.place(Ask(pod("theirs", labels=OTHER, ports=PORT))).node is None
    assert engine.place(Ask(pod("mine", labels=MINE, ports=PORT))).node == "a"
    assert engine.place(Ask(pod("second", labels=MINE, ports=PORT))).node is None, "a real pod has it"


def test_a_stand_ins_disk_is_free_for_its_owner_alone() -> None:
    engine = with_stand_ins(node("a"))
    reserved(engine, "x", "stand-in", "a", volumes=DISK)
    assert engine.place(Ask(pod("theirs", labels=OTHER, volumes=DISK))).node is None
    assert engine.place(Ask(pod("mine", labels=MINE, volumes=DISK))).node == "a"
    assert engine.place(Ask(pod("second", labels=MINE, volumes=DISK))).node is None, "a real pod has it"


def _claims(found: Engine, *names: str, mode: str = "ReadWriteOnce") -> None:
    for name in names:
        spec = {"volumeName": name, "accessModes": [mode], "storageClassName": "s"}
        claim = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
        csi = {"driver": "csi.example.com", "volumeHandle": name}
        volume = {"metadata": {"name": name}, "spec": {"storageClassName": "s", "csi": csi}}
        found.cluster.put_storage(convert(PersistentVolumeClaim, claim))
        found.cluster.put_storage(convert(PersistentVolume, volume))


def _using(*claims: str) -> list[dict[str, Any]]:
    return [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]


def test_a_claim_that_one_pod_alone_may_use_is_free_for_the_owner_of_a_stand_in_that_has_it() -> None:
    engine = with_stand_ins(node("a"))
    _claims(engine, "c", mode="ReadWriteOncePod")
    reserved(engine, "x", "stand-in", "a", volumes=_using("c"))
    assert engine.place(Ask(pod("theirs", labels=OTHER, volumes=_using("c")))).node is None
    assert engine.place(Ask(pod("mine", labels=MINE, volumes=_using("c")))).node == "a"
    assert engine.place(Ask(pod("second", labels=MINE, volumes=_using("c")))).node is None, "a real pod has it"


def test_volumes_that_only_a_stand_in_has_attached_do_not_count_for_its_owner() -> None:
    engine = with_stand_ins(node("a"))
    _claims(engine, "c1", "c2", "c3")
    driver = {"name": "csi.example.com", "nodeID": "a", "allocatable": {"count": 2}}
    engine.cluster.put_storage(convert(CSINode, {"metadata": {"name": "a"}, "spec": {"drivers": [driver]}}))
    reserved(engine, "x", "stand-in", "a", volumes=_using("c1", "c2"))
    assert engine.place(Ask(pod("theirs", labels=OTHER, volumes=_using("c3")))).node is None
    assert engine.place(Ask(pod("shared", labels=OTHER, volumes=_using("c1")))).node == "a", "it is attached already"
    assert engine.place(Ask(pod("mine", labels=MINE, volumes=_using("c2", "c3")))).node is None, "c1 is another's, too"
    assert engine.place(Ask(pod("mine", labels=MINE, volumes=_using("c3")))).node == "a"


def test_a_stand_in_is_nobody_to_avoid_or_to_be_near_for_its_owner() -> None:
    engine = with_stand_ins(node("a"))
    reserved(engine, "x", "stand-in", "a", labels={"app": "web"})
    assert engine.place(Ask(pod("p", labels=MINE, affinity=BESIDE))).node is None
    assert engine.place(Ask(pod("p", labels=OTHER, affinity=BESIDE))).node == "a"
    assert engine.place(Ask(pod("q", labels=OTHER, affinity=APART))).node is None
    assert engine.place(Ask(pod("q", labels=MINE, affinity=APART))).node == "a"


def test_whom_a_stand_in_avoids_is_kept_away_unless_it_stands_for_them() -> None:
    engine = with_stand_ins(node("a"))
    reserved(engine, "x", "stand-in", "a", affinity=APART)
    assert engine.place(Ask(pod("p", labels={**OTHER, "app": "web"}))).node is None
    assert engine.place(Ask(pod("p", labels={**MINE, "app": "web"}))).node == "a"


def test_pods_are_spread_over_hosts_as_if_their_stand_ins_were_not_there() -> None:
    engine = with_stand_ins(node("a"), node("full", cpu="0"))
    reserved(engine, "x", "stand-in-1", "a", labels={"app": "web"})
    reserved(engine, "x", "stand-in-2", "a", labels={"app": "web"})
    even = [{**WEB, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
    spread: dict[str, Any] = {"requests": {"cpu": "1"}, "topologySpreadConstraints": even}
    assert engine.place(Ask(pod("p", labels={**OTHER, "app": "web"}, **spread))).node is None
    assert engine.place(Ask(pod("p", labels={**MINE, "app": "web"}, **spread))).node == "a"


def test_preemption_reckons_with_what_a_pod_sees_and_spares_its_stand_in() -> None:
    engine = with_stand_ins(node("a", cpu=4))
    reserved(engine, "x", "stand-in", "a", requests={"cpu": "2"})
    engine.cluster.place(Ask(pod("low", requests={"cpu": "1"})).record(), 0)
    engine.cluster.place(Ask(pod("lower", requests={"cpu": "1"}, priority=-1)).record(), 0)
    mine = Ask(pod("mine", labels=MINE, requests={"cpu": "3"}, priority=9))
    assert engine.remedy(mine).victims == ("default/lower",)
    theirs = Ask(pod("theirs", labels=OTHER, requests={"cpu": "3"}, priority=9))
    assert set(engine.remedy(theirs).victims) == {"default/stand-in", "default/lower"}
    with_port = Ask(pod("tried", labels=MINE, requests={"cpu": "3"}, priority=9, affinity=BESIDE))
    assert engine.remedy(with_port).node is None, "what is tried out sees no stand-in, either"


def test_preemption_may_help_where_a_node_is_large_enough_for_who_sees_more_of_it() -> None:
    plugin = HidesStandIns()
    engine = engine_with(plugin)
    engine.cluster.put_node(node("a", cpu=2))
    engine.cluster.place(Ask(pod("low", requests={"cpu": "2"})).record(), 0)
    plugin.standing.views["x"].add(CPU, 0, 1000)
    assert engine.remedy(Ask(pod("p", labels=OTHER, requests={"cpu": "3"}, priority=9))).victims == ()
    assert engine.remedy(Ask(pod("p", labels=MINE, requests={"cpu": "3"}, priority=9))).victims == ("default/low",)


def test_two_plugins_with_a_view_for_one_pod_are_a_fault() -> None:
    class Another(HidesStandIns):
        name = "Another"

    engine = engine_with(HidesStandIns(), Another())
    with pytest.raises(ValueError, match="StandIns and Another each have a view for default/p"):
        engine.place(Ask(pod("p", labels=MINE)))


def test_a_view_is_followed_row_by_row() -> None:
    """What an owner's placement costs does not depend on how much is reserved."""
    engine = with_stand_ins(*(node(f"n{i}") for i in range(200)))
    for i in range(150):
        reserved(engine, "x", f"stand-in-{i}", f"n{i}", requests={"cpu": "2"})
    engine.place(Ask(pod("first", labels=MINE, requests={"cpu": "1"})))
    before = engine.rows_judged
    reserved(engine, "x", "one-more", "n190", requests={"cpu": "2"})
    engine.place(Ask(pod("second", labels=MINE, requests={"cpu": "1"})))
    assert engine.rows_judged - before <= 2
