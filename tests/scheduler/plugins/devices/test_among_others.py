"""DeviceShare beside other plugins: gangs, NUMA policies, views, preemption; and what it tells people."""

from __future__ import annotations

from typing import Any

import pytest

from koord.scheduler.core.queue import ClusterEvent
from koord.scheduler.explain import explain
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Profile
from koord.scheduler.framework.exact_check import Door, ExactCheck
from koord.scheduler.framework.judge import Judge
from koord.scheduler.framework.plugin import KeyedBy, Plugin
from koord.scheduler.framework.stand_ins import StandIns
from koord.scheduler.plugins.coscheduling import Coscheduling
from koord.scheduler.plugins.default_preemption import DefaultPreemption
from koord.scheduler.plugins.devices.alignment import hints
from koord.scheduler.plugins.devices.judge import DeviceJudge
from koord.scheduler.plugins.devices.ledger import cells_of
from koord.scheduler.plugins.devices.room import Room
from koord.scheduler.plugins.node_resources_fit import NodeResourcesFit
from koord.scheduler.plugins.numa.hints import NUMA, Hint, Offer, Rule
from koord.scheduler.smallest import ways
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Reason, Row
from koord.scheduler.state.view import View
from tests.scheduler.build import pod
from tests.scheduler.builders import helps
from tests.scheduler.gangs import PREFIX
from tests.scheduler.plugins.devices.machines import HINT, PARTITION, K, Scene, device, eight, gpu, held, rdma, share

UNALIGNED = "Unaligned NUMA Hint cause gpu prefer [11] among [11]"
FOUR = [gpu(i, pcie=i // 2, numa=i // 2) for i in range(4)]


def asking(name: str, annotations: dict[str, str] | None = None, **requests: int | str) -> Ask:
    amounts = {f"{K}/{key.replace('_', '-')}": amount for key, amount in requests.items()}
    return Ask(pod(name, annotations=annotations, requests=amounts))


class PolicyCheck(ExactCheck):
    joint = NUMA

    def __init__(self, rule: Rule) -> None:
        self._rule = rule

    def offer(self, ask: Ask, row: Row, door: Door | None = None) -> Offer:
        return Offer({}, self._rule)


class Policy(Plugin):
    """A NUMA policy for all pods, and nothing else."""

    name = "Policy"

    def __init__(self, rule: Rule) -> None:
        self._rule = rule

    def compile(self, ask: Ask, cluster: Cluster) -> Judge:
        judge = Judge()
        judge.exact = PolicyCheck(self._rule)
        return judge


def test_hints_are_the_sets_of_numa_nodes_that_have_the_devices() -> None:
    scene = Scene().node(devices=FOUR)
    scene.busy(0)
    judge = scene.engine.class_of(asking("p", gpu=200)).parts[0].judge
    assert isinstance(judge, DeviceJudge)
    assert judge.exact is not None
    room = judge.exact.room(asking("p", gpu=200), 0)
    assert isinstance(room, Room)
    offered = hints(room, judge.wanted, judge.exact.score_in(room))
    # From both nodes together the pod gets 2 and 3, which are on node 1: the same as from node 1 alone.
    assert offered == {"gpu": (Hint(0b10, True, 500), Hint(0b11, False, 500))}


@pytest.mark.parametrize(
    ("cards", "busy", "got"),
    [(100, [0], [1]), (200, [0], [2, 3]), (200, [0, 2], UNALIGNED), (300, [], UNALIGNED)],
)
def test_devices_on_a_single_numa_node(cards: int, busy: list[int], got: Any) -> None:
    scene = Scene(Policy(Rule("SingleNUMANode", 0b11))).node(devices=FOUR)
    for minor in busy:
        scene.busy(minor)
    found = scene.ask(asking("p", gpu=cards))
    assert (found.minors() or " ".join(found.placement.why_not["Policy"])) == got


def test_no_numa_nodes_are_agreed_on_where_alignment_is_off() -> None:
    scene = Scene(Policy(Rule("SingleNUMANode", 0b11)), disableDeviceNUMATopologyAlignment=True).node(devices=FOUR)
    assert scene.ask(asking("p", gpu=400)).minors() == [0, 1, 2, 3]


def test_pods_of_a_gang_get_gpus_next_to_each_other() -> None:
    """GPU 6 is in use, so that others pack next to it; a gang's second pod goes next to its first."""

    def second(annotations: dict[str, str]) -> list[int]:
        gangs = Coscheduling()
        scene = Scene(gangs).node(devices=eight())
        scene.busy(0)
        first = pod("a", on="n", requests={"nvidia.com/gpu": 1}, annotations={**annotations, **_held(4)})
        put, _ = (taking.put for taking in reversed(list(gangs.takes())))
        put(first)
        scene.put(first)
        ask = asking("b", annotations, gpu=100)
        put(ask.pod)
        return scene.ask(ask).minors()

    assert second({}) == [1]
    assert second({f"{PREFIX}name": "train", f"{PREFIX}min-available": "2"}) == [5]


def _held(minor: int) -> dict[str, str]:
    return held(gpu={minor: share(100)})


def test_whoever_does_not_see_a_pod_gets_its_devices_first() -> None:
    """A view hides a pod and gives its amounts back: the columns and the check agree on what is free."""
    scene = Scene().node(devices=[gpu(0), gpu(1)])
    holder, other = scene.busy(1, percent=80), scene.busy(0, percent=80)
    view = View(scene.cluster)

    class Views(StandIns):
        def view(self, ask: Ask) -> View | None:
            return view

    class Sees(Plugin):
        name = "Sees"
        stand_ins = Views()

    record, row = scene.cluster.pods[holder.metadata.key]
    machine = scene.devices.machine(row)
    assert machine is not None
    ((_, note),) = record.notes
    for column, amount in cells_of(note, machine):  # type: ignore[arg-type]
        view.add(column, row, -amount)
    view.hide(record, row)
    assert scene.place(gpu=90).node is None
    seeing = Engine(scene.cluster, Profile("v", (Sees(), scene.plugin), {"DeviceShare": 1}))
    assert seeing.place(asking("owner", gpu=90)).node == "n"
    (granted,) = (each for name, each in scene.cluster.pods["default/owner"][0].notes if name == "DeviceShare")
    assert [grant.minor for grant in granted.of("gpu")] == [1]  # type: ignore[attr-defined]
    assert other.metadata.key in scene.cluster.pods


def test_a_more_important_pod_takes_the_devices_of_a_less_important_one() -> None:
    scene = Scene(DefaultPreemption()).node("a", devices=[gpu(0)]).node("b", devices=[rdma(0)])
    scene.busy(0, on="a", percent=60)
    urgent = Ask(pod("urgent", requests={f"{K}/gpu": 50}, priority=1000))
    placement = scene.engine.place(urgent)
    assert placement.node is None
    remedy = scene.engine.remedy(urgent)
    assert (remedy.node, remedy.victims) == ("a", ("default/there-1",))


def texts(scene: Scene, ask: Ask) -> set[str]:
    return {step.change.text for way in ways(scene.engine, ask, most=20) for step in way.steps}


def test_changes_that_would_help_are_proposed_and_tried_out() -> None:
    scene = Scene().node(devices=[gpu(0), gpu(1)])
    scene.busy(0, percent=60)
    scene.busy(1, percent=80)
    less = "40 koordinator.sh/gpu-core instead of 70 and 40 koordinator.sh/gpu-memory-ratio instead of 70"
    assert texts(scene, asking("p", gpu_core=70, gpu_memory_ratio=70)) == {
        f"a request of {less}",
        "default/there-1 gone, which would free gpu 0",
    }


def test_what_two_plugins_cut_of_a_request_is_one_change() -> None:
    offers = {f"{K}/gpu-core": 200, f"{K}/gpu-memory": "160Gi", f"{K}/gpu-memory-ratio": 200}
    scene = Scene(NodeResourcesFit()).node(devices=[gpu(0), gpu(1)], more=offers)
    found = ways(scene.engine, asking("p", gpu_core=50, gpu_memory="200Gi"))
    told = [[step.change.text for step in way.steps] for way in found]
    assert ["a request of 80Gi koordinator.sh/gpu-memory instead of 200Gi"] in told, told


def test_a_scope_is_proposed_to_be_left_out_where_that_helps() -> None:
    scene = Scene().node(devices=FOUR)
    scene.busy(0)
    scene.busy(2)
    scoped = asking("p", {HINT: '{"gpu": {"requiredTopologyScope": "PCIe"}}'}, gpu=200)
    assert scene.ask(scoped).node is None
    found = texts(scene, scoped)
    assert "devices that may lie further apart (requiredTopologyScope of device-allocate-hint left out)" in found, found


def test_what_people_see_of_a_nodes_devices() -> None:
    scene = Scene().node(devices=[gpu(0, pcie=0), gpu(1, health=False)])
    scene.busy(0, percent=25)
    scene.busy(5)
    services = scene.plugin.controller.services
    told: Any = services["nodeDeviceSummaries/:name"]("n")
    assert told["devices"]["gpu"]["0"] == {
        "id": "GPU-0",
        "healthy": True,
        "total": {f"{K}/gpu-core": "100", f"{K}/gpu-memory": "80Gi", f"{K}/gpu-memory-ratio": "100"},
        "used": {f"{K}/gpu-core": "25", f"{K}/gpu-memory": "20Gi", f"{K}/gpu-memory-ratio": "25"},
        "free": {f"{K}/gpu-core": "75", f"{K}/gpu-memory": "60Gi", f"{K}/gpu-memory-ratio": "75"},
        "pods": ["default/there-1"],
        "topology": {"nodeID": 0, "pcieID": "0"},
    }
    assert told["devices"]["gpu"]["1"]["healthy"] is False
    assert told["allocatedOnMissingDevices"] == {"gpu 5": ["default/there-2"]}
    assert services["nodeDeviceSummaries/:name"]("nobody") is None
    assert list(services["nodeDeviceSummaries"]("")) == ["n"]  # type: ignore[call-overload]


def test_pods_that_ask_for_no_device_are_not_looked_at() -> None:
    scene = Scene().node(devices=[gpu(0)])
    plain = Ask(pod("web", requests={"cpu": "1"}))
    assert scene.plugin.keyed_by(plain, scene.cluster) is KeyedBy.SPEC
    assert scene.plugin.key(plain, scene.cluster) is None
    assert scene.plugin.compile(plain, scene.cluster) is None
    assert scene.ask(plain).granted is None
    row: Row = scene.cluster.table.row_of["n"]
    assert scene.cluster.pods["default/web"] == (scene.cluster.pods["default/web"][0], row)
    assert scene.cluster.pods["default/web"][0].notes == ()
    scene.devices.put_device(device("n", [gpu(0)]))


def test_an_explanation_says_which_devices_a_pod_would_get() -> None:
    scene = Scene().node(devices=[*FOUR, rdma(0, pcie=0)])
    scene.busy(0, percent=50)
    shared = explain(scene.engine, asking("p", gpu_core=25, gpu_memory_ratio=25))
    assert shared.gets == {"DeviceShare": "25% of gpu 1"}
    assert explain(scene.engine, asking("q", gpu=200, rdma=1)).gets == {"DeviceShare": "gpu 2 and 3, 1% of rdma 0"}
    assert scene.cluster.pods.keys() == {"default/there-1"}


@pytest.mark.parametrize(
    ("requests", "detail"),
    [
        ({"gpu": 60}, "at most 40 gpu-core and 40 gpu-memory-ratio free on one device, 60 and 60 needed"),
        ({"gpu_memory": "50Gi"}, "at most 32Gi gpu-memory free on one device, 50Gi needed"),
        ({"gpu": 200}, "0 on one node with enough left, 2 needed"),
    ],
)
def test_an_explanation_says_how_much_is_left_and_how_much_it_takes(requests: dict[str, Any], detail: str) -> None:
    scene = Scene().node(devices=[gpu(0), gpu(1)])
    scene.busy(0, percent=60)
    scene.busy(1, percent=70)
    (against,) = explain(scene.engine, asking("p", **requests)).why_not
    assert (against.reason, against.detail) == ("Insufficient gpu devices", detail)


FAST = {HINT: '{"gpu": {"selector": {"matchLabels": {"speed": "fast"}}}}'}
LINKED = {PARTITION: '{"allocatePolicy": "Restricted"}'}


@pytest.mark.parametrize(
    ("devices", "annotations", "percent", "why"),
    [
        (None, {}, 50, "Insufficient gpu devices: no Device object tells of them yet"),
        ([gpu(0, health=False), gpu(1, health=False)], {}, 50, "Insufficient gpu devices: none of 2 is healthy"),
        ([gpu(0)], FAST, 50, "Insufficient gpu devices: the selector of device-allocate-hint matches none"),
        (
            [gpu(i) for i in range(8)],
            LINKED,
            300,
            "node(s) Unsupported number of GPU requests: sets are of 1, 2, 4 and 8 GPUs, 3 needed",
        ),
        ([gpu(0), gpu(2)], LINKED, 200, "Insufficient Partitioned GPU Devices: no linked set of 2 is free"),
    ],
)
def test_an_explanation_says_what_is_the_matter_with_devices(
    devices: Any, annotations: dict[str, str], percent: int, why: str
) -> None:
    scene, offers = Scene(), {f"{K}/gpu-core": "800"}
    scene.node(devices=devices, labels={"node.koordinator.sh/gpu-model": "H100"}, more=offers)
    asks = Ask(pod("p", requests={f"{K}/gpu": percent}, annotations=annotations))
    (against,) = explain(scene.engine, asks).why_not
    assert f"{against.reason}: {against.detail}" == why


def test_an_explanation_says_that_no_virtual_function_is_free_and_what_would_help() -> None:
    group = {"labels": {"kind": "fast"}, "vfs": [{"minor": 0, "busID": "0000:1f:00.2"}]}
    scene = Scene().node(devices=[rdma(0, vfGroups=[group])], more={f"{K}/rdma": "100"})
    wanted = {HINT: '{"rdma": {"vfSelector": {}}}'}
    assert scene.place(rdma=1, annotations=wanted).minors("rdma") == [0]
    explanation = explain(scene.engine, Ask(pod("p", requests={f"{K}/rdma": 1}, annotations=wanted)))
    (against,) = explanation.why_not
    assert against.detail == "no virtual function is free that the vfSelector of device-allocate-hint matches"
    texts = [step.text for way in explanation.changes for step in way.steps]
    assert any("vfSelector of device-allocate-hint left out" in text for text in texts), texts


@pytest.mark.parametrize(
    ("left", "expected"),
    [(pod("web", on="n"), False), (pod("model", on="n", annotations=held(gpu={0: share(10)})), True), ("n", True)],
)
def test_a_pod_that_waits_for_devices_is_tried_again_when_devices_may_be_free(left: object, expected: bool) -> None:
    scene = Scene()
    event = ClusterEvent(int(Reason.FREED), left)
    assert helps(scene.plugin, asking("p", gpu=100), event, scene.cluster) is expected
